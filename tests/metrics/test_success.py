"""How well each person is told apart over models: exact tests, valid limits, honest lists."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from divulge.metrics import success
from tests.slow import slow


def draw(rng: np.random.Generator, models: int, people: int) -> np.ndarray:
    return rng.random((models, people)) < 0.5


def test_success_counts_pairs_of_models_with_and_without() -> None:
    member = np.array([[True, True], [True, True], [False, True], [False, True]])
    scores = np.array([[3.0, 1.0], [1.0, 2.0], [1.0, 3.0], [0.0, 4.0]])
    found = success.success_per_person(scores, member)
    assert found.inside.tolist() == [2, 4]
    assert found.outside.tolist() == [2, 0]
    assert found.success[0] == 3.5 / 4
    assert np.isnan(found.success[1])
    assert (found.low[1], found.high[1], found.p[1]) == (0.0, 1.0, 1.0)
    # the tie counts for the model without: 3 of 4 pairs or more in 2 of 6 choices
    assert found.p[0] == 2 / 6
    assert found.mean.value == 3.5 / 4


@pytest.mark.parametrize(("inside", "outside"), [(1, 4), (3, 3), (4, 2), (5, 6)])
def test_the_rank_sum_test_is_that_of_all_choices(inside: int, outside: int) -> None:
    models = range(inside + outside)
    every = [
        sum(a > b for a in chosen for b in models if b not in chosen)
        for chosen in itertools.combinations(models, inside)
    ]
    for right in range(inside * outside + 1):
        expected = np.mean([one >= right for one in every])
        assert success.rank_sum_p(right, inside, outside) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("ties", [False, slow(True)])
def test_p_values_are_no_lower_than_chance_whatever_models_share(*, ties: bool) -> None:
    """All people of a model score alike: p-values of people then depend on each other."""
    rng = np.random.default_rng(0)
    p = []
    for _ in range(400):
        scores = rng.standard_t(1, size=(10, 1)) + 0.1 * rng.normal(size=(10, 20))
        scores = np.round(scores) if ties else scores
        p.append(success.success_per_person(scores, draw(rng, 10, 20)).p)
    found = np.concatenate(p)
    for level in (0.01, 0.05, 0.2):
        # coins are independent, so 8,000 draws: four standard errors
        assert np.mean(found <= level) <= level + 4 * math.sqrt(level * (1 - level) / 8000)
    if not ties:  # and no test that never rejects
        assert np.mean(found <= 0.2) > 0.12


@pytest.mark.slow
def test_lists_keep_the_rate_where_some_people_are_exposed() -> None:
    rng = np.random.default_rng(1)
    exposed = np.arange(40) < 10
    false, listed = [], 0
    for _ in range(200):
        member = draw(rng, 20, 40)
        scores = rng.normal(size=(20, 1)) + 0.5 * rng.normal(size=(20, 40))
        scores += 10 * (member & exposed)
        chosen = success.success_per_person(scores, member).q <= 0.1
        false.append((chosen & ~exposed).sum() / max(1, chosen.sum()))
        listed += int((chosen & exposed).sum())
    assert np.mean(false) <= 0.1
    assert listed > 0.8 * 200 * 10


@pytest.mark.parametrize("shift", [0.0, 1.0, 2.5])
def test_limits_cover_the_success(shift: float) -> None:
    rng = np.random.default_rng(2)
    truth = float(stats.norm.cdf(shift / math.sqrt(2)))
    member = draw(rng, 16, 2000)
    found = success.success_per_person(rng.normal(size=(16, 2000)) + shift * member, member)
    inside = (found.low <= truth) & (truth <= found.high)
    assert inside.mean() >= 0.95
    assert (found.low <= np.nan_to_num(found.success)).all()
    assert (np.nan_to_num(found.success) <= found.high).all()


def test_limits_hold_for_scores_that_make_the_bound_tight() -> None:
    """Where only few models vary, all pairs are right as often as so many independent ones."""
    rng = np.random.default_rng(3)
    member = np.arange(24)[:, None] < np.full(3000, 6)
    wrong = rng.random((24, 3000)) < 0.5
    scores = np.where(member, np.where(wrong, -1.0, 1.0), 0.0)
    found = success.success_per_person(scores, member)
    assert 0.01 < np.mean(found.low > 0.5) <= 0.025
    assert found.low.max() == pytest.approx(0.025 ** (1 / 6))


@pytest.mark.slow
def test_near_certainty_is_not_listed_for_success_below_it() -> None:
    rng = np.random.default_rng(4)
    truth = success.NEAR_CERTAIN
    shift = float(stats.norm.ppf(truth)) * math.sqrt(2)
    some = 0
    for _ in range(60):
        member = draw(rng, 120, 30)
        scores = rng.normal(size=(120, 30)) + shift * member
        some += bool((success.success_per_person(scores, member).q_certain <= 0.1).any())
    assert some <= 0.1 * 60


@pytest.mark.slow
def test_the_mean_over_people_is_one_of_models() -> None:
    """Models that differ as a whole move everybody: the interval allows for it."""
    rng = np.random.default_rng(5)
    shift, inside = 1.0, 0
    truth = float(stats.norm.cdf(shift / math.sqrt(2 * 2)))
    for _ in range(120):
        member = draw(rng, 12, 60)
        scores = rng.normal(size=(12, 1)) + rng.normal(size=(12, 60)) + shift * member
        mean = success.success_per_person(scores, member).mean
        assert mean.high is not None
        inside += mean.low <= truth <= mean.high
    # 95 % of 120 less four standard errors
    assert inside >= 0.95 * 120 - 4 * math.sqrt(0.95 * 0.05 * 120)


@pytest.mark.parametrize(
    ("people", "listed", "q"), [slow(200, 1, 0.1), (60, 1, 0.1), (200, 200, 0.1), (30, 3, 0.05)]
)
def test_as_many_models_as_are_needed_list_somebody_and_one_fewer_do_not(
    people: int, listed: int, q: float
) -> None:
    models = success.models_needed(people, listed, q)
    for count, enough in ((models, True), (models - 1, False)):
        member = np.arange(count)[:, None] < np.full(people, count // 2)
        top = np.arange(people) < listed
        scores = np.where(member & top, 1.0, -member.astype(float)) + np.arange(count)[:, None] / 99
        found = success.success_per_person(scores, member)
        assert int((found.q <= q).sum()) == (listed if enough else 0)
        fewest = success.fewest_listed(found, q)
        assert (fewest is not None and fewest <= listed) == enough
    certain = success.models_needed_for_certainty(people, listed, q)
    for count, enough in ((certain, True), (certain - 2, False)):
        member = np.arange(count)[:, None] < np.full(people, count // 2)
        found = success.success_per_person(member * 1.0, member)
        fewest = success.fewest_certain(found, q)
        assert (fewest is not None and fewest <= listed) == enough
