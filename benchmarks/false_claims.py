"""Quality: how often cluster-lira claims members of a model that leaks nothing."""

from collections.abc import Iterator

import numpy as np

from divulge._util.random import stream
from divulge.attacks.membership.cluster_lira.attack import ClusterLiRA
from divulge.core import ModelView, Need, Records
from divulge.errors import DataError
from divulge.federation.local_models import AssignmentGame
from divulge.metrics.intervals import clopper_pearson
from divulge.targets.outputs import to_probabilities
from divulge.targets.recorded import TableTarget
from divulge_papers.papers.nist import games

SUMMARY = "share of models that leak nothing on which cluster-lira claims members"

SUSPECTS, REFERENCE = 73, 64
"""Of the challenge's first client."""

FIRST = 10_000
"""Seed of the first model that is made up; on seeds from 0 the attack was looked at before."""

SHARES = (0.22, 0.05, 0.67, 0.06)
"""Of the challenge's classes."""


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print the rate, with its exact interval, on made-up answers and on those of networks."""
    print("| answers | models | claimed on | rate (95 %, exact) |\n|---|---:|---:|---|")
    models = 20 if quick else 2400
    made_up = (_simulate_view(FIRST + k) for k in range(models))
    _report("made up, t with 3 degrees", made_up, first=FIRST)
    for origin, tier in games.REPLICATE_GROUPS[-1:] if quick else games.REPLICATE_GROUPS:
        wanted = games.TIERS[tier]
        for name in wanted.packs(origin):
            try:
                game = games.load_pack(name, wanted.code)
            except DataError as error:
                print(error)
                continue
            deals = 1 if quick else 10
            _report(f"non-members of {name}, {tier}", _deal_views(game, deals))


def _report(label: str, views: Iterator[ModelView], first: int = 0) -> None:
    claims = [
        bool(ClusterLiRA()(view, stream(k, "claims")).score.any())
        for k, view in enumerate(views, first)
    ]
    low, high = clopper_pearson(sum(claims), len(claims))
    rate = f"{np.mean(claims):.3f} ({low:.3f} to {high:.3f})"
    print(f"| {label} | {len(claims)} | {sum(claims)} | {rate} |", flush=True)


def _simulate_view(seed: int) -> ModelView:
    """SYNTHETIC logits: each class has a centre, a shape and heavy tails; nobody is a member."""
    rng = stream(seed, "made up")
    y = rng.choice(4, size=SUSPECTS + REFERENCE, p=SHARES)
    centre = 3 * np.eye(4) + rng.normal(size=(4, 4))
    shape = rng.normal(size=(4, 4, 4))
    logits = centre[y] + np.einsum("nij,nj->ni", shape[y], rng.standard_t(3, size=(len(y), 4)))
    return _make_view(to_probabilities(logits, "logits", len(y)), y)


def _deal_views(game: AssignmentGame, times: int) -> Iterator[ModelView]:
    """A network's answers to records that it was not trained on, some of them called suspects."""
    view = game.challenge.view
    for k, target in enumerate(view.targets):
        parts = (
            view.relevant[k].take(~game.relevant[k]),
            view.external[k],
            view.records.take(game.challenge.truth.client != k),
        )
        x, y = (np.concatenate([getattr(part, what) for part in parts]) for what in ("x", "y"))
        answers = target.predict(x)
        for deal in range(times):
            order = stream(deal, "dealt", str(k)).permutation(len(y))
            yield _make_view(answers[order], y[order])


def _make_view(answers: np.ndarray, y: np.ndarray) -> ModelView:
    """View of all records: suspects first, at most as many as in the challenge, then reference."""
    rows = Records(np.arange(len(y)), y)
    cut = min(SUSPECTS, len(y) * SUSPECTS // (SUSPECTS + REFERENCE))
    target = TableTarget(answers, Need.PROBABILITIES | Need.HARD_LABELS)
    suspects, others = rows.take(np.arange(cut)), rows.take(np.arange(cut, len(y)))
    return ModelView(target, suspects, reference=others)
