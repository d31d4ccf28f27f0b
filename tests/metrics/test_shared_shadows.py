"""Models that are each other's shadows: covariances of their figures, and the test of all."""

import numpy as np
import pytest
from jaxtyping import Bool, Float64
from scipy import stats

from divulge.core import Membership, Scores
from divulge.metrics import joint_test as joint
from divulge.metrics import max_test as maxima
from divulge.metrics.intervals import student_mean
from divulge.metrics.joint_test import add_deviations, joint_test
from divulge.metrics.max_test import max_test, max_test_of_models
from divulge.metrics.measure import METRICS, measure
from divulge.metrics.membership import auc
from divulge.metrics.shared_shadows import covariance_between, influence
from tests.slow import slow, thin

RECORDS = 100
Phi = Float64[np.ndarray, "records models"]
Member = Bool[np.ndarray, "records models"]


def lira(phi: Phi, member: Member) -> list[Float64[np.ndarray, " records"]]:
    """LiRA with one variance on each model in turn, by means of the others: all at once."""
    sides = []
    for side in (member, ~member):
        others = side.sum(1, keepdims=True) - side
        sum_ = (phi * side).sum(1, keepdims=True) - phi * side
        sides.append((others, sum_ / np.maximum(others, 1)))
    (inside, mean_in), (outside, mean_out) = sides
    ratio = (phi - mean_out) ** 2 - (phi - mean_in) ** 2
    return list(np.where((inside > 0) & (outside > 0), ratio, 0.0).T)


def train(rng: np.random.Generator, models: int, leak: float = 0.0) -> tuple[Phi, Member]:
    """Scaled logits of models that are noise, and move with membership by a leak."""
    member = rng.random((RECORDS, models)) < 0.5
    own = 1.5 * rng.normal(size=(RECORDS, 1))
    return own + rng.normal(size=(RECORDS, models)) + leak * member, member


def permute(
    rng: np.random.Generator, phi: Phi, member: Member
) -> Float64[np.ndarray, "one statistics draws"]:
    shuffled = (member[rng.permutation(RECORDS)] for _ in range(joint.DRAWS))
    return np.stack([add_deviations(lira(phi, one), list(one.T)) for one in shuffled], 1)[None]


def further(paid: float) -> float:
    """How much higher a normal deviate is at 5 % divided by what is paid, than at 5 %."""
    return float(stats.norm.isf(0.05 / paid) - stats.norm.isf(0.05))


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maxima, "DRAWS", 99)
    monkeypatch.setattr(joint, "DRAWS", 19)


@pytest.mark.parametrize("name", thin(2, (name for name in METRICS if name != "epsilon")))
def test_influences_are_what_a_record_drawn_twice_changes(name: str) -> None:
    """The mean of metrics of resampled records varies as the influences say."""
    rng = np.random.default_rng(0)
    member = rng.random(3000) < 0.5
    score = rng.normal(size=3000) + member
    found = influence(name, score, member)
    assert found.sum() == pytest.approx(0.0, abs=1e-12)
    drawn = []
    draws = 120
    for _ in range(draws):
        rows = rng.integers(3000, size=3000)
        untied = score[rows] + 1e-9 * rng.normal(size=3000)
        truth = Membership(member[rows], "coins")
        drawn.append(measure(Scores(untied), truth).metrics[name].value)
    error = 4 / np.sqrt(2 * draws)  # of a standard deviation, farther off once in 15,000
    assert np.sqrt(np.square(found).sum()) == pytest.approx(np.std(drawn), rel=error)


def test_balanced_accuracy_moves_by_half_of_what_the_advantage_does() -> None:
    """It is (1 + advantage) / 2."""
    rng = np.random.default_rng(3)
    member = rng.random(200) < 0.5
    halved, whole = (
        influence(name, np.arange(200) + 50.0 * member, member)
        for name in ("balanced_accuracy", "advantage")
    )
    assert whole.any()
    np.testing.assert_allclose(2 * halved, whole, rtol=1e-12)


def test_tied_records_have_the_same_influence() -> None:
    rng = np.random.default_rng(1)
    member = rng.random(400) < 0.5
    score = np.round(rng.normal(size=400) + member)
    for name in ("auc", "tpr@0.1", "advantage"):
        found = influence(name, score, member)
        for level in np.unique(score):
            for group in (member, ~member):
                alike = found[(score == level) & group]
                assert np.ptp(alike) < 1e-12 if len(alike) else True


