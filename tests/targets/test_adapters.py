"""What every way to reach a model has in common, over one classifier."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from divulge.core import Need, Target
from divulge.errors import SpecError, TargetError
from divulge.targets.budget import CountingTarget
from divulge.targets.cache import CachedTarget
from divulge.targets.files import load_target
from divulge.targets.function import FunctionTarget
from divulge.targets.onnx import OnnxTarget
from divulge.targets.sklearn import SklearnTarget
from divulge.targets.torch import TorchTarget

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
        return load_target(path, "logits", batch_size=size)

    return build


def _safetensors(folder: Path, size: int) -> Target:
    pytest.importorskip("safetensors")
    path = tiny.save_safetensors(folder / "tiny.safetensors", tiny.module())
    return load_target(path, "logits", factory=tiny.module, batch_size=size, device="cpu")


def _skops(folder: Path, size: int) -> Target:
    pytest.importorskip("skops")
    return load_target(tiny.save_skops(folder / "tiny.skops", tiny.estimator()))


def _counting(folder: Path, size: int) -> Target:
    return CountingTarget(FunctionTarget(tiny.probabilities))


def _cached(folder: Path, size: int) -> Target:
    return CachedTarget(FunctionTarget(tiny.probabilities), batch_size=size)


def _cached_on_disk(folder: Path, size: int) -> Target:
    path = folder / f"answers-{size}.sqlite"
    return CachedTarget(FunctionTarget(tiny.probabilities), path, "tiny", size)


ADAPTERS: dict[str, Size] = {
    "function": _function,
    "function of logits": _function_logits,
    "sklearn": _sklearn,
    "torch": _torch,
    "torch with probabilities": _torch_probabilities,
    "onnx": _onnx,
    "onnx for five records": _onnx_five,
    "pt2": _exported(0, None),
    "pt2 for five records": _exported(None, None),
    "pt2 for four to six records": _exported(4, 6),
    "safetensors": _safetensors,
    "skops": _skops,
    "counting": _counting,
    "cached": _cached,
    "cached on disk": _cached_on_disk,
}
each = pytest.mark.parametrize("name", ADAPTERS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@each
@pytest.mark.parametrize("size", [3, 1024])
def test_answers_are_those_of_the_model_whatever_the_batch(
    name: str, size: int, folder: Path
) -> None:
    answers = ADAPTERS[name](folder, size).predict(tiny.X)
    assert answers.dtype == np.float64
    np.testing.assert_allclose(answers, tiny.probabilities(tiny.X), atol=1e-6)
    np.testing.assert_allclose(answers.sum(axis=1), 1, rtol=1e-12)


@each
def test_one_record_and_float64_are_welcome(name: str, folder: Path) -> None:
    one = tiny.X[:1].astype(np.float64)
    answers = ADAPTERS[name](folder, 3).predict(one)
    np.testing.assert_allclose(answers, tiny.probabilities(one), atol=1e-6)


@each
def test_asking_changes_no_record(name: str, folder: Path) -> None:
    x = np.array(tiny.X)
    ADAPTERS[name](folder, 3).predict(x)
    np.testing.assert_array_equal(x, tiny.X)


@each
def test_everything_is_offered(name: str, folder: Path) -> None:
    everything = Need.PROBABILITIES | Need.HARD_LABELS | Need.FEATURES
    offers = ADAPTERS[name](folder, 3).offers
    assert offers & ~Need.AUTOGRAD == everything
    assert (Need.AUTOGRAD in offers) == (name.startswith("torch") or name == "safetensors")


@each
def test_records_of_another_width_are_a_target_error(name: str, folder: Path) -> None:
    with pytest.raises(TargetError, match="expected"):
        ADAPTERS[name](folder, 3).predict(np.zeros((4, 9), dtype=np.float32))


@pytest.mark.parametrize("name", ["torch", "onnx", "pt2"])
def test_no_records_and_no_batches_are_refused(name: str, folder: Path) -> None:
    with pytest.raises(TargetError, match="at least one record"):
        ADAPTERS[name](folder, 3).predict(tiny.X[:0])
    with pytest.raises(SpecError, match="batch size"):
        ADAPTERS[name](folder, 0).predict(tiny.X)


def test_logits_are_never_taken_for_probabilities(folder: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxruntime")
    output: Literal["probabilities"] = "probabilities"
    path = tiny.save_onnx(folder / "logits.onnx")
    targets: list[Target] = [
        FunctionTarget(tiny.logits),
        TorchTarget(tiny.module(), output),
        OnnxTarget(path, output, output_name="logits"),
    ]
    for target in targets:
        with pytest.raises(TargetError, match='pass output="logits"'):
            target.predict(tiny.X)
