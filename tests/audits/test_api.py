import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import divulge
from divulge._util import folders
from divulge.attacks import catalog
from divulge.audits.challenges import asking
from divulge.core import Records, Status
from divulge.data import records
from divulge.errors import DivulgeError, SpecError
from divulge.testing import forests

from ..kinds import grouped, load_model

ZEROS = np.zeros(9, int)
FAST = (divulge.attack("threshold"), divulge.attack("gap"))


def forest(records: Records) -> RandomForestClassifier:
    return RandomForestClassifier(30, random_state=0).fit(records.x, records.y)


@pytest.fixture(scope="module")
def found() -> divulge.Audit:
    members, others = forests.draw(200, 0), forests.draw(200, 1)
    return divulge.audit(
        forest(members), members=members, nonmembers=(others.x, others.y), attacks=FAST
    )


@pytest.mark.slow
def test_the_same_findings_in_a_file_and_in_memory(found: divulge.Audit, tmp_path: Path) -> None:
    path = found.save(tmp_path / "run")
    again = load_model(path)
    assert again.findings == found.findings
    assert again.checks == found.checks
    assert again.summary == found.summary
    assert (path / "report.html").read_text() == found.report(tmp_path / "r.html").read_text()
    assert again.report() == path / "report.html"


def test_measuring_again_changes_nothing(found: divulge.Audit, tmp_path: Path) -> None:
    path = found.save(tmp_path / "run")
    files = {file: file.read_bytes() for file in (path / "findings").iterdir()}
    assert load_model(path).measure().findings == found.findings
    assert files == {file: file.read_bytes() for file in (path / "findings").iterdir()}


def test_measuring_again_keeps_attacks_that_gave_no_guess() -> None:
    members, others = forests.draw(60, 0), forests.draw(60, 1)
    attacks = [divulge.attack("lira"), divulge.attack("threshold"), divulge.attack("shadow-gap")]
    once = divulge.audit(forest(members), members=members, nonmembers=others, attacks=attacks)
    status = [finding.status.value for finding in once.findings]
    assert status == ["not applicable", "done", "not applicable"]
    assert once.measure().findings == once.findings


def test_a_frame_has_a_row_for_each_metric(found: divulge.Audit) -> None:
    pytest.importorskip("pandas")
    frame = found.to_frame()
    assert list(frame.columns) == ["attack", "status", "metric", "value", "low", "high"]
    assert len(frame) == sum(len(finding.metrics) for finding in found.findings)


def test_a_frame_keeps_an_attack_that_did_not_run() -> None:
    pytest.importorskip("pandas")
    members, others = forests.draw(50, 0), forests.draw(50, 1)
    attacks = (divulge.attack("external"),)
    audit = divulge.audit(forest(members), members=members, nonmembers=others, attacks=attacks)
    assert audit.findings[0].status is Status.NOT_APPLICABLE
    assert audit.to_frame()["status"].tolist() == ["not applicable"]


def test_a_notebook_shows_the_page_in_a_sandbox(found: divulge.Audit) -> None:
    shown = found._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert 'sandbox=""' in shown
    assert "<h1" not in shown  # escaped, inside the attribute
    assert found.summary.verdict.headline in repr(found)


def test_the_same_seed_gives_the_same_findings(found: divulge.Audit) -> None:
    members, others = forests.draw(200, 0), forests.draw(200, 1)
    model = forest(members)
    pair = [
        divulge.audit(
            model, members=members, nonmembers=others, attacks=FAST, options=divulge.Options(seed=3)
        )
        for _ in range(2)
    ]
    assert [f.metrics for f in pair[0].findings] == [f.metrics for f in pair[1].findings]
    assert pair[0].contents.head.challenge == pair[1].contents.head.challenge
    assert pair[0].contents.head.challenge != found.contents.head.challenge


