"""What every kind of run does alike, held on folders that an earlier version wrote.

``old_runs/KIND.zip`` are run folders of schema 5, in which each kind had a head of its own form.
They hold what is needed to load them, and the ``summary.json`` of that time.
"""

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divulge
from divulge.core.runs import SCHEMA
from divulge.errors import NotApplicable, SpecError, StoreError
from divulge.federation.transcript.layout import HEADER
from divulge.finished_runs.finished_run import FinishedRun, GatedAudit
from divulge.finished_runs.kinds import KINDS
from divulge.finished_runs.run_json import read_raw_head
from tests.exports.finished import call

from ..patience import PATIENCE
from ..slow import thin

OLD = sorted((Path(__file__).parent / "old_runs").glob("*.zip"))
NAMES = [one.stem for one in OLD]
SEVERAL = ("comparison", "federation-search")
"""Without one verdict that a gate could hold."""
TIMES = ("seconds", "created", "train_seconds")
MODULES, MODULES_OF_STUDIES = 113, 130
"""The most that loading a run of one kind, or of several models, imports of divulge."""
"""Modules of divulge that loading takes at most."""


each_third = pytest.mark.parametrize("old", thin(3, OLD), indirect=True, ids=NAMES)
"""For tests that start a process of their own."""


@pytest.fixture(params=OLD, ids=NAMES)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A run folder of an earlier version."""
    with zipfile.ZipFile(request.param) as packed:
        packed.extractall(tmp_path / "old")
    (folder,) = (tmp_path / "old").iterdir()
    return folder


def numbers(tree: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """The figures of a summary, each with its path; but for times."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key not in TIMES:
                yield from numbers(value, f"{path}/{key}")
    elif isinstance(tree, list):
        for k, value in enumerate(tree):
            yield from numbers(value, f"{path}/{k}")
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield path, tree


def figures(found: FinishedRun) -> dict[str, float]:
    return dict(numbers(json.loads(found.files()["summary.json"])))


def test_there_is_an_old_folder_of_every_kind(tmp_path: Path) -> None:
    kinds = set()
    for one in OLD:
        with zipfile.ZipFile(one) as packed:
            head = json.loads(packed.read(f"{one.stem}/run.json"))
        assert head["schema"] == 5 < SCHEMA
        kinds.add(head["kind"])
    assert kinds == KINDS.keys()


def test_an_old_folder_gives_the_figures_of_its_time(old: Path) -> None:
    before = dict(numbers(json.loads((old / "summary.json").read_text("utf-8"))))
    found = divulge.load(old)
    after = figures(found)
    assert len(before) > 5
    assert {path: after.get(path) for path in before} == before
    assert found.head.kind == read_raw_head(old)["kind"]


