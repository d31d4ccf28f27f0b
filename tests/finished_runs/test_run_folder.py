import dataclasses
import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divulge
from divulge.attacks import catalog
from divulge.core import (
    BlindRun,
    Candidates,
    Claim,
    Control,
    ControlOutcome,
    Entry,
    Estimate,
    Finding,
    Guarantee,
    Head,
    MembershipFacts,
    Status,
)
from divulge.core.runs import SCHEMA
from divulge.errors import StoreError
from divulge.finished_runs.run_folder import Run
from divulge.secrets import wrapped
from tests import resealed

FACTS = MembershipFacts(
    delta=0.0,
    members=2,
    nonmembers=2,
    reference=0,
    classes=2,
    class_names=(),
    checks=(),
    shadows="none",
)
HEAD = Head(
    kind="audit",
    name="test",
    created="2026-01-01T00:00:00+00:00",
    challenge="abc",
    seed=0,
    attacks=("gap", "threshold(signal=loss)"),
    findings=("gap-1", "threshold-1"),
    settings={"deep": {"er": [1, 2.5, None, "<script>"]}},
    environment={"python": "3"},
    facts=FACTS,
    divulge="0",
)
CANDIDATES = Candidates(
    np.array([True, False, True, False]), np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
)
ENTRY = Entry(
    Finding(
        label="gap",
        attack="gap",
        paper="Yeom 2018",
        settings={"a": 1},
        status=Status.DONE,
        metrics={"auc": Estimate(0.1 + 0.2, 0.0, None)},
        unmeasured={"tpr@0.01": "too few"},
        queries=4,
        seconds=1.25,
    ),
    arrays={"score": np.array([0.1, -0.0, 1e-300, 3.0])},
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run.create(tmp_path / "run")
    run.begin(HEAD, CANDIDATES)
    run.put("gap-1", ENTRY)
    return run


def test_what_goes_in_comes_out(run: Run) -> None:
    contents = Run.open(run.path).contents()
    assert contents.head == HEAD
    assert contents.missing == ("threshold(signal=loss)",)
    (entry,) = contents.entries
    assert entry.finding == ENTRY.finding
    assert entry.score is not None
    assert ENTRY.score is not None
    assert entry.score.tobytes() == ENTRY.score.tobytes()
    np.testing.assert_array_equal(contents.model()[1].member, CANDIDATES.member)


def test_files_are_for_the_owner_alone_and_nothing_temporary_stays(run: Run) -> None:
    for path in [run.path, *run.path.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
        assert not path.name.startswith(".writing")


def test_time_does_not_make_findings_differ(run: Run, tmp_path: Path) -> None:
    other = Run.create(tmp_path / "other")
    slower = dataclasses.replace(ENTRY.finding, seconds=99.0)
    other.put("gap-1", dataclasses.replace(ENTRY, finding=slower))
    for suffix in (".json", ".npz"):
        mine = (run.path / "findings" / f"gap-1{suffix}").read_bytes()
        assert mine == (other.path / "findings" / f"gap-1{suffix}").read_bytes()


def test_a_used_folder_is_not_touched(run: Run, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="--resume"):
        Run.create(run.path)
    with pytest.raises(StoreError, match="expected a run folder"):
        Run.open(tmp_path)


def test_an_empty_folder_may_become_a_run(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir(mode=0o755)
    made = Run.create(tmp_path / "empty")
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="exists"):
        Run.create(tmp_path / "file")


def test_another_challenge_cannot_continue_a_run(run: Run) -> None:
    other = dataclasses.replace(HEAD, challenge="xyz")
    with pytest.raises(StoreError, match="start a new run"):
        run.begin(other, CANDIDATES)


def test_a_claim_goes_in_and_out_and_older_folders_have_none(run: Run) -> None:
    file = run.path / "run.json"
    facts = dataclasses.replace(FACTS, claim=Claim(Guarantee(8.0, 1e-5, "DP-SGD"), True))
    claimed = dataclasses.replace(HEAD, facts=facts)
    run.begin(claimed, CANDIDATES)
    assert run.head() == claimed
    table = json.loads(file.read_text())
    del table["facts"]["claim"]  # as folders were before there were claims
    resealed.write(file, table)
    assert run.head() == HEAD


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, None, "x"])
def test_a_claim_that_makes_no_sense_is_damage(run: Run, epsilon: object) -> None:
    file = run.path / "run.json"
    claim = {"guarantee": {"epsilon": epsilon, "delta": 0.1, "mechanism": ""}, "derived": False}
    table = json.loads(file.read_text())
    table["facts"]["claim"] = claim
    resealed.write(file, table)
    with pytest.raises(StoreError, match="as divulge wrote it"):
        divulge.load(run.path)


