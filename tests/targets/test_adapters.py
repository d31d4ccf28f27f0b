"""What every way to reach a model has in common, over one classifier."""

import atexit
import contextlib
import functools
import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from divulge import targets
from divulge.cli import listing
from divulge.core import Need, Records, Target
from divulge.data import records
from divulge.defences.answers.temperature import Temperature
from divulge.errors import SpecError, TargetError
from divulge.secrets.control_targets.planted import PlantedTarget
from divulge.secrets.control_targets.shuffled import ShuffledTarget
from divulge.targets import predictions
from divulge.targets.budget import CountingTarget
from divulge.targets.cache import CachedTarget
from divulge.targets.defended import DefendedTarget
from divulge.targets.encoded import EncodedTarget
from divulge.targets.files import load_target, open_target
from divulge.targets.function import FunctionTarget
from divulge.targets.http import HTTPTarget
from divulge.targets.keras import KerasTarget
from divulge.targets.onnx import OnnxTarget
from divulge.targets.recorded import RecordedTarget
from divulge.targets.sklearn import SklearnTarget
from divulge.targets.torch import TorchTarget
from divulge.targets.transformers import TransformersTarget
from divulge.targets.wider import WiderTarget
from divulge.targets.wrap import as_target

from .. import excepted
from . import test_values
from . import tiny_models as tiny

Size = Callable[[Path, int], Target]


def _function(folder: Path, size: int) -> Target:
    return FunctionTarget(tiny.probabilities)


def _function_logits(folder: Path, size: int) -> Target:
    return FunctionTarget(tiny.logits, output="logits")


def _sklearn(folder: Path, size: int) -> Target:
    return SklearnTarget(tiny.estimator())


def _torch(folder: Path, size: int) -> Target:
    pytest.importorskip("torch")
    return TorchTarget(tiny.module(), "logits", batch_size=size)


def _torch_probabilities(folder: Path, size: int) -> Target:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(tiny.module(), torch.nn.Softmax(1))
    return TorchTarget(module, "probabilities", batch_size=size)


def _keras(folder: Path, size: int) -> Target:
    pytest.importorskip("keras")
    return KerasTarget(tiny.keras_model(), "probabilities", size)


def _keras_logits(folder: Path, size: int) -> Target:
    pytest.importorskip("keras")
    return KerasTarget(tiny.keras_model(softmax=False), "logits", size)


def _transformers(folder: Path, size: int) -> Target:
    pytest.importorskip("transformers")
    return TransformersTarget(tiny.pipeline_of_numbers(), size)


def _onnx(folder: Path, size: int) -> Target:
    pytest.importorskip("onnxruntime")
    return load_target(tiny.save_onnx(folder / "any.onnx"), batch_size=size)


def _onnx_five(folder: Path, size: int) -> Target:
    pytest.importorskip("onnxruntime")
    return OnnxTarget(tiny.save_onnx(folder / "five.onnx", 5), "logits", "logits", size)


def _exported(low: int | None, high: int | None) -> Size:
    def build(folder: Path, size: int) -> Target:
        pytest.importorskip("torch")
        path = folder / f"{low}-{high}.pt2"
        if not path.exists():
            tiny.save_exported(path, tiny.module(), low, high)
        return open_target(path, "logits", batch_size=size)

    return build


def _safetensors(folder: Path, size: int) -> Target:
    pytest.importorskip("safetensors")
    path = tiny.save_safetensors(folder / "tiny.safetensors", tiny.module())
    return load_target(path, "logits", factory=tiny.module, batch_size=size, device="cpu")


def _skops(folder: Path, size: int) -> Target:
    pytest.importorskip("skops")
    return open_target(tiny.save_skops(folder / "tiny.skops", tiny.estimator()))


def _encoded(folder: Path, size: int) -> Target:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(tiny.X, columns=[f"x{k}" for k in range(tiny.X.shape[1])])
    encoding = records.as_records((frame, np.zeros(len(frame))), "records").encoding
    assert encoding is not None
    target = FunctionTarget(lambda given: tiny.probabilities(given[list(frame)].to_numpy()))
    return EncodedTarget(target, encoding)


def _wider(folder: Path, size: int) -> Target:
    return WiderTarget(_sklearn(folder, size), 3)


def _xgboost(folder: Path, size: int) -> Target:
    pytest.importorskip("xgboost")
    return as_target(tiny.xgboost_booster())