@each_third
def test_it_is_loaded_without_what_trains_and_attacks(old: Path) -> None:
    code = (
        "import sys, divulge; divulge.load(sys.argv[1]); "
        "print(sum(name.split('.')[0] == 'divulge' for name in sys.modules))"
    )
    command = [sys.executable, "-c", code, str(old)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    studied = read_raw_head(old)["kind"] in ("comparison", "hardening", "leave-one-out")
    assert int(done.stdout) <= (MODULES_OF_STUDIES if studied else MODULES)


def test_its_text_begins_with_the_verdict(old: Path) -> None:
    found = divulge.load(old)
    assert found.headline
    assert found.headline in str(found).splitlines()[0]
    assert found.headline in repr(found).splitlines()[0]


def test_its_page_is_written_where_it_is_wanted(old: Path, tmp_path: Path) -> None:
    found = divulge.load(old)
    place = found.report(tmp_path / "page")
    assert place == tmp_path / "page"
    assert not (old / found.page).exists()
    assert found.report() == old / found.page
    assert place.read_bytes() == (old / found.page).read_bytes() != b""
    shown = found._repr_html_()
    assert shown.startswith("<iframe" if found.page.endswith(".html") else "<pre>")
    assert "<script" not in shown


def test_each_of_its_figures_is_plotted(old: Path) -> None:
    found = divulge.load(old)
    names = [Path(path).stem for path in found.files() if path.startswith("figures/")]
    if not names:
        with pytest.raises(NotApplicable, match="report with figures"):
            found.plot()
        return
    first = found.plot()
    assert first.name == names[0]
    assert first._repr_svg_() == first.svg
    assert "<svg" in first.svg
    assert found.plot(names[-1]).name == names[-1]
    with pytest.raises(SpecError, match=names[-1]):
        found.plot(f"{names[-1]}s")


def test_it_is_saved_and_loaded_again(old: Path, tmp_path: Path) -> None:
    found = divulge.load(old)
    assert found.save(tmp_path / "saved") == tmp_path / "saved"
    again = divulge.load(tmp_path / "saved")
    assert type(again) is type(found)
    assert (again.headline, again.findings) == (found.headline, found.findings)
    assert figures(again) == figures(found)
    assert (tmp_path / "saved" / found.page).exists()
    assert read_raw_head(tmp_path / "saved")["challenge"] == found.head.challenge
    with pytest.raises(StoreError, match="expected a new folder"):
        found.save(tmp_path / "saved")


def test_it_is_a_table_with_a_row_a_figure(old: Path) -> None:
    pytest.importorskip("pandas")
    frame = divulge.load(old).to_frame()
    assert {"metric", "value", "low", "high"} <= {*frame.columns}
    assert len(frame)
    assert np.isfinite(frame["value"].astype(float)).any()


def test_a_gate_holds_it_or_says_what_it_was_given(old: Path) -> None:
    found = divulge.load(old)
    word = "contradicted" if found.about == "canaries" else "leak"
    if old.name in SEVERAL:
        with pytest.raises(SpecError, match=f"one verdict in .*, got {found.noun}: "):
            found.gate(fail_on=[word])
        with pytest.raises(SpecError, match=f"got {found.noun}: "):
            divulge.history([old, old])
        return
    ruling = found.gate(fail_on=[word])
    assert len(ruling.failed + ruling.undecided + ruling.passed) == 1
    assert found.gate().passes
    told = divulge.history([old, old])
    assert [one.headline for one in told.versions] == [found.judged().verdict.headline] * 2
    assert not any(one.is_worse for changes in told.changes for one in changes)
    later = found.gate(not_worse_than=old)
    assert not later.failed
    with pytest.raises(SpecError, match="expected a verdict"):
        found.gate(fail_on=["no such word"])


def test_it_is_exported_and_packed(old: Path, tmp_path: Path) -> None:
    found = divulge.load(old)
    found.report()
    junit, sarif = tmp_path / "junit.xml", tmp_path / "divulge.sarif"
    ruling = divulge.export(old, junit=junit, sarif=sarif, job_summary=tmp_path / "summary.md")
    assert ruling.passes
    assert found.head.name in junit.read_text("utf-8")
    assert json.loads(sarif.read_text("utf-8"))["version"] == "2.1.0"
    assert found.head.name in (tmp_path / "summary.md").read_text("utf-8")
    divulge.evidence(old, tmp_path / "pack.zip")
    checked = divulge.check_evidence(tmp_path / "pack.zip")
    assert set(checked.manifest.verdicts) == set(found.verdicts)
    assert checked.manifest.name == found.head.name


def test_it_is_rendered_by_the_command(old: Path) -> None:
    page = divulge.load(old).page
    assert call("report", old).output.strip() == str(old / page)
    if old.name != "interactions":
        refused = call("report", old, "--show-records", code=2)
        assert "expected [interactions] with images" in refused.output


def test_figures_without_guesses_are_not_measured_again(old: Path) -> None:
    found = divulge.load(old)
    if old.name in ("canaries", "federation-search"):
        with pytest.raises(StoreError, match=f"got {found.noun} in .*figures alone"):
            found.measure()
    else:
        assert figures(found.measure()) == figures(found)


def test_one_audit_is_its_own_part_and_several_have_names(old: Path) -> None:
    found = divulge.load(old)
    if isinstance(found, GatedAudit):
        assert found.parts == {"": found}
        assert found.judged() is found
    else:
        assert all(isinstance(one, GatedAudit) for one in found.parts.values())


def test_a_transcript_in_place_of_a_run_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "transcript").mkdir()
    (tmp_path / "transcript" / HEADER).write_text("{}")
    for read in (divulge.load, divulge.plan_file, lambda path: divulge.history([path, path])):
        with pytest.raises(StoreError, match=r"got the transcript of a federation.*divulge audit"):
            read(tmp_path / "transcript")