def test_a_newer_schema_is_refused(run: Run) -> None:
    file = run.path / "run.json"
    table = json.loads(file.read_text()) | {"schema": SCHEMA + 1, "new": True}
    resealed.write(file, table)
    with pytest.raises(StoreError, match="newer divulge"):
        divulge.load(run.path)


@pytest.mark.parametrize(
    "name", ["run.json", "candidates.npz", "findings/gap-1.json", "findings/gap-1.npz"]
)
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"PK\x03\x04", b"\x80\x04N.", b"null"])
def test_a_damaged_file_is_named(run: Run, name: str, content: bytes) -> None:
    (run.path / name).write_bytes(content)
    with pytest.raises(StoreError, match=Path(name).name):
        divulge.load(run.path)


def test_arrays_that_do_not_fit_are_refused(run: Run) -> None:
    run.put("gap-1", dataclasses.replace(ENTRY, arrays={"score": np.zeros(3)}))
    with pytest.raises(StoreError, match="expected 4 scores"):
        divulge.load(run.path)


def test_a_full_disk_is_said_and_nothing_is_half_written(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="disk is full"):
        run.put("gap-1", dataclasses.replace(ENTRY, arrays={"score": np.ones(4)}))
    after = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    assert before == after


def test_an_unwritable_place_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="check the path"):
        Run.create(tmp_path / "file" / "run")


def test_a_folder_that_may_not_be_read_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, flags: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(StoreError, match=r"Permission denied: check the path"):
        divulge.load(run.path)