def _lightgbm(folder: Path, size: int) -> Target:
    pytest.importorskip("lightgbm")
    return as_target(tiny.lightgbm_booster())


def _catboost(folder: Path, size: int) -> Target:
    pytest.importorskip("catboost")
    return as_target(tiny.catboost_model())


def _counting(folder: Path, size: int) -> Target:
    return CountingTarget(FunctionTarget(tiny.probabilities))


def _cached(folder: Path, size: int) -> Target:
    return CachedTarget(FunctionTarget(tiny.probabilities), batch_size=size)


def _cached_on_disk(folder: Path, size: int) -> Target:
    path = folder / f"answers-{size}.sqlite"
    return CachedTarget(FunctionTarget(tiny.probabilities), path, "tiny", size)


def _defended(folder: Path, size: int) -> Target:
    return DefendedTarget(FunctionTarget(tiny.probabilities), Temperature(1.0))


def _shuffled(folder: Path, size: int) -> Target:
    """Of all the candidates one may change places."""
    ways, rng = (Records(tiny.X, np.zeros(len(tiny.X), np.int64)),), np.random.default_rng(0)
    chosen = np.arange(len(tiny.X)) < 1
    return ShuffledTarget(FunctionTarget(tiny.probabilities), ways, rng, chosen=chosen)


def _planted(folder: Path, size: int) -> Target:
    y = tiny.probabilities(tiny.X).argmax(axis=1)
    return PlantedTarget(
        FunctionTarget(tiny.probabilities), tiny.X, y, np.ones(len(y), np.bool_), 0
    )


def _recorded(folder: Path, size: int) -> Target:
    records = Records(tiny.X, np.zeros(len(tiny.X), np.int64))
    return RecordedTarget((records,), tiny.probabilities(tiny.X))


def _table(folder: Path, size: int) -> Target:
    path = folder / "predictions.csv"
    flags = np.arange(len(tiny.X))[:, None] % [3, 2]
    rows = np.column_stack([tiny.probabilities(tiny.X), flags])
    np.savetxt(
        path, rows, delimiter=",", header="p_0,p_1,p_2,label,member", comments="", fmt="%.17g"
    )
    return predictions.read_predictions(path).target


@functools.cache
def _endpoint() -> str:
    """The address of a server that lasts as long as this process."""
    pytest.importorskip("httpx")
    from ..endpoints import serve

    served = contextlib.ExitStack()
    atexit.register(served.close)
    return served.enter_context(serve(tiny.probabilities)).url


def _url(folder: Path, size: int) -> Target:
    return HTTPTarget(f"{_endpoint()}/predict", "1", records_per_request=size, retries=0)


ADAPTERS: dict[str, Size] = {
    "function": _function,
    "function of logits": _function_logits,
    "sklearn": _sklearn,
    "wider": _wider,
    "torch": _torch,
    "torch with probabilities": _torch_probabilities,
    "keras": _keras,
    "keras of logits": _keras_logits,
    "transformers": _transformers,
    "onnx": _onnx,
    "onnx for five records": _onnx_five,
    "pt2": _exported(0, None),
    "pt2 for five records": _exported(None, None),
    "pt2 for four to six records": _exported(4, 6),
    "safetensors": _safetensors,
    "skops": _skops,
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "catboost": _catboost,
    "encoded": _encoded,
    "counting": _counting,
    "cached": _cached,
    "cached on disk": _cached_on_disk,
    "defended": _defended,
    "shuffled": _shuffled,
    "planted": _planted,
    "recorded": _recorded,
    "url": _url,
    "predictions": _table,
}
ROWS = {
    "predictions": np.arange(len(tiny.X))[:, None],
    "transformers": np.arange(len(tiny.X)).astype(str),
}
"""What is asked about where it is not features."""


def same_whatever_the_batch(name: str, folder: Path) -> None:
    for size in (3, 1024):
        answers = ADAPTERS[name](folder, size).predict(asked(name))
        assert answers.dtype == np.float64
        np.testing.assert_allclose(answers.sum(axis=1), 1, rtol=1e-12)
        np.testing.assert_allclose(answers, tiny.probabilities(tiny.X), atol=1e-6)


def welcomes_one_record_in_float64(name: str, folder: Path) -> None:
    one = asked(name)[:1].astype(np.float64)
    answers = ADAPTERS[name](folder, 3).predict(one)
    np.testing.assert_allclose(answers, tiny.probabilities(tiny.X[:1]), atol=1e-6)


