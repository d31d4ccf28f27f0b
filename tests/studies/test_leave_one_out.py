"""Every model of a fleet audited against the others."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats
from sklearn.tree import DecisionTreeClassifier

import divulge
from divulge.cli.main import main
from divulge.core import Shadows
from divulge.metrics import intervals
from divulge.metrics.joint_test import add_deviations
from divulge.metrics.shared_shadows import covariance_between, influence
from divulge.report import words
from divulge.studies.leave_one_out import joint
from divulge.studies.leave_one_out.result import LeaveOneOut
from divulge.targets.function import FunctionTarget
from divulge.targets.recorded import RecordedTarget
from divulge.testing import forests
from divulge.training.shadows import train as training
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.trainers import as_trainer
from tests import resealed
from tests.golden import golden
from tests.kinds import grouped
from tests.report import markup

ATTACKS = tuple(divulge.attack(name) for name in ("calibrated", "threshold", "quantile"))
RECORDS, REFERENCE = forests.draw(160, 0), forests.draw(60, 1)
TREE = DecisionTreeClassifier(min_samples_leaf=2)

SUBJECT = """
import numpy as np
from sklearn.tree import DecisionTreeClassifier

rng = np.random.default_rng(0)
x = rng.normal(size=(200, 6))
y = np.where(rng.random(200) < 0.3, rng.integers(0, 3, 200), np.argmax(x[:, :3], axis=1))
records, some, rest = (x, y), (x[:50], y[:50]), (x[50:], y[50:])

def train(x, y, seed):
    with open(__file__ + ".log", "a") as log:
        log.write("x")
    return DecisionTreeClassifier(min_samples_leaf=2, random_state=seed).fit(x, y)
