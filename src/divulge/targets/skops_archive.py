"""Check the archive of a .skops file before anything in it is loaded."""

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from divulge._util import arrays, untrusted
from divulge._util.json import parse_json
from divulge.errors import TargetError

DTYPE: Final = "numpy.dtype"
"""The type of an array that imputers keep; only `_is_plain` ones are taken."""

INSTEAD = "if you trust it, load the file yourself and pass the model, or save the model as .onnx"


def check_archive(path: Path) -> None:
    """Refuse arrays that a loader, which is compiled too, would trip over before any other check.

    Memory is taken for as many numbers as a header promises. scikit-learn's tree asks for the
    length of its nodes before it asks whether they have one: none may be a single number.
    """
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
        untrusted.check_size(
            size, untrusted.MAX_DATA_BYTES, f"a model that {path} unpacks to", TargetError
        )
        shapes: dict[Any, tuple[int, ...]] = {}
        for info in archive.infolist():
            with archive.open(info) as member:
                if member.read(6) == np.lib.format.MAGIC_PREFIX:
                    member.seek(0)
                    shapes[info.filename], _ = arrays.read_header(member, info.file_size)
        entries = list(_entries(parse_json(archive.read("schema.json"))))
    _check_dtypes(entries, path)
    if not any({"Tree", "TreeNode"} & {e.get("__class__"), e.get("__loader__")} for e in entries):
        return
    for entry in entries:
        masked = entry.get("__loader__") == "MaskedArrayNode"
        if masked or (entry.get("__class__") == "ndarray" and shapes.get(entry.get("file")) == ()):
            raise TargetError(
                f"expected arrays with axes beside trees in {path}, got a "
                f"{'masked array' if masked else 'single number'}: {INSTEAD}"
            )


def _check_dtypes(entries: Iterable[dict[str, Any]], path: Path) -> None:
    """Refuse a type of arrays that is made in another way than by reading an empty array of it.

    Other loaders of skops call what they load, or give it attributes.
    """
    for entry in entries:
        named = f"{entry.get('__module__')}.{entry.get('__class__')}"
        if DTYPE not in (named, f"numpy.{entry.get('__class__')}") and (
            entry.get("__loader__") != "DTypeNode"
        ):
            continue
        content = entry.get("content")
        if (
            (named, entry.get("__loader__")) != (DTYPE, "DTypeNode")
            or not isinstance(content, dict)
            or content.get("__loader__") != "NdArrayNode"
            or (content.get("__module__"), content.get("__class__")) != ("numpy", "ndarray")
        ):
            raise TargetError(
                f"expected {DTYPE} as skops writes it in {path}, got it in another way: {INSTEAD}"
            )


def _entries(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object in a schema, with what it holds."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