def test_the_index_names_the_record_as_the_user_gave_it() -> None:
    members, others = forests.draw(60, 0), forests.draw(40, 1)
    audit = divulge.audit(forest(members), members=members, nonmembers=others, attacks=FAST)
    candidates = audit.candidates
    for flag, given in ((True, members), (False, others)):
        group = candidates.member == flag
        assert sorted(candidates.index[group]) == list(range(len(given)))
        np.testing.assert_array_equal(candidates.label[group], given.y[candidates.index[group]])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"members": (np.zeros((0, 8)), np.zeros(0, int))}, divulge.DataError, "got none"),
        ({"nonmembers": "members"}, divulge.DataError, "exact copies of members"),
        ({"members": (np.full((9, 8), np.nan), ZEROS)}, divulge.DataError, "NaN"),
        ({"members": (np.zeros((9, 7)), ZEROS)}, divulge.DataError, "one shape"),
        ({"members": (np.zeros((9, 8)), np.full(9, 7))}, divulge.DataError, "one of 0, 1, 2"),
        ({"members": (np.zeros((9, 8)), -np.ones(9, int))}, divulge.DataError, "got '-1'"),
        ({"members": np.zeros((9, 8))}, divulge.DataError, r"a pair \(x, y\)"),
        ({"members": (np.array([["a"]] * 9), ZEROS)}, divulge.DataError, "one type"),
        ({"class_names": ("a", "b")}, divulge.DataError, "expected 3 class names"),
        ({"attacks": FAST + FAST}, divulge.SpecError, "twice"),
        ({"budget": 10}, divulge.BudgetSpent, "10"),
        ({"model": lambda x: np.ones((len(x), 3))}, divulge.TargetError, "sum to about 3,"),
        ({"model": lambda x: np.full((len(x), 3), 9.5)}, divulge.TargetError, "about 28.5,"),
        ({"model": lambda x: np.full((len(x), 3), np.nan)}, divulge.TargetError, "NaN or inf"),
        ({"model": lambda x: x / "0"}, divulge.TargetError, "TypeError|UFuncTypeError"),
        ({"model": "model.pkl"}, divulge.TargetError, "pickle"),
        ({"model": 3}, divulge.TargetError, "int"),
    ],
)
def test_bad_input_is_explained(
    change: dict[str, object], error: type[Exception], message: str
) -> None:
    members, others = forests.draw(60, 0), forests.draw(60, 1)
    given: dict[str, Any] = {
        "model": forest(members), "members": members, "nonmembers": others, "attacks": FAST,
    } | change  # fmt: skip
    if given["nonmembers"] == "members":
        given["nonmembers"] = members
    with pytest.raises(error, match=message):
        divulge.audit(given.pop("model"), **grouped(**given))


class Paid:
    """A service that counts what it is asked, and may change its mind."""

    def __init__(self, version: float = 0.0) -> None:
        self.version, self.asked = version, 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.asked += len(x)
        z = np.exp(x[:, :3] + self.version)
        z[:, 0] += self.version
        return np.asarray(z / z.sum(axis=1, keepdims=True))


def resumed(folder: Path, model: Paid, fingerprint: str | None) -> divulge.Audit:
    members, others = forests.draw(60, 0), forests.draw(60, 1)
    return divulge.audit(
        model,
        members=members,
        nonmembers=others,
        attacks=FAST,
        access=divulge.Access(fingerprint=fingerprint),
        run=folder,
        options=divulge.Options(resume=True),
    )


def test_answers_of_a_model_with_a_fingerprint_are_paid_for_once(tmp_path: Path) -> None:
    first, second = Paid(), Paid()
    found = resumed(tmp_path / "run", first, "v1")
    assert first.asked == 120 + asking.ASKED_AGAIN
    assert resumed(tmp_path / "run", second, "v1").findings == found.findings
    assert second.asked == 0
    with pytest.raises(divulge.StoreError, match="another model"):
        resumed(tmp_path / "run", Paid(1.0), "v2")


@pytest.mark.slow
def test_a_changed_model_without_a_fingerprint_cannot_continue_a_run(tmp_path: Path) -> None:
    found = resumed(tmp_path / "run", Paid(), None)
    assert resumed(tmp_path / "run", Paid(), None).findings == found.findings
    with pytest.raises(divulge.StoreError, match="start a new run"):
        resumed(tmp_path / "run", Paid(1.0), None)


def test_run_folders_are_numbered(tmp_path: Path) -> None:
    base = tmp_path / "runs" / "demo"
    assert folders.numbered_folder(base).name == "demo-001"
    (tmp_path / "runs" / "demo-001").mkdir(parents=True)
    assert folders.numbered_folder(base).name == "demo-002"
    assert folders.numbered_folder(base, latest=True).name == "demo-001"


@pytest.mark.parametrize("delta", [2.0, -1.0, np.nan, np.inf])
def test_a_delta_that_is_no_probability_is_refused(delta: float) -> None:
    x, y = np.arange(40.0)[:, None], np.arange(40) % 2
    with pytest.raises(divulge.SpecError, match="of 0 or more and below 1"):
        divulge.audit(
            lambda rows: np.full((len(rows), 2), 0.5),
            members=(x[:20], y[:20]),
            nonmembers=(x[20:], y[20:]),
            options=divulge.Options(delta=delta),
        )


