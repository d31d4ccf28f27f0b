"""A recommender's users who train on items that they did not act on, as if they had."""

from benchmarks import data
from benchmarks.communities import LOGS
from benchmarks.means import format_mean
from divulge._util.random import stream
from divulge.attacks.interactions.raifle.attack import RAIFLE
from divulge.core import UpdateDefence
from divulge.metrics.interactions import measure_user

SUMMARY = "AUC of a user's items where it trains on decoys, too"

SEEDS, USERS, DECOYS = 3, 40, (0, 1, 2, 4, 8)


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (like every benchmark)
    """Print means over users, with Student's intervals: AUC against all items left alone.

    The users of a seed share a network.

    Raises:
        MissingData: the interactions are not there.
    """
    import torch

    from divulge.federation.recommender.model import NeuralCF
    from divulge.federation.recommender.users import Recommending

    torch.set_num_threads(1)
    read, file = LOGS[name]
    log = read(data.file(file))
    print(f"{name}: {SEEDS} seeds of {USERS} users\n| decoys an interaction | AUC | F1 |")
    print("|---:|---|---|", flush=True)
    for decoys in DECOYS[:2] if quick else DECOYS:
        figures = []
        for seed in range(1 if quick else SEEDS):
            users = stream(seed, "decoys", name).permutation(log.users)[: 5 if quick else USERS]
            world = Recommending(log, NeuralCF(), embeddings_only=True, decoys=decoys, seed=seed)
            games = list(world.challenges(users.tolist(), UpdateDefence()))
            guesses = RAIFLE().many([game.view for game in games], stream(seed, "attack"))
            for guess, game in zip(guesses, games, strict=True):
                judged = measure_user(guess, game.truth)
                figures.append((judged.auc, judged.f1))
        print(
            f"| {decoys} | " + " | ".join(map(format_mean, zip(*figures, strict=True))) + " |",
            flush=True,
        )
