"""Audits of models that answer a number for each record."""

import csv
import dataclasses
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import divulge
from divulge.attacks import catalog
from divulge.audits import config, inputs
from divulge.checks import class_mix as checks
from divulge.checks import model as of_model
from divulge.checks import question
from divulge.core import ControlOutcome, MembershipAttack, ModelView, Need, Scores, Verdict
from divulge.core.records import STRATA
from divulge.errors import DataError, DivulgeError, SpecError, TargetError
from divulge.secrets import attempt, controls, wrapped
from divulge.targets.cache import record_keys
from divulge.training.trainers import EstimatorTrainer, FunctionTrainer
from tests.golden import golden

from .. import impostors, regressions

DEFAULT = catalog.default_attacks(shadows=True, regression=True)
CANDIDATES, REFERENCE = regressions.draw(240, 0), regressions.draw(100, 7)
MEMBERS, OTHERS = CANDIDATES.take(np.arange(120)), CANDIDATES.take(np.arange(120, 240))
TREE = DecisionTreeRegressor(min_samples_leaf=2, random_state=0)


@cache
def fitted() -> DecisionTreeRegressor:
    return DecisionTreeRegressor(min_samples_leaf=2, random_state=0).fit(MEMBERS.x, MEMBERS.y)


def audit(model: Any = None, **changes: Any) -> divulge.Audit:
    given = {
        "members": (MEMBERS.x, MEMBERS.y),
        "nonmembers": (OTHERS.x, OTHERS.y),
        "attacks": [catalog.attack("residual")],
    }
    return divulge.audit(fitted() if model is None else model, **(given | changes))


@dataclasses.dataclass(frozen=True)
class Told:
    """Adds the truth, which it was told, to the size of the residual."""

    member: bytes
    weight: float
    name: ClassVar[str] = "told"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.VALUES | Need.LABELS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        residual = catalog.attack("residual")(view, rng).score
        return Scores(residual / residual.std() + self.weight * np.frombuffer(self.member, bool))


@pytest.mark.parametrize("attack", DEFAULT, ids=wrapped.attack_label)
def test_sound_attacks_pass_all_controls(attack: MembershipAttack) -> None:
    game = regressions.game()
    guess = attempt.run_on_model(game, attack).guess
    assert guess is not None
    found = controls.run_controls(game, attack, guess)
    assert found.sees, found.planted
    assert found.calm
    assert found.outcome is ControlOutcome.PASSED, found.blind


DISHONEST: dict[str, Callable[[Any], MembershipAttack]] = {
    "truth and signal": lambda game: Told(game.truth.member.tobytes(), 1.0),
    "truth turned round": lambda game: Told(game.truth.member.tobytes(), -1.0),
    "truth by content": lambda game: impostors.Recognises(
        frozenset(record_keys(game.view.records.x[game.truth.member]))
    ),
}


@pytest.mark.parametrize("how", DISHONEST)
def test_attacks_that_were_told_the_truth_fail_on_shuffled_residuals(how: str) -> None:
    game = regressions.game()
    run = controls.control_on_shuffled(game, DISHONEST[how](game))
    assert run.outcome is ControlOutcome.FAILED
    assert run.p_value is not None
    assert run.p_value <= controls.FALSE_ALARM


@pytest.mark.parametrize("attack", catalog.default_attacks(shadows=True), ids=wrapped.attack_label)
def test_attacks_on_classifiers_do_not_apply_and_say_why(attack: MembershipAttack) -> None:
    finding = attempt.run_on_model(regressions.game(), attack).finding
    assert finding.status == "not applicable"
    assert finding.reason.endswith("it attacks classifiers, and this model answers a number")