def repeats_itself_in_any_order(name: str, folder: Path) -> None:
    target, x = ADAPTERS[name](folder, 3), asked(name)
    order = np.random.default_rng(0).permutation(len(x))
    first = target.predict(x)
    np.testing.assert_array_equal(target.predict(x), first)
    np.testing.assert_allclose(target.predict(x[order]), first[order], rtol=1e-6)


def changes_no_record(name: str, folder: Path) -> None:
    x = np.array(asked(name))
    ADAPTERS[name](folder, 3).predict(x)
    np.testing.assert_array_equal(x, asked(name))


def offers_everything(name: str, folder: Path) -> None:
    everything = Need.PROBABILITIES | Need.HARD_LABELS | Need.FEATURES
    offers = ADAPTERS[name](folder, 3).offers
    assert offers & ~Need.AUTOGRAD == everything
    assert (Need.AUTOGRAD in offers) == (name.startswith("torch") or name == "safetensors")


def refuses_records_of_another_width(name: str, folder: Path) -> None:
    with pytest.raises(TargetError, match="expected"):
        ADAPTERS[name](folder, 3).predict(np.zeros((4, 9), dtype=np.float32))


def asked(name: str) -> np.ndarray:
    return ROWS.get(name, tiny.X)


PROPERTIES = (
    same_whatever_the_batch,
    welcomes_one_record_in_float64,
    repeats_itself_in_any_order,
    changes_no_record,
    offers_everything,
    refuses_records_of_another_width,
)
ANOTHER_MODEL = "answers otherwise on purpose"
EXCEPTIONS = {
    ("planted", same_whatever_the_batch): ANOTHER_MODEL,
    ("planted", welcomes_one_record_in_float64): ANOTHER_MODEL,
    ("recorded", welcomes_one_record_in_float64): "knows records bit by bit",
    ("predictions", offers_everything): "has no features",
    ("transformers", welcomes_one_record_in_float64): "takes texts",
}


def cases() -> Iterator[Any]:
    for name, prove in itertools.product(ADAPTERS, PROPERTIES):
        raises = TargetError if name in ("recorded", "transformers") else AssertionError
        marks = excepted.marks(EXCEPTIONS.get((name, prove)), raises)
        yield pytest.param(name, prove, marks=marks, id=f"{name}-{prove.__name__}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.mark.parametrize(("name", "prove"), list(cases()))
def test_property(name: str, prove: Callable[[str, Path], None], folder: Path) -> None:
    prove(name, folder)


def test_every_class_that_answers_and_every_kind_that_is_listed_is_in_the_table(
    folder: Path,
) -> None:
    modules = [
        importlib.import_module(f"{targets.__name__}.{found.name}")
        for found in pkgutil.iter_modules(targets.__path__)
    ]
    classes = {
        kind
        for module in modules
        for kind in vars(module).values()
        if inspect.isclass(kind) and kind.__module__ == module.__name__ and hasattr(kind, "predict")
        if not getattr(kind, "_is_protocol", False)
    }
    both = (*ADAPTERS.values(), *test_values.ADAPTERS.values())
    assert classes == {type(build(folder, 3)) for build in both}
    listed = {name.removeprefix(".") for name, _ in listing.lines("targets")}
    listed = {name.replace("scikit-learn", "sklearn") for name in listed}
    assert listed - {"target"} <= set(ADAPTERS)  # a target of the user's own is any of these


@pytest.mark.parametrize("name", ["torch", "onnx", "pt2"])
def test_no_records_and_no_batches_are_refused(name: str, folder: Path) -> None:
    with pytest.raises(TargetError, match="at least one record"):
        ADAPTERS[name](folder, 3).predict(tiny.X[:0])
    with pytest.raises(SpecError, match=r"batch.size"):
        ADAPTERS[name](folder, 0).predict(tiny.X)


def test_logits_are_never_taken_for_probabilities(folder: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxruntime")
    output: Literal["probabilities"] = "probabilities"
    path = tiny.save_onnx(folder / "logits.onnx")
    wrong: list[Target] = [
        FunctionTarget(tiny.logits),
        TorchTarget(tiny.module(), output),
        OnnxTarget(path, output, output_name="logits"),
    ]
    for target in wrong:
        with pytest.raises(TargetError, match='pass output="logits"'):
            target.predict(tiny.X)