def test_settings_of_every_attack_survive(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    for number, attack in enumerate(catalog.default_attacks()):
        settings = wrapped.attack_settings(attack)
        finding = dataclasses.replace(ENTRY.finding, settings=settings)
        run.put(f"a-{number}", Entry(finding))
        stored = run.get(f"a-{number}")
        assert stored is not None
        assert stored.finding.settings == settings


def test_a_run_from_before_the_program_had_its_name_is_read(run: Run) -> None:
    path = run.path / "run.json"
    content = json.loads(path.read_text())
    content["another-name"] = content.pop("divulge")
    resealed.write(path, content)
    assert Run.open(run.path).head() == dataclasses.replace(HEAD, divulge="0.1.0")


def test_a_folder_from_before_heads_had_kinds_is_read(run: Run) -> None:
    file = run.path / "run.json"
    table = json.loads(file.read_text())
    old = {key: table[key] for key in table if key not in ("facts", "kind")} | table["facts"]
    del old["kind"]
    resealed.write(file, old | {"schema": 1})
    assert run.head() == dataclasses.replace(HEAD, schema=1)


@pytest.mark.parametrize(
    ("old", "outcome"),
    [
        ({"p_value": 0.3, "passed": True, "reason": ""}, ControlOutcome.PASSED),
        (
            {"p_value": 0.3, "passed": True, "reason": "5 clients are too few"},
            ControlOutcome.NOT_TESTED,
        ),
        ({"p_value": None, "passed": True, "reason": "no learner"}, ControlOutcome.NOT_TESTED),
        ({"p_value": 1e-5, "passed": False, "reason": ""}, ControlOutcome.FAILED),
        ({"p_value": None, "passed": False, "reason": "it broke"}, ControlOutcome.FAILED),
    ],
)
def test_a_control_from_before_it_had_three_outcomes_is_read(
    run: Run, old: dict[str, Any], outcome: ControlOutcome
) -> None:
    planted = Estimate(0.9, 0.8, 0.95)
    control = Control(
        planted, 199, 200, calm=True, blind=BlindRun(None, None, ControlOutcome.PASSED)
    )
    run.put("a-1", dataclasses.replace(ENTRY, control=control, blind=control.blind))
    file = run.path / "findings" / "a-1.json"
    table = json.loads(file.read_text())
    table["blind"] = table["control"]["blind"] = {"measured": None} | old
    resealed.write(file, table)
    entry = run.get("a-1")
    assert entry is not None
    assert entry.control is not None
    assert entry.control.outcome is outcome
    assert entry.blind is not None
    assert entry.blind.outcome is outcome
    assert entry.blind.reason == old["reason"]


def test_a_run_of_another_kind_is_refused_by_name(run: Run) -> None:
    file = run.path / "run.json"
    resealed.write(file, json.loads(file.read_text()) | {"kind": "comparison"})
    with pytest.raises(StoreError, match="got 'comparison'"):
        run.head()
    resealed.write(file, json.loads(file.read_text()) | {"kind": "tea party"})
    with pytest.raises(StoreError, match="got 'tea party'"):
        divulge.load(run.path)


@pytest.mark.parametrize(
    ("name", "arrays"),
    [
        ("candidates.npz", {"label": np.array(["0", "1", "0", "1"])}),
        ("candidates.npz", {"index": np.array(["0", "1", "0", "1"])}),
        ("candidates.npz", {"index": np.array([0, 1, 0, -1])}),
        ("candidates.npz", {"member": np.ones(4, bool)}),
        ("findings/gap-1.npz", {"score": np.array(["0", "1", "0", "1"])}),
        ("findings/gap-1.npz", {"score": np.ones(4) * 1j}),
        ("findings/gap-1.npz", {"score": np.array([(1.0,)] * 4, [("a", "f8")])}),
        ("findings/gap-1.npz", {"score": np.ones(4, bool)}),
    ],
)
def test_arrays_of_another_type_are_damage(
    run: Run, name: str, arrays: dict[str, np.ndarray]
) -> None:
    with np.load(run.path / name) as archive:
        whole = dict(archive.items())
    np.savez(run.path / name, allow_pickle=False, **{**whole, **arrays})
    with pytest.raises(StoreError, match=r"do not fit|as divulge wrote it|expected 4 scores"):
        divulge.load(run.path)


def test_a_done_finding_without_metrics_is_damage(run: Run) -> None:
    file = run.path / "findings" / "gap-1.json"
    table = json.loads(file.read_text())
    table["finding"]["metrics"] = {}
    resealed.write(file, table)
    with pytest.raises(StoreError, match="no metric auc"):
        divulge.load(run.path)


def test_more_findings_than_attacks_are_damage(run: Run) -> None:
    file = run.path / "run.json"
    resealed.write(file, json.loads(file.read_text()) | {"attacks": []})
    with pytest.raises(StoreError, match="more or fewer findings than attacks"):
        divulge.load(run.path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
@pytest.mark.parametrize("name", ["run.json", "candidates.npz", "findings/gap-1.json"])
def test_a_pipe_in_a_run_folder_is_not_waited_for(run: Run, name: str) -> None:
    (run.path / name).unlink()
    os.mkfifo(run.path / name)
    with pytest.raises(StoreError, match="got a pipe"):
        divulge.load(run.path)


@pytest.mark.parametrize("name", ["findings", "figures", "shadows"])
def test_a_link_in_place_of_a_folder_is_not_followed_for_reading(
    run: Run, tmp_path: Path, name: str
) -> None:
    place, elsewhere = run.path / name, tmp_path / "elsewhere"
    if place.exists():
        place.rename(elsewhere)
    else:
        elsewhere.mkdir()
    place.symlink_to(elsewhere)
    for read in (run.contents, run.head, lambda: divulge.load(run.path)):
        with pytest.raises(StoreError, match=f"expected a folder at .*{name}, got a link"):
            read()
    with pytest.raises(StoreError, match="got a link"):
        Run.open(run.path)


def test_a_run_within_a_run_is_no_link(run: Run, tmp_path: Path) -> None:
    within = tmp_path / "whole" / "targets" / "001"
    within.parent.mkdir(parents=True)
    within.symlink_to(run.path)
    with pytest.raises(StoreError, match="targets/001, got a link"):
        Run(within).head()
    named = tmp_path / "mine"
    named.symlink_to(run.path)  # what the user names may be one
    assert Run(named).head() == run.head()


@pytest.mark.parametrize("key", ["../../outside", "a/../../b"])
def test_a_finding_is_read_from_the_folder_of_findings_alone(run: Run, key: str) -> None:
    with pytest.raises(StoreError, match="expected a path within"):
        run.get(key)


def test_a_finding_is_not_written_by_way_of_a_link(run: Run, tmp_path: Path) -> None:
    (run.path / "findings").rename(tmp_path / "elsewhere")
    (run.path / "findings").symlink_to(tmp_path / "elsewhere")
    before = {path: path.read_bytes() for path in (tmp_path / "elsewhere").iterdir()}
    with pytest.raises(StoreError, match="got a link"):
        run.put("gap-1", dataclasses.replace(ENTRY, arrays={"score": np.zeros(4)}))
    assert before == {path: path.read_bytes() for path in (tmp_path / "elsewhere").iterdir()}
