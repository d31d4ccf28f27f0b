import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import divulge
from divulge._util.imports import load_object
from divulge.core import Need
from divulge.defences import Rounding
from divulge.errors import SpecError, TargetError
from divulge.targets.cache import CachedTarget
from divulge.targets.defended import DefendedTarget
from divulge.targets.files import fingerprint_file
from divulge.targets.fingerprints import fingerprint_model
from divulge.targets.function import FunctionTarget
from divulge.targets.model_facts import describe_model
from divulge.targets.sklearn import SklearnTarget
from divulge.targets.torch import TorchTarget
from divulge.targets.wrap import as_target

from . import tiny_models as tiny


def test_a_target_passes_through() -> None:
    target = CachedTarget(FunctionTarget(tiny.probabilities))
    assert as_target(target) is target


def test_a_function_is_wrapped() -> None:
    assert as_target(tiny.probabilities) == FunctionTarget(tiny.probabilities)
    assert as_target(tiny.logits, "logits") == FunctionTarget(tiny.logits, "logits")
    labelled = as_target(tiny.logits, "labels", classes=3)
    assert labelled == FunctionTarget(tiny.logits, "labels", 3)


def test_a_classifier_is_wrapped() -> None:
    model = tiny.estimator()
    assert as_target(model) == SklearnTarget(model)
    assert as_target(model, "probabilities") == SklearnTarget(model)


def test_a_file_is_loaded(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = tiny.save_onnx(tmp_path / "tiny.onnx")
    for model in (path, str(path)):
        assert describe_model(as_target(model, batch_size=3)) == "ONNX file"


def test_a_module_is_wrapped() -> None:
    pytest.importorskip("torch")
    module = tiny.module()
    assert as_target(module, "logits") == TorchTarget(module, "logits")
    assert as_target(module, "logits", batch_size=3, device="cpu") == TorchTarget(
        module, "logits", 3, "cpu"
    )
    with pytest.raises(TargetError, match='pass output="logits" or output="probabilities"'):
        as_target(module)


@pytest.mark.parametrize("model", [None, 7, {"model": 1}])
def test_other_things_are_refused(model: Any) -> None:
    with pytest.raises(TargetError, match="expected a model, got"):
        as_target(model)


@pytest.mark.parametrize("model", [tiny.estimator(), FunctionTarget(tiny.logits)])
def test_what_says_itself_what_it_returns_is_not_overruled(model: Any) -> None:
    with pytest.raises(SpecError, match="leave it out"):
        as_target(model, "logits")


def test_a_classifier_that_is_not_fitted_is_refused() -> None:
    with pytest.raises(TargetError, match="fit it first"):
        as_target(LogisticRegression())


def test_fingerprints_tell_models_apart(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    other = tiny.estimator()
    other.coef_ = other.coef_ + 1e-9
    one, two = tiny.module(), tiny.module()
    with torch.no_grad():
        next(two.parameters())[0] += 1e-6
    file = tmp_path / "model"
    file.write_bytes(b"model")
    prints = [fingerprint_model(m) for m in (tiny.estimator(), other, one, two, file)]
    assert None not in prints
    assert len(set(prints)) == 5
    assert prints[0] == fingerprint_model(tiny.estimator())
    assert prints[2] == fingerprint_model(tiny.module())
    assert prints[4] == fingerprint_file(file)


def test_the_structure_is_part_of_a_modules_fingerprint() -> None:
    nn = pytest.importorskip("torch").nn
    assert fingerprint_model(nn.Sequential(nn.ReLU())) != fingerprint_model(
        nn.Sequential(nn.GELU())
    )


def test_what_a_module_computes_is_part_of_its_fingerprint(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    prints: list[str | None] = []
    for factor in ("2", "3", "2"):
        folder = tmp_path / str(len(prints))
        folder.mkdir()
        (folder / "subject.py").write_text(
            "import torch\n\n"
            "class Scaled(torch.nn.Linear):\n"
            f"    def forward(self, x):\n        return {factor} * super().forward(x)\n\n"
            "def make():\n    torch.manual_seed(0)\n    return Scaled(4, 2)\n"
        )
        prints.append(fingerprint_model(load_object("subject.py:make", folder)()))
    assert prints[0] == prints[2] != prints[1]


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_modules_of_any_precision_have_a_fingerprint(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.BatchNorm1d(4).to(getattr(torch, dtype))
    assert fingerprint_model(module) != fingerprint_model(torch.nn.BatchNorm1d(4))


def test_what_cannot_be_recognised_has_no_fingerprint() -> None:
    assert fingerprint_model(tiny.logits) is None
    unpicklable = FunctionTransformer(lambda x: x)
    assert fingerprint_model(make_pipeline(unpicklable, tiny.estimator())) is None


def test_a_model_is_named_by_its_kind(tmp_path: Path) -> None:
    import torch

    network = as_target(torch.nn.Linear(3, 2), "logits")
    pipeline = make_pipeline(FunctionTransformer(), LogisticRegression())
    estimator = as_target(pipeline.fit([[0.0], [1.0]], [0, 1]))
    assert describe_model(network) == "PyTorch module Linear with 8 weights"
    assert describe_model(estimator) == "FunctionTransformer, LogisticRegression"
    assert describe_model(DefendedTarget(estimator, Rounding(digits=1))) == (
        "FunctionTransformer, LogisticRegression, behind rounding"
    )
    assert describe_model(CachedTarget(estimator)) == "CachedTarget"  # one of your own, so to say


def test_no_framework_is_loaded_for_a_function() -> None:
    code = (
        "import sys, numpy; from divulge.targets.wrap import as_target; "
        "as_target(lambda x: numpy.full((len(x), 2), .5)).predict(numpy.zeros((3, 1))); "
        "print(*sorted({'torch', 'onnxruntime', 'skops', 'pyarrow', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""


P = np.full((6, 2), 0.5)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (2 * P, "rows that sum to 1 .* sums from 2 to 2"),
        (P - 0.5, "rows that sum to 1"),
        (np.nan * P, "rows that sum to 1"),
        (P[1:], r"of shape \(6, classes\) .* got shape \(5, 2\)"),
        (P.astype(np.float32), "type float64 .* type float32"),
        (P.astype(str), "type float64 .* type <U32"),
        (P.tolist(), "type float64 .* type list"),
        (P[:, 0], r"got shape \(6,\)"),
        (None, "type NoneType"),
    ],
)
@pytest.mark.parametrize("streams", [False, True])
def test_a_target_of_the_users_own_answers_what_it_promises(
    answers: Any, message: str, *, streams: bool
) -> None:
    """Nothing converts it: whatever it answered would be audited."""

    class Own:
        offers = Need.PROBABILITIES | Need.HARD_LABELS | Need.FEATURES

        def predict(self, x: np.ndarray) -> Any:
            return answers if len(x) == 6 else P[: len(x)]

    class Streaming(Own):
        def stream(self, x: np.ndarray) -> Any:
            yield np.arange(len(x)), self.predict(x)

    x, y = np.arange(12.0)[:, None], np.arange(6) % 2
    with pytest.raises(TargetError, match=message):
        divulge.audit(
            Streaming() if streams else Own(),
            members=(x[:6], y),
            nonmembers=(x[6:], y),
            access=divulge.Access(batch_size=6),
        )