@pytest.mark.slow
def test_a_fitted_regressor_is_audited_with_shadows_and_its_page_speaks_of_values(
    tmp_path: Path,
) -> None:
    found = audit(
        reference=(REFERENCE.x, REFERENCE.y),
        shadows=divulge.ShadowModels(4, _tree),
        attacks=[DEFAULT[0], DEFAULT[3]],
        run=tmp_path / "run",
    )
    assert [one.metrics["auc"].value for one in found.findings] == golden(0.8433, 0.7944)
    assert [check.name for check in found.checks] == [
        *("blind baseline", "reference baseline", "difficulty baseline", "duplicates"),
        *("true values", "model error", "repeatability", "size", "leaves of the model"),
        "shadow models",
    ]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["sizes"]["classes"] == 0
    assert {row["name"] for row in summary["exposure"]["classes"]} == set(STRATA)
    page = (tmp_path / "run" / "report.html").read_text()
    text = re.sub(r"<style.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)
    assert "Leakage by true value" in text
    for said in (text, (tmp_path / "run" / "summary.md").read_text(), repr(found)):
        # a metric and the ways to tune a threshold keep their names
        left = re.sub("[Bb]alanced accuracy", "", said)
        assert not re.search(r"\bclass(es)?\b|probabilit(y|ies)|accuracy", left)
    rows = list(csv.DictReader((tmp_path / "run" / "exposed.csv").read_text().splitlines()))
    assert {row["true value"] for row in rows} <= set(STRATA)
    with np.load(tmp_path / "run" / "candidates.npz") as stored:  # the true values are not there
        assert set(stored["label"].tolist()) <= set(range(len(STRATA)))
    again = divulge.load(tmp_path / "run")
    assert isinstance(again, divulge.Audit)
    assert again.summary == found.summary


def test_whole_numbers_are_true_values_too() -> None:
    rounded = [(records.x, np.round(records.y).astype(np.int64)) for records in (MEMBERS, OTHERS)]
    records = [divulge.Records(x, np.abs(y)) for x, y in rounded]
    model = DecisionTreeRegressor(min_samples_leaf=2, random_state=0).fit(*rounded[0])
    assert audit(model, members=rounded[0], nonmembers=rounded[1]).facts.classes == 0
    assert audit(model, members=records[0], nonmembers=records[1]).facts.classes == 0


def test_a_pipeline_on_a_frame_with_texts_is_audited_with_clones_as_shadows() -> None:
    pd = pytest.importorskip("pandas")
    kind = np.where(CANDIDATES.x[:, 1] > 0, "red", "blue")
    frame = pd.DataFrame({"size": CANDIDATES.x[:, 0], "kind": kind, "mass": CANDIDATES.x[:, 2]})
    encode = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    model = make_pipeline(encode, TREE).fit(frame[:120], CANDIDATES.y[:120])
    found = audit(
        model,
        members=(frame[:120], CANDIDATES.y[:120]),
        nonmembers=(frame[120:], CANDIDATES.y[120:]),
        shadows=divulge.ShadowModels(3, EstimatorTrainer(model, jobs=1)),
        attacks=[catalog.attack("residual-lira")],
    )
    assert found.findings[0].metrics["auc"].value == golden(0.7135)


def test_functions_and_modules_say_that_they_answer_values() -> None:
    def ask(x: np.ndarray) -> np.ndarray:
        return np.asarray(fitted().predict(x))

    found = audit(ask, access=divulge.Access("values"))
    assert found.findings[0].metrics == audit().findings[0].metrics
    with pytest.raises(DataError, match='pass output="values" if the model answers a number'):
        audit(ask)


def test_a_table_of_values_and_its_settings_file(tmp_path: Path) -> None:
    lines = ["predicted,price,member"]
    for records, member in ((MEMBERS, 1), (OTHERS, 0)):
        told = fitted().predict(records.x)
        lines += [f"{p!r},{y!r},{member}" for p, y in zip(told.tolist(), records.y.tolist())]  # noqa: B905
    table = tmp_path / "table.csv"
    table.write_text("\n".join(lines))
    found = divulge.audit_predictions(
        table, output="values", probabilities="predicted", label="price"
    )
    assert [one.status.value for one in found.findings] == ["done", *["not applicable"] * 2]
    auc = found.findings[0].metrics["auc"].value
    assert auc == pytest.approx(audit().findings[0].metrics["auc"].value, abs=1e-12)
    settings = tmp_path / "audit.toml"
    settings.write_text(
        '[predictions]\nfile = "table.csv"\noutput = "values"\nprobabilities = "predicted"\n'
        'label = "price"\n'
    )
    spec = config.read_config(settings)
    assert isinstance(spec, config.PredictionsAuditSpec)
    subject = inputs.load_inputs(spec, tmp_path)
    assert subject.target.offers == Need.VALUES
    np.testing.assert_array_equal(subject.members.y, MEMBERS.y)
    table.write_text("p_0,p_1,label,member\n1,2,0.5,1\n3,4,-0.5,0\n")
    with pytest.raises(DataError, match="one column of predicted values"):
        divulge.audit_predictions(table, output="values")


SUBJECT = """
import numpy as np
from sklearn.tree import DecisionTreeRegressor
def draw(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(60, 3))
    return x, x[:, 0] + rng.normal(size=60)
members, others, spare = draw(0), draw(1), draw(2)
model = DecisionTreeRegressor(min_samples_leaf=2, random_state=0).fit(*members)
def ask(x):
    return model.predict(x)
def train(x, y, seed):
    return DecisionTreeRegressor(min_samples_leaf=2, random_state=seed).fit(x, y)
"""


def test_a_settings_file_audits_a_regression_model(tmp_path: Path) -> None:
    (tmp_path / "subject.py").write_text(SUBJECT)
    settings = tmp_path / "audit.toml"
    settings.write_text(
        '[target]\nmodel = "subject.py:ask"\noutput = "values"\n'
        '[data]\nmembers = "subject.py:members"\n'
        'nonmembers = "subject.py:others"\n[shadows]\nmodels = 2\ntrain = "subject.py:train"\n'
        'pool = "subject.py:spare"\n'
    )
    found = divulge.audit_file(settings)
    assert isinstance(found, divulge.Audit)
    assert [finding.label for finding in found.findings] == list(map(wrapped.attack_label, DEFAULT))
    status = {finding.attack: finding.status.value for finding in found.findings}
    assert status["residual"] == status["residual-lira"] == "done"
    assert status["residual-rmia"] == "not applicable"
    assert divulge.plan_file(settings).members == 60


def test_models_are_audited_in_turn() -> None:
    found = divulge.leave_one_out(
        FunctionTrainer(_tree, "values"),
        records=(CANDIDATES.x, CANDIDATES.y),
        rotation=divulge.Rotation(4, targets=2),
        attacks=[catalog.attack("residual-lira")],
    )
    assert found.across["residual-lira"]["auc"].value == golden(0.7986)
    assert found.targets[0].facts.classes == 0


def test_comparisons_are_refused_with_the_nearest_way() -> None:
    with pytest.raises(SpecError, match=r"audit each with divulge\.leave_one_out"):
        divulge.compare({"tree": TREE}, records=(CANDIDATES.x, CANDIDATES.y))


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"options": divulge.Options(class_names=("a", "b"))}, DataError, "no class names"),
        ({"members": (MEMBERS.x, np.array(["low"] * 120))}, DataError, "one true value per record"),
        ({"members": (MEMBERS.x, np.zeros((120, 2)))}, DataError, "audit each output by itself"),
        (
            {"shadows": divulge.ShadowModels(1, lambda x, y, _: _classifier(x, y))},
            TargetError,
            "expected regression models as shadow models",
        ),
    ],
)
def test_what_does_not_fit_a_regression_model_is_refused(
    changes: dict[str, Any], error: type[DivulgeError], said: str
) -> None:
    with pytest.raises(error, match=said):
        audit(**changes)


