"""Audits of a federation, from settings and a transcript to the page."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from divulge._util.seals import SEAL
from divulge.audits import config
from divulge.cli.main import main
from divulge.core import CompositionFacts, ReceivedUpdate, Round, Status
from divulge.defences.updates.secure_aggregation import SecureSum
from divulge.errors import DataError, SpecError, StoreError
from divulge.federation import Federation, Transcript, exact, simulate
from divulge.federation.transcript import writer
from divulge.federation.transcript.finite import find_broken_rounds
from divulge.training.recipe import Recipe

from ..attacks import federations
from ..kinds import audit_federation, load_federation

SUBJECT = """
from tests.attacks.federations import reference, relu as network
def known():
    one = reference()
    return one.x, one.y
"""

SETTINGS = """
name = "four classes"
[updates]
transcript = "transcript"
network = "subject.py:network"
reference = "subject.py:known"
class_names = ["<b>ant</b>", "bee", "cat", "dog"]
{counts}
[[attacks]]
name = "decaf"
level = "bias"
[[attacks]]
name = "label-counts"
method = "uniform"
[[attacks]]
name = "decaf"
level = "virtual"
clients = 24
rounds = 1
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("federated")
    (folder / "subject.py").write_text(SUBJECT)
    rows = "\n".join(f'"{k}" = {row.tolist()}' for k, row in enumerate(federations.COUNTS))
    (folder / "audit.toml").write_text(SETTINGS.format(counts=f"[updates.counts]\n{rows}"))
    blind = SETTINGS.format(counts='clients = ["3", "1"]').replace("clients = 24", "clients = 60")
    (folder / "blind.toml").write_text(blind)
    pool = federations.records(240, 100)
    recipe = Recipe(federations.relu, lr=0.05, epochs=1, batch_size=20)
    clients = exact(pool, federations.COUNTS)
    simulate(Federation(pool, clients, recipe, workers=1), 1, folder / "transcript")
    return folder


def test_the_command_stores_findings_guesses_and_a_page_and_renders_them_again(
    place: Path,
) -> None:
    before = {p: p.read_bytes() for p in (place / "transcript").iterdir() if p.is_file()}
    run = place / "run"
    command = ["audit", str(place / "audit.toml"), "--run", str(run), "--format", "json"]
    said = CliRunner().invoke(main, command)
    assert said.exit_code == 0, said.output
    answer = json.loads(said.output.splitlines()[-1])
    assert [finding["status"] for finding in answer["findings"]] == ["done"] * 3
    assert answer["findings"][0]["metrics"]["l1"]["value"] < 0.2
    assert "36 virtual clients" in answer["findings"][2]["how"]
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Client 3 seems to hold mostly cat (100\u202f%)" in page
    assert "It seems to lack &lt;b&gt;ant&lt;/b&gt;, bee and dog." in page
    assert "<b>ant" not in page
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", page)
    assert (run / "figures" / "shares.svg").is_file()
    assert {p: p.read_bytes() for p in before} == before  # the attack leaves nothing behind

    first = load_federation(run)
    assert CliRunner().invoke(main, ["measure", str(run)]).exit_code == 0
    again = load_federation(run)
    assert again.findings == first.findings
    (run / "report.html").unlink()
    assert CliRunner().invoke(main, ["report", str(run)]).exit_code == 0
    assert (run / "report.html").read_text(encoding="utf-8") == page
    resumed = audit_federation(place / "audit.toml", run, resume=True)
    assert resumed.findings == first.findings
    with pytest.raises(StoreError, match="begun with"):
        audit_federation(place / "blind.toml", run, resume=True)

    now = json.loads((run / "run.json").read_text())
    (run / "run.json").unlink()  # as a folder was before all heads had one name, and a kind
    dropped = ("divulge", "kind", "facts", SEAL)
    old = {key: value for key, value in now.items() if key not in dropped}
    old |= {"schema": 2, "another-name": "0.1.0", "subject": now["facts"]}
    (run / "federation.json").write_text(json.dumps(old))
    assert load_federation(run).findings == first.findings
    assert load_federation(run).contents.head.divulge == "0.1.0"
    old["subject"]["kind"] = "assignment"
    (run / "federation.json").write_text(json.dumps(old))
    with pytest.raises(StoreError, match="run the audit again"):
        load_federation(run)


def test_without_a_truth_there_are_guesses_alone(place: Path) -> None:
    found = audit_federation(place / "blind.toml", place / "blind")
    assert found.facts.clients == ("3", "1")
    assert found.facts.truth is None
    for finding, guess in zip(found.findings, found.guesses, strict=True):
        assert finding.status is Status.DONE, finding.reason
        assert not finding.metrics
        assert "are unknown" in finding.unmeasured["l1"]
        assert guess is not None
        np.testing.assert_allclose([one.share.sum() for one in guess], 1)
    assert found.verdict.level == "expected leak"
    assert found.verdict.attack == found.findings[2].label
    assert "2 of 2 clients" in found.verdict.sentences[0]
    again = load_federation(place / "blind")
    assert again.verdict == found.verdict
    page = (place / "blind" / "report.html").read_text(encoding="utf-8")
    assert "Expected leak, estimated without the truth" in page
    assert "errors are those about simulated clients" in page
    for given, judged in zip(found.guesses[2], again.guesses[2], strict=True):
        assert given.errors.l1.shape == (40,)
        np.testing.assert_array_equal(given.errors.null, judged.errors.null)
    command = ["audit", str(place / "blind.toml"), "--run", str(place / "gated"), "--fail-on"]
    said = CliRunner().invoke(main, [*command, "leak"])
    assert said.exit_code == 4, said.output
    assert "Verdict: expected leak." in said.output


