"""Shaped items: what they do to updates, how far they move, and who can tell."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from divulge.attacks.interactions.baselines import RandomInteractions
from divulge.attacks.interactions.label_search import InteractionSearch
from divulge.attacks.interactions.raifle.attack import RAIFLE
from divulge.core import (
    Interactions,
    LocalTraining,
    ReceivedUpdate,
    Round,
    UpdateDefence,
    UpdateView,
)
from divulge.data import interactions, ranking
from divulge.defences.updates.secure_aggregation import SecureSum
from divulge.errors import DataError, NotApplicable, SpecError
from divulge.federation import server
from divulge.federation.client_checks import items
from divulge.federation.manipulation import features as manipulation_features
from divulge.federation.manipulation.features import Fingerprint, NoiseInjection
from divulge.federation.manipulation.pixels import PixelNoise
from divulge.federation.recommender.model import NeuralCF
from divulge.federation.recommender.users import Recommending
from divulge.federation.search import models
from divulge.federation.search.pairwise import Pairwise
from divulge.federation.search.pointwise import Pointwise
from divulge.metrics import interactions as metrics
from tests.golden import golden

RNG = np.random.default_rng(0)


def test_noise_has_its_scale_its_share_and_its_budget() -> None:
    x = RNG.normal(5, 1, size=(300, 10))
    free = NoiseInjection(0.1)(x, np.random.default_rng(0))
    assert free.std() == pytest.approx(0.1, rel=4 / np.sqrt(2 * x.size))  # four standard errors
    half = NoiseInjection(0.1, share=0.5)(x, np.random.default_rng(0))
    assert (half == x).all(axis=0).sum() == 5
    for budget in (0.0, 0.5, 3.0):
        near = NoiseInjection(0.1, budget=budget)(x, np.random.default_rng(0))
        assert np.linalg.norm(near - x, axis=1).max() <= budget + 1e-9
    np.testing.assert_array_equal(NoiseInjection(0.1, share=0.0)(x, RNG), x)


def test_the_scale_is_the_one_with_which_simulated_attacks_do_best() -> None:
    like = NoiseInjection(share=0.5, budget=7.0)
    found = manipulation_features.search_scale(
        [0.01, 0.1, 1.0], lambda n: -abs(n.scale - 0.2), like
    )
    pixels = PixelNoise(steps=7)
    assert manipulation_features.search_scale([2.0, 8.0], lambda n: n.scale, pixels) == PixelNoise(
        8.0, steps=7
    )
    assert found == NoiseInjection(0.1, 0.5, 7.0)
    with pytest.raises(SpecError, match="got none"):
        manipulation_features.search_scale([], lambda _: 0.0, like)


def masked(
    users: int, targets: int, hidden: int, features: int = 24
) -> tuple[Round, list[np.ndarray], list[np.ndarray], dict[str, torch.Tensor], Fingerprint]:
    """A secure sum of users who learn pointwise; the first of them are targets."""
    weights = models.ranker(features, hidden, torch.Generator().manual_seed(1))
    fingerprint = manipulation_features.divide_features(targets, features)
    rng = np.random.default_rng(2)
    handed, acted, results = [], [], {}
    for user in range(users):
        target = user if user < targets else None
        x = fingerprint(rng.normal(size=(6, features)), target)
        clicks = rng.permutation(np.arange(6) < 3)
        change = Pointwise().update(weights, torch.from_numpy(x), torch.from_numpy(clicks).double())
        handed.append(x)
        acted.append(clicks)
        results[user] = {name: value.numpy() for name, value in change.items()}
    sent = {name: w.numpy() for name, w in weights.items()}
    ones, promised = dict.fromkeys(range(users), 1), dict.fromkeys(range(users))
    received, total = server.exchange_updates(
        SecureSum(limit=1e4), 0, sent, results, ones, promised, 0
    )
    assert not received
    summed = Round(0, "update", sent, received, total, LocalTraining(lr=0.01))
    return summed, handed, acted, weights, fingerprint


@pytest.mark.parametrize(("targets", "hidden"), [(1, 0), (1, 3), (2, 0), (3, 0), (2, 5)])
def test_fingerprints_single_out_users_of_a_secure_sum(targets: int, hidden: int) -> None:
    summed, handed, acted, _, fingerprint = masked(5, targets, hidden)
    for target in range(targets):
        seen = manipulation_features.isolate_target(summed, 1 / 5, fingerprint, target, "t")
        view = UpdateView("t", (seen,), inputs=handed[target], learner=Pointwise())
        guess = RAIFLE()(view, np.random.default_rng(0))
        assert metrics.measure_user(guess, Interactions(acted[target])).f1 == 1.0
    with pytest.raises(NotApplicable, match="with a secure sum"):
        manipulation_features.isolate_target(seen, 1 / 5, fingerprint, 0, "t")


def test_a_fingerprint_tells_whether_an_item_was_retrieved() -> None:
    weights = models.ranker(6, 4, torch.Generator().manual_seed(3))
    for present in (True, False):
        x = np.random.default_rng(4).normal(size=(8, 6))
        x[:, 2] = 0.0
        if present:
            x[3, 2] = 1.0
        clicks = torch.from_numpy(np.arange(8) % 2).double()
        change = Pairwise(np.zeros(8, np.int64)).update(weights, torch.from_numpy(x), clicks)
        update = change[models.HIDDEN].numpy()
        assert manipulation_features.was_retrieved(update, 2) is present
    quiet = np.random.default_rng(5)
    alarms = [
        manipulation_features.was_retrieved(quiet.normal(size=(4, 6)), 2, 1.0) for _ in range(400)
    ]
    assert 0.02 < np.mean(alarms) < 0.09


def lists(count: int, seed: int) -> list[np.ndarray]:
    found = ranking.synthetic_queries(count, 12, np.random.default_rng(seed))
    return [found.x[part] for part in found.of_each()]


def test_a_client_tells_shaped_items_from_honest_ones() -> None:
    check = items.learn_check(lists(400, 0))
    rate = items.flag_rate(check, lists(400, 1))
    assert rate.low < 0.05
    assert rate.value < 0.12
    noise, fingerprint = NoiseInjection(0.1), manipulation_features.divide_features(2, 12)
    for one in lists(30, 2):
        assert "deviations off" in " ".join(check(noise(one, RNG)))
        assert "constant" in " ".join(check(fingerprint(one, 0)))
    with pytest.raises(DataError, match="38 honest lists"):
        items.learn_check(lists(37, 0))
    with pytest.raises(DataError, match="12 features, got 3"):
        check(np.zeros((4, 3)))
    with pytest.raises(DataError, match="got none"):
        items.flag_rate(check, [])


def test_honest_lists_are_called_odd_as_seldom_as_was_asked() -> None:
    """Over 300 checks of 38 lists each, the limit being the largest oddness of 19 honest lists."""
    rng = np.random.default_rng(0)

    def heavy(count: int) -> list[np.ndarray]:
        return [rng.standard_t(3, (8, 5)) for _ in range(count)]

    alarms = sum(bool(items.learn_check(heavy(38))(heavy(1)[0])) for _ in range(300))
    assert stats.binomtest(alarms, 300, 0.05, alternative="greater").pvalue > 1e-3
    assert alarms > 0  # and a limit that nothing exceeds would be none


def test_a_detector_is_measured_on_lists_that_it_was_not_learnt_from() -> None:
    check, honest, noise = items.learn_check(lists(400, 0)), lists(60, 1), NoiseInjection(0.1)
    found = items.measure_detection(check, honest, [noise(one, RNG) for one in lists(40, 2)])
    assert found.auc.value > 0.99
    assert found.caught.value == 1.0
    assert 0.05 in found.alarms
    assert (found.roc.fpr[0], found.roc.tpr[-1]) == (0.0, 1.0)
    nothing = items.measure_detection(check, honest, lists(60, 3))
    assert 0.5 in nothing.auc
    with pytest.raises(DataError, match="60 and 0"):
        items.measure_detection(check, honest, [])


def test_noise_with_the_means_and_spreads_of_honest_features_is_seen_by_its_independence() -> None:
    # 40 items whose 12 features have three causes in common
    rng = np.random.default_rng(0)
    causes = rng.normal(size=(3, 12))
    honest = [rng.normal(size=(40, 3)) @ causes for _ in range(200)]
    check = items.learn_check(honest[:120])
    every = np.concatenate(honest[:120])
    shaped = [rng.normal(every.mean(axis=0), every.std(axis=0), (40, 12)) for _ in range(40)]
    odd = [check(one) for one in shaped]
    assert all("correlate" in " ".join(words) for words in odd)
    assert items.measure_detection(check, honest[120:], shaped).auc.value > 0.99
    assert check.constant.oddness(0.5) == pytest.approx(6.0)  # six of twelve features
    assert check.constant.oddness(0.0) == 0.0


def test_the_search_finds_some_and_the_coin_nothing() -> None:
    log = interactions.synthetic_interactions(15, 60, np.random.default_rng(0), mean=6.0)
    world = Recommending(log, NeuralCF(width=8, hidden=(16,), epochs=6))
    games = list(world.challenges(range(15), UpdateDefence()))
    figures = {
        attack.name: metrics.mean_over_users(
            [
                metrics.measure_user(attack(game.view, np.random.default_rng(i)), game.truth).auc
                for i, game in enumerate(games)
            ]
        )
        for attack in (InteractionSearch(), RandomInteractions(), RAIFLE())
    }
    assert 0.5 in figures["random-interactions"]
    assert figures["interaction-search"].value == golden(0.8515)
    high = figures["interaction-search"].high
    assert high is not None
    assert figures["raifle"].value > high


def test_what_makes_no_sense_is_refused() -> None:
    for make in (
        lambda: NoiseInjection(scale=0.0),
        lambda: NoiseInjection(share=1.5),
        lambda: NoiseInjection(budget=-1.0),
        lambda: NoiseInjection(scale=math.nan),
        lambda: Fingerprint(()),
        lambda: Fingerprint((-1, -1)),
        lambda: Fingerprint((0, -2)),
        lambda: manipulation_features.divide_features(4, 3),
        lambda: InteractionSearch(tries=0),
        lambda: InteractionSearch(kept=1.0),
    ):
        with pytest.raises(SpecError):
            make()
    one = np.zeros((2, 3))
    seen = Round(0, "update", {}, {"0": ReceivedUpdate({"w": np.zeros(3)}, 2)})
    with pytest.raises(NotApplicable, match="no learner"):
        InteractionSearch()(UpdateView("0", (seen,), inputs=one), RNG)