@pytest.mark.slow
def test_a_function_in_a_file_keeps_no_answers_unless_it_has_a_name(tmp_path: Path) -> None:
    (tmp_path / "subject.py").write_text(FUNCTION)
    for name, answers in (("", "model identity"), ('fingerprint = "v1"', "")):
        (tmp_path / "audit.toml").write_text(SETTINGS.format(fingerprint=name))
        (tmp_path / "weights").write_text("1.0")
        first = divulge.audit_file(tmp_path / "audit.toml", tmp_path / f"run-{name[:4]}")
        assert isinstance(first, divulge.Audit)
        assert first.path is not None
        assert ("model identity" in [check.name for check in first.checks]) == bool(answers)
        assert (first.path / "answers.sqlite").exists() == (not answers)
        if answers:
            (tmp_path / "weights").write_text("2.0")
            with pytest.raises(divulge.StoreError, match="start a new run"):
                divulge.audit_file(tmp_path / "audit.toml", first.path, resume=True)


def test_a_misspelt_way_to_train_is_found_before_the_model_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "subject.py").write_text(FUNCTION + "def target():\n    raise SystemExit\n")
    text = SETTINGS.format(fingerprint="").replace("subject.py:model", "subject.py:target")
    (tmp_path / "audit.toml").write_text(text + '[shadows]\ntrain = "subject.py:trian"\n')
    with pytest.raises(divulge.SpecError, match="did you mean 'train'"):
        divulge.audit_file(tmp_path / "audit.toml", tmp_path / "run")


def test_shadow_models_with_other_classes_are_refused() -> None:
    def train(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
        del x, y, seed
        return lambda x: np.full((len(x), 3), 1 / 3)

    x, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    with pytest.raises(divulge.TargetError, match=r"2 classes, as the target has, got one with 3"):
        divulge.audit(
            lambda x: np.full((len(x), 2), 0.5),
            members=(x[:20], y[:20]),
            nonmembers=(x[20:], y[20:]),
            attacks=[catalog.attack("lira")],
            shadows=divulge.ShadowModels(2, train),
        )


def test_a_word_is_no_truth_value() -> None:
    with pytest.raises(divulge.SpecError, match="True or False, got 'yes'"):
        catalog.attack("threshold", per_class="yes")


def test_endless_labels_are_named() -> None:
    for label in (1e300, -1e300):
        with pytest.raises(divulge.DataError, match=r"e\+300 at index 1"):
            records.as_records((np.eye(2), np.array([0, label])), "members")


FUNCTION = """
import dataclasses
from pathlib import Path
import numpy as np
rng = np.random.default_rng(0)
x, y = rng.normal(size=(60, 2)), np.arange(60) % 2
members, nonmembers = (x[:30], y[:30]), (x[30:], y[30:])
def model(x):
    weight = float((Path(__file__).parent / "weights").read_text())
    p = 1 / (1 + np.exp(-weight * x[:, 0]))
    return np.stack([1 - p, p], axis=1)
def train(x, y, seed):
    return model
"""

SETTINGS = """
[target]
model = "subject.py:model"
{fingerprint}
[data]
members = "subject.py:members"
nonmembers = "subject.py:nonmembers"
[[attacks]]
name = "gap"
"""


@pytest.mark.parametrize("field", [one.name for one in dataclasses.fields(divulge.Access)])
def test_a_setting_of_access_given_alone_is_refused_with_the_way_to_give_it(field: str) -> None:
    members, others = forests.draw(20, 0), forests.draw(20, 1)
    alone: Any = {field: "cpu"}
    with pytest.raises(SpecError, match=rf"got '{field}': pass access=Access\({field}=\.\.\.\)"):
        divulge.audit(forest(members), members=members, nonmembers=others, **alone)


def test_the_device_of_python_is_that_of_settings(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    (tmp_path / "subject.py").write_text(
        "import numpy as np\nfrom torch import nn\nnetwork = nn.Linear(5, 2)\n"
        "x, y = np.arange(80, dtype=np.float32).reshape(16, 5), np.arange(16) % 2\n"
        "members, nonmembers = (x[:8], y[:8]), (x[8:], y[8:])\n"
    )
    (tmp_path / "audit.toml").write_text(
        '[target]\nmodel = "subject.py:network"\noutput = "logits"\ndevice = "nowhere"\n'
        '[data]\nmembers = "subject.py:members"\nnonmembers = "subject.py:nonmembers"\n'
    )
    with pytest.raises(DivulgeError) as of_settings:
        divulge.audit_file(tmp_path / "audit.toml")
    x, y = np.arange(80, dtype=np.float32).reshape(16, 5), np.arange(16) % 2
    with pytest.raises(DivulgeError) as of_python:
        divulge.audit(
            torch.nn.Linear(5, 2),
            members=(x[:8], y[:8]),
            nonmembers=(x[8:], y[8:]),
            access=divulge.Access("logits", device="nowhere"),
        )
    assert str(of_python.value) == str(of_settings.value)
    assert "nowhere" in str(of_python.value)
