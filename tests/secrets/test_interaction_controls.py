"""The blind control of attacks on interactions: who was told fails, who reads updates passes."""

import dataclasses
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy import stats

from divulge.attacks import catalog
from divulge.audits.challenges.base import run_attack
from divulge.core import (
    BlindRun,
    ControlOutcome,
    InteractionAttack,
    InteractionFacts,
    LocalTraining,
    Need,
    ReceivedUpdate,
    Reconstruction,
    Round,
    UpdateKind,
    UpdateView,
)
from divulge.data import interactions
from divulge.data.ranking import Queries
from divulge.defences.updates.compose import no_defence
from divulge.defences.updates.secure_aggregation import SecureSum
from divulge.federation import Transcript
from divulge.federation.search import models
from divulge.federation.search.click_models import ClickModel, published_click_model
from divulge.federation.search.pairwise import Pairwise
from divulge.federation.search.users import Searching
from divulge.federation.transcript import impressions, writer
from divulge.metrics import conditional
from divulge.metrics.permutation import signs_p
from divulge.metrics.uninformed import interactions as uninformed
from divulge.secrets.base import FederationChallenge
from divulge.secrets.blind import interactions as blind
from divulge.secrets.blind import replay
from divulge.secrets.controls import FALSE_ALARM
from divulge.secrets.interactions import InteractionSecret, decode_beyond

from ..kinds import audit_federation

CLIENTS = 24
WEIGHTS = models.ranker(12, 0, torch.Generator().manual_seed(0))


@dataclasses.dataclass(frozen=True)
class World:
    """Users of a search engine whose documents with a high first feature are relevant."""

    views: tuple[UpdateView, ...]
    subject: InteractionFacts


@cache
def world(seed: int = 0, clients: int = CLIENTS) -> World:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(400, 12))
    grades = np.digitize(x[:, 0] + 0.3 * rng.normal(size=400), [0.3, 1.2])
    engine = Searching(Queries(x, grades, np.repeat(np.arange(40), 10)), clicks())
    played, truth = engine.round(WEIGHTS, clients, 2, no_defence(), rng)
    names = tuple(played.received)
    views = tuple(
        UpdateView(
            name,
            (dataclasses.replace(played, received={name: played.received[name]}, handed={}),),
            inputs=played.handed[name]["features"],
            learner=Pairwise(played.handed[name]["query"]),
        )
        for name in names
    )
    items = tuple(len(played.handed[name]["features"]) for name in names)
    places = tuple(tuple(truth[name].tolist()) for name in names)
    return World(views, InteractionFacts("search", names, items, places))


def clicks() -> ClickModel:
    return published_click_model("navigational", 3)


def guessed(score: np.ndarray) -> Reconstruction:
    return Reconstruction(stats.norm.cdf(score), score > 0.5)


@dataclasses.dataclass(frozen=True)
class Told:
    """Knows what was clicked, and hides it in noise, or behind an honest score."""

    noise: float = 0.0
    honest: float = 0.0
    name: ClassVar[str] = "told"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.INPUTS

    def __call__(self, view: UpdateView, rng: np.random.Generator) -> Reconstruction:
        truth = world().subject.truth
        assert truth is not None
        known = truth[int(view.victim)].acted
        seen = catalog.interaction_attack("raifle")(view, rng).score
        score = known + self.noise * rng.normal(size=len(known)) + self.honest * seen
        return guessed(score)


@dataclasses.dataclass(frozen=True)
class ReadsFeatures:
    """Honest: looks at the features of items alone, which say what is clicked."""

    name: ClassVar[str] = "reads-features"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.INPUTS

    def __call__(self, view: UpdateView, rng: np.random.Generator) -> Reconstruction:
        assert view.inputs is not None
        return guessed(view.inputs[:, 0] + 0.5 * rng.normal(size=len(view.inputs)))


def run(attack: InteractionAttack, seed: int = 0, clients: int = CLIENTS) -> BlindRun:
    found, _ = blind.control_on_interactions(
        world(seed, clients).views, InteractionSecret(world(seed, clients).subject), attack, seed
    )
    assert found is not None
    return found


