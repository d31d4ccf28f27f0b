import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score, roc_curve

from divulge.core import Estimate
from divulge.errors import DataError
from divulge.metrics import membership
from divulge.metrics.auc_intervals import areas
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
    # NumPy takes the last of several corners at one FPR, which has the highest TPR
    assert estimate.value == pytest.approx(np.interp(fpr + 1e-12, fprs, tprs), abs=1e-9)
    assert estimate.low <= estimate.value + 1e-12
    assert estimate.high is not None
    assert estimate.value <= estimate.high + 1e-12


@pytest.mark.parametrize("fpr", [0.1, 0.01, 0.033])
@pytest.mark.parametrize(("members", "nonmembers"), [(400, 400), (90, 700)])
def test_without_ties_the_interval_is_that_of_the_highest_threshold_allowed(
    fpr: float, members: int, nonmembers: int
) -> None:
    """What stood in reports before ties were shared out, where no scores tie."""
    rng = np.random.default_rng(0)
    member = np.arange(members + nonmembers) < members
    score = rng.normal(size=len(member)) + member
    outside = np.sort(score[~member])

    def recognised(alarms: int) -> float:
        return 0.0 if alarms < 0 else float(np.mean(score[member] > outside[-1 - alarms]))

    value = recognised(math.floor(fpr * nonmembers + 1e-9))
    few, many = (int(stats.binom.ppf(at, nonmembers, fpr)) for at in (0.025, 0.975))
    hits = round(value * members)
    exact = (
        stats.beta.ppf(0.025, hits, members - hits + 1),
        stats.beta.ppf(0.975, hits + 1, members - hits),
    )
    estimate = membership.tpr_at_fpr(score, member, fpr)
    assert estimate.value == pytest.approx(value)
    assert estimate.low == pytest.approx(
        max(0.0, value - math.hypot(value - exact[0], value - recognised(few - 1)))
    )
    assert estimate.high == pytest.approx(
        value + math.hypot(exact[1] - value, recognised(many) - value)
    )


def test_a_large_tie_at_the_top_is_shared_out_by_coins() -> None:
    """A forest with 40 % of its answers exactly one was said to give away nothing."""
    member = np.arange(2000) < 1000
    score = np.where(member, np.arange(2000) % 10 < 5, np.arange(2000) % 10 < 3).astype(float)
    estimate = membership.tpr_at_fpr(score, member, 0.01)
    assert estimate.value == pytest.approx(0.01 * 0.5 / 0.3)
    assert 0 < estimate.low < 0.01 * 0.5 / 0.3
    assert estimate.high is not None
    assert 0.01 * 0.5 / 0.3 < estimate.high < 0.04


def test_coins_tossed_for_tied_records_come_to_the_value_on_average() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(600) < 200
    score = rng.integers(0, 6, 600) + 1.0 * member
    broken = [
        membership.tpr_at_fpr(score + 0.5 * rng.random(600), member, 0.1).value for _ in range(400)
    ]
    error = np.std(broken) / math.sqrt(len(broken))
    value = membership.tpr_at_fpr(score, member, 0.1).value
    # a coin that falls on a member at the very edge accuses it with no non-member more
    assert abs(np.mean(broken) - value) < 4 * error + 1 / 200


def test_a_band_is_made_of_the_intervals_of_its_points() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(900) < 300
    score = np.round(rng.normal(size=900) + member, 1)
    rates = np.array([0.1, 0.0123, 0.5, 1.0])
    assert membership.tpr_at_fprs(score, member, rates) == [
        membership.tpr_at_fpr(score, member, rate) for rate in rates.tolist()
    ]


@pytest.mark.parametrize("fpr", [0.3, 0.1, 0.03, 0.01, 0.001])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.9979])
def test_the_fewest_non_members_are_those_whose_count_above_the_threshold_is_not_0(
    fpr: float, confidence: float
) -> None:
    fewest = membership.fewest_nonmembers(fpr, confidence)
    tail = (1 - confidence) / 2
    assert stats.binom.ppf(tail, fewest, fpr) >= 1
    assert stats.binom.ppf(tail, fewest - 1, fpr) == 0


@pytest.mark.parametrize(("nonmembers", "low"), [(367, 0.0), (368, 0.98)])
def test_perfect_separation_has_a_lower_limit_from_the_fewest_non_members_on(
    nonmembers: int, low: float
) -> None:
    member = np.arange(200 + nonmembers) < 200
    estimate = membership.tpr_at_fpr(member.astype(float), member, 0.01)
    assert (estimate.value, estimate.high) == (1.0, 1.0)
    assert low <= estimate.low <= low + 0.01
    assert bool(membership.missing_lower_limit(nonmembers, 0.01)) == (nonmembers < 368)


@given(games())
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


MANY = np.random.default_rng(0)
TWO_MEMBERS = np.arange(9) < 2


@pytest.mark.parametrize(
    ("score", "member"),
    [
        (np.round(MANY.normal(size=60), 1), MANY.random(60) < 0.4),
        (np.array([6.0, 2.0, 5.0, 5.0, 2.0, 2.0, 4.0, 2.0, 2.0]), TWO_MEMBERS),
        (-np.array([6.0, 2.0, 5.0, 5.0, 2.0, 2.0, 4.0, 2.0, 2.0]), ~TWO_MEMBERS),
    ],
    ids=["many", "two members", "two non-members"],
)
def test_the_interval_is_delong_s_joined_with_that_of_four_more_records(
    score: np.ndarray, member: np.ndarray
) -> None:
    own = naive_interval(score, member)
    ends = [score.min(), score.max(), score.min(), score.max()]
    wider = naive_interval(np.append(score, ends), np.append(member, [True, True, False, False]))
    estimate = membership.auc(score, member)
    assert estimate.low == pytest.approx(min(own[0], wider[0]), abs=1e-6)
    assert estimate.high == pytest.approx(max(own[1], wider[1]), abs=1e-6)


@given(games(), st.integers(1, 5))
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
