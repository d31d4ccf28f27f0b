"""Audits of who trained on what from a transcript, after all rounds and after fewer."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from divulge._util.imports import load_object
from divulge.attacks import catalog
from divulge.cli.main import main
from divulge.core import (
    NOBODY,
    Assignment,
    Collusion,
    ControlOutcome,
    FederationView,
    ReceivedUpdate,
    Rounds,
    Status,
)
from divulge.data.records import load_records
from divulge.errors import DataError, DivulgeError, NotApplicable, SpecError
from divulge.federation import Transcript, TranscriptUpdates, prediction_tables
from divulge.federation.transcript import writer
from divulge.secrets.assignment import AssignmentSecret, describe_assignment
from divulge.secrets.base import FederationChallenge
from divulge.secrets.wrapped import AfterRounds, attack_label

from ..kinds import audit_federation

SUBJECT = """
import numpy as np
from torch import nn
from divulge import Records
rng = np.random.default_rng(0)
x = rng.normal(size=(260, 30)).astype(np.float32)
y = rng.integers(0, 2, 260)
train, held_out = Records(x[:180], y[:180]), Records(x[180:], y[180:])
def network():
    return nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2))
def other():
    return nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))
narrow, odd = Records(x[180:, :20], y[180:]), Records(x[180:], y[180:] + 1)
"""

FEDERATE = """
name = "clinics"
rounds = 3
[data]
train = "subject.py:train"
[clients]
sizes = [30, 30, 30]
truth = "owners.csv"
[training]
network = "subject.py:network"
lr = 0.3
epochs = 10
batch_size = 10
"""

AUDIT = """
name = "who"
[assignment]
transcript = "runs/clinics-001"
network = "subject.py:network"
candidates = "subject.py:train"
external = "subject.py:held_out"
after_rounds = [1]
truth = "owners.csv"
[[attacks]]
name = "fedmia"
others = false
[[attacks]]
name = "sia"
[[attacks]]
name = "nobody"
[[attacks]]
name = "stacking"
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rounds")
    (folder / "subject.py").write_text(SUBJECT)
    (folder / "federate.toml").write_text(FEDERATE)
    (folder / "audit.toml").write_text(AUDIT)
    said = CliRunner().invoke(main, ["federate", str(folder / "federate.toml")])
    assert said.exit_code == 0, said.output
    return folder


def settings(place: Path, old: str, new: str) -> Path:
    assert old in AUDIT
    (place / "changed.toml").write_text(AUDIT.replace(old, new))
    return place / "changed.toml"


def view_of(place: Path, rounds: Rounds | None = None) -> tuple[FederationView, Assignment]:
    """The view of the server, and the truth that the federation wrote."""
    pool, held_out = (load_records(f"subject.py:{n}", "", place) for n in ("train", "held_out"))
    played = Transcript.open(place / "runs" / "clinics-001").rounds if rounds is None else rounds
    network = load_object("subject.py:network", place)
    updates = TranscriptUpdates(played, ("0", "1", "2"), network)
    view = FederationView(
        updates.models(), pool, (pool,) * 3, (held_out,) * 3, Collusion.none(len(pool)), updates
    )
    truth = prediction_tables.read_owners(place / "owners.csv", ("0", "1", "2"), view)
    return view, truth


def test_the_command_says_which_rounds_give_members_away(place: Path) -> None:
    run = place / "run"
    said = CliRunner().invoke(main, ["audit", str(place / "audit.toml"), "--run", str(run)])
    assert said.exit_code == 0, said.output
    summary = json.loads((run / "summary.json").read_text())
    assert summary["verdict"]["level"] == "leak"
    assert summary["colluder"] is None
    assert summary["rounds"] == 3
    assert summary["truth"] == {"0": 30, "1": 30, "2": 30, "nobody": 90}
    assert summary["chance"] == 1 / 4  # one of three clients, or nobody
    rounds = {one["label"]: one["rounds"] for one in summary["attacks"]}
    assert rounds == {
        "fedmia(others=False)": 3,
        "sia": 3,
        "nobody": 3,
        "stacking": 3,
        "fedmia(others=False, after_rounds=1)": 1,
        "sia(after_rounds=1)": 1,
        "stacking(after_rounds=1)": 1,
    }
    attacks = {one["label"]: one for one in summary["attacks"]}
    assert attacks["fedmia(others=False)"]["tests"]["p, permutation"] == 0.001
    assert "a colluding client" in attacks["stacking"]["reason"]
    page = (run / "report.html").read_text()
    assert "Accuracy by round" in page
    assert "is the colluding" not in page


def test_an_attack_after_fewer_rounds_sees_nothing_of_later_ones(place: Path) -> None:
    view, _ = view_of(place)
    played = list(Transcript.open(place / "runs" / "clinics-001").rounds)
    early, _ = view_of(place, tuple(played[:2]))
    for name in ("fedmia", "sia"):
        attack = catalog.federation_attack(name)
        there = AfterRounds(attack, 2)(view, np.random.default_rng(1))
        then = attack(early, np.random.default_rng(1))
        np.testing.assert_array_equal(there.client, then.client)
        assert there.score is not None
        assert then.score is not None
        np.testing.assert_allclose(there.score, then.score, rtol=1e-12, atol=1e-12)


