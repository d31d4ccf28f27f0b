"""On which side of a ceiling a figure is shown to be, and how many records it takes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divulge.core import Estimate
from divulge.metrics import membership
from divulge.metrics.ceiling import find_side, records_to_decide

RATE = st.floats(0, 1)


@given(RATE, RATE, RATE, RATE, RATE)
def test_a_wider_interval_is_never_more_decided(
    low: float, high: float, wider: float, further: float, ceiling: float
) -> None:
    low, high = sorted([low, high])
    outer = find_side(low - wider, high + further, ceiling)
    assert outer in ("undecided", find_side(low, high, ceiling))


def audit(rng: np.random.Generator, shift: float, records: int) -> Estimate:
    member = np.arange(records) < records // 2
    return membership.auc(rng.normal(size=records) + shift * member, member)


def side_of(rng: np.random.Generator, shift: float, records: int, ceiling: float) -> str:
    found = audit(rng, shift, records)
    return find_side(found.low, found.high, ceiling)


@pytest.mark.parametrize(("ceiling", "side"), [(0.6, "under"), (0.53, "over")])
def test_with_so_many_records_four_of_five_audits_decide(ceiling: float, side: str) -> None:
    rng, shift = np.random.default_rng(0), 0.2525  # AUC 0.571: Phi(0.2525 / sqrt 2)
    usual = [audit(rng, shift, 400) for _ in range(100)]
    value, low, high = (
        float(np.mean([getattr(one, name) for one in usual])) for name in ("value", "low", "high")
    )
    needed = records_to_decide(value, low, high, ceiling, 400)
    assert needed is not None
    decided = [side_of(rng, shift, needed, ceiling) for _ in range(200)]
    # 0.8, with four standard errors of 200 draws: 0.113
    assert np.mean(np.array(decided) == side) == pytest.approx(0.8, abs=0.113)


def test_fewer_records_never_pass_more_often() -> None:
    """Of a model just over the ceiling few audits pass, however few records there are."""
    rng, shift = np.random.default_rng(1), 0.3583  # AUC 0.6
    for records in (8, 20, 60, 200):
        passed = [side_of(rng, shift, records, 0.6) == "under" for _ in range(400)]
        # at most 2.5 %, with four standard errors of 400 draws: 0.031
        assert np.mean(passed) <= 0.025 + 0.031, records