def _tree(x: np.ndarray, y: np.ndarray, seed: int) -> DecisionTreeRegressor:
    return DecisionTreeRegressor(min_samples_leaf=2, random_state=seed).fit(x, y)


def _classifier(x: np.ndarray, y: np.ndarray) -> DecisionTreeClassifier:
    return DecisionTreeClassifier(max_depth=1).fit(x, y > 0)


def test_a_classifier_is_not_asked_about_true_values() -> None:
    with pytest.raises(DataError, match="class numbers as labels, as the model answers with 2"):
        audit(_classifier(MEMBERS.x, MEMBERS.y), members=MEMBERS, nonmembers=OTHERS)


def ask_about(records: divulge.Records, answers: np.ndarray) -> question.CheckInputs:
    member = np.arange(len(records)) < len(records) // 2
    return question.CheckInputs(
        records, member, None, question.SeenAnswers.of(answers[:, None]), features=True
    )


def test_values_in_another_unit_and_of_another_population_are_noticed() -> None:
    fits = ask_about(CANDIDATES, CANDIDATES.y + 0.5)
    check = of_model.check_error(fits)
    assert check.verdict is Verdict.PASS
    assert check.estimates["members"].value == pytest.approx(0.5)
    other = ask_about(CANDIDATES, 1000 * CANDIDATES.y)
    assert of_model.check_error(other).verdict is Verdict.WARNING
    assert checks.check_true_values(fits).verdict is Verdict.PASS
    order = np.argsort(CANDIDATES.y)
    sorted_ = ask_about(CANDIDATES.take(order), CANDIDATES.y[order])
    assert checks.check_true_values(sorted_).verdict is Verdict.WARNING
