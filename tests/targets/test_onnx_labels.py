"""Classifiers in ONNX files as converters write them: which output, and what classes are called."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divulge
from divulge.errors import SpecError, TargetError
from divulge.targets.files import load_target
from divulge.targets.model_facts import class_labels
from divulge.targets.onnx import OnnxTarget
from divulge.targets.onnx_labels import read_labels
from tests.slow import slow

from . import tiny_models as tiny

onnx: Any = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
helper, TensorProto = onnx.helper, onnx.TensorProto

REAL, WHOLE, TEXT = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
NAMES = ("mid", "low", "high")
"""In no order, as a converter may write them."""


def value(name: str, kind: int, *shape: int | str) -> Any:
    return helper.make_tensor_value_info(name, kind, ["n", *shape])


def maps(name: str, key: int) -> Any:
    entry = helper.make_map_type_proto(key, helper.make_tensor_type_proto(REAL, []))
    return helper.make_value_info(name, helper.make_sequence_type_proto(entry))


def save(path: Path, nodes: list[Any], outputs: list[Any], constants: Any = None) -> Path:
    graph = helper.make_graph(nodes, "g", [value("x", REAL, 4)], outputs, constants or [])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def classifier(labels: tuple[Any, ...]) -> Any:
    """The linear classifier of three classes as a node that gives labels and probabilities."""
    texts = isinstance(labels[0], str)
    return helper.make_node(
        "LinearClassifier",
        ["x"],
        ["label", "probabilities"],
        domain="ai.onnx.ml",
        coefficients=tiny.WEIGHT.T.ravel().tolist(),
        intercepts=tiny.BIAS.tolist(),
        post_transform="SOFTMAX",
        **{"classlabels_strings" if texts else "classlabels_ints": list(labels)},
    )


def save_classifier(path: Path, labels: tuple[Any, ...], form: str) -> Path:
    """As scikit-learn's converter writes it: with one tensor, with maps, or a column a class."""
    kind = TEXT if isinstance(labels[0], str) else WHOLE
    nodes, label = [classifier(labels)], value("label", kind)
    if form == "tensor":
        return save(path, nodes, [label, value("probabilities", REAL, 3)])
    if form == "maps":
        attribute = "classlabels_strings" if kind == TEXT else "classlabels_int64s"
        nodes.append(
            helper.make_node(
                "ZipMap",
                ["probabilities"],
                ["output_probability"],
                domain="ai.onnx.ml",
                **{attribute: list(labels)},
            )
        )
        return save(path, nodes, [label, maps("output_probability", kind)])
    nodes.append(helper.make_node("Split", ["probabilities"], ["i0", "i1", "i2"], axis=1))
    return save(path, nodes, [label, *(value(name, REAL, 1) for name in ("i0", "i1", "i2"))])


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("labels", [NAMES, *map(slow, [(0, 1, 2), (7, 1, 3)]), (-1, 0, 1)])
@pytest.mark.parametrize("form", ["tensor", "maps", "columns"])
def test_labels_are_read_out_of_the_file(
    form: str,
    labels: tuple[Any, ...],
    isolated: bool,
    tmp_path: Path,
) -> None:
    path = save_classifier(tmp_path / "m.onnx", labels, form)
    target = load_target(path) if isolated else OnnxTarget(path)
    assert class_labels(target) == labels
    answers, expected = target.predict(tiny.X), tiny.probabilities(tiny.X)
    places = list(labels) if min(map(str, labels)) != "-1" and labels != NAMES else [0, 1, 2]
    np.testing.assert_allclose(answers[:, places], expected, atol=1e-6)
    assert answers.shape[1] == max(places) + 1
    assert not np.delete(answers, places, axis=1).any()


@pytest.mark.parametrize("form", ["tensor", slow("maps"), slow("columns")])
@pytest.mark.parametrize("labels", [NAMES, slow((1, 2, 3))])
def test_an_audit_matches_its_labels_with_those_of_the_file(
    form: str, labels: tuple[Any, ...], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4)).astype(np.float32)
    p = tiny.probabilities(x)
    y = np.array([rng.choice(3, p=row) for row in p])
    path = save_classifier(tmp_path / "m.onnx", labels, form)

    def figure(model: Any, labels: np.ndarray) -> float:
        found = divulge.audit(
            model,
            members=(x[:60], labels[:60]),
            nonmembers=(x[60:], labels[60:]),
            attacks=[divulge.attack("threshold")],
        )
        return float(found.findings[0].metrics["auc"].value)

    expected = figure(tiny.probabilities, y)
    assert figure(path, np.array(labels)[y]) == pytest.approx(expected, abs=1e-4)
    if labels == NAMES:
        with pytest.raises(divulge.DataError, match="do not say which of these is 0"):
            figure(path, y)
    else:
        with pytest.raises(divulge.DataError, match="for its training"):
            figure(path, y)


def test_predicted_texts_are_labels_too(tmp_path: Path) -> None:
    path = save_classifier(tmp_path / "m.onnx", NAMES, "tensor")
    found = OnnxTarget(path, "labels").predict(tiny.X)
    np.testing.assert_array_equal(found.argmax(axis=1), tiny.logits(tiny.X).argmax(axis=1))


