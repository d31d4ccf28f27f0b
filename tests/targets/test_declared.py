"""Who says that answers are probabilities: the user, or the model itself."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import divulge
from divulge.defences.answers.coarse import TopOne
from divulge.targets.defended import DefendedTarget
from divulge.targets.function import FunctionTarget
from divulge.targets.model_facts import declares_probabilities
from divulge.targets.predictions import read_predictions
from divulge.targets.sklearn import SklearnTarget
from divulge.targets.wrap import as_target

X, Y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
MODEL = LogisticRegression().fit(X, Y)


def of_classes(x: Any) -> np.ndarray:
    return np.asarray(np.eye(2)[MODEL.predict(x)])


@pytest.mark.parametrize(
    ("target", "declared"),
    [
        (FunctionTarget(of_classes), True),
        (FunctionTarget(of_classes, "logits"), False),
        (FunctionTarget(MODEL.predict_proba), False),
        (SklearnTarget(MODEL), False),
        (DefendedTarget(FunctionTarget(of_classes), TopOne()), False),
    ],
)
def test_only_what_the_user_says_is_declared(target: divulge.Target, declared: bool) -> None:
    assert declares_probabilities(target) == declared


def test_a_module_is_declared_by_the_user() -> None:
    torch = pytest.importorskip("torch")
    network = torch.nn.Linear(3, 2)
    assert declares_probabilities(as_target(network, "probabilities"))
    assert not declares_probabilities(as_target(network, "logits"))


@pytest.mark.parametrize(("output", "declared"), [("probabilities", True), ("labels", False)])
def test_a_table_is_declared_by_the_user(tmp_path: Path, output: Any, declared: bool) -> None:
    path = tmp_path / "answers.csv"
    columns = ("p_1", "1", "0") if output == "labels" else ("p_0,p_1", "0,1", "1,0")
    path.write_text(f"{columns[0]},label,member\n" + f"{columns[1]},1,1\n{columns[2]},0,0\n" * 20)
    assert declares_probabilities(read_predictions(path, output=output).target) == declared


def test_classes_declared_as_probabilities_end_in_a_doubt_whose_advice_works(
    tmp_path: Path,
) -> None:
    path = tmp_path / "answers.csv"
    rows = [f"{1 - k % 2},{k % 2},{k % 2},{int(k < 100)}" for k in range(200)]
    path.write_text("\n".join(["p_0,p_1,label,member", *rows]))
    found = divulge.audit_predictions(path)
    assert found.verdict.level == "inputs doubtful"
    assert found.verdict.sentences[0].startswith("100")
    advised = divulge.audit_predictions(path, output="labels")
    assert advised.verdict.level == "no leak found"


def test_rows_of_a_table_that_all_stand_twice_are_doubted(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    rng = np.random.default_rng(0)
    rows = [f"{p!r},{int(p > 0.5)},{k % 2}" for k, p in enumerate(rng.random(100).tolist())]
    path.write_text("\n".join(["p_1,label,member", *rows, *rows]))
    found = divulge.audit_predictions(path)
    assert found.verdict.headline == "Inputs doubtful: rows repeat"
    ruling = found.gate(fail_on=("leak",), fail_above={"auc": 0.9})
    assert not ruling.passes
    assert not ruling.failed
