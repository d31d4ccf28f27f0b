"""The way that simulated trainings move items is shared by all users of a network."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from divulge.attacks.interactions.raifle import embedding
from divulge.attacks.interactions.raifle.attack import RAIFLE
from divulge.attacks.shared.simulated_user import SimulatedUser
from divulge.core import Round, UpdateView
from divulge.data import interactions
from divulge.federation.recommender.model import NeuralCF
from divulge.federation.recommender.users import Recommending
from divulge.metrics import interactions as metrics
from divulge.testing.items import NONE


class _Known:
    """Rows move along known directions: forward where acted on, backward where left alone."""

    private = 2

    def __init__(self, ways: np.ndarray) -> None:
        self.ways = torch.from_numpy(ways)

    def update(
        self, sent: Any, items: Any, interactions: Any, private: Any = None
    ) -> dict[str, Any]:
        del sent, items
        return {"items": (interactions[:, None] - 0.3) * self.ways * private.square().sum()}


def test_rehearsals_find_the_way_that_acting_on_an_item_moves_it() -> None:
    rng = np.random.default_rng(0)
    ways, acted = rng.normal(size=(40, 3)), rng.random(40) < 0.2
    sent = {"items": np.zeros((40, 3))}
    learner = _Known(ways)
    view = UpdateView("0", (Round(0, "update", sent, {}),), inputs=sent["items"], learner=learner)
    moved = (acted[:, None] - 0.3) * ways
    user = SimulatedUser(learner, view, "items")
    (found,) = embedding.item_ways(user, [sent["items"] + np.arange(40)[:, None]], rng)
    np.testing.assert_array_equal((moved * found).sum(1) > 0, acted)


def test_users_of_one_network_share_simulated_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their answers are those of each alone; users of another network have trainings of theirs."""
    calls = []
    simulate = SimulatedUser.simulate_movements

    def counted(user: SimulatedUser, *given: Any) -> np.ndarray:
        calls.append(len(given[0]))
        return simulate(user, *given)

    monkeypatch.setattr(SimulatedUser, "simulate_movements", counted)
    log = interactions.synthetic_interactions(9, 300, np.random.default_rng(0), mean=20.0)
    learner = NeuralCF(width=64, hidden=(16,), epochs=3)
    worlds = [Recommending(log, learner, embeddings_only=True, seed=seed) for seed in (0, 1)]
    views = [game.view for world in worlds for game in world.challenges(range(9), NONE)]
    for view in views:
        moved = view.rounds[0].change(view.victim)["items"].astype(float)
        assert embedding.main_direction_signal(moved).clear
    together = list(RAIFLE().many(views, np.random.default_rng(0)))
    assert calls == [embedding.SIMULATIONS] * 2
    for view, guess in zip(views, together, strict=True):
        alone = RAIFLE()(view, np.random.default_rng(1))
        np.testing.assert_array_equal(guess.score, alone.score)


def test_under_noise_shared_trainings_tell_as_much_as_those_of_a_users_own_list() -> None:
    """Noise of 4 times a row's movement, 24 users of 100 of 400 items: less than .02 is lost."""
    rng = np.random.default_rng(0)
    items = np.concatenate([rng.choice(400, 20, replace=False) for _ in range(24)])
    log = interactions.InteractionLog(np.repeat(np.arange(24), 20), items, 24, 400)
    learner = NeuralCF(width=16, hidden=(32, 16), epochs=5)
    world = Recommending(log, learner, embeddings_only=True)
    views, truths = [], []
    for number, game in enumerate(world.challenges(range(24), NONE)):
        (seen,) = game.view.rounds
        change, rng = seen.change(game.view.victim)["items"], np.random.default_rng(number)
        spread = 4 * np.linalg.norm(change, axis=1).mean() / change.shape[1] ** 0.5
        noisy = {"items": change + rng.normal(0, spread, change.shape).astype(change.dtype)}
        got = dataclasses.replace(seen.received[game.view.victim], tensors=noisy)
        seen = dataclasses.replace(seen, received={game.view.victim: got})
        views.append(dataclasses.replace(game.view, rounds=(seen,)))
        truths.append(game.truth)
    rng = np.random.default_rng(0)
    alone = [RAIFLE()(view, rng) for view in views]
    together = list(RAIFLE().many(views, rng))
    assert all("hardly more than noise" in guess.how for guess in together)
    own, shared = (
        np.array([metrics.measure_user(g, t).auc for g, t in zip(guesses, truths, strict=True)])
        for guesses in (alone, together)
    )
    assert own.mean() > 0.7
    assert stats.ttest_1samp(shared - own, 0.0).confidence_interval().low > -0.02


def test_each_item_of_several_lists_is_trained_on_as_often() -> None:
    """Three lists that overlap; the way of an item is that of its row, in whichever list."""

    class Numbered(_Known):
        """The first number of an item's row is which item it is."""

        def update(self, sent: Any, items: Any, interactions: Any, private: Any = None) -> Any:
            del sent, private
            number = items[:, 0].long()
            shown.append(number)
            return {"items": (interactions - 0.2)[:, None] * self.ways[number]}

    shown: list[torch.Tensor] = []
    rng = np.random.default_rng(0)
    learner = Numbered(rng.normal(size=(30, 3)))
    table = np.arange(30.0)[:, None] * np.ones(3)
    lists = [table[:10], table[5:15], table[9:30]]
    view = UpdateView("0", (Round(0, "update", {}, {}),), inputs=table, learner=learner)
    found = embedding.item_ways(SimulatedUser(learner, view, "items"), lists, rng)
    counts = torch.cat(shown).bincount()
    assert (counts >= embedding.SIMULATIONS).all()
    assert counts.sum() == embedding.SIMULATIONS * 30  # three lists of the median, 10, make all
    for rows, ways in zip(lists, found, strict=True):
        known = learner.ways.numpy()[rows[:, 0].astype(int)]
        cosine = (
            (ways * known).sum(1) / np.linalg.norm(ways, axis=1) / np.linalg.norm(known, axis=1)
        )
        np.testing.assert_allclose(cosine, 1.0)
