"""What users acted on: the test keeps its error, also where items are alike, and finds leaks."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from divulge.core import Interactions, Reconstruction
from divulge.metrics import interactions as metrics
from divulge.metrics.uninformed import draws, interactions
from divulge.metrics.uninformed.draws import RandomisationTest

ITEMS, ACTED, ATTACKS = 30, 6, 3


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is kept with any number of draws; with 99 a test is quick."""
    monkeypatch.setattr(draws, "_MOST", 99)
    monkeypatch.setattr(draws, "_FEWEST", 99)


def audited(rng: np.random.Generator, users: int, shift: float) -> RandomisationTest:
    """Three correlated attacks that score what was acted on higher by some deviations."""
    truth, guesses = [], [list[Reconstruction]() for _ in range(ATTACKS)]
    for _ in range(users):
        acted = rng.permutation(np.arange(ITEMS) < ACTED)
        truth.append(Interactions(acted))
        common = rng.normal(size=ITEMS)
        for guess in guesses:
            score = norm.cdf(0.9 * common + 0.45 * rng.normal(size=ITEMS) + shift * acted)
            guess.append(Reconstruction(score, score > 0.5))
    return interactions.randomise([*guesses, None], truth, rng)


@pytest.mark.parametrize("users", [1, 4, 5, 20])
def test_it_errs_in_one_of_twenty_audits(users: int) -> None:
    rng, audits = np.random.default_rng(users), 300
    found = sum(audited(rng, users, 0.0).p <= 0.05 for _ in range(audits))
    assert found <= binom.isf(1e-3, audits, 0.05)


@pytest.mark.parametrize(("users", "shift"), [(1, 2.0), (4, 0.9), (10, 0.5), (40, 0.25)])
def test_it_finds_moderate_leaks(users: int, shift: float) -> None:
    rng, audits = np.random.default_rng(users), 100
    found = sum(audited(rng, users, shift).p <= 0.05 for _ in range(audits))
    # measured .9 and more: with .85 a count below this comes about once in a thousand tests
    assert found >= binom.ppf(1e-3, audits, 0.85)


def test_guesses_that_follow_features_at_random_are_no_find() -> None:
    """Users act by two features; a guess that knows nothing follows a direction of its own.

    Items are no longer exchangeable within users: that way alone errs far too often.
    """
    rng, audits, users = np.random.default_rng(2), 200, 12
    found = within = 0
    for _ in range(audits):
        truth, guess = [], []
        for _ in range(users):
            features = rng.normal(size=(60, 2))
            liked = features @ [1.0, 0.5] + 0.5 * rng.normal(size=60)
            truth.append(Interactions(liked > np.quantile(liked, 0.8)))
            score = norm.cdf(features @ rng.normal(size=2))
            guess.append(Reconstruction(score, score > 0.5))
        made = interactions.randomise([guess], truth, rng)
        found += made.p <= 0.05
        within += RandomisationTest(made.columns, made.draws[:1], made.smallest).p <= 0.05
    assert found <= binom.isf(1e-3, audits, 0.05)
    assert within > binom.isf(1e-9, audits, 0.05)


def test_what_could_be_found_is_found_in_four_of_five_audits() -> None:
    """The size that a page names, at chance: there the power is .8 by construction."""
    rng, users, audits = np.random.default_rng(3), 20, 200
    needed = [audited(rng, users, 0.0).detectable_value("auc") for _ in range(20)]
    size = float(np.mean([one for one in needed if one is not None]))
    # an AUC a of two normal scores lies at a shift of sqrt(2) times its quantile
    shift = float(np.sqrt(2) * norm.ppf(size))
    found = sum(audited(rng, users, shift).p <= 0.05 for _ in range(audits))
    # 99 draws leave the limit of each test uncertain, which costs a few hundredths
    assert binom.ppf(1e-3, audits, 0.75) <= found <= binom.isf(1e-3, audits, 0.88)


def test_the_statistic_is_the_metric_and_ties_count_half() -> None:
    rng = np.random.default_rng(0)
    truth = [Interactions(rng.permutation(np.arange(9) < 3)) for _ in range(4)]
    truth = [*truth, Interactions(np.ones(5, bool))]  # left out
    score = [rng.integers(0, 3, len(one.acted)) / 2 for one in truth]
    guess = [Reconstruction(one, one > 0.5) for one in score]
    found = interactions.randomise([None, guess], truth, rng)
    assert found.columns == ((1, "auc"),)
    auc = metrics.measure(guess, truth).metrics["auc"].value
    assert found.observed_value(1, "auc") == pytest.approx(auc)
    assert found.smallest == pytest.approx(84.0**-4)


def test_where_no_user_acted_on_some_there_is_nothing_to_test() -> None:
    truth = [Interactions(np.zeros(5, bool))]
    guess = [Reconstruction(np.zeros(5), np.zeros(5, bool))]
    found = interactions.randomise([guess], truth, np.random.default_rng(0))
    assert found.p == found.smallest == 1.0


def test_signs_of_few_users_are_all_taken() -> None:
    truth = [Interactions(np.arange(20) < 5)] * 5
    guess = [Reconstruction(np.linspace(1, 0, 20), np.arange(20) < 5)] * 5
    found = interactions.randomise([guess], truth, np.random.default_rng(0))
    assert len(found.draws[1]) == 32
    assert found.p == found.smallest == 1 / 32
