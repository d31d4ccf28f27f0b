"""What looks at noise add up to, by hand."""

import math

import pytest
from scipy import stats

from divulge.canaries.noise import LEVEL, check_noise
from divulge.data.noise import LookKind, NoiseLook, SeenNoise


def look(
    evidence: float, largest: float, kind: LookKind = "scale", before: float = 0.5
) -> NoiseLook:
    return NoiseLook(kind, "part", 100, evidence, largest, 3, before, 0.25)


def test_evidence_adds_up_as_fishers_and_the_largest_is_that_of_all_steps() -> None:
    (one,) = check_noise(SeenNoise(10, (look(30.0, 9.0),), True), 10).looks
    assert one.p == pytest.approx(stats.chi2.sf(60.0, 20))
    assert one.p_step == pytest.approx(10 * math.exp(-9.0))
    (sure,) = check_noise(SeenNoise(10, (look(0.0, 0.1),), True), 10).looks
    assert sure.p_step == 1.0


def fault(evidence: float, largest: float, looks: int) -> bool:
    """Whether one look of several accuses."""
    quiet = (look(0.0, 0.0),) * (looks - 1)
    return bool(check_noise(SeenNoise(10, (look(evidence, largest), *quiet), True), 10).faults)


def test_each_look_has_its_share_of_the_error_for_either_test() -> None:
    for looks in (1, 4):
        alone = -math.log(LEVEL / looks / 10)  # of a single step among 10
        together = float(stats.chi2.isf(LEVEL / looks, 20)) / 2
        for evidence, largest in ((0.0, alone), (together, 0.0)):
            assert fault(evidence * 1.001, largest * 1.001, looks)
            assert not fault(evidence * 0.999, largest * 0.999, looks)


def test_noise_is_too_small_by_the_root_of_what_is_left() -> None:
    (said,) = check_noise(SeenNoise(10, (look(100.0, 50.0),), True), 10).faults
    assert "its deviation is 0.5 of the one stated" in said  # of a variance of 0.25


@pytest.mark.parametrize(
    ("before", "says"), [(0.91, "is the same (correlation 0.91)"), (0.9, "is correlated")]
)
def test_noise_repeats_or_is_correlated_by_its_correlation(before: float, says: str) -> None:
    (said,) = check_noise(SeenNoise(10, (look(100.0, 50.0, "repeats", before),), True), 10).faults
    assert says in said


def test_steps_that_were_scored_and_not_looked_at_are_counted() -> None:
    seen = SeenNoise(10, (look(0.0, 0.0),), True)
    assert check_noise(seen, 12).undecided == ("the noise of 2 steps was not looked at",)
    assert check_noise(seen, 9).undecided == ()


def test_one_step_does_not_show_whether_noise_repeats() -> None:
    for steps, says in ((1, ("one step does not show whether noise repeats",)), (2, ())):
        assert check_noise(SeenNoise(steps, (look(0.0, 0.0),), True), steps).undecided == says
