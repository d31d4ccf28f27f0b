"""Differences of two attacks on the same candidates: intervals cover, and pairing shortens them."""

import numpy as np
import pytest
from scipy.special import ndtr

from divulge.core import Estimate
from divulge.metrics import membership
from divulge.metrics.difference import paired_auc, paired_tpr, subtract
from divulge.metrics.membership import Member, Score

SHIFTS = (1.0, 0.6)
"""By how many standard deviations members score higher, in either attack."""


def draw(rng: np.random.Generator, alike: float, size: int = 400) -> tuple[Score, Score, Member]:
    member = np.arange(2 * size) < size
    common = rng.normal(size=2 * size)
    own = rng.normal(size=(2, 2 * size))
    one, other = np.sqrt(alike) * common + np.sqrt(1 - alike) * own
    return one + SHIFTS[0] * member, other + SHIFTS[1] * member, member


@pytest.mark.parametrize("alike", [0.0, 0.8])
def test_the_intervals_cover_the_true_differences(alike: float) -> None:
    rng, draws = np.random.default_rng(0), 200
    aucs = [float(ndtr(shift / np.sqrt(2))) for shift in SHIFTS]
    tprs = [float(ndtr(shift - 1.2816)) for shift in SHIFTS]  # at the 90 % quantile of noise
    covered = np.zeros(2)
    for _ in range(draws):
        sample = draw(rng, alike)
        for k, (found, true) in enumerate(
            [
                (paired_auc(*sample), aucs[0] - aucs[1]),
                (paired_tpr(*sample, 0.1), tprs[0] - tprs[1]),
            ]
        ):
            assert found.high is not None
            covered[k] += found.low <= true <= found.high
    # 95 %, with four standard errors of 200 draws: 0.062
    assert (covered / draws >= 0.95 - 0.062).all()


def test_what_attacks_have_in_common_shortens_the_interval() -> None:
    one, other, member = draw(np.random.default_rng(1), 0.9)

    def width(found: Estimate) -> float:
        assert found.high is not None
        return found.high - found.low

    apart = subtract(membership.auc(one, member), membership.auc(other, member))
    assert width(paired_auc(one, other, member)) < 0.6 * width(apart)
    tprs = [membership.tpr_at_fpr(each, member, 0.1) for each in (one, other)]
    assert width(paired_tpr(one, other, member, 0.1)) < width(subtract(tprs[0], tprs[1]))


def test_an_attack_differs_from_itself_by_nothing_and_both_ways_alike() -> None:
    one, other, member = draw(np.random.default_rng(2), 0.5)
    for found in (paired_auc(one, 2 * one, member), paired_tpr(one, 2 * one, member, 0.1)):
        assert (found.value, found.low, found.high) == (0, 0, 0)
    forth, back = paired_auc(one, other, member), paired_auc(other, one, member)
    assert (back.value, back.low, back.high) == pytest.approx(
        (-forth.value, -(forth.high or 0), -forth.low)
    )
