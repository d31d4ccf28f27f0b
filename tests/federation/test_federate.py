"""``divulge federate`` and ``divulge transcript inspect``, from settings to exit codes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from divulge.cli import inspection
from divulge.cli.main import main
from divulge.errors import SpecError
from divulge.federation import config, from_config
from divulge.federation.transcript.inspect import Inspection, RoundLine
from divulge.federation.transcript.reader import Transcript

SUBJECT = """
import numpy as np
from torch import nn

def records(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 90)
    return (np.eye(3)[y] + rng.normal(size=(90, 3)) / 3).astype("float32"), y

train, test = records(0), records(1)

def network():
    return nn.Linear(3, 3)

def mixing():
    return nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3))

def broken():
    raise ValueError("no layers left")
"""

SETTINGS = """
name = "toy"
rounds = 3

[data]
train = "subject.py:train"
test = "subject.py:test"

[clients]
count = 4

[training]
network = "subject.py:network"
lr = 1.0
"""


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    (tmp_path / "subject.py").write_text(SUBJECT)
    path = tmp_path / "federate.toml"
    path.write_text(SETTINGS)
    return path


def federated(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["federate", *map(str, arguments)])


def changed(path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def test_settings_become_a_transcript(settings: Path) -> None:
    done = federated(settings)
    folder = settings.parent / "runs" / "toy-001"
    assert done.exit_code == 0, done.output
    assert str(folder) in done.output
    rounds = Transcript.open(folder).rounds
    assert len(rounds) == 3
    assert [got.records for got in rounds[0].received.values()] == [22] * 4
    assert rounds[-1].metrics["accuracy"] > 0.6  # of three classes, after three steps a client
    assert federated(settings).exit_code == 0
    assert (settings.parent / "runs" / "toy-002").is_dir()


def test_a_run_is_resumed_and_never_overwritten(settings: Path) -> None:
    there = settings.parent / "t"
    assert federated(settings, "--run", there).exit_code == 0
    again = federated(settings, "--run", there)
    assert again.exit_code == 2
    assert "--resume" in again.output
    changed(settings, "rounds = 3", "rounds = 5")
    assert federated(settings, "--run", there, "--resume").exit_code == 0
    assert len(Transcript.open(there).rounds) == 5
    changed(settings, "[clients]", "[clients]\nalpha = 1.0")
    assert "different ones" in federated(settings, "--run", there, "--resume").output


def test_the_latest_run_is_resumed_unless_one_is_named(settings: Path) -> None:
    federated(settings)
    changed(settings, "rounds = 3", "rounds = 4")
    assert federated(settings, "--resume").exit_code == 0
    assert len(Transcript.open(settings.parent / "runs" / "toy-001").rounds) == 4


@pytest.mark.parametrize(
    ("clients", "sizes"),
    [
        ("sizes = [5, 10, 20]", [5, 10, 20]),
        ("sizes = [5, 10, 20]\nalpha = 0.3", [5, 10, 20]),
        ("classes = [[3, 0, 2], [0, 9, 0]]", [5, 9]),
        ("count = 3\nalpha = 0.5", [30, 30, 30]),
    ],
)
def test_clients_are_dealt_what_the_settings_say(
    settings: Path, clients: str, sizes: list[int]
) -> None:
    changed(settings, "count = 4", clients)
    federation = from_config.load_federation(config.read(settings), settings.parent)
    assert [len(rows) for rows in federation.clients] == sizes
    if "classes" in clients:
        labels = [np.bincount(federation.pool.y[rows], minlength=3) for rows in federation.clients]
        assert np.array_equal(labels, [[3, 0, 2], [0, 9, 0]])


def test_defences_stand_in_the_order_in_which_they_are_passed(settings: Path) -> None:
    noise = '[[defences]]\nname = "local-noise"\nepsilon = 5.0\ndelta = 1e-5\nclip = 1.0\n'
    with settings.open("a") as file:
        file.write(noise + '[[defences]]\nname = "secure-sum"\n')
    federation = from_config.load_federation(config.read(settings), settings.parent)
    assert [part.name for part in federation.defence.parts] == ["local-noise", "secure-sum"]  # type: ignore[attr-defined]
    assert federated(settings, "--run", settings.parent / "t").exit_code == 0
    assert Transcript.open(settings.parent / "t").rounds[0].masked is not None


PRIVACY = "[privacy]\ndelta = 1e-5\n"


def spent(folder: Path) -> list[float]:
    """ε of the first client, round by round."""
    promised = [seen.received["0"].guarantee for seen in Transcript.open(folder).rounds]
    return [guarantee.epsilon for guarantee in promised if guarantee is not None]


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing PyTorch in others takes longer than these tests."""
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")


@pytest.mark.usefixtures("one_process")
def test_a_budget_is_for_the_whole_run_and_stands_in_the_transcript(settings: Path) -> None:
    there = settings.parent / "t"
    changed(settings, "[training]", f"{PRIVACY}epsilon = 6.0\n[training]")
    assert federated(settings, "--run", there).exit_code == 0
    course = spent(there)
    assert course[0] < course[1] < course[2] == 6.0
    assert "6" in inspected(there).output
    changed(settings, "rounds = 3", "rounds = 4")  # another budget a round, so other noise
    assert "different ones" in federated(settings, "--run", there, "--resume").output


