"""Runs compared: what changed, over versions too, and a gate that knows what was before."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divulge
from divulge.audits.result import Audit
from divulge.core import Contents, Estimate
from divulge.errors import SpecError
from divulge.finished_runs.changes import FigureChange, compare_figures, have_same_candidates
from divulge.finished_runs.gate import Gate, GateSpec, join_gate
from divulge.finished_runs.rulings import hold_against_earlier
from divulge.finished_runs.run_folder import Run
from tests.exports.finished import call
from tests.report import cases as benches


def version(
    leak: float, noise: int = 0, attacks: tuple[str, ...] = ("threshold",), **more: Any
) -> Contents:
    """A model audited on the same records as the others, which leaks more or less."""
    made = benches.bench(members=300, nonmembers=300, seed=5)
    shared = np.random.default_rng(11).normal(size=600)
    entries = []
    for number, name in enumerate(attacks):
        own = np.random.default_rng([noise, number]).normal(size=600)
        entries.append(made.done(name, shared + 0.2 * own + leak * made.member))
    return made.contents(entries, **more)


def store(contents: Contents, path: Path) -> Path:
    """A run folder without the report, which takes longest."""
    run = Run.create(path)
    run.begin(contents.head, contents.candidates)
    for key, entry in zip(contents.head.findings, contents.entries, strict=True):
        run.put(key, entry)
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three versions: the second leaks more, the third is as the second."""
    each = [version(0.2, 1, settings={"data": {"label": "y"}}), version(0.6, 2), version(0.6, 3)]
    folder = tmp_path_factory.mktemp("runs")
    return [store(one, folder / f"v{k + 1}") for k, one in enumerate(each)]


def test_the_same_records_make_a_difference_clear_that_intervals_alone_hide() -> None:
    one, other = Audit(version(0.2, 1)), Audit(version(0.4, 2))
    (change,) = compare_figures(one, other)
    assert change.paired
    assert change.before.high is not None
    assert change.after.low < change.before.high
    assert change.is_worse
    assert not change.is_better
    (back,) = compare_figures(other, one)
    assert back.is_better
    assert back.difference.value == pytest.approx(-change.difference.value)
    candidates = other.candidates
    moved = replace(candidates, label=(candidates.label + 1) % 10)
    (apart,) = compare_figures(one, Audit(replace(other.contents, candidates=moved)))
    assert not apart.paired
    assert not apart.is_worse
    assert apart.difference.low < change.difference.low


def test_a_shuffle_of_the_candidates_changes_nothing() -> None:
    one, other = Audit(version(0.2, 1)), Audit(version(0.4, 2))
    order = np.random.default_rng(3).permutation(600)
    c = one.candidates
    shuffled = replace(c, member=c.member[order], label=c.label[order], index=c.index[order])
    entries = tuple(
        replace(entry, arrays={"score": entry.arrays["score"][order]})
        for entry in one.contents.entries
    )
    moved = Audit(replace(one.contents, candidates=shuffled, entries=entries))
    (straight,), (again,) = compare_figures(one, other), compare_figures(moved, other)
    assert again.paired
    assert again.difference.low == pytest.approx(straight.difference.low)


def test_more_comparisons_make_wider_intervals() -> None:
    one, other = Audit(version(0.2, 1)), Audit(version(0.4, 2))
    (alone,), (many,) = compare_figures(one, other), compare_figures(one, other, 50)
    assert many.difference.low < alone.difference.low


def test_attacks_that_failed_their_controls_do_not_count() -> None:
    sound = Audit(version(0.2, 1, ("threshold", "gap")))
    entries = sound.contents.entries
    broken = Audit(
        replace(sound.contents, entries=(entries[0], replace(entries[1], control=benches.BLIND)))
    )
    assert [one.attack for one in compare_figures(sound, broken)] == ["threshold"]


def test_a_history_says_where_more_leaks_than_before(runs: list[Path], tmp_path: Path) -> None:
    found = divulge.history(runs)
    assert found.headline == f"More leaks than in the version before: {runs[1]}"
    assert [[one.is_worse for one in changes] for changes in found.changes] == [[True], [False]]
    stored = [divulge.load(run).findings[0].metrics for run in runs]
    assert found.figures["auc"]["threshold"] == tuple(metrics["auc"] for metrics in stored)
    page = found.report(tmp_path / "history.html").read_text(encoding="utf-8")
    assert page.count("<svg") == len(found.figures) == 3
    assert found.headline.split(":")[0] in page
    assert divulge.history([runs[1], runs[2]]).headline.startswith("No version was shown")
    done = call("history", *runs, "--page", tmp_path / "again.html")
    assert "More leaks than in the version before" in done.stdout
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == page
    told = json.loads(call("history", *runs, "--format", "json").stdout)
    assert told["changes"][0][0]["is_worse"] is True
    assert len(told["figures"]["auc"]["threshold"]) == 3


def test_a_difference_names_settings_data_and_figures(runs: list[Path]) -> None:
    found = divulge.diff(runs[0], runs[1])
    assert found.settings == {"data.label": ("y", None)}
    assert found.same_candidates
    assert found.data == {}
    assert [one.attack for one in found.figures] == ["threshold"]
    done = call("diff", runs[0], runs[1])
    assert 'data.label: "y" to null' in done.stdout
    assert "more than before" in done.stdout
    told = json.loads(call("diff", runs[0], runs[1], "--format", "json").stdout)
    assert told["same_candidates"] is True
    assert divulge.diff(runs[0], runs[0]).settings == {}