@pytest.mark.parametrize("texts", [False, True])
def test_labels_that_a_label_is_picked_from_are_found(texts: bool, tmp_path: Path) -> None:
    """As converters write classifiers for which ONNX has no operator of their own."""
    classes = (
        helper.make_tensor("classes", TEXT, [3], [name.encode() for name in NAMES])
        if texts
        else onnx.numpy_helper.from_array(np.array([5, 6, 9]), "classes")
    )
    constants = [
        onnx.numpy_helper.from_array(tiny.WEIGHT.astype(np.float32), "weight"),
        onnx.numpy_helper.from_array(tiny.BIAS.astype(np.float32), "bias"),
        onnx.numpy_helper.from_array(np.array([-1]), "flat"),
        classes,
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "weight", "bias"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"]),
        helper.make_node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0),
        helper.make_node(
            "ArrayFeatureExtractor", ["classes", "best"], ["picked"], domain="ai.onnx.ml"
        ),
        helper.make_node("Reshape", ["picked", "flat"], ["label"]),
    ]
    outputs = [value("label", TEXT if texts else WHOLE), value("probabilities", REAL, 3)]
    path = save(tmp_path / "m.onnx", nodes, outputs, constants)
    assert read_labels(path, "label") == (NAMES if texts else (5, 6, 9))
    places = [0, 1, 2] if texts else [5, 6, 9]
    answers = OnnxTarget(path).predict(tiny.X)
    np.testing.assert_allclose(answers[:, places], tiny.probabilities(tiny.X), atol=1e-6)


def test_what_is_not_understood_says_nothing(tmp_path: Path) -> None:
    path = tiny.save_onnx(tmp_path / "tiny.onnx")
    assert read_labels(path, "label") == ()
    content = save_classifier(tmp_path / "m.onnx", NAMES, "tensor").read_bytes()
    for end in range(0, len(content), 7):
        path.write_bytes(content[: end + 1])
        assert read_labels(path, "label") in ((), NAMES)


def save_heads(path: Path) -> Path:
    """A hidden layer and logits, both of floats, and no label."""
    constants = [
        onnx.numpy_helper.from_array(tiny.WEIGHT.astype(np.float32), "weight"),
        onnx.numpy_helper.from_array(tiny.BIAS.astype(np.float32), "bias"),
    ]
    nodes = [
        helper.make_node("Relu", ["x"], ["hidden"]),
        helper.make_node("Gemm", ["x", "weight", "bias"], ["logits"]),
    ]
    return save(path, nodes, [value("hidden", REAL, 4), value("logits", REAL, 3)], constants)


def test_several_outputs_are_refused_with_their_names(tmp_path: Path) -> None:
    path = save_heads(tmp_path / "m.onnx")
    for output in ("logits", "probabilities"):
        with pytest.raises(TargetError, match='output_name="hidden" or output_name="logits"'):
            OnnxTarget(path, output)
    chosen = load_target(path, "logits", output_name="logits")
    np.testing.assert_allclose(chosen.predict(tiny.X), tiny.probabilities(tiny.X), atol=1e-6)


def test_an_output_is_chosen_in_python_and_in_settings(tmp_path: Path) -> None:
    save_heads(tmp_path / "m.onnx")
    y = tiny.logits(tiny.X).argmax(axis=1)
    x = np.vstack([tiny.X + k / 10 for k in range(20)]).astype(np.float32)
    labels = np.tile(y, 20)
    np.savez(tmp_path / "in.npz", x=x[:70], y=labels[:70])
    np.savez(tmp_path / "out.npz", x=x[70:], y=labels[70:])
    text = (
        '[target]\nmodel = "m.onnx"\noutput = "logits"\n{}\n'
        '[data]\nmembers = "in.npz"\nnonmembers = "out.npz"\n[[attacks]]\nname = "threshold"\n'
    )
    settings = tmp_path / "audit.toml"
    settings.write_text(text.format(""))
    with pytest.raises(TargetError, match="2 that could be it"):
        divulge.audit_file(settings)
    settings.write_text(text.format('output_name = "logits"'))
    found = divulge.audit_file(settings)
    same = divulge.audit(
        tmp_path / "m.onnx",
        members=(x[:70], labels[:70]),
        nonmembers=(x[70:], labels[70:]),
        access=divulge.Access(output="logits", output_name="logits"),
        attacks=[divulge.attack("threshold")],
    )
    assert found.findings[0].metrics == same.findings[0].metrics


def test_other_models_have_no_output_of_a_name(tmp_path: Path) -> None:
    sets: dict[str, Any] = {
        "members": (tiny.X, np.zeros(7, int)),
        "nonmembers": (tiny.X + 1, np.zeros(7, int)),
    }
    access = divulge.Access(output_name="logits")
    skops = tiny.save_skops(tmp_path / "m.skops", tiny.estimator())
    for model in (tiny.estimator(), tiny.probabilities, skops):
        with pytest.raises(SpecError, match="expected no output_name"):
            divulge.audit(model, **sets, access=access)


def test_an_embedding_of_another_rank_is_no_candidate(tmp_path: Path) -> None:
    axes = onnx.numpy_helper.from_array(np.array([2]), "axes")
    nodes = [
        helper.make_node("Softmax", ["x"], ["answers"]),
        helper.make_node("Unsqueeze", ["x", "axes"], ["deep"]),
    ]
    outputs = [value("deep", REAL, 4, 1), value("answers", REAL, 4)]
    target = OnnxTarget(save(tmp_path / "m.onnx", nodes, outputs, [axes]))
    np.testing.assert_allclose(target.predict(tiny.X).sum(axis=1), 1)