@pytest.mark.usefixtures("one_process")
def test_with_a_given_noise_rounds_may_grow(settings: Path) -> None:
    there = settings.parent / "t"
    changed(settings, "[training]", f"{PRIVACY}noise_multiplier = 1.0\n[training]")
    assert federated(settings, "--run", there).exit_code == 0
    changed(settings, "rounds = 3", "rounds = 4")
    assert federated(settings, "--run", there, "--resume").exit_code == 0
    course = spent(there)
    assert len(set(course)) == 4
    assert course == sorted(course)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("count = 4", "coun = 4", "did you mean 'count'"),
        ("rounds = 3", "round = 3", "did you mean 'rounds'"),
        ("count = 4", "", "expected one of count, sizes and classes"),
        ("count = 4", "count = 4\nsizes = [1, 2]", "got count, sizes"),
        ("count = 4", "classes = [[1, 2, 3]]\nalpha = 1.0", "without alpha"),
        ("count = 4", "classes = [[1, 2, 3], [1, 2]]", "as many classes for each client"),
        ("count = 4", "count = 91", "a record a client"),
        ("count = 4", "sizes = [91]", "91 records in the pool, got 90"),
        ("rounds = 3", "rounds = 0", "rounds"),
        ("rounds = 3", 'rounds = 3\nrule = "fedav"', "rule"),
        ("lr = 1.0", "lr = -1.0", "lr above 0"),
        ("[training]", '[[defences]]\nname = "sumo"\n[training]', "expected the name of"),
        ("[training]", "[[defences]]\nepsilon = 1.0\n[training]", "divulge list defences"),
        ("[training]", f"{PRIVACY}[training]", "either noise_multiplier or epsilon, got neither"),
        ("[training]", f"{PRIVACY}epsilon = 0.0\n[training]", "epsilon from 1e-6"),
        ("[training]", f"{PRIVACY}epsilom = 1.0\n[training]", "did you mean 'epsilon'"),
        ('network"\nlr = 1.0', f'mixing"\n{PRIVACY}epsilon = 1.0', "dp_sgd.loop.layer_norm"),
        (
            "rounds = 3",
            'rounds = 3\nrule = "fedsgd"\nprivacy = {delta = 1e-5, epsilon = 1.0}',
            'expected rule = "fedavg"',
        ),
        ("subject.py:network", "subject.py:netwrok", "did you mean 'network'"),
        ("subject.py:network", "subject.py:broken", "no layers left"),
        ("subject.py:network", "subject.py:train", "network of Recipe to be a function"),
        ("subject.py:train", "nowhere.npz", "there is none"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    settings: Path, old: str, new: str, message: str
) -> None:
    done = federated(changed(settings, old, new))
    assert done.exit_code == 2, done.output
    assert message in done.output
    assert "Traceback" not in done.output
    assert not list(settings.parent.glob("runs/*"))


def test_unknown_keys_of_each_section_name_the_nearest_one(settings: Path) -> None:
    changed(settings, "[data]", "[data]\ntets = 1")
    with pytest.raises(SpecError, match=r"'data\.tets': did you mean 'test'"):
        config.read(settings)


def inspected(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["transcript", "inspect", *map(str, arguments)])


def test_an_inspection_is_shown_and_given_to_programs(settings: Path) -> None:
    there = settings.parent / "t"
    federated(settings, "--run", there)
    shown = inspected(there)
    assert shown.exit_code == 0
    assert "toy: 3 rounds, 4 clients" in shown.output
    assert "Nothing looks odd" in shown.output
    found: dict[str, Any] = json.loads(inspected(there, "--format", "json").output)
    assert [line["number"] for line in found["rounds"]] == [0, 1, 2]
    assert {line["client"] for line in found["clients"]} == {"0", "1", "2", "3"}
    assert found["flags"] == []


def test_rounds_without_clients_hold_nothing() -> None:
    lines = (RoundLine(0, 0, hidden=False, records=None, step=None, metrics={}),)
    with CliRunner().isolation() as (out, *_):
        inspection.show(Inspection("x", "flower", "updates", "", 1, 2, lines, (), ()))
        shown = " ".join(out.getvalue().decode().split())
    assert "This transcript holds nothing to audit: 1 round, and no update of any client" in shown
    assert "Nothing looks odd" not in shown


def test_flags_are_shown_and_are_no_failure(settings: Path) -> None:
    there = settings.parent / "t"
    federated(settings, "--run", there)
    path = there / "round-0001.json"
    path.write_text(path.read_text().replace('"records": 22', '"records": -22', 1))
    shown = inspected(there)
    assert shown.exit_code == 0
    assert "round 1, client 0: says it has -22 records" in shown.output
    assert len(json.loads(inspected(there, "--format", "json").output)["flags"]) == 3


def test_long_transcripts_are_cut(settings: Path) -> None:
    changed(settings, "rounds = 3", "rounds = 30")
    there = settings.parent / "t"
    federated(settings, "--run", there)
    shown = inspected(there).output
    assert "..." in shown
    assert len(shown.splitlines()) < 50


def test_no_transcript_is_bad_input(tmp_path: Path) -> None:
    done = inspected(tmp_path)
    assert done.exit_code == 2
    assert "expected a transcript" in done.output


def test_a_name_cannot_command_the_terminal(settings: Path) -> None:
    there = settings.parent / "t"
    federated(settings, "--run", there)
    path = there / "transcript.json"
    path.write_text(path.read_text().replace('"toy"', '"\\u001b[2Jtoy"'))
    assert inspected(there).exit_code == 2
    path.write_text(path.read_text().replace("\\u001b[2Jtoy", "[red]toy"))
    assert "[red]toy" in inspected(there).output
