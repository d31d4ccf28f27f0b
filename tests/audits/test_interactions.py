"""Audits of interactions, from a transcript of simulated users to the page."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from divulge.cli.main import main
from divulge.core import Finding, InteractionFacts, Interactions, Reconstruction, Status
from divulge.data import interactions
from divulge.data.interactions import synthetic_interactions
from divulge.data.ranking import Queries
from divulge.defences.updates.compose import no_defence
from divulge.defences.updates.secure_aggregation import SecureSum
from divulge.errors import DataError, DivulgeError, SpecError, StoreError
from divulge.federation import Transcript
from divulge.federation.recommender.model import NeuralCF
from divulge.federation.recommender.users import Recommending
from divulge.federation.search import models
from divulge.federation.search.click_models import published_click_model
from divulge.federation.search.users import Searching
from divulge.federation.transcript import impressions, writer
from divulge.metrics import interactions as metrics_interactions
from divulge.report.federation import interactions as pages
from divulge.secrets.blind import replay

from ..kinds import audit_federation, load_federation

SUBJECT = """
from divulge.federation.search.pairwise import Pairwise
from divulge.federation.recommender.model import NeuralCF
from tests.golden import golden
def films(handed):
    return NeuralCF(width=16, hidden=(32, 16))
def ranker(handed):
    return Pairwise(handed["query"])
number = 3
def broken(handed):
    return 3
