"""ONNX files as modules: as ONNX Runtime sees them, and with gradients."""

from pathlib import Path

import numpy as np
import pytest
import torch

from divulge.errors import TargetError
from divulge.federation.manipulation.pixels import PixelNoise
from divulge.targets.features import Extractor
from divulge.targets.onnx_module import OnnxModule

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (3, 3, 12, 12)).astype(np.uint8)


def saved(path: Path, extra: str | None = None) -> Path:
    """A small network with every operation but Dropout, and ReduceMean by its older attribute."""
    make, real = onnx.helper.make_node, onnx.TensorProto.FLOAT
    weights = {
        "w1": RNG.normal(0, 0.4, (6, 3, 3, 3)), "b1": RNG.normal(size=6),
        "scale": RNG.uniform(0.5, 1, 6), "shift": RNG.normal(size=6),
        "mean": RNG.normal(size=6), "variance": RNG.uniform(0.5, 2, 6),
        "w2": RNG.normal(0, 0.4, (6, 1, 3, 3)), "low": np.array(0.0), "high": np.array(6.0),
        "w3": RNG.normal(0, 0.4, (4, 6, 1, 1)), "fc": RNG.normal(size=(5, 10)),
        "bias": RNG.normal(size=5), "side": RNG.normal(0, 1, (6, 10)),
    }  # fmt: skip
    nodes = [
        make("Conv", ["x", "w1", "b1"], ["a"], strides=[2, 2], pads=[0, 0, 1, 1]),
        make("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["b"]),
        make("Clip", ["b", "low", "high"], ["c"]),
        make("Conv", ["c", "w2"], ["d"], group=6, pads=[1, 1, 1, 1]),
        make("Add", ["c", "d"], ["e"]),
        make("Sigmoid", ["e"], ["f"]),
        make("Mul", ["e", "f"], ["g"]),
        make("MaxPool", ["g"], ["h"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        make("AveragePool", ["h"], ["i"], kernel_shape=[2, 2], strides=[1, 1]),
        make("Conv", ["i", "w3"], ["j"]),
        make("Relu", ["j"], ["k"]),
        make("Concat", ["i", "k"], ["l"], axis=1),
        make("GlobalAveragePool", ["l"], ["m"]),
        make("ReduceMean", ["i"], ["n"], axes=[2, 3], keepdims=0),
        make("Gemm", ["n", "side"], ["o"]),
        make("Flatten", ["m"], ["p"]),
        make("Add", ["o", "p"], ["q.1"]),
        make("Identity", ["q.1"], ["r"]),
        make("Gemm", ["r", "fc", "bias"], ["s"], transB=1),
        make("Softmax", ["s"], ["y"]),
    ]
    nodes += [make(extra, ["s"], ["z"])] if extra else []
    constants = [
        onnx.numpy_helper.from_array(np.asarray(array, np.float32), name)
        for name, array in weights.items()
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "small",
        [onnx.helper.make_tensor_value_info("x", real, ["n", 3, 12, 12])],
        [onnx.helper.make_tensor_value_info("y", real, ["n", 5])],
        constants,
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8
    )
    onnx.save(model, path)
    return path


def test_answers_are_those_of_onnx_runtime(tmp_path: Path) -> None:
    path = saved(tmp_path / "small.onnx")
    x = RNG.normal(size=(4, 3, 12, 12)).astype(np.float32)
    (theirs,) = onnxruntime.InferenceSession(path).run(["y"], {"x": x})
    with torch.no_grad():
        ours = OnnxModule(path)(torch.from_numpy(x))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_it_is_cut_before_its_last_gemm_and_images_are_manipulated_through_it(
    tmp_path: Path,
) -> None:
    extractor = Extractor(OnnxModule(saved(tmp_path / "small.onnx")))
    assert extractor.features(IMAGES).shape == (3, 10)
    how = PixelNoise(1.0, steps=10, lr=0.05, optimiser="momentum")
    versions = how(IMAGES, extractor, np.random.default_rng(0))
    wanted = how.targets(3, 10, np.random.default_rng(0))[:, 0]
    before, after = (
        ((extractor.features(np.ascontiguousarray(x)) - wanted) ** 2).mean()
        for x in (IMAGES, versions[:, 0])
    )
    assert after < before


def test_what_cannot_be_a_module_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="and Tanh: load the model in PyTorch"):
        OnnxModule(saved(tmp_path / "odd.onnx", "Tanh"))
    (tmp_path / "broken.onnx").write_bytes(b"nothing of the kind")
    with pytest.raises(TargetError, match="export it again"):
        OnnxModule(tmp_path / "broken.onnx")