def test_the_gate_fails_on_more_than_before_and_passes_on_no_more(runs: list[Path]) -> None:
    found = divulge.load(runs[1])
    assert isinstance(found, Audit)
    ruling = found.gate(not_worse_than=runs[0])
    (sentence,) = ruling.failed
    assert "auc of threshold is 0." in sentence
    assert "95 % interval" in sentence
    (passed,) = found.gate(not_worse_than=runs[2]).passed
    assert "not shown to be more than" in passed
    written = runs[0].parent / "junit.xml"
    done = call("export", runs[1], "--junit", written, "--not-worse-than", runs[0], code=3)
    assert "Gate failed: auc of threshold" in done.stderr
    assert 'name="not-worse-than"' in written.read_text(encoding="utf-8")
    call("export", runs[2], "--junit", written, "--not-worse-than", runs[1])


def test_the_settings_name_the_earlier_run_from_their_folder(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = version(1.6)  # leaks more than the first run
    asked = {"gate": {"not_worse_than": f"../{runs[0].name}"}}
    head = replace(contents.head, settings={**contents.head.settings, **asked})
    shutil.copytree(runs[0], tmp_path / runs[0].name)
    later = Audit(replace(contents, head=head)).save(tmp_path / "later")
    (tmp_path / "privacy").mkdir()
    monkeypatch.chdir(tmp_path)
    place = ("--settings", "privacy/audit.toml", "--junit", "junit.xml")
    assert "Gate failed: auc of threshold" in call("export", later, *place, code=3).stderr
    both = call("export", later, *place, "--not-worse-than", later, code=3).stderr
    assert f"Gate failed: against privacy/../{runs[0].name}: auc of threshold" in both
    assert f"Gate passed: against {later}: auc of threshold" in both
    assert Path("junit.xml").read_text().count('name="not-worse-than ') == 2
    same = call("export", later, *place, "--not-worse-than", runs[0].name, code=3).stderr
    assert same.count("Gate") == 1
    shutil.rmtree(tmp_path / runs[0].name)
    assert "expected a run folder" in call("export", later, *place, code=2).stderr
    settings = tmp_path / "audit.toml"
    named = '[gate]\nnot_worse_than = "none"\n'
    settings.write_text(f'[predictions]\nfile = "none.csv"\n{named}')
    early = call("audit", settings, code=2).stderr
    assert f"made by divulge, got {tmp_path / 'none'}" in early.replace("\n", "")


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (("threshold", "gap"), ("threshold",), "not measured again: gap"),
        (("gap",), ("threshold",), "not measured again: gap"),
    ],
)
def test_what_cannot_be_compared_does_not_pass(
    before: tuple[str, ...], after: tuple[str, ...], why: str
) -> None:
    earlier, later = Audit(version(0.4, 1, before)), Audit(version(0.4, 2, after))
    ruling = hold_against_earlier(later, earlier)
    (sentence,) = ruling.undecided
    assert why in sentence
    assert not ruling.passes


@pytest.mark.parametrize("case", ["confounded", "failed", "empty", "tiny"])
def test_an_audit_without_a_verdict_is_no_ground_for_passing(case: str) -> None:
    odd = Audit(replace(benches.contents(case), missing=()))
    for ruling in (hold_against_earlier(odd, odd), hold_against_earlier(odd, Audit(version(0.4)))):
        assert not ruling.passed
        assert ruling.undecided or ruling.failed


def test_audits_of_other_secrets_and_of_one_run_alone_are_refused(
    runs: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match="about the same secret"):
        Gate(about="composition", not_worse_than={"v1": Audit(version(0.4))})
    refused = call("history", runs[0], code=2)
    assert "two run folders or more" in refused.stderr
    assert "expected a run folder" in call("diff", runs[0], tmp_path / "none", code=2).stderr
    settings = tmp_path / "audit.toml"
    settings.write_text('[predictions]\nfile = "none.csv"\n')
    early = call("audit", settings, "--not-worse-than", tmp_path / "none", code=2)
    assert "expected a run folder" in early.stderr
    assert not (tmp_path / "runs").exists()


def test_a_difference_that_ends_at_zero_shows_nothing() -> None:
    one = Estimate(0.7, 0.6, 0.8)
    for low, high, worse, better in (
        (0.0, 0.2, False, False), (1e-9, 0.2, True, False),
        (-0.2, 0.0, False, False), (-0.2, -1e-9, False, True),
    ):  # fmt: skip
        change = FigureChange("a", "auc", one, one, Estimate(0.0, low, high), False)
        assert (change.is_worse, change.is_better) == (worse, better)


def test_intervals_of_two_attacks_hold_at_once() -> None:
    one, other = (Audit(version(leak, k, ("threshold", "gap"))) for k, leak in ((1, 0.2), (2, 0.4)))
    assert compare_figures(one, other) == compare_figures(one, other, 2)


def test_candidates_at_other_positions_are_others() -> None:
    one = Audit(version(0.2, 1)).scored
    assert one is not None
    moved = replace(one.candidates, index=one.candidates.index + 1)
    assert not have_same_candidates(one, replace(one, candidates=moved))
    assert have_same_candidates(one, one)


def test_two_earlier_runs_of_one_name_are_both_compared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = Audit(version(0.4))
    monkeypatch.setattr("divulge.finished_runs.gate.load_earlier", lambda _: earlier)
    asked = GateSpec(not_worse_than="old/run")
    for second, many in ((tmp_path / "new" / "run", 2), (tmp_path / "old" / "run", 1)):
        made = join_gate(asked, "membership", not_worse_than=second, folder=tmp_path)
        assert len(made.not_worse_than) == many