"""

SETTINGS = """
name = "films"
[interactions]
transcript = "films"
truth = "films.csv"
"""

USERS = 16
SMALL = NeuralCF(width=16, hidden=(32, 16))


def recommender() -> Recommending:
    return Recommending(synthetic_interactions(USERS, 60, np.random.default_rng(0)), SMALL)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interactions")
    (folder / "subject.py").write_text(SUBJECT)
    (folder / "films.toml").write_text(SETTINGS)
    played, truth = recommender().round(range(USERS), no_defence())
    writer.write(folder / "films", "film recommender", [played], items="items")
    interactions.write_interactions(folder / "films.csv", truth)
    rng = np.random.default_rng(1)
    queries = Queries(
        rng.normal(size=(120, 20)), rng.integers(0, 3, 120), np.repeat(np.arange(12), 10)
    )
    weights = models.ranker(20, 0, torch.Generator().manual_seed(0))
    clicks = published_click_model("informational", 3)
    played, truth = Searching(queries, clicks).round(weights, 6, 2, no_defence(), rng)
    writer.write(folder / "search", "search engine", [played])
    interactions.write_interactions(folder / "search.csv", truth)
    return folder


def settings(place: Path, name: str, old: str, new: str) -> Path:
    path = place / f"{name}.toml"
    path.write_text(SETTINGS.replace(old, new))
    return path


@pytest.mark.slow
def test_the_command_recovers_interactions_and_the_page_names_no_item(place: Path) -> None:
    run = place / "run"
    command = ["audit", str(place / "films.toml"), "--run", str(run), "--format", "json"]
    said = CliRunner().invoke(main, command)
    assert said.exit_code == 0, said.output
    findings = json.loads(said.output.splitlines()[-1])["findings"]
    assert [finding["attack"] for finding in findings] == ["raifle", "random-interactions"]
    assert findings[0]["metrics"]["auc"]["value"] > 0.95
    coin = findings[1]["metrics"]["auc"]
    assert coin["low"] < 0.5 < coin["high"]
    assert len(findings[0]["how"]) < 300  # not one line a client
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "were recovered: " in page
    assert "Client by client" in page
    assert (run / "figures" / "recovered.svg").is_file()
    summary = json.loads((run / "summary.json").read_text())
    assert len(summary["clients"]) == len(summary["attacks"][0]["recovered"]) == USERS
    pairs = zip(summary["attacks"][0]["recovered"], summary["acted"], strict=True)
    assert all(0 <= found <= acted for found, acted in pairs)

    first = load_federation(run)
    assert CliRunner().invoke(main, ["measure", str(run)]).exit_code == 0
    assert load_federation(run).findings == first.findings
    (run / "report.html").unlink()
    assert CliRunner().invoke(main, ["report", str(run)]).exit_code == 0
    assert (run / "report.html").read_text(encoding="utf-8") == page
    resumed = audit_federation(place / "films.toml", run, resume=True)
    assert resumed.findings == first.findings
    other = settings(place, "other", 'truth = "films.csv"', 'clients = ["3"]')
    with pytest.raises(StoreError, match="begun with"):
        audit_federation(other, run, resume=True)


def test_the_gate_trips_by_metrics_of_interactions(place: Path) -> None:
    command = ["audit", str(place / "films.toml"), "--run", str(place / "gated")]
    said = CliRunner().invoke(main, [*command, "--fail-above", "auc=0.6"])
    assert said.exit_code == 3
    assert "Gate failed: auc: lower limit" in said.output
    said = CliRunner().invoke(main, [*command, "--fail-above", "tpr@0.01=0.6"])
    assert said.exit_code == 2
    assert "expected the name of a metric" in said.output


def test_a_search_engine_is_audited_by_how_its_clients_train(place: Path) -> None:
    text = SETTINGS.replace("films", "search") + 'learner = "subject.py:ranker"\n'
    (place / "search.toml").write_text(text)
    found = audit_federation(place / "search.toml", place / "searched")
    assert found.findings[0].status is Status.DONE, found.findings[0].reason
    assert found.findings[0].metrics["auc"].value == 1.0


def test_without_a_truth_there_are_guesses_alone(place: Path) -> None:
    path = settings(place, "blind", 'truth = "films.csv"', 'clients = ["4", "2"]')
    found = audit_federation(path, place / "blind")
    assert found.facts.clients == ("4", "2")
    assert not found.findings[0].metrics
    assert "the true interactions are unknown" in found.findings[0].unmeasured["auc"]
    assert any("the attack predicts interactions with" in line for line in found.lines())
    assert not (place / "blind" / "figures").exists()


def test_without_a_truth_simulated_clients_say_how_good_guesses_are(place: Path) -> None:
    learner = 'learner = "subject.py:films"'
    path = settings(place, "simulated", 'truth = "films.csv"', learner)
    found = audit_federation(path, place / "run-simulated")
    assert found.verdict.level == "expected leak", found.lines()
    assert found.verdict.attack == "raifle"
    assert "16 simulated clients" in found.verdict.sentences[1]
    assert "twin_auc" not in found.contents.entries[1].arrays  # a coin reads nothing
    again = load_federation(place / "run-simulated")
    assert again.verdict == found.verdict
    assert audit_federation(path, place / "run-simulated", resume=True).verdict == found.verdict


def test_a_learner_that_fails_is_named_where_clients_would_be_simulated(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("no steps")

    monkeypatch.setattr(replay, "train_with", fail)
    learner = 'learner = "subject.py:films"'
    path = settings(place, "failing", 'truth = "films.csv"', learner)
    found = audit_federation(path, tmp_path / "run")
    assert found.verdict.level == "nothing measured"
    assert "no client could be simulated" in found.untested["raifle"]


def test_the_view_has_the_rows_handed_out_and_no_others(place: Path) -> None:
    transcript = Transcript.open(place / "films")
    world = recommender()
    whole = {view.inputs.shape: view for game in world.challenges(range(USERS), no_defence())
             if (view := game.view).inputs is not None}  # fmt: skip
    for one in impressions.client_views(transcript, [str(k) for k in range(USERS)]):
        played = transcript.rounds[0]
        assert one.view.inputs is not None
        np.testing.assert_array_equal(one.view.inputs, played.sent["items"][one.item])
        change = one.view.rounds[0].change(one.view.victim)
        assert change["items"].shape == one.view.inputs.shape
        assert one.view.inputs.shape in whole  # as many as the same user was handed
        others = np.setdiff1d(np.arange(60), one.item)
        assert not played.received[one.view.victim].tensors["items"][others].any()


def test_a_secure_sum_shows_no_client_and_says_so(place: Path) -> None:
    played, _ = recommender().round(range(4), SecureSum())
    writer.write(place / "summed", "summed", [played], items="items")
    path = settings(place, "summed", 'films"\ntruth = "films.csv"', 'summed"')
    found = audit_federation(path, place / "run-summed")
    assert found.findings[0].status is Status.NOT_APPLICABLE
    assert "updates" in found.findings[0].reason
    assert isinstance(found.facts, InteractionFacts)
    assert found.facts.sums == (4,)
    assert "the server saw sums alone" in found.verdict.headline
    assert found.verdict.next_step.startswith("Keep the protection")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("client,film\n0,1\n", "client,item"),
        ("client,item\n0\n", "line 2"),
        ("client,item\n0,-1\n", "line 2"),
        (f"client,item\n0,{'9' * 30}\n", "line 2"),
        ("client,item\nmallory,1\n", "mallory"),
        ("client,item\n0,59\n0,58\n0,57\n0,56\n0,55\n0,54\n0,53\n", "was handed"),
    ],
)
def test_a_truth_about_something_else_is_refused(place: Path, text: str, says: str) -> None:
    (place / "wrong.csv").write_text(text)
    path = settings(place, "wrong", "films.csv", "wrong.csv")
    with pytest.raises(DataError, match=says):
        audit_federation(path, place / "wrong")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('learner = "subject.py:broken"', "expected a learner, got int"),
        ('learner = "subject.py:nothing"', "nothing"),
        ('clients = ["99"]', "'99'"),
    ],
)
def test_settings_that_cannot_be_used_are_named(place: Path, more: str, says: str) -> None:
    path = settings(place, "odd", 'truth = "films.csv"', more)
    with pytest.raises(SpecError, match=says):
        audit_federation(path, place / "odd")


@pytest.mark.parametrize(
    "item",
    [
        np.array([1, 1]),
        np.array([1, 60]),
        np.array([-1, 3]),
        np.array([0.5, 3.0]),
        np.zeros(0, np.int64),
        np.zeros((2, 2), np.int64),
    ],
)
def test_items_that_are_none_are_refused(place: Path, tmp_path: Path, item: np.ndarray) -> None:
    played = Transcript.open(place / "films").rounds[0]
    writer.write(
        tmp_path / "bad", "bad", [replace(played, handed={"0": {"item": item}})], items="items"
    )
    with pytest.raises(StoreError, match="handed in round 0"):
        impressions.client_views(Transcript.open(tmp_path / "bad"), ["0"])
    with pytest.raises(SpecError, match="'1' was handed"):
        impressions.client_views(Transcript.open(tmp_path / "bad"), ["1"])


def test_what_was_handed_out_must_be_announced(place: Path, tmp_path: Path) -> None:
    played = Transcript.open(place / "films").rounds[0]
    bad = {"0": {"colour": np.arange(3)}}
    with pytest.raises(DivulgeError, match="handed"):
        writer.write(tmp_path / "bad", "bad", [replace(played, handed=bad)], items="items")
    writer.write(tmp_path / "good", "good", [played], items="items")
    entry = tmp_path / "good" / "round-0000.json"
    told = json.loads(entry.read_text())
    told["handed"]["0"]["item"] = [2]
    entry.write_text(json.dumps(told))
    with pytest.raises(StoreError, match="shape"):
        impressions.client_views(Transcript.open(tmp_path / "good"), ["0"])


def test_clients_who_acted_on_all_or_nothing_are_told_and_left_out() -> None:
    truth = [Interactions(np.array(row, bool)) for row in ([1, 0, 0], [0, 1, 0], [0, 0, 0])]
    guess = [Reconstruction(one.acted.astype(float), one.acted) for one in truth]
    metrics, _ = metrics_interactions.measure(guess, truth)
    finding = Finding("a", "a", "", {}, Status.DONE, metrics)
    facts = InteractionFacts("shop", ("x", "y", "z"), (3, 3, 3), ((0,), (1,), ()))
    story = pages.page_content(facts, (finding,), (guess,))
    assert "1 client interacted with all items or with none" in story.sentences[-1]
    assert story.summary["acted"] == [1, 1, 0]
    assert story.details[0]["precision_at_count"] == [1.0, 1.0, None]


def test_a_damaged_guess_is_refused(place: Path) -> None:
    found = audit_federation(place / "films.toml", place / "damaged")
    path = place / "damaged" / "findings" / f"{found.contents.head.findings[0]}.npz"
    with np.load(path) as stored:
        arrays = dict(stored)
    for name in ("correlation", "shuffled"):
        for wrong in (arrays[name][:-1], np.full_like(arrays[name], np.nan)):
            np.savez(path, **{**arrays, name: wrong})
            with pytest.raises(StoreError, match="damaged"):
                _ = load_federation(place / "damaged").verdict
    np.savez(path, likely=np.zeros(3), decided=np.zeros(3, bool))
    with pytest.raises(StoreError, match="damaged"):
        load_federation(place / "damaged")