@pytest.mark.parametrize("attack", [Told(), Told(noise=1.0), Told(honest=1.0)])
def test_who_was_told_the_clicks_fails(attack: Told) -> None:
    found = run(attack)
    assert found.outcome is ControlOutcome.FAILED
    assert found.p_value is not None
    assert found.p_value <= FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("name", ["raifle", "random-interactions"])
def test_who_reads_updates_passes_as_often_as_promised(name: str) -> None:
    runs = 6
    found = [run(catalog.interaction_attack(name), seed) for seed in range(runs)]
    p_values = np.array([one.p_value for one in found])
    for level in (0.05, 0.2):
        assert np.sum(p_values <= level) <= stats.binom.ppf(1 - 1e-4, runs, level)
    assert all(one.outcome is ControlOutcome.PASSED and not one.reason for one in found)


def test_who_reads_features_that_clicks_follow_passes() -> None:
    for seed in range(4):
        found = run(ReadsFeatures(), seed)
        assert found.outcome is ControlOutcome.PASSED
        assert found.measured is not None
        assert found.measured.low > 0.5  # it does say what was clicked, and that is no secret


def test_those_features_would_fail_it_if_nobody_looked_at_them() -> None:
    here, rng = world(), np.random.default_rng(0)
    truth = here.subject.truth
    assert truth is not None
    scores = [ReadsFeatures()(view, rng).score for view in here.views]
    labels = [one.acted for one in truth]
    unseen = [np.zeros((len(label), 1)) for label in labels]
    assert signs_p(conditional.partial_correlations(scores, labels, unseen), rng) <= FALSE_ALARM


def test_the_replay_has_as_many_clicks_as_there_were_and_no_more_than_chance_of_them() -> None:
    here, attack = world(), catalog.interaction_attack("raifle")
    truth = here.subject.truth
    assert truth is not None
    real = blind.judge_clicks(guesses(attack, here.views), truth, here.views, 0)
    assert real.outcome is ControlOutcome.FAILED  # the updates do say what was clicked
    assert (
        blind.judge_clicks(
            guesses(attack, replay.replay_updates(here.views, truth, 0)), truth, here.views, 0
        ).outcome
        is ControlOutcome.PASSED
    )


def guesses(attack: InteractionAttack, views: tuple[UpdateView, ...]) -> tuple[Reconstruction, ...]:
    return tuple(attack(view, np.random.default_rng(0)) for view in views)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_control_and_another_one_other_clicks() -> None:
    attack = catalog.interaction_attack("raifle")
    assert run(attack) == run(attack)
    here = world()
    other, _ = blind.control_on_interactions(here.views, InteractionSecret(here.subject), attack, 1)
    assert other != run(attack)


@pytest.mark.parametrize("clients", [6, CLIENTS])
def test_who_does_as_well_without_the_clicks_shows_no_leak_and_who_reads_updates_does(
    clients: int,
) -> None:
    """Also where too few clients are there for the control to fail."""
    here = world(0, clients)
    truth = here.subject.truth
    assert truth is not None
    challenge = FederationChallenge(here.views, InteractionSecret(here.subject))
    found = {}
    for attack in (ReadsFeatures(), catalog.interaction_attack("raifle")):
        entry = run_attack(challenge, attack, 0)
        guess = InteractionSecret(here.subject).decode(entry.arrays)
        beyond = decode_beyond(entry.arrays, clients)
        assert beyond is not None
        assert beyond.shuffled is not None
        tested = uninformed.randomise([guess], truth, np.random.default_rng(0), [beyond])
        found[attack.name] = (tested.p, entry.finding.metrics["auc"].value)
    p, auc = found["reads-features"]
    assert p == 1.0
    assert auc > 0.6
    assert found["raifle"][0] <= 0.05


def test_below_five_clients_nothing_is_run_on_shuffled_clicks() -> None:
    here = world(0, 4)
    attack = catalog.interaction_attack("raifle")
    run, aucs = blind.control_on_interactions(
        here.views, InteractionSecret(here.subject), attack, 0
    )
    assert run is not None
    assert run.outcome is ControlOutcome.NOT_TESTED
    assert aucs is None


