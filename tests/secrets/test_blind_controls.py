"""The blind control of attacks on federations: who was told fails, who reads updates passes."""

import dataclasses
from pathlib import Path
from typing import ClassVar
from unittest.mock import Mock

import numpy as np
import pytest
from scipy import stats

from divulge.attacks.composition.decaf.attack import Decaf
from divulge.attacks.membership.cluster_lira.attack import ClusterLiRA
from divulge.core import (
    NOBODY,
    Assignment,
    AssignmentFacts,
    BlindRun,
    CompositionFacts,
    ControlOutcome,
    FederationView,
    Need,
    Proportions,
    ReceivedUpdate,
    Round,
    UpdateView,
)
from divulge.federation import prediction_tables
from divulge.federation.local_models import AssignmentGame
from divulge.metrics.permutation import matches_p, pairing_p
from divulge.report.federation.page import controls
from divulge.secrets.assignment import AssignmentSecret
from divulge.secrets.blind import assignment as of_answers
from divulge.secrets.blind import composition as of_updates
from divulge.secrets.composition import CompositionSecret
from divulge.secrets.controls import FALSE_ALARM
from divulge.testing import clients

from ..attacks import federations as updates
from ..kinds import audit_federation, load_federation

CLIENTS = 10


def counts(seed: int = 0) -> tuple[tuple[int, ...], ...]:
    drawn = np.random.default_rng(seed).integers(0, 60, (CLIENTS, 4))
    return tuple(tuple(map(int, row)) for row in drawn)


def subject(seed: int = 0) -> CompositionFacts:
    return CompositionFacts("ten", tuple(map(str, range(CLIENTS))), counts(seed), ())


def views(seed: int = 0) -> tuple[UpdateView, ...]:
    """What each client sends is its class shares, with a little noise."""
    rng, truth = np.random.default_rng(seed), subject(seed).truth
    assert truth is not None
    got = {
        str(k): ReceivedUpdate({"w": np.maximum(one.share + 0.02 * rng.random(4), 0)}, 100 + k)
        for k, one in enumerate(truth)
    }
    played = Round(0, "weights", {"w": np.zeros(4)}, got)
    return tuple(UpdateView(name, (played,)) for name in got)


@dataclasses.dataclass(frozen=True)
class Reads:
    """Honest: the update says the shares."""

    name: ClassVar[str] = "reads"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.UPDATES

    def __call__(self, view: UpdateView, rng: np.random.Generator) -> Proportions:
        del rng
        share = view.rounds[0].received[view.victim].tensors["w"]
        return Proportions(share / share.sum(), np.zeros(4, bool))


@dataclasses.dataclass(frozen=True)
class ToldShares:
    """Knows what each client holds, and mixes it with what the update says."""

    weight: float
    name: ClassVar[str] = "told"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.UPDATES

    def __call__(self, view: UpdateView, rng: np.random.Generator) -> Proportions:
        truth = subject().truth
        assert truth is not None
        known = truth[int(view.victim)].share
        share = self.weight * known + (1 - self.weight) * Reads()(view, rng).share
        return Proportions(share / share.sum(), np.zeros(4, bool))


def run(attack: Reads | ToldShares, seed: int = 0) -> BlindRun:
    found = of_updates.control_on_updates(views(), CompositionSecret(subject()), attack, seed)
    assert found is not None
    return found


def test_updates_move_among_the_clients_and_each_has_one_name() -> None:
    before, after = views(), of_updates.exchange_updates(views(), 0)
    order = [one.rounds[0].received[one.victim].records or 0 for one in after]
    assert sorted(order) == [100 + k for k in range(CLIENTS)]
    assert order != sorted(order)
    assert [one.victim for one in after] == [one.victim for one in before]
    # one federation: every view has the same clients' updates under the same names
    for one in after:
        for name, got in one.rounds[0].received.items():
            assert got.records == after[int(name)].rounds[0].received[name].records


def test_an_attack_that_reads_updates_guesses_those_of_the_others() -> None:
    seen = updates.views(updates.played())
    rng = np.random.default_rng
    attack = Decaf(level="bias")
    before = [attack(one, rng(0)).share for one in seen]
    moved = of_updates.exchange_updates(seen, 3)
    after = [attack(one, rng(0)).share for one in moved]
    order = [min(range(len(seen)), key=lambda k: np.abs(before[k] - one).sum()) for one in after]
    np.testing.assert_array_equal(np.array(after), np.array(before)[order])
    assert sorted(order) == list(range(len(seen)))
    assert order != sorted(order)


@pytest.mark.parametrize("weight", [1.0, 0.7])
def test_who_was_told_the_shares_fails(weight: float) -> None:
    found = run(ToldShares(weight))
    assert found.outcome is ControlOutcome.FAILED
    assert found.p_value is not None
    assert found.p_value <= FALSE_ALARM


