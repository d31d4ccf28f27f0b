"""The small federations of `divulge check` are what their docstring says, number by number."""

import numpy as np
import pytest

from divulge.core import NOBODY, FederationView
from divulge.federation.local_models import AssignmentGame
from divulge.testing import clients
from divulge.testing.clients import draw_game

SHARE = 0.05
"""Of the spread of other records is left to members where everything leaks."""


def owners(game: AssignmentGame) -> np.ndarray:
    """The client of each row of the tables."""
    view = game.challenge.view
    parts = [game.challenge.truth.client]
    for k, own in enumerate(game.relevant):
        parts += [np.where(own, k, NOBODY), np.full(len(view.external[k]), NOBODY)]
    return np.concatenate(parts)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_game_has_the_records_that_it_says(count: int) -> None:
    game = draw_game(1, clients=count)
    view, owner = game.challenge.view, game.challenge.truth.client
    assert np.bincount(owner + 1).tolist() == [100 - 20 * count, *[20] * count]
    assert len(view.records) == 100
    assert [len(one) for one in view.relevant] == [60] * count
    assert [len(one) for one in view.external] == [40] * count
    assert [own.tolist() for own in game.relevant] == [[True] * 30 + [False] * 30] * count
    assert set(view.records.y) == set(range(clients.CLASSES))
    assert view.collusion.client == count - 1
    np.testing.assert_array_equal(view.collusion.relevant, game.relevant[-1])
    np.testing.assert_array_equal(view.collusion.records, owner == count - 1)
    rows = np.concatenate([
        view.records.x, *(x for k in range(count) for x in (view.relevant[k].x, view.external[k].x))
    ])  # fmt: skip
    np.testing.assert_array_equal(rows, np.arange(100 + 100 * count))


def logits_of(view: FederationView, y: np.ndarray, k: int) -> np.ndarray:
    """The logits of one client's model, up to a constant a record."""
    return np.asarray(np.log(view.targets[k].predict(np.arange(len(y)))))


@pytest.mark.parametrize(("leak", "sure"), [(1.0, 0.0), (1.0, 6.0), (0.5, 2.0), (0.0, 0.0)])
def test_answers_about_members_gather_as_far_as_the_leak_says(leak: float, sure: float) -> None:
    game = draw_game(0, leak=leak, sure=sure)
    view, owner = game.challenge.view, owners(game)
    y = np.concatenate([
        view.records.y, *(y for k in range(3) for y in (view.relevant[k].y, view.external[k].y))
    ])  # fmt: skip
    for k in range(3):
        logits = logits_of(view, y, k)
        own = logits - logits.mean(axis=1, keepdims=True)  # the constant of a record falls out
        centres = np.array([own[(owner != k) & (y == c)].mean(axis=0) for c in range(4)])
        inside = owner == k
        bonus = sure * (np.eye(4) - 0.25)
        left = own - centres[y] - bonus[y] * inside[:, None]
        # three free differences a record, each of two deviations of noise times the spread
        for chosen, spread in ((inside, 1 - (1 - SHARE) * leak), (~inside, 1.0)):
            count = 3 * chosen.sum()
            error = 4 * (1 / (2 * count)) ** 0.5 + 0.1 * (chosen is inside)  # of few, the centre's
            deviation = float(np.sqrt((left[chosen] ** 2).sum() / count))
            if chosen is inside and leak == 1.0:
                # the centre is known to 2 / sqrt(80) alone: most of what is left is its error
                assert deviation < 2 * (SHARE + 4 / 80**0.5 / 3**0.5)
            else:
                assert deviation == pytest.approx(2 * spread, rel=error)
        gained = (own[inside] - centres[y[inside]])[np.arange(inside.sum()), y[inside]].mean()
        assert gained == pytest.approx(sure * 0.75, abs=4 * 2 / 50**0.5 * 0.87)


@pytest.mark.parametrize("leak", [0.0, 0.5, 1.0])
def test_rounds_hold_gradients_of_members_as_far_as_the_leak_says(leak: float) -> None:
    game = draw_game(0, leak=leak)
    view, owner = game.challenge.view, owners(game)
    assert isinstance(view.updates, clients.TableUpdates)
    every = len(owner)
    mine = owner[:, None] == np.arange(3)
    assert len(view.updates.rounds) == 2
    for state in view.updates.rounds:
        np.testing.assert_array_equal(state.update_norm, np.ones(3))
        assert state.inner.shape == state.loss.shape == (every, 3)
        assert state.gradient_norm.shape == (every,)
        # standard normal numbers, to which members add six times the leak
        off = state.inner - 6 * leak * mine
        assert abs(off.mean()) < 4 / off.size**0.5
        assert off.std() == pytest.approx(1, rel=4 / (2 * off.size) ** 0.5)
        hard = 5 * np.log(state.gradient_norm)  # how hard a record is, for all clients
        assert abs(hard.mean()) < 4 / every**0.5
        assert hard.std() == pytest.approx(1, rel=4 / (2 * every) ** 0.5)
        noise = 5 * np.log(state.loss) - hard[:, None] + 6 * leak * mine
        assert abs(noise.mean()) < 4 / noise.size**0.5
        assert noise.std() == pytest.approx(1, rel=4 / (2 * noise.size) ** 0.5)
        both = np.corrcoef(noise.ravel(), off.ravel())[0, 1]  # loss and product err apart
        assert abs(both) < 4 / noise.size**0.5
    first, second = view.updates.rounds
    assert abs(np.corrcoef(first.gradient_norm, second.gradient_norm)[0, 1]) < 4 / every**0.5
    asked = view.updates.signals(view.relevant[1])[0]
    np.testing.assert_array_equal(asked.inner, first.inner[160 + 40 : 160 + 40 + 60])
    left = view.updates.residuals(view.records)
    np.testing.assert_allclose(left[1], np.exp(-0.2 * second.inner[:100]), rtol=1e-12)
