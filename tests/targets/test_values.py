"""Every way to reach a regression model, which answers one number for each record."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from divulge.core import Need, Records, Target
from divulge.core.records import LARGEST_VALUE
from divulge.defences import Rounding
from divulge.errors import DataError, SpecError, TargetError
from divulge.secrets.control_targets.planted import PlantedTarget
from divulge.secrets.control_targets.shuffled import ShuffledTarget
from divulge.targets import predictions, wrap
from divulge.targets.cache import CachedTarget
from divulge.targets.defended import DefendedTarget
from divulge.targets.files import load_target, open_target
from divulge.targets.function import FunctionTarget
from divulge.targets.outputs import to_answers
from divulge.targets.sklearn import SklearnRegressor

from . import tiny_models as tiny

WEIGHT = tiny.WEIGHT[:, 0]
Y = np.arange(7.0)


def values(x: np.ndarray) -> np.ndarray:
    return np.asarray(x @ WEIGHT)


def estimator() -> LinearRegression:
    return LinearRegression(fit_intercept=False).fit(np.eye(4), WEIGHT)


def _module() -> Any:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(4, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(WEIGHT[None, :]))
    return model


def _safetensors(folder: Path, size: int) -> Target:
    pytest.importorskip("safetensors")
    path = tiny.save_safetensors(folder / "values.safetensors", _module())
    return load_target(path, "values", factory=_module, batch_size=size, device="cpu")


def _skops(folder: Path, size: int) -> Target:
    pytest.importorskip("skops")
    return open_target(tiny.save_skops(folder / "values.skops", estimator()))


def _onnx(folder: Path, size: int) -> Target:
    """The first logit of the classifier, as if it were a regression model's answer."""
    pytest.importorskip("onnxruntime")
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight = numpy_helper.from_array(WEIGHT[:, None].astype(np.float32), "weight")
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])
        for name, width in (("x", 4), ("value", 1))
    ]
    nodes = [helper.make_node("MatMul", ["x", "weight"], ["value"])]
    graph = helper.make_graph(nodes, "values", ends[:1], ends[1:], [weight])
    path = folder / "values.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return open_target(path, "values", batch_size=size)


def _table(folder: Path, size: int) -> Target:
    path = folder / "values.csv"
    rows = np.column_stack([values(tiny.X), Y, np.arange(7) % 2])
    header = "p_value,label,member"
    np.savetxt(path, rows, delimiter=",", header=header, comments="", fmt="%.17g")
    return predictions.read_predictions(path, output="values").target


def _function(folder: Path, size: int) -> Target:
    return FunctionTarget(values, "values")


def _sklearn(folder: Path, size: int) -> Target:
    return wrap.as_target(estimator())


def _pipeline(folder: Path, size: int) -> Target:
    steps = StandardScaler(with_mean=False), LinearRegression(fit_intercept=False)
    return wrap.as_target(make_pipeline(*steps).fit(np.eye(4), WEIGHT))


def _torch(folder: Path, size: int) -> Target:
    return wrap.as_target(_module(), "values", batch_size=size)


def _cached(folder: Path, size: int) -> Target:
    path = folder / f"values-{size}.sqlite"
    return CachedTarget(FunctionTarget(values, "values"), path, "values", size)


ADAPTERS: dict[str, Callable[[Path, int], Target]] = {
    "function": _function,
    "sklearn": _sklearn,
    "pipeline": _pipeline,
    "torch": _torch,
    "safetensors": _safetensors,
    "skops": _skops,
    "onnx": _onnx,
    "cached": _cached,
    "predictions": _table,
}


@pytest.mark.parametrize("name", ADAPTERS)
def test_every_adapter_answers_with_one_column_of_numbers(name: str, tmp_path: Path) -> None:
    x = np.arange(7)[:, None] if name == "predictions" else tiny.X
    for size in (3, 1024):
        target = ADAPTERS[name](tmp_path, size)
        answers = target.predict(x)
        assert answers.dtype == np.float64
        np.testing.assert_allclose(answers, values(tiny.X)[:, None], atol=1e-5)
        hidden = Need.FEATURES if name == "predictions" else Need.NONE
        assert target.offers | hidden == Need.VALUES | Need.FEATURES