def test_few_clients_are_said_to_be_too_few() -> None:
    found = run(Told(), clients=6)
    assert found.outcome is ControlOutcome.NOT_TESTED
    assert "6 clients are too few" in found.reason


def test_clients_who_clicked_nothing_are_left_out_and_without_others_nothing_is_tested() -> None:
    here, attack = world(), catalog.interaction_attack("random-interactions")
    assert here.subject.acted is not None
    idle = dataclasses.replace(here.subject, acted=(*here.subject.acted[:12], *[()] * 12))
    found, _ = blind.control_on_interactions(here.views, InteractionSecret(idle), attack, 0)
    assert found is not None
    assert found.outcome is ControlOutcome.NOT_TESTED
    assert "12 clients are too few" in found.reason
    nobody = dataclasses.replace(here.subject, acted=((),) * CLIENTS)
    found, _ = blind.control_on_interactions(here.views, InteractionSecret(nobody), attack, 0)
    assert found is not None
    assert found.outcome is ControlOutcome.NOT_TESTED
    assert found.p_value is None
    assert "no client acted on some" in found.reason


@pytest.mark.parametrize("kind", ["update", "weights", "gradient"])
def test_what_is_replayed_arrives_as_the_rounds_do(kind: UpdateKind) -> None:
    """With the clicks that there were, a client sends just what it sent."""
    here = world()
    (seen,) = here.views[0].rounds
    inputs = here.views[0].inputs
    assert inputs is not None
    everything = dataclasses.replace(here.subject, acted=(tuple(range(len(inputs))),))
    truth = dataclasses.replace(everything, clients=("0",), items=(len(inputs),)).truth
    assert truth is not None
    learner = here.views[0].learner
    assert learner is not None
    sent = {name: torch.from_numpy(w) for name, w in seen.sent.items()}
    change = learner.update(sent, torch.from_numpy(inputs), torch.ones(len(inputs)).double())
    want = {name: value.numpy() for name, value in change.items()}
    view = dataclasses.replace(
        here.views[0],
        rounds=(dataclasses.replace(seen, kind=kind, training=LocalTraining(lr=0.1)),),
    )
    (moved,) = replay.replay_updates((view,), truth, 0)
    assert moved.rounds[0].kind == kind
    got = moved.rounds[0].change("0")
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, atol=1e-12)


def rows(learner: bool) -> tuple[tuple[UpdateView, ...], InteractionFacts]:
    """Updates with a row for each item: up where it was acted on."""
    rng = np.random.default_rng(5)
    views, places = [], []
    for client in range(CLIENTS):
        label = np.arange(20) < 4
        rng.shuffle(label)
        moved = np.where(label, 1.0, -1.0)[:, None] + 0.1 * rng.normal(size=(20, 3))
        table = rng.normal(size=(20, 3))
        got = {str(client): ReceivedUpdate({"items": moved, "0.weight": label + 0.0}, 20)}
        played = Round(0, "update", {"items": table, "0.weight": np.zeros(20)}, got)
        query = Pairwise(np.zeros(20, np.int64)) if learner else None
        views.append(UpdateView(str(client), (played,), inputs=table, learner=query))
        places.append(tuple(np.flatnonzero(label).tolist()))
    names = tuple(map(str, range(CLIENTS)))
    return tuple(views), InteractionFacts("rows", names, (20,) * CLIENTS, tuple(places))


def test_an_update_of_rows_alone_is_shuffled_though_it_could_be_trained_again() -> None:
    """It keeps the noise of a defence, and takes no training; with a network it is trained."""
    views, subject = rows(learner=True)
    assert subject.truth is not None
    (seen,) = views[0].rounds
    got = seen.received["0"]
    alone = dataclasses.replace(got, tensors={"items": got.tensors["items"]})
    view = dataclasses.replace(views[0], rounds=(dataclasses.replace(seen, received={"0": alone}),))
    (moved,) = replay.replay_updates((view,), subject.truth[:1], 0)
    was, now = alone.tensors["items"], moved.rounds[0].received["0"].tensors["items"]
    assert not np.array_equal(was, now)
    np.testing.assert_array_equal(np.sort(was, axis=0), np.sort(now, axis=0))