def test_who_reads_updates_passes_as_often_as_promised() -> None:
    runs = 120
    found = [run(Reads(), seed) for seed in range(runs)]
    p_values = np.array([one.p_value for one in found])
    for level in (0.05, 0.2):
        assert np.sum(p_values <= level) <= stats.binom.ppf(1 - 1e-4, runs, level)
    assert all(one.outcome is ControlOutcome.PASSED and not one.reason for one in found)


def test_few_clients_are_said_to_be_too_few_before_the_attack_runs() -> None:
    few = CompositionFacts("four", tuple("0123"), counts()[:4], ())
    attack = Mock(spec=Decaf)
    found = of_updates.control_on_updates(views()[:4], CompositionSecret(few), attack, 0)
    attack.many.assert_not_called()
    assert found is not None
    assert found.outcome is ControlOutcome.NOT_TESTED
    assert "4 clients are too few" in found.reason


def trained_on(game: AssignmentGame) -> AssignmentFacts:
    view, truth = game.challenge.view, game.challenge.truth
    known = view.collusion
    return AssignmentFacts(
        ("a", "b", "c"), known.client, len(view.records),
        tuple(view.records.y.tolist()),
        tuple(np.flatnonzero(known.records).tolist()), tuple(truth.client.tolist()),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class ToldOwners:
    """Says nobody, but of some records what it was told."""

    owners: tuple[int, ...]
    share: float
    name: ClassVar[str] = "told-owners"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.PROBABILITIES

    def __call__(self, view: FederationView, rng: np.random.Generator) -> Assignment:
        del view
        told = rng.random(len(self.owners)) < self.share
        return Assignment(np.where(told, self.owners, NOBODY))


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_who_was_told_the_owners_fails(share: float) -> None:
    game = clients.draw_game(0)
    owners = tuple(game.challenge.truth.client.tolist())
    found = of_answers.control_on_predictions(
        game.challenge.view, AssignmentSecret(trained_on(game)), ToldOwners(owners, share), 0
    )
    assert found is not None
    assert found.outcome is ControlOutcome.FAILED


def test_who_reads_answers_passes() -> None:
    """The published leak is found before the shuffle, and not after it."""
    for seed in range(4):
        game = clients.draw_game(seed)
        found = of_answers.control_on_predictions(
            game.challenge.view, AssignmentSecret(trained_on(game)), ClusterLiRA(), seed
        )
        assert found is not None
        assert found.outcome is ControlOutcome.PASSED
        assert found.measured is not None
        assert found.measured.low < 0.5


def test_without_the_truth_there_is_no_control() -> None:
    game = clients.draw_game(0)
    silent = dataclasses.replace(trained_on(game), owners=None)
    assert (
        of_answers.control_on_predictions(
            game.challenge.view, AssignmentSecret(silent), ClusterLiRA(), 0
        )
        is None
    )
    unknown = dataclasses.replace(subject(), counts=None)
    assert of_updates.control_on_updates(views(), CompositionSecret(unknown), Reads(), 0) is None


@pytest.mark.parametrize("test", ["matches", "pairs"])
def test_permutation_tests_of_guesses_keep_their_promise(test: str) -> None:
    trials, rng = 300, np.random.default_rng(0)

    def one() -> float:
        if test == "matches":
            group = rng.integers(0, 3, 40)
            guess, truth = (rng.integers(0, 2, 40) + group for _ in range(2))
            return matches_p(guess, truth, group, rng)
        return pairing_p(rng.random((9, 9)), rng)

    p_values = np.array([one() for _ in range(trials)])
    for level in (0.05, 0.2, 0.5):
        assert np.sum(p_values <= level) <= stats.binom.ppf(1 - 1e-4, trials, level)


def test_the_page_and_the_run_folder_say_how_it_went(tmp_path: Path) -> None:
    game = clients.draw_game(0).challenge
    prediction_tables.write(tmp_path / "leaky", game.view, ("ann", "bob", "cat"), game.truth)
    (tmp_path / "audit.toml").write_text("""
name = "three"
[assignment]
colluder = "cat"
truth = "leaky/owners.csv"
[assignment.predictions]
ann = "leaky/ann.csv"
bob = "leaky/bob.csv"
cat = "leaky/cat.csv"
[[attacks]]
name = "cluster-lira"
""")
    found = audit_federation(tmp_path / "audit.toml", tmp_path / "run")
    assert found.verdict.level != "instrument failed"
    (control,) = load_federation(tmp_path / "run").controls
    assert control is not None
    assert control.outcome is ControlOutcome.PASSED
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "cluster-lira: passed its control" in page
    (entry,) = found.contents.entries
    worse = dataclasses.replace(
        entry, blind=dataclasses.replace(control, outcome=ControlOutcome.FAILED)
    )
    failed = dataclasses.replace(
        found, contents=dataclasses.replace(found.contents, entries=(worse,))
    )
    (sentence,) = controls(failed._told)
    assert "its figures mean nothing" in sentence
    assert failed.verdict.level == "instrument failed"
    assert failed.measure().contents.entries[0].blind == failed.controls[0]
