"""RAIFLE as its authors' code has it, beside its text: what two faults cost it on MQ2008."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.timing import environment
from divulge._util.random import stream
from divulge.core import UpdateDefence
from divulge.data import ranking
from divulge.metrics import interactions as metrics

SUMMARY = "RAIFLE as its authors' code has it, beside its text, on MQ2008"

SEEDS = 3


class Cell(NamedTuple):
    """A setting of table VII, with informational clicks."""

    hidden: int
    queries: int
    noise: bool
    """Whether noise is handed out for features."""
    paper: float
    """Its AUC on MQ2007."""


CELLS = (
    Cell(16, 8, noise=False, paper=0.60),
    Cell(0, 16, noise=False, paper=0.66),
    Cell(16, 8, noise=True, paper=1.00),
)

Code = Literal["published", "corrected"]


def run(quick: bool) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print AUC over users for both, and their difference on the same users and clicks.

    Raises:
        MissingData: there is no MQ2008.
    """
    import torch

    torch.set_num_threads(1)
    users = 2 if quick else 12
    print(environment(("divulge", "torch", "numpy")))
    print(f"informational clicks; {SEEDS} seeds of {users} users and of the attack; one thread")
    print("published: users weigh positions by the order of the file, and match drops a derivative")
    codes: tuple[Code, ...] = ("published", "corrected")
    for cell in CELLS:
        items = "noise handed out" if cell.noise else "items as they are"
        about = f"{cell.hidden or 'no'} hidden, {cell.queries} queries, {items}"
        print(f"\n{about}; the paper on MQ2007: {cell.paper:.2f}")
        each = {}
        for code in codes:
            each[code] = [auc for seed in range(SEEDS) for auc in _aucs(cell, seed, users, code)]
            mean = metrics.mean_over_users(each[code])
            print(f"{code:12}{mean.value:8.3f} ({mean.low:.3f} to {mean.high:.3f})", flush=True)
        _print_difference(each["corrected"], each["published"])


def _aucs(cell: Cell, seed: int, users: int, code: Code) -> list[float]:
    """AUC of each user of a seed, all attacked in one call; each has a ranker of its own."""
    import torch

    from divulge.attacks.interactions.raifle.attack import RAIFLE
    from divulge.federation.manipulation.features import NoiseInjection
    from divulge.federation.search import click_models, models
    from divulge.federation.search.users import Searching, keep_features

    world = Searching(
        ranking.read_queries(data.file("letor-mq2008/Fold1-train.txt.xz")),
        click_models.published_click_model("informational", 3),
        manipulate=NoiseInjection(0.1) if cell.noise else keep_features,
        order="file" if code == "published" else "shown",
    )
    games = []
    for user in range(users):
        rng = stream(seed, "user", user)
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        weights = models.ranker(world.queries.x.shape[1], cell.hidden, generator)
        games.append(world.challenge(weights, cell.queries, UpdateDefence(), rng))
    attack = RAIFLE("match", rounding="half", code=code)
    guesses = attack.many([game.view for game in games], stream(seed, "attack"))
    pairs = zip(guesses, games, strict=True)
    return [float(metrics.measure_user(guess, game.truth).auc) for guess, game in pairs]


def _print_difference(corrected: Sequence[float], published: Sequence[float]) -> None:
    """The mean difference on the same users, with Student's interval over users."""
    from scipy import stats

    apart = np.subtract(corrected, published)
    mean, error = float(apart.mean()), float(apart.std(ddof=1)) / len(apart) ** 0.5
    reach = float(stats.t.ppf(0.975, len(apart) - 1)) * error
    print(f"{'difference':12}{mean:8.3f} ({mean - reach:.3f} to {mean + reach:.3f})", flush=True)
