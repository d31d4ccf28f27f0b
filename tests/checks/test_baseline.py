"""A classifier that never saw the model: what it notices, and how often it is wrong."""

import numpy as np
import pytest
from scipy import stats

from divulge.checks import blind_baseline
from divulge.core import Check, Estimate, Records, Verdict
from tests.golden import golden


def draw(count: int, seed: int, shift: float = 0.0) -> Records:
    rng = np.random.default_rng([seed, count])
    return Records(rng.normal(size=(count, 6)) + shift, rng.integers(0, 3, count))


def by_name(found: tuple[Check, ...]) -> dict[str, Check]:
    return {check.name: check for check in found}


@pytest.mark.slow
def test_one_population_is_not_told_apart_more_often_than_promised() -> None:
    """p is uniform, so its deciles are equally likely, and so are the intervals that miss .5."""
    trials = 200
    told = [
        blind_baseline.separate(draw(60, 2 * k), draw(60, 2 * k + 1), np.random.default_rng(k))
        for k in range(trials)
    ]
    p_values = np.array([one.p_value for one in told if one is not None])
    assert len(p_values) == trials
    for level in (0.05, 0.2, 0.5):
        # exceeded by chance in one of 10,000 runs of a test that keeps its promise
        assert np.sum(p_values <= level) <= stats.binom.ppf(1 - 1e-4, trials, level)
    covered = sum(0.5 in one.auc for one in told if one is not None)
    assert covered >= stats.binom.ppf(1e-4, trials, 0.95)


def test_two_populations_are_told_apart() -> None:
    (check,) = blind_baseline.check_separation(draw(200, 0, 0.5), draw(200, 1), None)
    assert check.verdict is Verdict.WARNING
    assert check.estimates["auc"].value == golden(0.7269)


@pytest.mark.parametrize(
    ("odd", "blind", "reference", "said"),
    [
        ("members", "warning", "warning", "the members differ"),
        ("non-members", "warning", "warning", "the non-members differ"),
        ("reference", "pass", "warning", "from members and non-members"),
        ("none", "pass", "pass", "cannot tell reference records from candidates"),
    ],
)
def test_the_set_that_differs_is_named(odd: str, blind: str, reference: str, said: str) -> None:
    sets = ("members", "non-members", "reference")
    drawn = [draw(200, k, 0.8 * (name == odd)) for k, name in enumerate(sets)]
    found = by_name(blind_baseline.check_separation(drawn[0], drawn[1], drawn[2]))
    assert found["blind baseline"].verdict == blind
    assert found["reference baseline"].verdict == reference
    assert said in found["blind baseline"].text + found["reference baseline"].text


def test_images_are_reduced_first() -> None:
    rng = np.random.default_rng(0)
    wide = Records(rng.normal(size=(400, 8, 8, 3)), rng.integers(0, 3, 400))
    (check,) = blind_baseline.check_separation(
        wide.take(np.arange(200)), wide.take(np.arange(200, 400)), None
    )
    assert check.verdict is Verdict.PASS


def test_few_records_are_not_compared() -> None:
    (check,) = blind_baseline.check_separation(draw(9, 0), draw(50, 1), draw(50, 2))
    assert check.verdict is Verdict.NOT_APPLICABLE
    assert len(blind_baseline.check_separation(draw(50, 0), draw(50, 1), draw(9, 2))) == 1


def test_what_is_said_of_the_same_records_alone_is_recalled() -> None:
    members, nonmembers, reference = (draw(120, k) for k in range(3))
    first = blind_baseline.recall_separation(members, nonmembers, reference)
    same = Records(members.x.copy(), members.y.copy())
    assert blind_baseline.recall_separation(same, nonmembers, reference) is first
    others = [
        (nonmembers, members, reference, 0),
        (members, nonmembers, draw(120, 3, 1.0), 0),
        (members, nonmembers, None, 0),
        (members, Records(nonmembers.x, (nonmembers.y + 1) % 3), reference, 0),
        (members, nonmembers, reference, 1),
    ]
    for sets in others:
        expected = blind_baseline.check_separation(*sets)
        assert expected != first
        blind_baseline.recall_separation(members, nonmembers, reference)  # the last ones are kept
        assert blind_baseline.recall_separation(*sets) == expected


def test_of_two_comparisons_each_has_half_of_the_false_alarms() -> None:
    auc, half = Estimate(0.6, 0.5, 0.7), blind_baseline.FALSE_ALARM / 2
    beside = {name: blind_baseline.Separation(auc, p)
              for name, p in (("members", half), ("non-members", 1.001 * half))}  # fmt: skip
    assert blind_baseline._far(beside) == ["members"]
    assert blind_baseline._far({"members": blind_baseline.Separation(auc, 2 * half)}) == ["members"]
