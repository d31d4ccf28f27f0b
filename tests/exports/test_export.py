"""What other tools read of a run: every format, of every kind of run, by readers of others."""

import errno
import functools
import itertools
import json
import os
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import junitparser
import pytest

import divulge
from divulge.audits.result import Audit
from divulge.core import Status
from divulge.errors import SpecError, StoreError
from divulge.exports.ci import job_summary, junit, sarif
from divulge.exports.ci.cases import RunCases
from divulge.exports.ci.gather import gather_cases
from divulge.exports.evidence import annex
from divulge.exports.export import read_gate
from divulge.exports.trackers.tracked import gather_figures, name_figures
from divulge.finished_runs.finished_run import load
from divulge.finished_runs.gate import Gate
from divulge.report import model_card
from tests import resealed
from tests.exports import finished
from tests.report import cases as benches
from tests.report import reading
from tests.report.federation import test_brief as federations

KINDS = (
    "run-membership",
    "run-in-turn",
    "run-comparison",
    "run-composition",
    "run-interactions",
    "run-assignment",
)
LEAK = ("--fail-on", "leak")


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A small run of a kind, made once by the real writers."""
    return finished.make_runs(tmp_path_factory)


@pytest.fixture
def membership(make: Callable[[str], Path]) -> Path:
    """Of 30 members and 30 others, all of whom can be told apart."""
    return make("run-membership")


call = functools.partial(finished.call, "export")


@functools.cache
def audit_of(case: str) -> Audit:
    """The audit of a case, whose summary is made once."""
    return Audit(replace(benches.contents(case), missing=()))


def cases_of(case: str, **gate: Any) -> RunCases:
    return gather_cases(audit_of(case), Path("runs/bench-001"), Gate(**gate))


def read_junit(content: bytes, folder: Path) -> junitparser.JUnitXml:
    path = folder / "read.xml"
    path.write_bytes(content)
    found = junitparser.JUnitXml.fromfile(str(path))
    assert isinstance(found, junitparser.JUnitXml)
    return found


def results_of(content: bytes) -> list[dict[str, Any]]:
    (described,) = json.loads(content)["runs"]
    found: list[dict[str, Any]] = described["results"]
    return found


def check_sarif(content: bytes) -> None:
    """As code scanning wants it; and as the official schema, where a variable names its file."""
    log = json.loads(content)
    assert log["version"] == "2.1.0"
    (described,) = log["runs"]
    rules = described["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"]
        assert rule["help"]["text"]
    prints = []
    for result in described["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place["region"]["startLine"] == 1
        uri = place["artifactLocation"]["uri"]
        assert not uri.startswith("/")
        assert ":" not in uri
        prints.append((result["ruleId"], result["partialFingerprints"]["primaryLocationLineHash"]))
    assert len(set(prints)) == len(prints)
    if schema := os.environ.get("DIVULGE_SARIF_SCHEMA"):
        kind = jsonschema.validators.validator_for(json.loads(Path(schema).read_bytes()))
        kind(json.loads(Path(schema).read_bytes())).validate(log)


def test_sarif_is_held_against_the_official_schema() -> None:
    if "DIVULGE_SARIF_SCHEMA" not in os.environ:
        pytest.skip("SARIF NOT HELD against its schema: name its file in DIVULGE_SARIF_SCHEMA")
    check_sarif(sarif.render(cases_of("leaky"), "audit.toml"))


def test_junit_is_held_against_the_schema_of_jenkins() -> None:
    if "DIVULGE_JUNIT_SCHEMA" not in os.environ:
        pytest.skip("JUnit NOT HELD against its schema: name its file in DIVULGE_JUNIT_SCHEMA")
    xmlschema = pytest.importorskip("xmlschema")
    schema = xmlschema.XMLSchema(os.environ["DIVULGE_JUNIT_SCHEMA"])
    for case in ("leaky", "hostile", "empty"):
        schema.validate(junit.render(cases_of(case, fail_on=("leak",))).decode())


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_is_written_for_every_tool(
    make: Callable[[str], Path], kind: str, tmp_path: Path
) -> None:
    run = make(kind)
    files = [tmp_path / name for name in ("junit.xml", "divulge.sarif", "summary.md")]
    options = ["--junit", files[0], "--sarif", files[1], "--job-summary", files[2]]
    done = call(run, *options)
    assert done.stdout.split() == [str(path) for path in files]
    found = load(run)
    suites = read_junit(files[0].read_bytes(), tmp_path)
    tests = [test for suite in suites for test in suite]
    assert suites.tests == len(tests) == len(found.findings)
    for test, finding in zip(tests, found.findings, strict=True):
        ending = {Status.FAILED: junitparser.Error, Status.NOT_APPLICABLE: junitparser.Skipped}
        if finding.status is Status.DONE:
            assert not test.result
            assert all(name in test.system_out for name in finding.metrics)
        else:
            (result,) = test.result
            assert isinstance(result, ending[finding.status])
            assert result.message == finding.reason
        assert finding.label.endswith(test.name)
    check_sarif(files[1].read_bytes())
    text = files[2].read_text(encoding="utf-8")
    assert text.startswith("## divulge: ")
    assert "Gate" not in text
    page = run / found.page
    page.write_text("<!doctype html>")  # a stand-in: drawing it takes longest
    packed = divulge.check_evidence(divulge.evidence(run, tmp_path / "pack.zip")).manifest
    page.unlink()
    assert packed.figures == name_figures(gather_figures(found))
    assert packed.challenge
    assert found.page in packed.files
    if kind == "run-comparison":
        return
    same = divulge.diff(run, run)
    assert not same.settings
    assert not same.lost
    assert all(one.difference.value == 0.0 and not one.is_worse for one in same.figures)
    assert len(divulge.history([run, run]).changes) == 1


def test_a_gate_that_failed_is_a_failure_and_an_undecided_one_an_error(tmp_path: Path) -> None:
    ceilings = {"auc": 0.5, "advantage": 1.0, "balanced_accuracy": 0.99}
    told = cases_of("leaky", fail_on=("leak", "undecided"), fail_above=ceilings)
    content = junit.render(told)
    gate, attacks = read_junit(content, tmp_path)
    assert gate.name == "bench: gate"
    ends = {test.name: [type(one) for one in test.result] for test in gate}
    assert ends == {
        "fail-on leak": [junitparser.Failure],
        "fail-on undecided": [],
        "fail-above auc": [junitparser.Failure],
        "fail-above advantage": [],
        "fail-above balanced_accuracy": [],
    }
    (failure,) = next(iter(gate)).result
    assert "This model leaks its training records" in failure.message
    assert "Deciding attack: threshold(signal=loss): auc 0." in failure.text
    assert "95 % interval" in failure.text
    assert failure.text.endswith("Report: runs/bench-001/report.html")
    assert (gate.tests, gate.failures, gate.errors, gate.skipped) == (5, 2, 0, 0)
    assert (attacks.tests, attacks.failures, attacks.errors, attacks.skipped) == (5, 0, 1, 1)
    few = cases_of("tiny", fail_on=("leak",))
    (test,) = next(iter(read_junit(junit.render(few), tmp_path)))
    assert [type(one) for one in test.result] == [junitparser.Error]
    assert "Give at least" in test.result[0].message


@pytest.mark.parametrize(
    ("case", "rules"),
    [
        ("leaky", {"leak": "error", "attack-failed": "warning"}),
        ("tight", {}),
        ("confounded", {"confounded": "warning", "check": "note"}),
        ("failed", {"instrument-failed": "warning"}),
        ("tiny", {"undecided": "warning"}),
        ("empty", {"nothing-measured": "warning", "attack-failed": "warning"}),
        ("exchanged", {"inputs-doubtful": "warning"}),
        ("refuted", {"leak": "error"}),
    ],
)
def test_code_scanning_shows_what_is_wrong_and_nothing_else(
    case: str, rules: dict[str, str]
) -> None:
    content = sarif.render(cases_of(case), "privacy/audit.toml")
    check_sarif(content)
    found = {one["ruleId"].removeprefix("divulge/"): one["level"] for one in results_of(content)}
    assert found == rules
    for one in results_of(content):
        place = one["locations"][0]["physicalLocation"]["artifactLocation"]
        assert place["uri"] == "privacy/audit.toml"


def test_a_gate_makes_its_verdict_an_error_and_adds_what_the_verdict_does_not_say() -> None:
    asked = {"fail_on": ("leak", "undecided"), "fail_above": {"auc": 0.1, "epsilon": 0.5}}
    found = results_of(sarif.render(cases_of("tiny", **asked), "audit.toml"))
    levels = [(one["ruleId"].removeprefix("divulge/"), one["level"]) for one in found]
    assert levels[0] == ("undecided", "error")
    gate = [one for one in levels if one[0].startswith("gate-")]
    told = cases_of("tiny", **asked)
    ceilings = [case.result for case in told.gate if case.condition.startswith("fail-above")]
    assert [rule.removeprefix("gate-") for rule, _ in gate] == [
        result for result in ceilings if result != "passed"
    ]


def test_fingerprints_are_the_same_when_figures_change() -> None:
    def prints(content: bytes) -> list[str]:
        return [
            one["partialFingerprints"]["primaryLocationLineHash"] for one in results_of(content)
        ]

    made = benches.bench(seed=21)
    first, second = (
        gather_cases(
            Audit(
                made.contents(
                    [
                        made.done("threshold", made.shifted(by)),
                        benches.lost("gap", Status.FAILED, f"error number {by}"),
                    ]
                )
            ),
            Path(f"runs/bench-00{by}"),
            Gate(fail_above={"auc": 0.5}),
        )
        for by in (1, 2)
    )
    one, other = sarif.render(first, "audit.toml"), sarif.render(second, "audit.toml")
    assert one != other
    assert prints(one) == prints(other)
    assert len(set(prints(one))) == 3
    assert not set(prints(one)) & set(prints(sarif.render(first, "other.toml")))


def test_no_text_of_others_becomes_markup(tmp_path: Path) -> None:
    told = cases_of("hostile", fail_on=("leak",))
    suites = read_junit(junit.render(told), tmp_path)
    assert suites.tests == 1 + len(told.attacks)
    labels = {test.name for suite in suites for test in suite}
    assert benches.HOSTILE[0] in labels
    content = sarif.render(told, "a b/audit:1.toml")
    check_sarif(content)
    texts = [one["message"]["text"] for one in results_of(content)]
    assert not any("](" in text for text in texts)
    place = results_of(content)[0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place["uri"] == "a%20b/audit%3A1.toml"
    said = job_summary.render(told)
    for bad in ("<script", "<b ", "](http", "@all", "\x00", "\u202e", "\ud800"):
        assert bad not in said
    table = [line for line in said.splitlines() if line.startswith("| fail-on")]
    assert all(line.count("|") == 4 for line in table)


def test_the_exit_code_is_that_of_the_gate(membership: Path, tmp_path: Path) -> None:
    written = ["--junit", tmp_path / "junit.xml"]
    failed = call(membership, *written, "--fail-above", "auc=0.1", code=3)
    assert "Gate failed: auc: lower limit" in failed.stderr
    assert (
        "over the agreed ceiling"
        in call(membership, *written, "--ceiling", "auc=0.501", code=3).stderr
    )
    undecided = call(membership, *written, "--fail-above", "tpr@0.001=0.5", code=4)
    assert "Gate undecided: tpr@0.001" in undecided.stderr
    assert "Gate passed" in call(membership, *written, "--fail-above", "auc=1").stderr
    before = (tmp_path / "junit.xml").read_bytes()
    call(membership, *written, "--fail-above", "auc=1")
    assert (tmp_path / "junit.xml").read_bytes() == before


def test_the_gate_of_the_settings_holds_too(membership: Path, tmp_path: Path) -> None:
    head = membership / "run.json"
    before = head.read_text()
    manifest = json.loads(before)
    manifest["settings"]["gate"] = {"fail_above": {"auc": 0.1}}
    resealed.write(head, manifest)
    try:
        ruling = divulge.export(membership, junit=tmp_path / "junit.xml")
        assert len(ruling.failed) == 1
        joint = divulge.export(membership, junit=tmp_path / "junit.xml", fail_above={"auc": 1.0})
        assert joint.failed == ruling.failed
        assert len(joint.passed) == 1
        manifest["settings"]["gate"] = {"fail_above": 3}
        resealed.write(head, manifest)
        with pytest.raises(StoreError, match=r"run\.json as divulge wrote it"):
            divulge.export(membership, junit=tmp_path / "other.xml")
        assert not (tmp_path / "other.xml").exists()
    finally:
        head.write_text(before)


def test_github_names_the_file_of_the_summary_which_keeps_what_is_there(
    membership: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert "GITHUB_STEP_SUMMARY" in call(membership, "--job-summary", code=2).stderr
    summary = tmp_path / "summary"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    call(membership, "--job-summary")
    once = summary.read_text(encoding="utf-8")
    call(membership, "--job-summary")
    assert summary.read_text(encoding="utf-8") == 2 * once
    divulge.export(membership, job_summary=summary)
    assert summary.read_text(encoding="utf-8") == once


def test_a_model_card_keeps_what_others_wrote_and_gets_one_section(
    membership: Path, make: Callable[[str], Path], tmp_path: Path
) -> None:
    read = pytest.importorskip("huggingface_hub").ModelCard.load
    place = tmp_path / "README.md"
    place.write_text("---\nlicense: mit\ntags:\n- tabular\n---\n\n# Mine\n\nText.\n")
    call(membership, "--model-card", place)
    once = place.read_text(encoding="utf-8")
    with place.open("a") as file:
        file.write("\n## After\n")
    call(make("run-interactions"), "--model-card", place)
    other = read(place)
    call(membership, "--model-card", place)
    card = read(place)
    assert place.read_text(encoding="utf-8") == once + "\n## After\n"
    assert card.data.to_dict() == {"license": "mit", "tags": ["tabular"]}
    for text in (card.text, other.text):
        assert text.count("## Privacy audit") == 1
        assert text.index("# Mine") < text.index("## Privacy audit") < text.index("## After")
    assert "This model leaks its training records" in card.text
    assert "This model leaks" not in other.text
    damaged = once.replace("<!-- divulge: end -->", "")
    place.write_text(damaged, encoding="utf-8")
    assert "one whole section" in call(membership, "--model-card", place, code=2).stderr
    place.write_bytes(b"\xff")
    assert "in UTF-8" in call(membership, "--model-card", place, code=2).stderr
    assert place.read_bytes() == b"\xff"
    fresh = tmp_path / "new.md"
    call(membership, "--model-card", fresh)
    assert fresh.read_text(encoding="utf-8").startswith("<!-- divulge: privacy audit -->\n")


@pytest.mark.parametrize("kind", ["run-membership", "run-comparison"])
def test_an_archive_is_the_run_again(
    make: Callable[[str], Path], kind: str, tmp_path: Path
) -> None:
    run, packed = make(kind), tmp_path / "run.zip"
    divulge.export(run, archive=packed)
    once = packed.read_bytes()
    (run / ".lock").touch()
    call(run, "--archive", packed)
    assert packed.read_bytes() == once
    with zipfile.ZipFile(packed) as found:
        assert found.testzip() is None
        found.extractall(tmp_path)
    whole = {path.relative_to(run) for path in run.rglob("*") if path.is_file()}
    again = tmp_path / run.name
    assert {path.relative_to(again) for path in again.rglob("*") if path.is_file()} == whole - {
        Path(".lock")
    }
    assert divulge.load(again).findings == divulge.load(run).findings
    (run / ".lock").unlink()
    link = run / "link"
    link.symlink_to(tmp_path)
    try:
        assert "got a link" in call(run, "--archive", tmp_path / "other.zip", code=2).stderr
        assert not [path for path in tmp_path.iterdir() if path.name not in ("run", "run.zip")]
    finally:
        link.unlink()


def test_no_text_of_others_ends_the_section_of_a_model_card() -> None:
    told = cases_of("hostile")
    marks = [model_card.START, model_card.END]
    named = told.markdown, marks[0], marks[1], {marks[0]: marks[1]}
    card = model_card.put_section("", *named)
    assert [card.count(mark) for mark in marks] == [1, 1]
    assert model_card.put_section(card, *named) == card


def test_no_link_is_followed(membership: Path, tmp_path: Path) -> None:
    mine, link = tmp_path / "mine", tmp_path / "junit.xml"
    mine.write_text("mine")
    link.symlink_to(mine)
    divulge.export(membership, junit=link)
    assert mine.read_text() == "mine"
    assert not link.is_symlink()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--model-card, --archive, --mlflow, --wandb or --fail-on"),
        (("--sarif", "x.sarif", "--settings", "/etc/audit.toml"), "from the root of their"),
        (("--sarif", "x.sarif", "--settings", "../audit.toml"), "from the root of their"),
        (("--junit", "x.xml", "--fail-above", "auk=1"), "did you mean 'auc'"),
        (("--junit", "nowhere/x.xml"), "No such file or directory"),
        (("--junit", "x.xml", "--sarif", "none/x.sarif"), "No such file or directory"),
        (("--junit", "x.xml", "--sarif", "./x.xml"), "got x.xml for --junit and --sarif"),
        (("--junit", "x.xml", "--archive", "x.xml"), "got x.xml for --junit and --archive"),
        (("--junit", "x.xml", "--job-summary", "/"), "expected a file at / for --job-summary"),
        (("--junit", "x.xml", "--job-summary", "/dev/null"), "got a folder or a device"),
        (
            ("--junit", "x.xml", "--sarif", f"{'x' * 300}.sarif"),
            "each name in it up to 255 bytes long",
        ),
        (("--junit", "x.xml", "--junit", "y.xml"), "expected --junit once"),
        (("--junit", "x.xml", "--judge", "value", "--judge", "low"), "expected --judge once"),
        (("--junit", "x.xml", "--fail-above", "tpr@0.10=1"), r"did you mean 'tpr@0.1'"),
        (("--junit", "x.xml", "--not-worse-than", "none"), "expected a run folder"),
        (("--junit", "x.xml", "--model-index", "mine"), "add --model-card"),
    ],
)
def test_bad_input_is_exit_code_2_and_writes_nothing(
    membership: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in call(membership, *options, code=2).stderr
    assert not list(tmp_path.iterdir())


def test_the_order_of_ceilings_changes_no_exit_code(membership: Path, tmp_path: Path) -> None:
    ceilings = ["auc=0.5", "auc=1", "tpr@0.1=1"]
    rulings = set()
    for order in itertools.permutations(ceilings):
        words = [word for pair in order for word in ("--fail-above", pair)]
        done = call(membership, "--junit", tmp_path / "x.xml", *words, code=3)
        # a busy machine prints progress too
        rulings.add("\n".join(line for line in done.stderr.splitlines() if line[:4] == "Gate"))
    (once,) = rulings
    assert once.count("Gate failed: auc") == once.count("Gate passed: auc") == 1


def test_an_output_that_fails_late_is_named_beside_what_was_written(
    membership: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_disk(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("divulge.exports.archive.shutil.copyfileobj", fill_disk)
    options = ("--junit", "x.xml", "--sarif", "x.sarif", "--archive", "x.zip")
    done = call(membership, *options, *LEAK, code=2)
    assert "the disk is full" in done.stderr
    assert "(written: x.xml, x.sarif; not written: x.zip)" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"x.xml", "x.sarif"}


def test_a_comparison_has_a_verdict_for_each_defence_and_no_gate(
    make: Callable[[str], Path], tmp_path: Path
) -> None:
    run = make("run-comparison")
    refused = call(run, "--junit", tmp_path / "junit.xml", *LEAK, code=2)
    assert "got a comparison: name the folder of one of its defences" in refused.stderr
    assert not (tmp_path / "junit.xml").exists()
    found = load(run)
    told = gather_cases(found, run, read_gate(found))
    assert [case.about for case in told.verdicts] == ["plain", "again"]
    suites = read_junit(junit.render(told), tmp_path)
    assert [suite.name.split(": ")[1] for suite in suites] == ["plain", "again"]
    with pytest.raises(SpecError, match="one verdict"):
        divulge.export(run, junit=tmp_path / "junit.xml", fail_on=["leak"])


def test_a_run_that_is_not_finished_is_refused() -> None:
    with pytest.raises(StoreError, match="finish with --resume"):
        gather_cases(Audit(benches.contents("leaky")), Path("run"), Gate())


@pytest.mark.parametrize("case", ["leaky", "tight", "failed", "label_only", "refuted", "tiny"])
def test_the_annex_is_one_page_that_anybody_reads(case: str) -> None:
    said = reading.read(annex.render(cases_of(case)).split('<section id="appendix"')[0])
    assert sum(len(reading.words(one)) for one in said) <= 300
    assert max(len(reading.words(one)) for one in said) <= 25
    assert reading.ease(said) >= 60
    text = " ".join(said)
    for term in ("AUC", "p-value", "TPR", "FPR", "false-discovery"):
        assert term not in text
    answers = ("records a model was trained on?", "Who is concerned", "Decide now")
    for question in (*answers, "It does not say that", "reproduce.py"):
        assert question in text


def test_the_annex_of_canaries_says_who_drew_them_and_that_it_proves_no_promise() -> None:
    text = " ".join(reading.read(annex.render(replace(cases_of("leaky"), about="canaries"))))
    assert "It is no proof that the promise holds" in text
    assert "Secret coins decided" in text
    assert "The auditor said" not in text


@pytest.mark.parametrize("case", ["shares", "expected clicks", "owners", "small", "sums"])
def test_the_annex_of_a_federation_is_one_page_that_anybody_reads(case: str) -> None:
    told = federations.story(case)
    run = cases_of("leaky")
    (verdict,) = run.verdicts
    verdict = replace(
        verdict,
        level=told.verdict.level,
        headline=told.verdict.headline,
        brief=told.brief,
        further=(),
    )
    text = annex.render(replace(run, about="composition", verdicts=(verdict,)))
    said = reading.read(text.split('<section id="appendix"')[0])
    assert sum(len(reading.words(one)) for one in said) <= 300
    assert max(len(reading.words(one)) for one in said) <= 25
    assert reading.ease(said) >= 60
    assert told.brief.decision.split(".")[0].split("?")[0] in " ".join(said)


def test_the_appendix_begins_with_the_deciding_attack_then_goes_by_falling_auc() -> None:
    run = cases_of("leaky")
    made = [
        replace(run.attacks[0], label=f"attack {auc}", strength=(False, -auc), titled=(f"{auc}",))
        for auc in (0.5, 0.7, 0.6, 0.9)
    ]
    verdict = replace(run.verdicts[0], attack="attack 0.6")
    page = annex.render(replace(run, verdicts=(verdict,), attacks=tuple(made)))
    rows = re.findall(r"<bdi>attack ([\d.]+)</bdi>", page)
    assert rows == ["0.6", "0.9", "0.7", "0.5"]


def test_the_appendix_of_the_annex_has_all_figures_and_whether_they_count() -> None:
    page = annex.render(cases_of("leaky"))
    assert re.search(r"TPR at 1\s%\sFPR 0\.353", page)
    assert "tpr@0.01" not in page
    assert "<td>passed</td>" in page
    failed = annex.render(cases_of("failed"))
    assert "<td>passed</td>" not in failed
    assert failed.count("these figures do not count") == 1
