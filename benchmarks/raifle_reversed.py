"""RAIFLE's optimisation on users of recommenders: those it has reversed, and under noise."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.means import format_mean
from divulge._util.json import Settings
from divulge._util.random import stream
from divulge.federation.recommender.model import NeuralCF
from divulge.federation.recommender.users import Recommending
from divulge.metrics.interactions import measure_user
from divulge_papers.papers.raifle import study
from divulge_papers.published import published_file, unpack

SUMMARY = "RAIFLE's optimisation on users whose answers raifle-table5 has reversed"
NOISE = "RAIFLE as its authors' code has it on raifle-table9's users of MovieLens-100K at ε = 500"

RESULTS = Path(__file__).parents[1] / "papers" / "results"

LOGS = ("steam-200k", "ml-100k")

WAYS: Mapping[str, Settings] = {
    "the authors' code": study.RELEASED,
    "corrected": study.MATCH,
    "corrected, best of 3 starts": {**study.MATCH, "starts": 3},
    "auto": study.AUTO,
}


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print the AUC of each such user: of AUC below one half in the published pieces.

    They start from the weights and embeddings that they have in the table. Chosen for what went
    wrong, they say whether it comes again, and nothing of the mean.
    """
    import torch

    torch.set_num_threads(1)
    for data in LOGS[:1] if quick else LOGS:
        before = dict(_reversed_users(data))
        games = [game for user in before for game in _challenge(data, user)]
        print(f"{data}, users {' '.join(map(str, before))}")
        print(f"{'raifle-table5':28}{_line(list(before.values()))}", flush=True)
        for name, settings in WAYS.items():
            print(f"{name:28}{_line(_aucs(settings, games))}", flush=True)


def run_noise(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print the mean AUC over the table's 50 users, and how far it is from that of `match` there.

    Means have Student's intervals over users.
    """
    before = dict(_published("raifle-table9", "ml-100k, ε = 500, match", "ml-100k"))
    users = list(before)[: 3 if quick else None]
    games = [game for user in users for game in _challenge("ml-100k", user, 500.0)]
    aucs = _aucs(study.RELEASED, games)
    less = [auc - before[user] for user, auc in zip(users, aucs, strict=True)]
    print(f"the authors' code {format_mean(aucs)}; less that of match {format_mean(less)}")


def _aucs(settings: Settings, games: list[study.UserGame]) -> list[float]:
    """AUC of each user, all attacked in one call."""
    attack = study.build_attack(settings)
    guesses = attack.many([game.view for game in games], stream(0, "reversed"))  # type: ignore[attr-defined]
    pairs = zip(guesses, games, strict=True)
    return [float(measure_user(guess, game.truth).auc) for guess, game in pairs]


def _line(aucs: list[float]) -> str:
    wrong = sum(auc < 0.5 for auc in aucs)
    return f"{' '.join(f'{auc:.3f}' for auc in aucs)}; {wrong} of {len(aucs)} below one half"


def _reversed_users(data: str) -> Iterator[tuple[int, float]]:
    """Users whose AUC is below one half in table V, with that."""
    for user, auc in _published("raifle-table5", f"{data}, match", data):
        if auc < 0.5:
            yield user, auc


def _published(table: str, row: str, data: str) -> Iterator[tuple[int, float]]:
    """Users of a row of a published table, with their AUC."""
    lines = unpack(published_file(RESULTS, table, "paper")).splitlines()
    (piece,) = (p for p in map(json.loads, lines) if p["row"] == row)
    users = stream(0, "raifle", "users").permutation(study.load_log(data).users)
    yield from zip(users.tolist(), piece["values"]["AUC"], strict=False)


def _challenge(data: str, user: int, epsilon: float | None = None) -> Iterator[study.UserGame]:
    """The challenge on a user as tables V and IX pose it."""
    own = int(stream(0, "raifle", "model", user).integers(2**31))
    log = study.load_log(data)
    world = Recommending(log, NeuralCF(), embeddings_only=True, seed=own)
    yield from world.challenges([user], study.local_noise(epsilon, 0.1))
