import numpy as np
import pytest

from divulge._util.random import stream
from divulge.core import Membership, Scores
from divulge.metrics import measure, membership
from divulge.metrics.membership import Unmeasurable


def test_advantage_of_a_known_shift() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(20_000) < 10_000
    estimate = measure.advantage(rng.normal(size=20_000) + member, member)
    truth = 2 * 0.6914625 - 1  # Phi(1/2) at the best threshold, midway
    assert truth in estimate
    assert estimate.high is not None
    # a difference of two proportions of 10,000 each has a standard error of 0.0065
    assert truth - 0.03 < estimate.low
    assert estimate.high < truth + 0.03
    assert measure.balanced_accuracy(estimate).value == pytest.approx((1 + estimate.value) / 2)


@pytest.mark.parametrize("shift", [0.0, 0.5, 3.0])
def test_the_upper_limit_lies_above_the_best_threshold_of_these_records(shift: float) -> None:
    rng = np.random.default_rng(0)
    member = np.arange(90) < 30
    score = rng.normal(size=90) + shift * member
    curve = membership.roc(score, member)
    estimate = measure.advantage(score, member)
    assert estimate.high is not None
    assert estimate.low <= estimate.value <= np.max(curve.tpr - curve.fpr) < estimate.high


def test_advantage_needs_two_of_each() -> None:
    with pytest.raises(Unmeasurable, match="two of each"):
        measure.advantage(np.arange(3.0), np.array([True, False, False]))


@pytest.mark.parametrize("seed", range(6))
def test_each_half_is_judged_by_the_threshold_of_the_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    member = np.arange(31) < 14
    score = rng.normal(size=31).round(1)
    shuffle = stream(0, "metrics", "halves")
    inside, outside = shuffle.permutation(score[member]), shuffle.permutation(score[~member])
    hits = false_alarms = 0.0
    for best, counted in (
        (slice(0, None, 2), slice(1, None, 2)),
        (slice(1, None, 2), slice(0, None, 2)),
    ):
        choices = np.unique(score)
        gain = [np.mean(inside[best] >= c) - np.mean(outside[best] >= c) for c in choices]
        tied = choices[np.isclose(gain, max(gain))]
        half = np.concatenate([inside[best], outside[best]])
        threshold = measure.best_threshold(
            membership.rank(half, np.arange(len(half)) < len(inside[best]))
        )
        assert any(
            (inside[best] >= c).sum() == (inside[best] >= threshold).sum()
            and (outside[best] >= c).sum() == (outside[best] >= threshold).sum()
            for c in tied
        )
        hits += np.sum(inside[counted] >= threshold)
        false_alarms += np.sum(outside[counted] >= threshold)
    found = measure.advantage(score, member)
    assert found.value == pytest.approx(hits / 14 - false_alarms / 17)


@pytest.mark.parametrize("name", ["auc", "advantage", "tpr@0.1", "tpr@0.01"])
def test_one_metric_is_that_of_all(name: str) -> None:
    rng = np.random.default_rng(0)
    member = rng.random(400) < 0.5
    guess, truth = Scores(rng.normal(size=400) + member), Membership(member)
    assert measure.measure_one(name, guess, truth) == measure.measure(guess, truth).metrics[name]
    for together in (1, 7):
        assert (
            measure.measure_one(name, guess, truth, together)
            == (measure.measure(guess, truth, together=together).metrics[name])
        )