def test_attacks_after_fewer_rounds_have_their_own_label_settings_and_needs() -> None:
    attack = AfterRounds(catalog.federation_attack("sia"), 4)
    assert attack_label(attack) == "sia(after_rounds=4)"
    assert attack.needs & catalog.federation_attack("fedmia").needs


def test_the_control_of_an_attack_after_fewer_rounds_shuffles_what_it_saw(place: Path) -> None:
    view, truth = view_of(place)
    facts = describe_assignment(view, ("0", "1", "2"), truth, 3)
    challenge = FederationChallenge(view, AssignmentSecret(facts))
    attack = AfterRounds(catalog.federation_attack("sia"), 1)
    found = challenge.attempt(attack, 0)
    assert found.finding.status is Status.DONE
    assert found.finding.settings == {"after_rounds": 1}
    blind = challenge.control(attack, found.guess, 0).blind
    assert blind is not None
    assert blind.outcome is ControlOutcome.PASSED

    @dataclasses.dataclass(frozen=True)
    class Told:
        name = "told"
        paper = "none"
        needs = catalog.federation_attack("nobody").needs

        def __call__(self, view: FederationView, rng: np.random.Generator) -> Assignment:
            del view, rng
            return truth

    blind = challenge.control(AfterRounds(Told(), 1), truth, 0).blind
    assert blind is not None
    assert blind.outcome is ControlOutcome.FAILED


def test_a_server_knows_no_record_and_names_every_client(place: Path) -> None:
    view, truth = view_of(place)
    few = view.records.take(np.arange(60))
    small = dataclasses.replace(
        view, records=few, relevant=(few,) * 3, collusion=Collusion.none(60)
    )
    for name in ("sia", "fedmia", "cluster-lira", "variance-lira", "confidence-rule", "nobody"):
        guess = catalog.federation_attack(name)(small, np.random.default_rng(0))
        assert guess.score is not None
        assert guess.score.shape == (60, 3)
        assert set(guess.client) <= {NOBODY, 0, 1, 2}
    sia = catalog.federation_attack("sia")(view, np.random.default_rng(0))
    members = truth.client != NOBODY
    assert (sia.client == truth.client)[members].mean() > 0.5
    assert set(sia.client) == {0, 1, 2}
    with pytest.raises(NotApplicable, match="colluding client"):
        catalog.federation_attack("stacking")(view, np.random.default_rng(0))
    with pytest.raises(DataError, match="without a colluding client"):
        dataclasses.replace(view, collusion=Collusion(None, np.zeros(0, bool), members))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("after_rounds = [1]", "after_rounds = [3]", "below 3 in assignment.after_rounds, got 3"),
        ('network = "subject.py:network"', "", "'assignment.network' beside transcript"),
        ('external = "subject.py:held_out"', "", "'assignment.external' beside transcript"),
        ("after_rounds = [1]", 'colluder = "0"', "no key 'assignment.colluder' beside"),
        ('transcript = "runs/clinics-001"', "", "'assignment.predictions' where there is no"),
    ],
)
def test_settings_that_do_not_fit_are_named(place: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        audit_federation(settings(place, old, new), place / "refused")
    assert not (place / "refused").exists()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('network = "subject.py:network"', 'network = "subject.py:other"', "size mismatch"),
        ("subject.py:held_out", "subject.py:narrow", "cannot be multiplied"),
        ("subject.py:held_out", "subject.py:odd", "classes below 2 in assignment.external, got 2"),
    ],
)
def test_what_does_not_fit_the_transcript_is_refused_at_once(
    place: Path, old: str, new: str, says: str
) -> None:
    with pytest.raises(DivulgeError, match=says):
        audit_federation(settings(place, old, new), place / "refused")
    assert not (place / "refused").exists()


def broken(place: Path, name: str, client: str, rounds: tuple[int, ...]) -> Path:
    """A copy of the transcript in which a client sent infinity in some rounds."""
    played = []
    for one in Transcript.open(place / "runs" / "clinics-001").rounds:
        received = dict(one.received)
        if one.number in rounds:
            tensors = {n: a.copy() for n, a in received[client].tensors.items()}
            tensors["0.bias"][0] = np.inf
            received[client] = ReceivedUpdate(tensors, 30)
        played.append(dataclasses.replace(one, received=received))
    writer.write(place / name, name, played)
    return settings(place, "runs/clinics-001", name)


def test_an_infinite_update_costs_its_client_that_round_and_the_others_nothing(
    place: Path,
) -> None:
    found = audit_federation(broken(place, "once", "1", (1,)), place / "once-run")
    assert "Client 1 sent NaN or infinity in round 1, left out." in found.lines()
    assert json.loads((place / "once-run" / "summary.json").read_text())["rounds"] == 3


def test_a_client_without_any_usable_round_is_left_out_with_its_records(place: Path) -> None:
    found = audit_federation(broken(place, "always", "2", (0, 1, 2)), place / "always-run")
    assert found.facts.clients == ("0", "1")
    said = "Client 2 sent NaN or infinity in 3 rounds, the first of them round 0"
    assert f"{said}, so nothing is said about it." in found.lines()
    assert "The 30 candidates of clients without a usable round are left out." in found.lines()
    summary = json.loads((place / "always-run" / "summary.json").read_text())
    assert summary["truth"] == {"0": 30, "1": 30, "nobody": 90}
    reasons = {one.label: one.reason for one in found.findings if one.status is Status.FAILED}
    assert not reasons
