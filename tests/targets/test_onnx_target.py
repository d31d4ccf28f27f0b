from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divulge.core import Need
from divulge.errors import TargetError
from divulge.targets.files import fingerprint_file
from divulge.targets.onnx import OnnxTarget

from . import tiny_models as tiny

onnx: Any = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
helper, TensorProto = onnx.helper, onnx.TensorProto


def _save(
    path: Path, operator: str, inputs: list[Any], output: Any, domain: str = "", **settings: Any
) -> Path:
    node = helper.make_node(
        operator, [value.name for value in inputs], [output.name], domain=domain, **settings
    )
    graph = helper.make_graph([node], "one node", inputs, [output])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def _tensor(name: str, kind: int, columns: int = 3) -> Any:
    return helper.make_tensor_value_info(name, kind, ["batch", columns])


def test_outputs_are_chosen_by_what_the_model_is_said_to_answer(tmp_path: Path) -> None:
    path = tiny.save_onnx(tmp_path / "tiny.onnx")
    np.testing.assert_allclose(
        OnnxTarget(path).predict(tiny.X), tiny.probabilities(tiny.X), atol=1e-6
    )
    logits = OnnxTarget(path, "logits")
    np.testing.assert_allclose(logits.predict(tiny.X), tiny.probabilities(tiny.X), atol=1e-6)
    labels = OnnxTarget(path, "labels", classes=3)
    assert labels.offers == Need.HARD_LABELS | Need.FEATURES
    expected = np.eye(3)[tiny.logits(tiny.X).argmax(axis=1)]
    np.testing.assert_array_equal(labels.predict(tiny.X), expected)


def test_an_output_by_name(tmp_path: Path) -> None:
    path = tiny.save_onnx(tmp_path / "tiny.onnx")
    answers = OnnxTarget(path, "logits", output_name="logits").predict(tiny.X)
    np.testing.assert_allclose(answers, tiny.probabilities(tiny.X), atol=1e-6)
    for name in ("nothing", "label"):
        with pytest.raises(TargetError, match=f"'{name}'.*pass output_name="):
            OnnxTarget(path, output_name=name)


def test_records_take_the_type_of_the_input(tmp_path: Path) -> None:
    path = _save(
        tmp_path / "cast.onnx",
        "Cast",
        [_tensor("x", TensorProto.INT64)],
        _tensor("y", TensorProto.FLOAT),
        to=TensorProto.FLOAT,
    )
    target = OnnxTarget(path)
    np.testing.assert_array_equal(target.predict(np.eye(3)), np.eye(3))
    with pytest.raises(TargetError, match="whole numbers"):
        target.predict(np.full((2, 3), 0.5))


def test_two_inputs_are_refused(tmp_path: Path) -> None:
    inputs = [_tensor("a", TensorProto.FLOAT), _tensor("b", TensorProto.FLOAT)]
    path = _save(tmp_path / "two.onnx", "Add", inputs, _tensor("y", TensorProto.FLOAT))
    with pytest.raises(TargetError, match=r"one numeric input, got a: tensor\(float\), b"):
        OnnxTarget(path)


def test_weights_in_another_file_are_part_of_the_fingerprint(tmp_path: Path) -> None:
    weights = onnx.numpy_helper.from_array(np.eye(3, dtype=np.float32), "w")
    x, y = _tensor("x", TensorProto.FLOAT), _tensor("y", TensorProto.FLOAT)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "one node", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path, other = tmp_path / "model.onnx", tmp_path / "weights.bin"
    onnx.save_model(model, path, save_as_external_data=True, location=other.name, size_threshold=0)
    before = fingerprint_file(path)
    assert OnnxTarget(path, "logits").predict(np.eye(3)).shape == (3, 3)
    other.write_bytes((2 * np.eye(3, dtype=np.float32)).tobytes())
    assert fingerprint_file(path) != before
    other.unlink()
    for read in (fingerprint_file, OnnxTarget):
        with pytest.raises(TargetError, match=r"weights\.bin, there is none"):
            read(path)
