"""What DP-SGD costs in accuracy and time, and what the claimed ε is worth when attacked."""

from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool
from scipy import stats

import divulge
from benchmarks import data
from benchmarks.timing import (
    Contender,
    MissingPeer,
    Outcome,
    environment,
    interleaved,
    table,
)
from divulge.core import Guarantee, Records, Trainer
from divulge.report import words

if TYPE_CHECKING:
    from torch import nn

    from divulge.training.recipe import Recipe

SUMMARY = "private training of a small network on Location-30: accuracy, claimed and measured ε"

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
    for package in ("opacus", "dp_accounting"):
        if find_spec(package) is None:
            raise MissingPeer(package, "dp")
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
        print(_audited(side, pool, member, 2 if quick else 8), flush=True)
    return _times(replace(recipe, epochs=3), pool, member, 1 if quick else 3)


def _times(
    recipe: "Recipe", pool: Records, member: Bool[np.ndarray, " records"], repeats: int
) -> Outcome:
    from divulge.defences.training.dp_sgd.loop import Clipping
    from divulge.defences.training.dp_sgd.trainer import DPSGD
    from divulge.training.fleet import Fleet

    private = {
        clipping: DPSGD(recipe, _DELTA, noise_multiplier=1.0, clipping=clipping, jobs=1)
        for clipping in get_args(Clipping)
    }
    contenders = [
        *(
            Contender(f"DPSGD, {clipping}", partial(_train, trainer, pool, member))
            for clipping, trainer in private.items()
        ),
        Contender("no noise", partial(_train, Fleet(recipe, "one-by-one"), pool, member)),
    ]
    timings = interleaved(contenders, repeats)
    print(f"\none model, {recipe.epochs} epochs\n{table(timings, base=timings[-1])}")
    print("ours: the faster way of clipping; theirs: the same recipe without privacy")
    return Outcome(min(timings[:-1], key=lambda timing: timing.best), timings[-1])


def _audited(side: Side, pool: Records, member: Bool[np.ndarray, " records"], shadows: int) -> str:
    target = _train(side.trainer, pool, member)
    outsiders = pool.take(~member)
    found = divulge.audit(
        target,
        members=pool.take(member),
        nonmembers=outsiders,
        options=divulge.Options(guarantee=side.claim),
        shadows=divulge.ShadowModels(shadows, train=side.trainer),
        access=divulge.Access(fingerprint=""),
    )
    right = int((target.predict(outsiders.x).argmax(axis=1) == outsiders.y).sum())
    low, high = stats.binomtest(right, len(outsiders)).proportion_ci()
    auc = max((f.metrics["auc"] for f in found.findings if f.metrics), key=lambda auc: auc.low)
    claim = found.summary.claim
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
