"""Tensors of the Open Inference Protocol, as KServe, Triton and MLServer speak it."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from divulge._util.json import JSON
from divulge.errors import TargetError
from divulge.targets.json_answers import follow_path, unique_by_name
from divulge.targets.json_records import json_values, to_rows

_DATATYPES = {"bool": "BOOL"} | {
    f"{name}{bits}": f"{short}{bits}"
    for name, short in (("uint", "UINT"), ("int", "INT"), ("float", "FP"))
    for bits in (8, 16, 32, 64)
}
"""Names of tensor types in the Open Inference Protocol, by those in NumPy."""


def write_tensors(x: Any, name: str, datatype: str | None) -> JSON:
    """The body of a request about some records: a tensor, or one a column of a table.

    Args:
        x: the records.
        name: of the tensor, where there is one.
        datatype: of numbers; that of the records unless given.
    """
    if isinstance(x, np.ndarray):
        tensors = [(name, x)]
    else:
        columns, values = to_rows(x)
        table = list(zip(*values, strict=True)) if columns else [values]
        tensors = [
            (key, np.asarray(column).reshape(len(column), -1) if columns else np.asarray(column))
            for key, column in zip(columns or (name,), table, strict=True)
        ]
    return {"inputs": [_tensor(key, values, datatype) for key, values in tensors]}


def _tensor(name: str, values: np.ndarray, datatype: str | None) -> JSON:
    kind = _DATATYPES.get(values.dtype.name, "BYTES")
    if datatype and kind != "BYTES":
        kind = datatype
    data = json_values(values.reshape(-1))
    return {"name": name, "shape": list(values.shape), "datatype": kind, "data": data}


def read_tensor(body: JSON, name: str | None, count: int) -> list[Any]:
    """The rows of an output of a response.

    Args:
        body: the response.
        name: of the output; of the only one unless given.
        count: how many records were asked about.

    Raises:
        TargetError: there is no such output, or it has another shape.
    """
    outputs = follow_path(body, "outputs")
    named = unique_by_name(
        (
            (entry["name"], entry)
            for entry in (outputs if isinstance(outputs, list) else ())
            if isinstance(entry, dict) and isinstance(entry.get("name"), str)
        ),
        "output",
    )
    name = name or (next(iter(named)) if len(named) == 1 else None)
    if name not in named:
        there = ", ".join(map(repr, list(named)[:5])) or "none"
        wanted = "one output" if name is None else f"the output {name!r}"
        raise TargetError(f"expected {wanted}, got {there}: name it in the key answers")
    return _rows_of_tensor(named[name], count)


def _rows_of_tensor(tensor: Mapping[str, Any], count: int) -> list[Any]:
    shape, data = tensor.get("shape"), tensor.get("data")
    if not isinstance(shape, list) or not isinstance(data, list) or len(shape) not in (1, 2):
        raise TargetError("expected an output with data, and a shape of one or two numbers")
    if shape[0] != count or not all(type(size) is int and size > 0 for size in shape):
        raise TargetError(f"expected {count} answers, got an output of another shape")
    flat, width = list(_flatten(data)), math.prod(shape[1:])
    if len(flat) != count * width:
        raise TargetError(f"expected data of the shape {shape}, got {len(flat)} values")
    return flat if len(shape) == 1 else [flat[k : k + width] for k in range(0, len(flat), width)]


def _flatten(data: Iterable[Any]) -> Iterator[Any]:
    for value in data:
        if isinstance(value, list):
            yield from value  # as a matrix; deeper ones are no numbers and are refused as such
        else:
            yield value