@pytest.mark.parametrize("models", [3, slow(4), slow(8)])
@pytest.mark.parametrize("leak", [0.0, 1.0])
def test_the_interval_of_the_mean_covers_the_truth(models: int, leak: float) -> None:
    """Student's own interval covers 83 to 89 % of them."""
    rng, found = np.random.default_rng(models), []
    for _ in range(400):
        phi, member = train(rng, models, leak)
        scores, members = lira(phi, member), list(member.T)
        values = [auc(*pair).value for pair in zip(scores, members, strict=True)]
        each = [influence("auc", *pair) for pair in zip(scores, members, strict=True)]
        found.append((values, covariance_between(each)))
    truth = np.mean([values for values, _ in found])
    covered, before = (
        np.mean([
            low <= truth <= high
            for low, high in (student_mean(v, covariance=used * c) for v, c in found)
        ])
        for used in (1.0, 0.0)
    )  # fmt: skip
    error = (0.95 * 0.05 / 400) ** 0.5
    assert abs(covered - 0.95) < 0.01 + 3 * error
    assert before < 0.92


@pytest.mark.slow
@pytest.mark.usefixtures("few_draws")
def test_false_alarms_of_mutual_shadows_are_as_rare_as_promised() -> None:
    rng, runs, models, blind = np.random.default_rng(3), 150, 6, np.array([False])
    fixed, again, merged = [], [], []
    for _ in range(runs):
        phi, member = train(rng, models)
        scores, members = [one[None] for one in lira(phi, member)], list(member.T)
        fixed.append(max_test_of_models(scores, members).p_value)
        again.append(joint_test(scores, members, blind, permute(rng, phi, member)).p_value)
        merged.append(joint_test(scores, members, blind, None).p_value)
    error = (0.05 * 0.95 / runs) ** 0.5
    assert np.mean(np.array(again) <= 0.05) <= 0.05 + 3 * error
    assert np.mean(np.array(merged) <= 0.05) <= 0.05 + 3 * error
    assert np.mean(np.array(fixed) <= 0.05) > 0.05 + 1.5 * error  # what is mended here


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(("leak", "merged_sees"), [(1.0, False), (2.0, True)])
def test_scoring_again_sees_smaller_leaks_than_merging(leak: float, merged_sees: bool) -> None:
    rng, blind = np.random.default_rng(4), np.array([False])
    phi, member = train(rng, 6, leak)
    scores, members = [one[None] for one in lira(phi, member)], list(member.T)
    assert joint_test(scores, members, blind, permute(rng, phi, member)).p_value == 0.05
    assert (joint_test(scores, members, blind, None).p_value <= 0.05) == merged_sees


def test_p_values_of_dependent_models_are_merged_by_half_of_them() -> None:
    rng = np.random.default_rng(5)
    members = [rng.random(200) < 0.5 for _ in range(3)]
    leaks = zip((0.0, 0.4, 0.4), members, strict=True)
    scores = [rng.normal(size=(2, 200)) + leak * member for leak, member in leaks]
    each = [max_test(*pair) for pair in zip(scores, members, strict=True)]
    found = joint_test(scores, members, np.array([False, False]), None)
    median = np.median([test.p for test in each], axis=0)
    np.testing.assert_allclose(found.p, np.minimum(1, 1.5 * median))
    usual = np.mean([test.critical for test in each])
    assert found.critical == pytest.approx((usual + further(1.5)) * 3**0.5, abs=1e-12)


def test_each_group_of_attacks_pays_by_its_share() -> None:
    rng = np.random.default_rng(6)
    members = [rng.random(200) < 0.5 for _ in range(2)]
    scores = [rng.normal(size=(3, 200)) + 0.3 * m for m in members]
    found = joint_test(scores, members, np.array([True, True, False]), None)
    alone = max_test_of_models([score[:2] for score in scores], members)
    np.testing.assert_allclose(found.p[:2], np.minimum(1, 1.5 * alone.p))
    merged = joint_test([score[2:] for score in scores], members, np.array([False]), None)
    np.testing.assert_allclose(found.p[2:], np.minimum(1, 3 * merged.p))
    both = alone.critical + further(1.5), merged.critical + further(3)
    assert found.critical == pytest.approx(min(both), abs=1e-12)


def test_attacks_that_read_no_other_model_are_tested_as_before() -> None:
    rng = np.random.default_rng(7)
    members = [rng.random(200) < 0.5 for _ in range(3)]
    scores = [rng.normal(size=(2, 200)) for _ in members]
    found, before = (
        joint_test(scores, members, np.array([True, True]), None),
        max_test_of_models(scores, members),
    )
    np.testing.assert_array_equal(found.p, before.p)
    np.testing.assert_array_equal(found.deviation, before.deviation)
    assert found.critical == before.critical
