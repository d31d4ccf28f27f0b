"""RAIFLE's optimisation on the users of recommenders whose answers its table V has reversed."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from divulge._util.json import Settings
from divulge._util.random import stream
from divulge.defences.updates.compose import no_defence
from divulge.federation.recommender.model import NeuralCF
from divulge.federation.recommender.users import Recommending
from divulge.metrics.interactions import measure_user
from divulge_papers.papers.raifle import study
from divulge_papers.published import published_file, unpack

SUMMARY = "RAIFLE's optimisation on users whose answers raifle-table5 has reversed"

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
            attack = study.build_attack(settings)
            views = [game.view for game in games]
            guesses = attack.many(views, stream(0, "reversed"))  # type: ignore[attr-defined]
            pairs = zip(guesses, games, strict=True)
            aucs = [float(measure_user(guess, game.truth).auc) for guess, game in pairs]
            print(f"{name:28}{_line(aucs)}", flush=True)


def _line(aucs: list[float]) -> str:
    wrong = sum(auc < 0.5 for auc in aucs)
    return f"{' '.join(f'{auc:.3f}' for auc in aucs)}; {wrong} of {len(aucs)} below one half"


def _reversed_users(data: str) -> Iterator[tuple[int, float]]:
    """Users whose AUC is below one half in table V, with that."""
    lines = unpack(published_file(RESULTS, "raifle-table5", "paper")).splitlines()
    (piece,) = (p for p in map(json.loads, lines) if p["row"] == f"{data}, match")
    users = stream(0, "raifle", "users").permutation(study.load_log(data).users)
    for user, auc in zip(users.tolist(), piece["values"]["AUC"], strict=False):
        if auc < 0.5:
            yield user, auc


def _challenge(data: str, user: int) -> Iterator[study.UserGame]:
    """The challenge on a user as table V poses it."""
    own = int(stream(0, "raifle", "model", user).integers(2**31))
    log = study.load_log(data)
    world = Recommending(log, NeuralCF(), embeddings_only=True, seed=own)
    yield from world.challenges([user], no_defence())
