"""The labels of a classifier in an ONNX file, read out of the file without the package onnx.

Converters write the labels of a classifier into the node that gives the predicted label, or into a
constant that this node picks from. Only what leads to the label is read; whatever is not understood
says nothing. The file is walked as protocol buffers, by lengths alone: weights are passed over.

References:
    ONNX, ``onnx.proto``: the numbers of the fields. ONNX-ML, operators: the attributes.
"""

import contextlib
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from divulge._util import untrusted
from divulge.errors import TargetError
from divulge.targets.outputs import MOST_CLASSES

Labels = tuple[str | int, ...]

_STEPS = 64
"""Nodes between an output and the labels that are followed at most."""

_PASSING = frozenset(("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"))
"""Operators that hand labels on as they are."""

_CLASSES = (
    "classlabels_strings", "classlabels_int64s", "classlabels_ints", "values_strings",
    "values_int64s", "cats_strings", "cats_int64s", "classes_strings",
)  # fmt: skip
"""Attributes that hold the labels, in the order of the scores."""

_KEYS = "keys_int64s"
"""The attribute with the positions to which a LabelEncoder gives its values."""

_GRAPH, _NODES, _INITIALIZERS = 7, 1, 5
_INPUTS, _OUTPUTS, _OPERATOR, _ATTRIBUTES = 1, 2, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_INTS, _ATTRIBUTE_STRINGS = 1, 8, 9
_DATA_TYPE, _INT32_DATA, _STRING_DATA, _INT64_DATA, _TENSOR_NAME, _RAW_DATA = 2, 5, 6, 7, 8, 9
_INT32, _INT64 = 6, 7
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _Node(NamedTuple):
    """A node of a graph, as far as it is of interest here."""

    operator: str
    inputs: tuple[str, ...]
    content: memoryview


def read_labels(path: Path, output: str) -> Labels:
    """The labels from which an output picks, in the order of the scores; none if it is not clear.

    Args:
        path: the .onnx file.
        output: the name of the output that gives predicted labels, or maps from labels to scores.

    Raises:
        TargetError: the file cannot be read.
    """
    with (
        untrusted.open_file(path, untrusted.MAX_DATA_BYTES, TargetError) as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        memoryview(content) as view,
    ):
        labels: Labels = ()
        with contextlib.suppress(ValueError, IndexError):  # damaged: ONNX Runtime says so
            labels = _find_labels(view, output)
        return labels


def _find_labels(model: memoryview, output: str) -> Labels:
    nodes: dict[str, _Node] = {}
    constants: dict[str, memoryview] = {}
    for graph in _all_bytes(model, _GRAPH):
        for field, value in _fields(graph):
            if field == _NODES and isinstance(value, memoryview):
                names = [_text(name) for name in _all_bytes(value, _OUTPUTS)]
                nodes |= dict.fromkeys(names, _read_node(value))
            elif field == _INITIALIZERS and isinstance(value, memoryview):
                constants |= {_text(name): value for name in _all_bytes(value, _TENSOR_NAME)}
    name = output
    for _ in range(_STEPS):
        node = nodes.get(name)
        if node is None or not node.inputs:
            return ()
        if labels := _labels_of(node):
            return labels
        if node.operator in ("ArrayFeatureExtractor", "Gather"):
            name = _passed_by(node.inputs[0], nodes)
            return _read_tensor(constants[name]) if name in constants else ()
        if node.operator not in _PASSING:
            return ()
        name = node.inputs[0]
    return ()


def _passed_by(name: str, nodes: dict[str, _Node]) -> str:
    """Where a value comes from that nodes hand on as it is."""
    for _ in range(_STEPS):
        node = nodes.get(name)
        if node is None or node.operator not in _PASSING or not node.inputs:
            break
        name = node.inputs[0]
    return name


def _read_node(content: memoryview) -> _Node:
    inputs = tuple(_text(name) for name in _all_bytes(content, _INPUTS))
    operator = "".join(_text(name) for name in _all_bytes(content, _OPERATOR))
    return _Node(operator, inputs, content)


def _labels_of(node: _Node) -> Labels:
    """The labels in the attributes of a node."""
    texts_by_name: dict[str, Labels] = {}
    for attribute in _all_bytes(node.content, _ATTRIBUTES):
        name = next(
            (_text(value) for field, value in _fields(attribute) if field == _ATTRIBUTE_NAME), ""
        )
        if name in (*_CLASSES, _KEYS):  # others may be long
            texts = tuple(_text(raw) for raw in _all_bytes(attribute, _ATTRIBUTE_STRINGS))
            texts_by_name[name] = texts or _integers(attribute, _ATTRIBUTE_INTS)
    keys = texts_by_name.get(_KEYS, ())
    if keys != tuple(range(len(keys))):
        return ()
    return next((_checked(texts_by_name[name]) for name in _CLASSES if texts_by_name.get(name)), ())


def _read_tensor(tensor: memoryview) -> Labels:
    """The labels in a constant, of texts or whole numbers."""
    if texts := tuple(_text(content) for content in _all_bytes(tensor, _STRING_DATA)):
        return _checked(texts)
    numbers = _integers(tensor, _INT64_DATA) or _integers(tensor, _INT32_DATA)
    kinds = [value for field, value in _fields(tensor) if field == _DATA_TYPE]
    for raw in _all_bytes(tensor, _RAW_DATA):
        if kinds in ([_INT32], [_INT64]):
            dtype = "<i4" if kinds == [_INT32] else "<i8"
            numbers = tuple(np.frombuffer(bytes(raw), dtype).tolist())
    return _checked(numbers)


def _checked(labels: Labels) -> Labels:
    """The labels, if they can be those of a classifier: two or more, each once."""
    return labels if 2 <= len(labels) <= MOST_CLASSES and len(set(labels)) == len(labels) else ()


def _integers(content: memoryview, wanted: int) -> tuple[int, ...]:
    """Whole numbers of a repeated field, packed or not."""
    result: list[int] = []
    for field, value in _fields(content):
        if field != wanted:
            continue
        if isinstance(value, int):
            result.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            result.append(number)
    return tuple(number - (1 << 64) if number >> 63 else number for number in result)


def _all_bytes(content: memoryview, wanted: int) -> list[memoryview]:
    """What a field holds that is a text, bytes or a message, as often as it is there."""
    return [
        value
        for field, value in _fields(content)
        if field == wanted and isinstance(value, memoryview)
    ]


def _fields(content: memoryview) -> Iterator[tuple[int, Any]]:
    """The fields of a message: their number, and a whole number or bytes.

    Raises:
        ValueError, IndexError: this is no message.
    """
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        field, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(content, at)
            yield field, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if kind == _BYTES:
            size, at = _varint(content, at)
        if size is None or at + size > len(content):
            raise ValueError("no message")
        if kind == _BYTES:
            yield field, content[at : at + size]
        at += size


def _varint(content: memoryview, at: int) -> tuple[int, int]:
    """A whole number of variable length, and where it ends."""
    number = shift = 0
    while True:
        byte = content[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError("no number")


def _text(content: memoryview) -> str:
    return bytes(content).decode()
