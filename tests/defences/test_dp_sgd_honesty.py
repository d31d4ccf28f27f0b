"""What attacks measure never exceeds what DP-SGD promises, and too little noise is found out.

Each record is a canary: it alone has a value in its own feature, so its clipped gradient and the
noise on it reach weights that no other record touches. Membership is a coin for each, so what
the trained model says of each is one independent trial of the game that the guarantee speaks of:
with this record, or without it.
"""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from jaxtyping import Float
from scipy import special, stats
from torch import nn

from divulge._util.random import stream
from divulge.core import Guarantee, Records
from divulge.defences.training.dp_sgd.trainer import DPSGD
from divulge.metrics.epsilon import epsilon_lower_bound
from divulge.training.recipe import Recipe

pytest.importorskip("opacus")
pytest.importorskip("dp_accounting")

CANARIES, MODELS, AUDITS = 1000, 6, 8
DELTA, NOISE, SIZE = 1e-5, 2.0, 10.0
ERROR = 1e-5
"""Of one limit; an audit has two."""

FALSE_ALARM = AUDITS * 2 * ERROR
"""How often an honest DP-SGD fails one of the tests below by chance, at most: 1.6e-4."""

MISSED = 1e-4
"""How often noise that is too small by four times passes, at most, where every batch is whole."""

THRESHOLD = 1.5
"""Of the signal, in units of what a member adds; fixed beforehand, so choosing it costs nothing."""


def network() -> nn.Module:
    layer = nn.Linear(CANARIES, 2, bias=False)
    nn.init.zeros_(layer.weight)
    return layer


def private(batch: int, epochs: int) -> DPSGD:
    """With whole batches: one step. With quarters: sixteen, and as much signal for the noise."""
    recipe = Recipe(network, lr=1.0, epochs=epochs, batch_size=batch)
    return DPSGD(recipe, DELTA, noise_multiplier=NOISE, jobs=1)


WHOLE, QUARTERS = private(CANARIES, 1), private(CANARIES // 8, 4)
CANARY = Records(
    SIZE * np.eye(CANARIES, dtype=np.float32), np.random.default_rng(0).integers(0, 2, CANARIES)
)


class Trials(NamedTuple):
    """How much of a canary is in the weights, with and without it."""

    inside: Float[np.ndarray, " members"]
    outside: Float[np.ndarray, " others"]


def play(trainer: DPSGD, models: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each model, the signal of every canary, and who was a member."""
    member = stream(seed, "coins").random((models, CANARIES)) < 0.5
    seeds = stream(seed, "models").integers(2**31, size=models).tolist()
    return [
        (signal(trainer, target.predict(CANARY.x), int(inside.sum())), inside)
        for target, inside in zip(trainer.many(CANARY, member, seeds), member, strict=True)
    ]


def signal(
    trainer: DPSGD, answers: Float[np.ndarray, "canaries classes"], members: int
) -> Float[np.ndarray, " canaries"]:
    """What is in a canary's weights, in units of what it adds at most if it is a member."""
    every = np.arange(CANARIES)
    logit = np.log(answers[every, CANARY.y] / answers[every, 1 - CANARY.y])
    size = min(trainer.recipe.batch_size, members)
    seen = trainer.recipe.epochs  # on average
    return np.asarray(logit * size / (np.sqrt(2) * SIZE * seen))


def trials(trainer: DPSGD, seed: int) -> Trials:
    played = play(trainer, MODELS, seed)
    scores, inside = (np.concatenate(parts) for parts in zip(*played, strict=True))
    return Trials(scores[inside], scores[~inside])


def bound(hits: np.ndarray, members: int, alarms: np.ndarray, others: int) -> np.ndarray:
    """The largest ε that so many hits and false alarms refute: Jagielski, Ullman and Oprea (2020),
    Auditing differentially private machine learning, with exact (Clopper-Pearson) limits."""
    hits, alarms = np.asarray(hits), np.asarray(alarms)
    tpr = np.where(hits > 0, special.betaincinv(np.maximum(hits, 1), members - hits + 1, ERROR), 0)
    fpr = 1 - special.betaincinv(np.maximum(others - alarms, 1), alarms + 1, ERROR)
    return np.asarray(np.log(np.maximum(tpr - DELTA, 1e-12) / fpr))


def measured(found: Trials) -> float:
    hits, alarms = ((part > THRESHOLD).sum() for part in found)
    return float(bound(hits, len(found.inside), alarms, len(found.outside)))


@cache
def promised(trainer: DPSGD) -> Guarantee:
    """For the fewest members that a coin leaves: fewer records, more of each in a batch."""
    fewest = int(stats.binom.ppf(1e-9, CANARIES, 0.5))
    found = trainer.guarantee(fewest)
    assert found is not None
    return found


both = pytest.mark.parametrize("trainer", [WHOLE, QUARTERS], ids=["whole batches", "quarters"])


@both
def test_the_signal_is_what_the_settings_say(trainer: DPSGD) -> None:
    """Else the tests below could pass because nobody looks."""
    found = trials(replace(trainer, noise_multiplier=0.01), seed=99)
    error = found.inside.std() / np.sqrt(len(found.inside))
    assert found.inside.mean() == pytest.approx(1, abs=4 * error)
    assert np.abs(found.outside).max() < 0.1


@both
def test_no_audit_measures_more_than_is_promised(trainer: DPSGD) -> None:
    """False alarms: `FALSE_ALARM` at most."""
    bounds = [measured(trials(trainer, seed)) for seed in range(AUDITS)]
    assert max(bounds) <= promised(trainer).epsilon
    assert min(bounds) > -2  # the attack sees something all the same


@both
def test_the_bound_of_one_training_run_stays_below_too(trainer: DPSGD) -> None:
    """divulge's own: false alarms 1e-4 at most, over all models."""
    confidence = 1 - 1e-4 / (AUDITS * 2)
    for seed in range(2):
        for score, member in play(trainer, AUDITS, seed):
            lower = epsilon_lower_bound(
                score, member, DELTA, drawn="coins", confidence=confidence
            ).low
            assert lower <= promised(trainer).epsilon


@both
def test_noise_too_small_by_four_times_is_found_out(trainer: DPSGD) -> None:
    """Missed: `MISSED` at most with whole batches, see the next test."""
    broken = replace(trainer, noise_multiplier=NOISE / 4)
    assert measured(trials(broken, seed=5)) > promised(trainer).epsilon


def test_the_power_is_as_stated() -> None:
    """In closed form: one step on whole batches is one Gaussian mechanism, its signal exact."""
    half = MODELS * CANARIES // 2
    deviation = NOISE / 4
    tpr, fpr = stats.norm.sf((THRESHOLD - np.array([1.0, 0.0])) / deviation)
    hits, alarms = np.arange(half + 1)[:, None], np.arange(101)[None]
    caught = bound(hits, half, alarms, half) > promised(WHOLE).epsilon
    chance = stats.binom.pmf(hits, half, tpr) * stats.binom.pmf(alarms, half, fpr)
    assert (chance * caught).sum() >= 1 - MISSED


def test_the_noise_is_that_of_the_settings() -> None:
    """The simplest look inside: with whole batches, its standard deviation, to five of its own."""
    outside = trials(WHOLE, seed=11).outside
    error = NOISE / np.sqrt(2 * len(outside))
    assert abs(outside.std() - NOISE) < 5 * error
