"""FedMIA against a slow twin of its equations, and what it says where rounds are missing."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy import stats

from divulge.attacks import catalog
from divulge.attacks.assignment import fedmia
from divulge.core import NOBODY, FederationView, RoundSignals
from divulge.errors import DataError, NotApplicable, SpecError
from divulge.metrics import assignment
from divulge.secrets.blind import assignment as blind
from divulge.testing import clients

GAME = clients.draw_game(0, clients=4).challenge
VIEW = GAME.view


def score(view: FederationView, **settings: Any) -> np.ndarray:
    guess = catalog.federation_attack("fedmia", **settings)(view, np.random.default_rng(0))
    assert guess.score is not None
    return guess.score[:, :-1]


def twin(rounds: tuple[RoundSignals, ...], record: int, target: int) -> float:
    """Equations 7 to 12 for one record and one client, in plain words."""
    total = 0.0
    for seen in rounds:
        norms = seen.gradient_norm[record] * seen.update_norm
        cosine = [seen.inner[record, k] / norms[k] for k in range(len(norms))]
        others = [c for k, c in enumerate(cosine) if k != target]
        limit = np.mean(others) + 3 * np.std(others)
        kept = [c for c in others if c <= limit]
        normal = stats.norm(np.mean(kept), np.sqrt(np.var(kept) + 1e-8))
        total += normal.cdf(cosine[target])
    return total / len(rounds)


def signals(view: FederationView = VIEW) -> tuple[RoundSignals, ...]:
    assert view.updates is not None
    return view.updates.signals(view.records)


def with_rounds(*rounds: RoundSignals, view: FederationView = VIEW) -> FederationView:
    assert view.updates is not None
    table = clients.TableUpdates(rounds, view.updates.clients)
    return dataclasses.replace(view, updates=table)


def all_rounds(view: FederationView = VIEW) -> tuple[RoundSignals, ...]:
    assert isinstance(view.updates, clients.TableUpdates)
    return view.updates.rounds


def test_cosines_of_all_rounds_by_hand() -> None:
    found = score(VIEW)
    for record in range(0, 100, 7):
        for k in range(3):
            assert found[record, k] == pytest.approx(twin(signals(), record, k), rel=1e-9)


def test_an_update_that_stands_out_is_no_measure_of_the_others() -> None:
    """With twelve others one of them can be three standard deviations above; with three, never."""
    measured = np.tile(np.arange(13) / 100, (2, 1))
    measured[0, 5] = 50.0
    found = fedmia._compare_with_others(measured)
    kept = [k for k in range(13) if k not in (5, 11)]
    usual = stats.norm(measured[0, kept].mean(), np.sqrt(measured[0, kept].var() + 1e-8))
    assert found[0, 11] == pytest.approx(usual.cdf(0.11))
    assert found[0, 5] == pytest.approx(1.0)
    few = fedmia._compare_with_others(measured[:, 2:6])
    all_three = stats.norm(measured[0, [3, 4, 5]].mean(), measured[0, [3, 4, 5]].std())
    assert few[0, 0] == pytest.approx(all_three.cdf(0.02), rel=1e-6)


@pytest.mark.parametrize(
    ("settings", "measured"),
    [
        ({"measurement": "loss"}, lambda one: -one.loss),
        ({"measurement": "cosine"}, lambda one: one.inner / one.gradient_norm[:, None]),
        (
            {"measurement": "difference"},
            lambda one: 2 * one.inner - one.gradient_norm[:, None] ** 2,
        ),
        ({"measurement": "norm"}, lambda one: np.tile(-one.gradient_norm[:, None], 4)),
    ],
)
def test_the_published_comparisons_are_means_or_the_last_round(
    settings: dict[str, str], measured: Any
) -> None:
    by_hand = [measured(one)[:, :-1] for one in signals()]
    unknown = ~VIEW.collusion.records
    found = score(VIEW, others=False, **settings)
    np.testing.assert_allclose(found[unknown], np.mean(by_hand, axis=0)[unknown])
    found = score(VIEW, others=False, rounds="last", **settings)
    np.testing.assert_allclose(found[unknown], by_hand[-1][unknown])


def test_a_client_counts_in_the_rounds_that_it_took_part_in() -> None:
    first, second = all_rounds()
    gone = second.inner.copy()
    gone[:, 1] = np.nan
    view = with_rounds(first, second._replace(inner=gone))
    np.testing.assert_allclose(score(view)[:, 1], score(with_rounds(first))[:, 1])
    np.testing.assert_allclose(score(view, rounds="last")[:, 1], score(with_rounds(first))[:, 1])


def test_a_candidate_above_no_threshold_is_nobodys() -> None:
    guess = catalog.federation_attack("fedmia")(VIEW, np.random.default_rng(0))
    assert assignment.specificity(guess, GAME.truth).value > 0.8
    assert (guess.client == NOBODY).any()
    strict = catalog.federation_attack("fedmia", fpr=0.001)(VIEW, np.random.default_rng(0))
    assert (strict.client == NOBODY).sum() >= (guess.client == NOBODY).sum()


def test_it_says_which_client_sent_nothing_of_its_own() -> None:
    first, _ = all_rounds()
    gone = first.inner.copy()
    gone[:, :2] = np.nan
    with pytest.raises(NotApplicable, match=r"3 clients or more, among them '0', got none"):
        score(with_rounds(first._replace(inner=gone)))
    with pytest.raises(NotApplicable, match="expected rounds, got none"):
        score(with_rounds())


def test_settings_and_views_without_meaning_are_refused() -> None:
    with pytest.raises(SpecError, match="expected fpr above 0"):
        catalog.federation_attack("fedmia", fpr=0.0)
    with pytest.raises(SpecError, match="expected others = false with measurement = 'norm'"):
        catalog.federation_attack("fedmia", measurement="norm")
    with pytest.raises(DataError, match="expected the updates of 4 clients, got those of 1"):
        dataclasses.replace(VIEW, updates=clients.TableUpdates(all_rounds(), ("a",)))


def test_the_control_shuffles_updates_as_it_shuffles_answers() -> None:
    moved = blind.shuffle_predictions(VIEW, 3)
    assert moved.updates is not None
    own = VIEW.collusion.records
    before, after = signals(), moved.updates.signals(VIEW.records)
    np.testing.assert_array_equal(after[0].inner[own], before[0].inner[own])
    assert (after[0].inner != before[0].inner)[~own].any(axis=1).mean() > 0.8
    order = [np.flatnonzero((before[0].inner == row).all(axis=1))[0] for row in after[0].inner]
    said = [
        target.predict(VIEW.records.x).max(axis=1) for target in (VIEW.targets[0], moved.targets[0])
    ]
    np.testing.assert_allclose(said[1], said[0][order])
    # what is no candidate is asked about as it is, also beside candidates
    both = moved.updates.signals(VIEW.external[0].joined(VIEW.records))
    outside = VIEW.updates.signals(VIEW.external[0]) if VIEW.updates else ()
    np.testing.assert_array_equal(both[1].loss[: len(VIEW.external[0])], outside[1].loss)
    np.testing.assert_array_equal(both[1].loss[len(VIEW.external[0]) :], after[1].loss)
