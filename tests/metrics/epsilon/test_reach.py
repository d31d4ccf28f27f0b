import numpy as np
import pytest

from divulge.core import NoiseAssumption
from divulge.metrics.epsilon import (
    can_refute,
    epsilon_lower_bound,
    largest_bound,
    records_needed,
)


@pytest.mark.parametrize("noise", ["any", "gaussian", "independent-gaussian"])
@pytest.mark.parametrize("records", [50, 400])
def test_no_score_shows_more_than_the_truth_itself(noise: NoiseAssumption, records: int) -> None:
    member = np.arange(records) % 2 == 0
    most = largest_bound(records, 1e-5, noise=noise, tries=3)
    shown = epsilon_lower_bound(member + 0.0, member, 1e-5, noise=noise, tries=3).value
    assert shown == most
    rng = np.random.default_rng(0)
    for leak in (0.5, 2.0):
        score = rng.normal(size=records) + leak * member
        assert epsilon_lower_bound(score, member, 1e-5, noise=noise, tries=3).value <= most


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_the_records_said_to_be_needed_are_enough_and_few_less_are_not(epsilon: float) -> None:
    needed = records_needed(epsilon, 1e-5, tries=5)
    assert needed is not None
    assert largest_bound(needed, 1e-5, tries=5) > epsilon
    assert largest_bound(int(0.85 * needed) // 2 * 2, 1e-5, tries=5) <= epsilon


def test_to_exceed_a_bound_takes_more_records_than_to_reach_it() -> None:
    reached = largest_bound(64, 1e-5)
    needed = records_needed(reached, 1e-5)
    assert needed is not None
    assert largest_bound(needed, 1e-5) > reached


def test_what_no_audit_can_show_is_said_so() -> None:
    assert records_needed(40.0) is None


@pytest.mark.parametrize("noise", ["any", "gaussian", "independent-gaussian"])
def test_an_epsilon_can_be_refuted_below_the_largest_bound(noise: NoiseAssumption) -> None:
    for records in (30, 300):
        most = largest_bound(records, 1e-5, drawn="coins", noise=noise)
        for epsilon in (0.9 * most, most - 1e-4, most, most + 1e-4, 1.1 * most, 100.0):
            refuted = can_refute(epsilon, records, 1e-5, drawn="coins", noise=noise)
            assert refuted == (most > epsilon)