"""

SETTINGS = """
name = "in turn"
[leave_one_out]
models = {models}
targets = {targets}
train = "subject.py:train"
[data]
{data}
[[attacks]]
name = "calibrated"
"""


def learn(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    return DecisionTreeClassifier(min_samples_leaf=2, random_state=seed).fit(x, y)


def decides(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    return FunctionTarget(learn(x, y, seed).predict, "labels", 3)


@pytest.fixture(scope="module")
def found() -> divulge.LeaveOneOut:
    return divulge.leave_one_out(
        learn,
        records=RECORDS,
        reference=REFERENCE,
        rotation=divulge.Rotation(5, targets=3),
        attacks=ATTACKS,
    )


@pytest.mark.slow
def test_each_target_is_an_ordinary_audit_of_what_it_was_trained_on(
    found: divulge.LeaveOneOut,
) -> None:
    """The slow twin: train the model by hand, and the others as its shadows."""
    plan = ShadowPlan(as_trainer(learn), 5)
    halves, seeds = plan.subsets(RECORDS, 0), plan.seeds(0)
    models = [
        learn(RECORDS.x[half], RECORDS.y[half], seed)
        for half, seed in zip(halves, seeds, strict=True)
    ]
    for k, audit in enumerate(found.targets):
        candidates = audit.candidates
        np.testing.assert_array_equal(candidates.member, halves[k])
        np.testing.assert_array_equal(candidates.index, np.arange(160))
        others = [j for j in range(5) if j != k]
        view = divulge.ModelView(RecordedTarget((RECORDS,), models[k].predict_proba(RECORDS.x)),
                                   RECORDS, REFERENCE)  # fmt: skip
        all_five = training.train_shadows(view, plan)
        shadows = Shadows(
            all_five.phi[:, others], all_five.member[:, others], all_five.reference_phi[:, others]
        )
        score = ATTACKS[0](
            dataclasses.replace(view, shadows=shadows), np.random.default_rng(0)
        ).score
        found_score = audit.contents.entries[0].score
        assert found_score is not None
        np.testing.assert_allclose(found_score, score, atol=1e-12)
        assert all(finding.status is divulge.Status.DONE for finding in audit.findings)
        assert all(entry.control is not None for entry in audit.contents.entries)


@pytest.mark.parametrize(
    ("attack", "reads"), [("threshold(signal=loss)", False), ("calibrated", True)]
)
def test_the_mean_over_targets_has_students_interval(
    found: divulge.LeaveOneOut, attack: str, reads: bool
) -> None:
    findings = [{row.label: row for row in audit.findings}[attack] for audit in found.targets]
    values = [finding.metrics["auc"].value for finding in findings]
    assert found.reads_shadows(attack) == reads
    scores = found.scores(attack)
    assert scores is not None
    each = [influence("auc", score, audit.candidates.member)
            for score, audit in zip(scores, found.targets, strict=True)]  # fmt: skip
    expected = intervals.student_mean(values, covariance=reads * covariance_between(each))
    estimate = found.across[attack]["auc"]
    assert estimate.value == pytest.approx(np.mean(values))
    assert (estimate.low, estimate.high) == pytest.approx(
        (max(0.0, expected[0]), min(1.0, expected[1]))
    )
    if not reads:
        assert expected == pytest.approx(
            stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
        )


def test_what_scores_fast_is_scored_again_for_memberships_permuted_together(
    found: divulge.LeaveOneOut,
) -> None:
    assert found.drawn is not None
    assert not np.isnan(found.drawn).any()  # nothing here is slow
    some = dataclasses.replace(found, drawn=None)
    assert found.verdict.level == some.verdict.level == "leak"
    # models that leak lie beyond what their own permuted memberships show
    scores = found.scores("calibrated")
    assert scores is not None
    best = add_deviations(scores, [audit.candidates.member for audit in found.targets])
    assert best[0] > found.drawn[0, 0].max()


def test_the_page_has_each_target_s_auc_of_the_attack_that_decides(
    found: divulge.LeaveOneOut,
) -> None:
    assert found.verdict.attack == "calibrated"
    for row, audit in zip(found._story().targets, found.targets, strict=True):
        findings = {one.label: one for one in audit.findings}
        assert row.auc == findings["calibrated"].metrics["auc"]
        assert row.level == audit.verdict.level
        (check,) = (one for one in audit.checks if one.name == "model accuracy")
        assert row.members == check.estimates["members"]
        assert row.nonmembers == check.estimates["non-members"]


def test_an_epsilon_that_no_attack_on_the_targets_could_exceed_is_undecided() -> None:
    found = divulge.leave_one_out(
        learn, records=RECORDS, attacks=ATTACKS[:1], rotation=divulge.Rotation(4, targets=2)
    )
    assert 0 < found.limits["epsilon"].estimate.low <= found.reach < 20
    (sentence,) = found.gate(fail_above={"epsilon": 20.0}).undecided
    assert "an attack that knows every member would show no more than" in sentence
    assert found.gate(fail_above={"epsilon": 0.99 * found.reach}).undecided == ()


def test_permuted_memberships_are_kept_in_the_folder(tmp_path: Path) -> None:
    asked: dict[str, Any] = {
        "records": RECORDS, "attacks": ATTACKS[:2], "rotation": divulge.Rotation(4, targets=2)
    }  # fmt: skip
    first = divulge.leave_one_out(learn, **asked, run=tmp_path / "run")
    again = LeaveOneOut.load(tmp_path / "run")
    assert first.drawn is not None
    np.testing.assert_array_equal(first.drawn, again.drawn)
    assert first.verdict == again.verdict
    # as in older folders: p-values of targets are merged
    (tmp_path / "run" / joint.FILE).unlink()
    resealed.renew(tmp_path / "run", joint.FILE)
    older = LeaveOneOut.load(tmp_path / "run")
    assert older.drawn is None
    assert older.verdict.p_value is not None
    assert first.drawn is not None
    joint.store(tmp_path / "run", first.drawn[:1])
    with pytest.raises(divulge.errors.StoreError, match="run the audit again"):
        LeaveOneOut.load(tmp_path / "run")


def test_students_interval_covers_what_it_promises() -> None:
    """Four standard errors of a coverage of 95 % in 4000 trials: 1.4 points."""
    rng = np.random.default_rng(0)
    for n in (2, 5, 16):
        inside = [
            low <= 1.0 <= high
            for low, high in (
                intervals.student_mean(rng.normal(1.0, 3.0, n).tolist()) for _ in range(4000)
            )
        ]
        assert abs(np.mean(inside) - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 4000)


def test_the_null_is_found_to_be_one() -> None:
    """Models that learn nothing of any record: no mean clearly above one half."""

    def ignorant(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
        rng = np.random.default_rng(seed)
        away = rng.normal(size=(200, 8))
        return learn(away, rng.integers(0, 3, 200), seed)

    nothing = divulge.leave_one_out(
        ignorant, records=RECORDS, rotation=divulge.Rotation(6), attacks=ATTACKS[:2]
    )
    for label in nothing.across:
        assert 0.5 in nothing.across[label]["auc"], label


def test_targets_too_small_for_a_lower_limit_pass_no_ceiling_on_it(
    found: divulge.LeaveOneOut,
) -> None:
    assert "tpr@0.1" in found.limits
    assert all("tpr@0.01" not in f.metrics for f in found.targets[0].findings)  # 80 non-members
    ruling = found.gate(fail_above={"tpr@0.01": 0.5})
    assert ruling.undecided
    few = dataclasses.replace(found.targets[0].findings[0], unmeasured={"auc": "give at least 9"})
    audit = found.targets[0]
    entries = tuple(
        dataclasses.replace(entry, finding=few) if entry.finding.label == few.label else entry
        for entry in audit.contents.entries
    )
    fewer = dataclasses.replace(
        audit, contents=dataclasses.replace(audit.contents, entries=entries)
    )
    changed = dataclasses.replace(found, targets=(fewer, *found.targets[1:]))
    assert changed.limits["auc"].attack == few.label
    assert changed.limits["auc"].undecided == "give at least 9"
    # just above the lower limit, and below the upper one
    ceiling = {"auc": changed.limits["auc"].estimate.low + 1e-9}
    assert found.gate(fail_above=ceiling).passes
    assert changed.gate(fail_above=ceiling).undecided


def test_what_is_shown(found: divulge.LeaveOneOut) -> None:
    table = found.table()
    assert "Means over 3 targets, each against 4 of the other 4 models, 160 records" in table
    assert table.startswith("**Models trained this way leak their training records** (p = ")
    assert [line.split(" |")[0] for line in table.splitlines() if line.startswith("| ")][2:] == [
        "| calibrated", "| threshold(signal=loss)", "| quantile(signal=scaled_logit)",
    ]  # fmt: skip
    assert "\nNot measured: " in table
    assert "Other training runs" not in table
    assert found.verdict.level == "leak"
    assert not found.gate(fail_on=["leak"]).passes
    assert found.gate(fail_above={"auc": 1.0}).passes
    assert "calibrated" in found._repr_html_()
    assert "calibrated" in repr(found)
    pytest.importorskip("pandas")
    frame = found.to_frame()
    assert set(frame["target"]) == {-1, 0, 1, 2}
    assert set(frame["attack"]) == {finding.label for finding in found.findings}


def test_fewer_shadows_are_those_that_follow() -> None:
    few = divulge.leave_one_out(
        TREE,
        records=RECORDS,
        rotation=divulge.Rotation(4, targets=4, shadows=2),
        attacks=ATTACKS[:1],
    )
    compared = [audit.contents.head.settings["leave_one_out"] for audit in few.targets]
    others = [[1, 2], [2, 3], [0, 3], [0, 1]]
    assert compared == [{"target": k, "shadows": own} for k, own in enumerate(others)]


@pytest.mark.slow
def test_an_attack_that_does_not_apply_is_not_lost() -> None:
    found = divulge.leave_one_out(
        TREE, records=RECORDS, rotation=divulge.Rotation(3), attacks=ATTACKS
    )
    (lost,) = (finding for finding in found.findings if finding.attack == "quantile")
    assert lost.status is divulge.Status.NOT_APPLICABLE
    assert lost.reason.startswith("3 of 3 targets: needs reference")
    assert "not applicable: 3 of 3 targets" in found.table()


def run(folder: Path, *more: str, models: int = 4, targets: int = 3, data: str = "") -> Any:
    (folder / "subject.py").write_text(SUBJECT)
    data = data or 'records = "subject.py:records"'
    (folder / "audit.toml").write_text(SETTINGS.format(models=models, targets=targets, data=data))
    arguments = ["audit", str(folder / "audit.toml"), "--run", str(folder / "run"), *more]
    return CliRunner().invoke(main, arguments)


@pytest.mark.slow
def test_from_settings_to_a_table_and_on_with_more(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.exit_code == 0, done.output
    assert "Means over 3 targets, each against 3 of the other 3 models" in done.stdout
    log = tmp_path / "subject.py.log"
    assert log.read_text() == "x" * 4
    kept = LeaveOneOut.load(tmp_path / "run")
    content = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert content["across"]["calibrated"]["auc"]["value"] == kept.across["calibrated"]["auc"].value
    shown = CliRunner().invoke(main, ["report", str(tmp_path / "run")])
    assert shown.stdout.strip() == str(tmp_path / "run" / "report.html")
    assert kept.table() in (tmp_path / "run" / "summary.md").read_text()
    text = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    whole = markup.parse(text)
    assert kept.verdict.headline in whole.text
    assert "script-src 'sha256-" in text
    assert f"{kept.across['calibrated']['auc'].value:.3f} " in whole.text
    assert whole.tags.count("tr") == 2 + len(kept.findings) + len(kept.targets)
    for audit in kept.targets:
        accuracy = next(one for one in audit.checks if one.name == "model accuracy").estimates
        assert words.format_rate(accuracy["members"]) in whole.text.replace("\u202f", " ")
    page = CliRunner().invoke(main, ["report", str(tmp_path / "run" / "targets" / "001")])
    assert page.exit_code == 0
    assert (tmp_path / "run" / "targets" / "001" / "report.html").exists()

    (tmp_path / "run" / "summary.md").unlink()
    (tmp_path / "run" / "targets" / "000" / "findings").joinpath(
        kept.targets[0].contents.head.findings[0] + ".json"
    ).unlink()
    assert run(tmp_path, "--resume").exit_code == 0
    assert log.read_text() == "x" * 4
    assert LeaveOneOut.load(tmp_path / "run").across == kept.across

    assert run(tmp_path, "--resume", models=6, targets=5).exit_code == 0
    assert log.read_text() == "x" * (4 + 2 + 1)  # model 3 again: it was no target, so it was let go
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    run(fresh, models=6, targets=5)
    assert LeaveOneOut.load(fresh / "run").across == LeaveOneOut.load(tmp_path / "run").across


@pytest.mark.slow
def test_members_and_nonmembers_are_joined(tmp_path: Path) -> None:
    data = 'members = "subject.py:some"\nnonmembers = "subject.py:rest"'
    assert run(tmp_path, data=data).exit_code == 0
    joined = LeaveOneOut.load(tmp_path / "run")
    (tmp_path / "whole").mkdir()
    run(tmp_path / "whole")
    assert joined.across == LeaveOneOut.load(tmp_path / "whole" / "run").across


@pytest.mark.slow
def test_the_gate_looks_at_the_means(tmp_path: Path) -> None:
    done = run(tmp_path, "--fail-above", "auc=0.55", "--judge", "value", "--format", "json")
    assert done.exit_code == 3
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["report"].endswith("report.html")
    assert answer["findings"][0]["metrics"]["auc"]["value"] == golden(0.7775)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": 2}, "models from 3"),
        ({"targets": 1}, "targets from 2 to 4"),
        ({"targets": 5}, "targets from 2 to 4"),
        ({"shadows": 4}, "shadows from 1 to 3"),
        ({"attacks": ATTACKS + ATTACKS}, "twice"),
        ({"train": decides}, "that give probabilities"),
        ({"class_names": ("a",)}, "class names"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    given = {"train": TREE, "records": RECORDS, "models": 4, "attacks": ATTACKS[:1]} | change
    with pytest.raises(divulge.DivulgeError, match=message):
        divulge.leave_one_out(**grouped(**given))


@pytest.mark.slow
def test_another_trainer_cannot_continue_a_run(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "records": RECORDS, "rotation": divulge.Rotation(3), "attacks": ATTACKS[:1]
    }  # fmt: skip
    divulge.leave_one_out(TREE, **given, run=tmp_path / "run")
    other = DecisionTreeClassifier(max_depth=2)
    with pytest.raises(divulge.StoreError, match="different ones"):
        divulge.leave_one_out(
            other, run=tmp_path / "run", options=divulge.Options(resume=True), **given
        )
    with pytest.raises(divulge.StoreError, match="--resume"):
        divulge.leave_one_out(TREE, **given, run=tmp_path / "run")


def test_damaged_answers_are_said(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "records": RECORDS, "rotation": divulge.Rotation(3), "attacks": ATTACKS[:1]
    }  # fmt: skip
    divulge.leave_one_out(TREE, **given, run=tmp_path / "run")
    place = tmp_path / "run" / "targets" / "001" / "answers.npy"
    for content in (b"", b"\x80\x04N.", place.read_bytes()[:200]):
        place.write_bytes(content)
        with pytest.raises(divulge.StoreError, match=r"answers\.npy"):
            divulge.leave_one_out(
                TREE, run=tmp_path / "run", options=divulge.Options(resume=True), **given
            )