def test_a_stored_answer_is_read_again(tmp_path: Path) -> None:
    first = ADAPTERS["cached"](tmp_path, 3).predict(tiny.X)
    again = CachedTarget(
        FunctionTarget(lambda _: 1 / 0, "values"), tmp_path / "values-3.sqlite", "values"
    )
    np.testing.assert_array_equal(again.predict(tiny.X), first)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (np.zeros((7, 2)), "audit each output by itself"),
        (np.zeros(6), "one number for each of 7 records"),
        (np.zeros(()), "one number for each of 7 records"),
        (np.full(7, np.nan), "NaN, infinity or larger"),
        (np.full(7, 1e200), "NaN, infinity or larger"),
        (np.array(["cat"] * 7), 'pass output="labels"'),
    ],
)
def test_other_answers_are_refused(answer: np.ndarray, said: str) -> None:
    with pytest.raises(TargetError, match=said):
        FunctionTarget(lambda _: answer, "values").predict(tiny.X)


def test_a_regressor_needs_no_output_and_has_to_be_fitted() -> None:
    assert isinstance(wrap.as_target(estimator(), "values"), SklearnRegressor)
    with pytest.raises(SpecError, match="says itself what it returns"):
        wrap.as_target(estimator(), "probabilities")
    with pytest.raises(SpecError, match="says itself what it returns"):
        wrap.as_target(tiny.estimator(), "values")
    with pytest.raises(TargetError, match="fit it first"):
        wrap.as_target(LinearRegression())


def test_answer_defences_say_that_they_are_for_classifiers() -> None:
    with pytest.raises(SpecError, match="gives probabilities behind rounding, got numbers"):
        DefendedTarget(wrap.as_target(estimator()), Rounding())


def test_true_values_are_finite_numbers() -> None:
    for wrong in (np.nan, np.inf, -1e200):
        with pytest.raises(DataError, match="in 1 records, the first at index 2"):
            Records(tiny.X, np.array([0, 1, wrong, 3, 4, 5, 6]))
    assert Records(tiny.X, -Y).stratum.tolist() == [4, 4, 3, 2, 1, 0, 0]
    assert Records(tiny.X, np.zeros(7)).stratum.tolist() == [0] * 7


def planted(target: Target, y: np.ndarray = Y) -> np.ndarray:
    memorised = np.arange(7) < 3
    return PlantedTarget(target, tiny.X, y, memorised, 0).predict(tiny.X)[:, 0]


def test_a_planted_leak_keeps_a_tenth_of_the_residual_and_adds_noise_elsewhere() -> None:
    target = FunctionTarget(values, "values")
    told, own = planted(target), values(tiny.X)
    np.testing.assert_allclose(told[:3] - Y[:3], 0.1 * (own - Y)[:3])
    assert (told[3:] != own[3:]).all()
    many = np.random.default_rng(0).normal(size=(4000, 4))
    truth = values(many) + np.where(np.arange(4000) % 2, 3.0, -3.0)
    noisy = PlantedTarget(target, many, truth, np.zeros(4000, bool), 0).predict(many)[:, 0]
    noise = noisy - values(many)
    # standard errors of a mean and of a standard deviation of 4,000 normal numbers
    assert abs(noise.mean()) < 4 * 3 / np.sqrt(4000)
    assert abs(noise.std() - 3) < 4 * 3 / np.sqrt(8000)


def test_a_planted_leak_is_there_even_if_the_model_makes_no_error() -> None:
    told = planted(FunctionTarget(values, "values"), values(tiny.X))
    np.testing.assert_allclose(told[:3], values(tiny.X)[:3])
    assert (np.abs(told[3:] - values(tiny.X)[3:]) > 1e-6).all()


def test_shuffled_answers_carry_the_residual_of_another_record() -> None:
    ways = (Records(tiny.X, Y), Records(tiny.X + np.float32(0.5), Y))
    target = ShuffledTarget(FunctionTarget(values, "values"), ways, np.random.default_rng(0))
    order = target._order  # nobody's business but this test's
    assert sorted(order.tolist()) == list(range(7))
    for way in ways:
        residual = Y - values(way.x)
        for asked in (way.x, way.x.copy()):
            told = target.predict(asked)[:, 0]
            np.testing.assert_allclose(Y - told, residual[order], atol=1e-6)
    stranger = np.ones((1, 4), np.float32)
    np.testing.assert_allclose(target.predict(stranger)[:, 0], values(stranger))


@pytest.mark.parametrize("odd", [np.nan, np.inf, -1.01 * LARGEST_VALUE])
def test_one_value_that_is_too_large_is_refused(odd: float) -> None:
    assert to_answers([1.0, -LARGEST_VALUE], "values", records=2)[1, 0] == -LARGEST_VALUE
    with pytest.raises(TargetError, match="look for an overflow"):
        to_answers([1.0, odd], "values", records=2)