def test_without_a_learner_the_rows_of_items_are_shuffled_and_nothing_else_is_sent() -> None:
    views, subject = rows(learner=False)
    truth = subject.truth
    assert truth is not None
    for before, after in zip(views, replay.replay_updates(views, truth, 0), strict=True):
        was, now = (one.rounds[0].received[one.victim].tensors for one in (before, after))
        assert set(now) == {"items"}
        assert not np.array_equal(was["items"], now["items"])
        np.testing.assert_array_equal(np.sort(was["items"], axis=0), np.sort(now["items"], axis=0))
    attack = catalog.interaction_attack("raifle")
    found, _ = blind.control_on_interactions(views, InteractionSecret(subject), attack, 0)
    assert found is not None
    assert found.outcome is ControlOutcome.PASSED
    assert not found.reason
    assert (
        blind.judge_clicks(guesses(attack, views), truth, views, 0).outcome is ControlOutcome.FAILED
    )


def test_a_learner_that_cannot_be_run_is_said() -> None:
    views, subject = rows(learner=True)  # it knows other weights than these
    found, _ = blind.control_on_interactions(
        views, InteractionSecret(subject), catalog.interaction_attack("raifle"), 0
    )
    assert found is not None
    assert found.outcome is ControlOutcome.NOT_TESTED
    assert found.reason


def test_without_learner_and_rows_or_without_a_truth_there_is_no_control() -> None:
    here, attack = world(), catalog.interaction_attack("random-interactions")
    unknown = dataclasses.replace(here.subject, acted=None)
    assert blind.control_on_interactions(here.views, InteractionSecret(unknown), attack, 0) == (
        None,
        None,
    )
    alone = [dataclasses.replace(view, learner=None) for view in here.views]
    found, _ = blind.control_on_interactions(alone, InteractionSecret(here.subject), attack, 0)
    assert found is not None
    assert found.outcome is ControlOutcome.NOT_TESTED
    assert "expected a learner" in found.reason


@pytest.mark.parametrize("secure", [False, True])
def test_the_page_says_how_the_control_went(tmp_path: Path, secure: bool) -> None:
    rng = np.random.default_rng(0)
    queries = Queries(
        rng.normal(size=(120, 12)), rng.integers(0, 3, 120), np.repeat(np.arange(12), 10)
    )
    defence = SecureSum() if secure else no_defence()
    played, truth = Searching(queries, clicks()).round(WEIGHTS, 18, 2, defence, rng)
    writer.write(tmp_path / "search", "search engine", [played])
    interactions.write_interactions(tmp_path / "clicks.csv", truth)
    (tmp_path / "subject.py").write_text(
        "from divulge.federation.search.pairwise import Pairwise\n"
        "def ranker(handed):\n    return Pairwise(handed['query'])\n"
    )
    (tmp_path / "audit.toml").write_text(
        '[interactions]\ntranscript = "search"\ntruth = "clicks.csv"\n'
        'learner = "subject.py:ranker"\n'
    )
    assert impressions.client_views(Transcript.open(tmp_path / "search"), ["0"])
    found = audit_federation(tmp_path / "audit.toml", tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    if secure:
        assert found.controls[0] is None  # the attack itself could not be carried out
        assert "random-interactions: was not tested by a control" in page
        ruling = found.gate(fail_on=["control-failed", "control-untested"])
        assert any("random-interactions could not be run" in said for said in ruling.failed)
        (untested,) = (one for one in found.controls if one is not None)
        assert untested.outcome is ControlOutcome.NOT_TESTED
    else:
        tested = [one for one in found.controls if one is not None and one.p_value]
        assert [one.outcome for one in tested] == [ControlOutcome.PASSED] * len(found.findings)
        assert found.gate(fail_on=["control-untested"]).passes
        assert "raifle: passed its control" in page