def test_a_secure_sum_is_kept_and_said_to_hide_single_updates(place: Path, tmp_path: Path) -> None:
    pool = federations.records(240, 100)
    recipe = Recipe(federations.relu, lr=0.05, epochs=1, batch_size=20)
    clients = exact(pool, federations.COUNTS)
    hidden = Federation(pool, clients, recipe, workers=1, defence=SecureSum())
    simulate(hidden, 2, tmp_path / "transcript")
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "audit.toml").write_text(SETTINGS.format(counts=""))
    found = audit_federation(tmp_path / "audit.toml", tmp_path / "run")
    assert isinstance(found.facts, CompositionFacts)
    assert found.facts.sums == (5, 5)
    assert "A defence hides single updates" in found.verdict.headline
    assert "In 2 rounds the server got the sum of 5 clients or more" in found.verdict.sentences[0]
    assert found.verdict.next_step.startswith("Keep the protection")


def test_what_cannot_be_attacked_says_why(place: Path) -> None:
    text = (place / "blind.toml").read_text().replace('level = "bias"', "threshold = 1e9")
    (place / "odd.toml").write_text(text.replace("clients = 60", "clients = 60\nfaithful = true"))
    settings = (place / "odd.toml").read_text().replace("threshold = 1e9", "faithful = true")
    (place / "odd.toml").write_text(settings.replace("rounds = 1", "threshold = 1e9"))
    found = audit_federation(place / "odd.toml", place / "odd")
    last = found.findings[2]
    assert last.status is Status.NOT_APPLICABLE
    assert "positive entry" in last.reason
    assert "positive entry" in (place / "odd" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('[target]\nmodel = "m.pt2"\n', "alone"),
        ("[gate]\nclaim = true\n", "claim"),
    ],
)
def test_other_sections_are_refused(more: str, says: str) -> None:
    import tomllib

    table = tomllib.loads(SETTINGS.format(counts="") + more)
    with pytest.raises(SpecError, match=says):
        config.parse_config(table, "audit.toml")


def test_unknown_clients_and_missing_counts_are_named(place: Path) -> None:
    for old, new, says in (
        ('["3", "1"]', '["33"]', "'33'"),
        ('clients = ["3", "1"]', '[updates.counts]\n"3" = [0, 0, 120, 0]', "counts of client"),
    ):
        text = (place / "blind.toml").read_text().replace(old, new)
        (place / "wrong.toml").write_text(text)
        with pytest.raises(SpecError, match=says):
            audit_federation(place / "wrong.toml", place / "wrong")


def test_one_broken_client_costs_itself_alone_and_is_named(place: Path, tmp_path: Path) -> None:
    there = Transcript.open(place / "transcript")
    (played,) = there.rounds
    victim = next(iter(played.received))
    broken = {name: np.full_like(array, np.nan) for name, array in played.sent.items()}
    got = {**played.received, victim: replace(played.received[victim], tensors=broken)}
    writer.write(tmp_path / "transcript", "four", [replace(played, received=got)])
    settings = (place / "audit.toml").read_text().split("[[attacks]]")
    (tmp_path / "audit.toml").write_text("[[attacks]]".join([settings[0], settings[2]]))
    (tmp_path / "subject.py").write_text(SUBJECT)
    found = audit_federation(tmp_path / "audit.toml", tmp_path / "run")
    others = tuple(client for client in sorted(played.received) if client != victim)
    assert found.facts.clients == others
    assert [finding.status for finding in found.findings] == [Status.DONE]
    said = f"Client {victim} sent NaN or infinity in round 0, so nothing is said about it."
    assert said in found.lines()
    for name in ("report.html", "summary.json", "summary.md"):
        assert said in (tmp_path / "run" / name).read_text(encoding="utf-8")


def test_rounds_that_are_broken_for_everybody_are_left_out() -> None:
    weights, nan = {"w": np.ones(2)}, {"w": np.full(2, np.nan)}
    whole = {"a": ReceivedUpdate(weights, 1), "b": ReceivedUpdate(weights, 1)}
    first = Round(0, "weights", weights, {**whole, "b": ReceivedUpdate(nan, 1)})
    later = Round(1, "weights", nan, dict.fromkeys("ab", ReceivedUpdate(nan, 1)))
    found = find_broken_rounds((first, later), ("a", "b"))
    assert found.of("a") == {1}
    assert found.unusable == {"b"}
    assert found.notes == (
        "The server sent out NaN or infinity in round 1, left out for everybody.",
        "Client b sent NaN or infinity in round 0, so nothing is said about it.",
    )
    with pytest.raises(DataError, match="from all 2"):
        find_broken_rounds((later,), ("a", "b"))


def test_a_transcript_without_rounds_is_refused(place: Path, tmp_path: Path) -> None:
    (tmp_path / "transcript").mkdir()
    header = (place / "transcript" / "transcript.json").read_bytes()
    (tmp_path / "transcript" / "transcript.json").write_bytes(header)
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "audit.toml").write_text(SETTINGS.format(counts=""))
    with pytest.raises(StoreError, match="with rounds, got one without"):
        audit_federation(tmp_path / "audit.toml", tmp_path / "run")
