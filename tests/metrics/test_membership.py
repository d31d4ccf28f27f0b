import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from divulge.core import Estimate
from divulge.errors import DataError
from divulge.metrics import membership
from divulge.metrics.delong import areas
from divulge.metrics.membership import Unmeasurable

from . import naive


@st.composite
def games(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Scores with many ties, and a membership with both groups."""
    n = draw(st.integers(4, 60))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    levels = draw(st.sampled_from([1, 2, 3, 10, 10_000]))
    member = rng.random(n) < draw(st.sampled_from([0.2, 0.5, 0.8]))
    member[:2] = True, False
    return rng.integers(0, levels, n) + member * draw(st.sampled_from([0.0, 1.0])), member


@given(games())
@settings(deadline=None)
def test_auc_and_roc_agree_with_scikit_learn_and_the_naive_twin(
    game: tuple[np.ndarray, np.ndarray],
) -> None:
    score, member = game
    value = membership.auc(score, member).value
    assert value == pytest.approx(roc_auc_score(member, score), abs=1e-12)
    assert value == pytest.approx(naive.auc(score, member), abs=1e-12)
    fpr, tpr, threshold = roc_curve(member, score, drop_intermediate=False)
    curve = membership.roc(score, member)
    np.testing.assert_allclose(curve.fpr, fpr)
    np.testing.assert_allclose(curve.tpr, tpr)
    np.testing.assert_allclose(curve.threshold, threshold)


@given(games(), st.sampled_from([0.5, 0.25, 0.1]))
@settings(deadline=None)
def test_tpr_agrees_with_scikit_learn_and_the_naive_twin(
    game: tuple[np.ndarray, np.ndarray], fpr: float
) -> None:
    score, member = game
    if fpr * (~member).sum() < 1:
        with pytest.raises(Unmeasurable, match="non-members can show"):
            membership.tpr_at_fpr(score, member, fpr)
        return
    estimate = membership.tpr_at_fpr(score, member, fpr)
    assert estimate.value == pytest.approx(naive.tpr_at_fpr(score, member, fpr), abs=1e-12)
    fprs, tprs, _ = roc_curve(member, score, drop_intermediate=False)
    assert estimate.value == pytest.approx(tprs[fprs <= fpr + 1e-12].max(), abs=1e-12)
    assert estimate.value in estimate


@given(games())
@settings(deadline=None)
def test_every_estimate_contains_its_value_and_ignores_the_order_of_records(
    game: tuple[np.ndarray, np.ndarray],
) -> None:
    score, member = game
    order = np.random.default_rng(0).permutation(len(score))
    for estimate, again in (
        (membership.auc(score, member), membership.auc(score[order], member[order])),
        (
            membership.tpr_at_fpr(score, member, 1.0),
            membership.tpr_at_fpr(score[order], member[order], 1.0),
        ),
    ):
        assert estimate.high is not None
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
        assert again.value == pytest.approx(estimate.value, abs=1e-12)


def naive_interval(score: np.ndarray, member: np.ndarray) -> tuple[float, float]:
    value = naive.auc(score, member)
    spread = 1.959964 * math.sqrt(naive.delong_variance(score, member)) / (value * (1 - value))
    centre = math.log(value / (1 - value))
    return 1 / (1 + math.exp(-(centre - spread))), 1 / (1 + math.exp(-(centre + spread)))


def test_the_interval_is_delong_s_joined_with_that_of_four_more_records() -> None:
    rng = np.random.default_rng(0)
    score = np.round(rng.normal(size=60), 1)
    member = rng.random(60) < 0.4
    own = naive_interval(score, member)
    ends = [score.min(), score.max(), score.min(), score.max()]
    wider = naive_interval(np.append(score, ends), np.append(member, [True, True, False, False]))
    estimate = membership.auc(score, member)
    assert estimate.low == pytest.approx(min(own[0], wider[0]), abs=1e-6)
    assert estimate.high == pytest.approx(max(own[1], wider[1]), abs=1e-6)


@given(games(), st.integers(1, 5))
@settings(deadline=None)
def test_many_splits_at_once_come_out_as_each_alone(
    game: tuple[np.ndarray, np.ndarray], splits: int
) -> None:
    score, member = game
    rng = np.random.default_rng(0)
    members = np.array([rng.permutation(member) for _ in range(splits)])
    together = areas(score, members)
    for own, *found in zip(members, *together, strict=True):
        alone = membership.auc(score, own)
        assert found == pytest.approx([alone.value, alone.low, alone.high], abs=1e-12)


@pytest.mark.parametrize(
    ("members", "nonmembers", "errors"), [(200, 800, 6), (100, 900, 20), (50, 50, 5), (500, 500, 5)]
)
@pytest.mark.parametrize("confidence", [0.95, 0.9975])
def test_few_errors_of_a_two_valued_score_are_no_leak(
    members: int, nonmembers: int, errors: int, confidence: float
) -> None:
    """A model that is right nearly always, about members and non-members alike."""
    rng = np.random.default_rng(0)
    runs, size = 400, members + nonmembers
    member = np.arange(size) < members
    missed = sum(
        0.5 not in membership.auc((rng.random(size) > errors / size) + 0.0, member, confidence)
        for _ in range(runs)
    )
    allowed = (1 - confidence) * runs
    assert missed <= allowed + 3 * math.sqrt(allowed)


@pytest.mark.parametrize("separation", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("size", [30, 300])
def test_the_interval_covers_a_known_auc(separation: float, size: int) -> None:
    rng = np.random.default_rng(0)
    truth = 0.5 * math.erfc(-separation / 2)
    member = np.arange(2 * size) < size
    runs = 300
    covered = sum(
        truth in membership.auc(rng.normal(size=2 * size) + separation * member, member)
        for _ in range(runs)
    )
    assert covered / runs > 0.95 - 3 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize(
    "score", [[3.0, 2.0, 1.0, 0.0], [0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0]]
)
def test_an_interval_never_shrinks_to_a_point(score: list[float]) -> None:
    member = np.array([True, True, False, False])
    estimate = membership.auc(np.array(score), member)
    assert estimate.high is not None
    assert estimate.high - estimate.low > 0.3
    assert estimate.value in estimate


def test_precision_follows_bayes_rule() -> None:
    tpr = Estimate(0.2, 0.1, 0.4)
    estimate = membership.precision_at_fpr(tpr, fpr=0.01, prior=0.1)
    assert estimate.value == pytest.approx(0.1 * 0.2 / (0.1 * 0.2 + 0.9 * 0.01))
    assert estimate.low == pytest.approx(0.01 / (0.01 + 0.009))
    assert estimate.high == pytest.approx(0.04 / (0.04 + 0.009))


def test_advantage_of_a_known_shift() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(20_000) < 10_000
    estimate = membership.advantage(rng.normal(size=20_000) + member, member)
    truth = 2 * 0.6914625 - 1  # Phi(1/2) at the best threshold, midway
    assert truth in estimate
    assert membership.balanced_accuracy(estimate).value == pytest.approx((1 + estimate.value) / 2)


def test_advantage_needs_two_of_each() -> None:
    with pytest.raises(Unmeasurable, match="two of each"):
        membership.advantage(np.arange(3.0), np.array([True, False, False]))


@pytest.mark.parametrize(
    ("score", "member", "message"),
    [
        ([1.0, math.nan], [True, False], "NaN"),
        ([1.0, math.inf], [True, False], "infinite"),
        ([1.0, 2.0], [True, True], "2 and 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    score: list[float], member: list[bool], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        membership.auc(np.array(score), np.array(member))
