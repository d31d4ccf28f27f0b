"""The kind of a model, and the libraries that it and its data come from."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    BaggingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from divulge.core import Need
from divulge.targets.function import FunctionTarget
from divulge.targets.model_facts import kind_of_model
from divulge.targets.model_parts import kind_of_parts, versions_of
from divulge.targets.recorded import TableTarget


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (make_pipeline(StandardScaler(), HistGradientBoostingClassifier()), "boosted trees"),
        (RandomForestClassifier(), "forest"),
        (BaggingClassifier(DecisionTreeClassifier()), "forest"),
        (make_pipeline(ColumnTransformer([]), LogisticRegression()), "linear model"),
        (SVC(), "support vectors"),
        (KNeighborsClassifier(), "nearest neighbours"),
        (MLPClassifier(), "scikit-learn network"),
        (StandardScaler(), ""),
    ],
)
def test_the_kind_is_that_of_what_answers(model: Any, kind: str) -> None:
    assert kind_of_parts(model) == kind


def wrapped(model: Any) -> Callable[[Any], Any]:
    """A function of a user's around a model."""
    return lambda x: np.asarray(model.predict_proba(x))


def test_a_function_is_of_the_kind_of_the_model_in_it() -> None:
    assert kind_of_model(FunctionTarget(wrapped(RandomForestClassifier()))) == "forest"
    assert kind_of_model(FunctionTarget(np.exp)) == ""
    assert kind_of_model(TableTarget(np.full((2, 2), 0.5), Need.PROBABILITIES)) == "table"


def test_a_network_has_the_kind_and_the_version_of_its_framework() -> None:
    torch = pytest.importorskip("torch")
    network = torch.nn.Sequential(torch.nn.Linear(2, 2))
    assert kind_of_model(FunctionTarget(lambda x: network(x))) == "PyTorch"
    assert versions_of(network)["torch"] == version("torch")


def train_by_import(x: Any, y: Any, seed: int) -> Any:
    """Imports its library when it is called."""
    from sklearn.dummy import DummyClassifier

    return DummyClassifier(random_state=seed).fit(x, y)


def test_versions_are_those_of_the_libraries_of_model_and_data() -> None:
    lightgbm, pandas = pytest.importorskip("lightgbm"), pytest.importorskip("pandas")
    pipeline = make_pipeline(ColumnTransformer([]), lightgbm.LGBMClassifier())
    found = versions_of(FunctionTarget(wrapped(pipeline)), pandas.DataFrame({"a": [1]}))
    assert found.keys() >= {"lightgbm", "scikit-learn", "pandas"}
    assert found["lightgbm"] == version("lightgbm")
    assert "divulge" not in found
    assert versions_of(train_by_import).keys() == {"scikit-learn"}
    assert versions_of(3, "text", None) == {}


def test_what_refers_to_itself_comes_to_an_end() -> None:
    loop: dict[str, Any] = {"kind": "sklearn"}
    loop["self"] = [loop]
    assert versions_of(loop) == {}
