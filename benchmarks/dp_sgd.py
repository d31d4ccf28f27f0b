"""What DP-SGD costs in accuracy and time, and what the claimed ε is worth when attacked."""

import warnings
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool
from scipy import stats

import divulge
from benchmarks import data
from benchmarks.timing import (
    Contender,
    MissingPeer,
    Outcome,
    Timing,
    environment,
    interleaved,
    require_packages,
    table,
    verdict,
)
from divulge.core import Guarantee, Records, Trainer
from divulge.report import words

if TYPE_CHECKING:
    from torch import nn

    from divulge.training.recipe import Recipe

SUMMARY = "private training of a small network on Location-30: accuracy, claimed and measured ε"
TIMES = "seconds of DP-SGD beside Opacus, for dense and convolutional networks"

_DELTA = 1e-5
_EPSILONS = (8.0, 2.0, 1.0)
_SEED = 1


class Side(NamedTuple):
    """One way to train the same network."""

    name: str
    trainer: Trainer
    claim: Guarantee | None
    """Claimed privacy guarantee; None takes that of the trainer."""


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Print, for each way to train, what an audit says; then the times of one model.

    Raises:
        MissingPeer: Opacus or dp-accounting is not installed.
        MissingData: there is no Location-30.
    """
    require_packages(("opacus", "dp_accounting"), "dp")
    from divulge.defences.training.dp_sgd.trainer import DPSGD
    from divulge.training.fleet import Fleet
    from divulge.training.recipe import Recipe

    pool = data.location_30()
    member = np.random.default_rng(0).random(len(pool)) < 0.5  # a coin for each record
    recipe = Recipe(_perceptron, lr=0.1, momentum=0.9, epochs=30, batch_size=250)
    sides = [Side("no noise, but ε = 1 claimed", Fleet(recipe), Guarantee(1.0, _DELTA))]
    sides += [
        Side("DP-SGD", DPSGD(recipe, _DELTA, epsilon=epsilon), None)
        for epsilon in (_EPSILONS[-1:] if quick else _EPSILONS)
    ]
    print(environment(("divulge", "torch", "opacus", "dp-accounting")))
    print(f"Location-30, {member.sum():,} members, {(~member).sum():,} outsiders, δ = {_DELTA:g}")
    print(f"{'':30}{'accuracy on outsiders':>24}{'AUC':>22}{'claimed ε':>11}{'measured ε':>12}")
    for side in sides:
        print(_audit_row(side, pool, member, 2 if quick else 8), flush=True)
    return run_times(quick)


def run_times(quick: bool) -> Outcome:  # noqa: FBT001 (as in run)
    """Print the seconds of trainings beside those of Opacus as its tutorial has them.

    Raises:
        MissingPeer: Opacus is not installed.
    """
    if find_spec("opacus") is None:
        raise MissingPeer("opacus", "dp")
    import torch

    from divulge.training.recipe import Recipe

    print(environment(("divulge", "torch", "opacus")))
    outcomes = []
    torch.set_num_threads(1)
    for network, shape, classes in ((_perceptron, (446,), 30), (_convolutional, (1, 28, 28), 10)):
        for records, batch in ((300, 32), (3_001, 32), (3_001, 250)):
            rng = np.random.default_rng(0)
            x = rng.normal(size=(records, *shape)).astype(np.float32)
            pool = Records(x, rng.integers(0, classes, records))
            epochs = 1 if quick else max(1, 6_000 // records)
            recipe = Recipe(network, lr=0.1, momentum=0.9, epochs=epochs, batch_size=batch)
            outcomes.append(_compare(recipe, pool, 1 if quick else 3))
    print("last line: all of them together, best runs")
    return Outcome(
        Timing("ours", [sum(outcome.ours.best for outcome in outcomes)]),
        Timing("theirs", [sum(outcome.theirs.best for outcome in outcomes)]),
    )


def _compare(recipe: "Recipe", pool: Records, repeats: int) -> Outcome:
    """Seconds a training of one model on one thread: Opacus' two ways, ours, and no noise."""
    from divulge.defences.training.dp_sgd.trainer import DPSGD
    from divulge.training.fleet import Fleet

    ours = DPSGD(recipe, _DELTA, noise_multiplier=1.0, jobs=1)
    everybody = np.ones(len(pool), np.bool_)
    contenders = [
        Contender("DPSGD", partial(_train, ours, pool, everybody)),
        Contender("Opacus, gradients of records", partial(_by_opacus, recipe, pool, "hooks")),
        Contender("Opacus, ghost clipping", partial(_by_opacus, recipe, pool, "ghost")),
        Contender("no noise", partial(_train, Fleet(recipe, "one-by-one", 1), pool, everybody)),
    ]
    timings = interleaved(contenders, repeats)
    name = f"{recipe.network.__name__.strip('_')}-{len(pool)}-{recipe.batch_size}"
    print(f"\n{name}, {recipe.epochs} epochs of SYNTHETIC records\n{table(timings, timings[0])}")
    outcome = Outcome(timings[0], min(timings[1:3], key=lambda timing: timing.best))
    print(verdict(f"dp-sgd-{name}", outcome), flush=True)
    return outcome


