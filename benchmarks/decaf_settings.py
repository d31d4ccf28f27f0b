"""Which settings of the local training give the published method's figures that Decaf's paper has?

The paper names Adadelta and none of the settings below. Each is held against all of its figures
on MNIST: one of them alone may fit by chance.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.timing import environment
from divulge._util.random import stream
from divulge.attacks.composition.decaf.published import PublishedStep, infer_by_paper
from divulge.attacks.shared.observed_round import first_rounds
from divulge.core import Records, Round, UpdateView
from divulge.federation import Federation, exact
from divulge.targets.torch import TorchTarget
from divulge.training import Recipe
from divulge.training.engine.networks import load_network

if TYPE_CHECKING:
    from torch import nn

SUMMARY = "settings of local training against all of Decaf's published figures on MNIST"

PAPER = (0.185, 0.463, 0.368, "round 3 least", 0.988, 38.6)
"""Tables III, XIV and XV; figures 6 and 5; table VIII: seconds of training by those of bases."""

AUXILIARY, TEST, ROUNDS = 100, 1000, (1, 3, 5)


@dataclass(frozen=True, slots=True)
class Setting:
    """What the paper leaves open."""

    rate: float
    batch: int = 128
    records: int = 4000
    """Number of records of each user. With more, MNIST has too few of the eighth class."""
    epochs: int = 1
    warm: bool = False
    """Whether the first global model was trained on the auxiliary records, as in PPA's code."""


SETTINGS = (
    Setting(1.0, 64, 1200),
    Setting(0.1, 64, 1200),
    Setting(0.01, 64, 1200),
    Setting(1.0),
    Setting(0.1),
    Setting(1.0, warm=True),
    Setting(0.1, warm=True),
    Setting(0.01, warm=True),
    Setting(0.001, warm=True),
    Setting(0.01, epochs=5, warm=True),
    Setting(1.0, epochs=3),
)


def run(quick: bool) -> None:  # noqa: FBT001 (the command's flag)
    """Print a line a setting: mean L1 over the ten users, with images at 14 x 14 and one seed."""
    from divulge_papers.data import load_images

    print(environment(("divulge", "torch")))
    pool = load_images("mnist", 14)
    names = ("rate", "batch", "records", "epochs", "warm")
    shown = ("III", "no null", "no calib.", "rounds 1, 3, 5", "accuracy", "VIII")
    print("".join(f"{name:>9}" for name in (*names, *shown)))
    print(f"{'the paper':45}" + "".join(f"{figure!s:>9}" for figure in PAPER), flush=True)
    for setting in SETTINGS[:2] if quick else SETTINGS:
        if quick:
            setting = replace(setting, records=240)
        each = [getattr(setting, name) for name in ("rate", "batch", "records", "epochs", "warm")]
        print("".join(f"{value!s:>9}" for value in each) + _measure(setting, pool), flush=True)


def _measure(setting: Setting, pool: Records) -> str:
    from divulge_papers.papers.decaf.networks import DecafNetwork
    from divulge_papers.papers.decaf.tables import TEN_USERS

    users = np.array(TEN_USERS) / 120
    counts = np.rint(users * setting.records).astype(np.int64)
    clients = exact(pool, counts, 0)
    left = np.setdiff1d(np.arange(len(pool)), np.concatenate(clients))
    rng = stream(0, "auxiliary records")
    own = np.concatenate([rng.permutation(left[pool.y[left] == k])[:AUXILIARY] for k in range(10)])
    known = pool.take(np.sort(own))
    test = pool.take(rng.permutation(np.setdiff1d(left, own))[:TEST])
    network = DecafNetwork(pool.x.shape[1:], 10)
    lr, epochs, batch = setting.rate, setting.epochs, setting.batch
    recipe = Recipe(network, "adadelta", lr=lr, epochs=epochs, batch_size=batch)
    federation = Federation(pool, clients, recipe, workers=1)
    sent = None
    if setting.warm:
        longer = Recipe(network, "adam", lr=0.001, epochs=50, batch_size=batch)
        start = next(Federation(known, (np.arange(len(known)),), longer, workers=1).rounds())
        sent = start.aggregated
    coming = federation.rounds(sent=sent)
    played = [next(coming) for _ in range(max(ROUNDS))]
    steps: tuple[PublishedStep, ...] = ("none", "null removal", "calibrator")
    whole, *ablations = (_distance(played[2], network, known, users, step) for step in steps)
    by_round = [
        whole if k == 3 else _distance(played[k - 1], network, known, users) for k in ROUNDS
    ]
    state = played[-1].aggregated
    assert state is not None
    answers = TorchTarget(load_network(network, state), "logits").predict(test.x)
    accuracy = float((answers.argmax(axis=1) == test.y).mean())
    # records that ten users pass through, by those of ten bases and the calibrator
    ratio = 10 * setting.records / (2 * AUXILIARY * 10)
    numbers = (whole, *ablations)
    rounds = " ".join(f"{distance:.2f}" for distance in by_round)
    return "".join(f"{n:9.3f}" for n in numbers) + f"{rounds:>16}{accuracy:9.3f}{ratio:9.1f}"


def _distance(
    played: Round,
    network: "Callable[[], nn.Module]",
    known: Records,
    users: np.ndarray,
    without: PublishedStep = "none",
) -> float:
    views = [UpdateView(str(k), (played,), network, known) for k in range(len(users))]
    guesses = infer_by_paper(first_rounds(views, 1), views, "nnls", 0.0, 0, without=without)
    return float(np.mean([np.abs(g.share - u).sum() for g, u in zip(guesses, users, strict=True)]))