def _by_opacus(recipe: "Recipe", pool: Records, mode: str) -> None:
    """Train as Opacus' tutorial does, with a loader whose batches it draws."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.tensor(pool.x), torch.tensor(pool.y))
    module = recipe.network()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a user can do nothing about hooks
        private = PrivacyEngine().make_private(
            module=module,
            optimizer=torch.optim.SGD(module.parameters(), recipe.lr, recipe.momentum),
            data_loader=DataLoader(data, batch_size=recipe.batch_size),
            criterion=torch.nn.CrossEntropyLoss(),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            grad_sample_mode=mode,
        )
        private_module, optimiser, *criterion, loader = private
        (loss,) = criterion or [torch.nn.CrossEntropyLoss()]
        for _ in range(recipe.epochs):
            for x, y in loader:
                optimiser.zero_grad()
                loss(private_module(x), y).backward()
                optimiser.step()


def _audit_row(
    side: Side, pool: Records, member: Bool[np.ndarray, " records"], shadows: int
) -> str:
    target = _train(side.trainer, pool, member)
    outsiders = pool.take(~member)
    audit = divulge.audit(
        target,
        members=pool.take(member),
        nonmembers=outsiders,
        options=divulge.Options(guarantee=side.claim),
        shadows=divulge.ShadowModels(shadows, train=side.trainer),
        access=divulge.Access(fingerprint=""),
    )
    right = int((target.predict(outsiders.x).argmax(axis=1) == outsiders.y).sum())
    low, high = stats.binomtest(right, len(outsiders)).proportion_ci()
    auc = max((f.metrics["auc"] for f in audit.findings if f.metrics), key=lambda auc: auc.low)
    claim = audit.summary.claim
    assert claim is not None
    bound = "-" if claim.bound is None else f"≥ {words.format_lower_bound(claim.bound.low)}"
    accuracy = f"{right / len(outsiders):.3f} ({low:.3f}-{high:.3f})"
    return (
        f"{side.name:30}{accuracy:>24}{words.format_auc(auc):>22}{claim.epsilon:>11g}{bound:>12}  "
        f"{claim.outcome}, by {claim.attack}"
    )


def _train(
    trainer: Trainer, pool: Records, member: Bool[np.ndarray, " records"]
) -> "divulge.Target":
    (target,) = trainer.many(pool, member[None], [_SEED])
    return target


def _perceptron() -> "nn.Module":
    from torch import nn

    return nn.Sequential(nn.Linear(446, 128), nn.ReLU(), nn.Linear(128, 30))


def _convolutional() -> "nn.Module":
    from torch import nn

    first = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(
        *first, *second, nn.Flatten(), nn.Linear(1568, 64), nn.ReLU(), nn.Linear(64, 10)
    )
