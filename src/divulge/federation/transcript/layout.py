"""Define the files of a transcript, their JSON, and sparse updates of tables of items.

    FOLDER/
      transcript.json          schema version, kind of update, names and shapes of all tensors
      round-0000.safetensors   the tensors of a round
      round-0000.json          the rest of it; size and SHA-256 of the tensors

Each file is written beside its place and moved there, and a round's JSON comes last and makes it
count: a killed run leaves every finished round readable. Nothing in a transcript names a file.
A client's update of a table of items may be stored sparse: only the rows of the items that the
client was shown, since all other rows are 0. docs/reference/transcript.md says what other programs
have to write.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import numpy as np
import pydantic
from jaxtyping import Int, Shaped

from divulge._util.json import RepeatedKey, Settings, refuse_repeated_keys
from divulge.core import Guarantee, LocalTraining, Round, Tensors, UpdateKind
from divulge.errors import DataError, DivulgeError, StoreError

SCHEMA: Final = 1

HEADER: Final = "transcript.json"
"""File of a transcript's `Header`."""

DTYPES: Final = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
"""Types of the arrays in a transcript, by the names that safetensors gives them."""


ClientName = Annotated[str, pydantic.Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]

TensorName = Annotated[str, pydantic.Field(pattern=r"^[!-~]{1,200}$")]

Length = Annotated[int, pydantic.Field(ge=0)]

PrintableText = Annotated[str, pydantic.Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]{0,100}$")]
"""Text that may be printed: it has no control character that a terminal would obey."""

Metrics = Mapping[PrintableText, float | None]

ItemField = Annotated[str, pydantic.Field(pattern=r"^(item|features|query|image|original)$")]
"""Name of an array about the items that a client was shown."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SchemaStamp:
    """Part of ``transcript.json`` that every schema has: its version."""

    schema: Any = None


@dataclass(frozen=True, slots=True)
class Header:
    """Facts about a whole federation: ``transcript.json``."""

    name: PrintableText
    kind: UpdateKind
    shapes: Mapping[TensorName, tuple[Length, ...]]
    """Shape of every tensor that is sent, in the network's order."""
    rule: PrintableText = ""
    """Name of the server's aggregation rule, such as ``fedavg``."""
    settings: Settings = field(default_factory=dict)
    """Further settings of the run, which divulge only shows."""
    items: TensorName | None = None
    """Tensor that has a row for each item; None where items are no part of the weights."""
    writer: PrintableText = f"divulge {version('divulge')}"
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Sender:
    """One client of a round that sent an update."""

    client: ClientName
    records: int | None = None
    """Number of records that the client claims, so any number is possible."""
    guarantee: Guarantee | None = None


@dataclass(frozen=True, slots=True)
class SumEntry:
    """The clients of a round under secure aggregation."""

    clients: tuple[ClientName, ...]
    records: int | None = None


@dataclass(frozen=True, slots=True)
class RoundEntry:
    """One round without its tensors: ``round-0000.json``."""

    number: Length
    size: Length
    sha256: Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]{64}$")]
    received: tuple[Sender, ...] = ()
    sum: SumEntry | None = None
    training: LocalTraining = field(default_factory=LocalTraining)
    metrics: Metrics = field(default_factory=dict)
    """Metrics of the round by name; None stands for a number that was not finite."""
    handed: Mapping[ClientName, Mapping[ItemField, tuple[Length, ...]]] = field(
        default_factory=dict
    )
    """Shapes of the arrays about the items that each client was shown."""

    @property
    def clients(self) -> tuple[str, ...]:
        """Names of the clients that took part."""
        return tuple(got.client for got in self.received) + (self.sum.clients if self.sum else ())


def round_path(folder: Path, number: int, suffix: str) -> Path:
    """Path of a file of a round."""
    return folder / f"round-{number:04d}.{suffix}"


def check_client(name: str) -> None:
    """Refuse a name of a client that cannot stand in a transcript.

    Raises:
        DataError: it is too long, or has other characters.
    """
    try:
        pydantic.TypeAdapter(ClientName).validate_python(name)
    except pydantic.ValidationError as error:
        raise DataError(
            "expected up to 64 letters, digits, dots, hyphens and underscores as the name of a "
            f"client, got {name[:100]!a}: rename it"
        ) from error


def finite_or_none(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Replace metrics that JSON cannot hold, NaN and infinity, by None."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


def to_json(value: Header | RoundEntry) -> bytes:
    """Encode a header or a round as the content of its file.

    Raises:
        DataError: a name or a number cannot stand in a transcript.
    """
    adapter: pydantic.TypeAdapter[Header | RoundEntry] = pydantic.TypeAdapter(type(value))
    content = adapter.dump_json(value, indent=1, warnings=False) + b"\n"
    try:
        adapter.validate_json(content)
    except pydantic.ValidationError as error:
        raise DataError(
            f"expected what a transcript can hold, got {_first_error(error)}"
        ) from error
    return content


def from_json(raw: bytes, kind: type[T], path: Path) -> T:
    """Decode and validate the content of a file.

    Raises:
        StoreError: the content does not have the format.
    """
    try:
        refuse_repeated_keys(raw)
        return pydantic.TypeAdapter(kind).validate_json(raw)
    except (pydantic.ValidationError, DivulgeError, RepeatedKey) as error:
        reason = _first_error(error) if isinstance(error, pydantic.ValidationError) else error
        raise StoreError(
            f"expected {path} as docs/reference/transcript.md says, got {reason}"
        ) from error


def _first_error(error: pydantic.ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{str(first['input'])[:100]!r} for {where or 'the whole'}: {first['msg']}"


def to_sparse_rows(played: Round, client: str, items: str) -> Tensors:
    """A client's tensors, with sparse rows of items where nothing is lost by that."""
    tensors, arrays = played.received[client].tensors, played.handed[client]
    if "item" not in arrays or items not in tensors:
        return tensors
    whole = tensors[items]
    try:
        rows = check_item_rows(arrays["item"], len(whole), "what a client was handed")
    except StoreError:
        return tensors  # written as it is; whoever reads it is told
    if len(rows) == len(whole) or np.delete(whole, rows, axis=0).any():
        return tensors
    return {**tensors, items: whole[rows]}


def sparse_shapes(header: Header, entry: RoundEntry) -> dict[str, tuple[int, ...]]:
    """Shapes that tensors have where they are stored sparse, by name in the file of a round."""
    if header.items is None or header.items not in header.shapes or header.kind == "weights":
        return {}
    _, *width = header.shapes[header.items]
    return {
        f"received/{got.client}/{header.items}": (*entry.handed[got.client]["item"], *width)
        for got in entry.received
        if "item" in entry.handed.get(got.client, {})
    }


def to_dense_rows(
    part: Shaped[np.ndarray, "..."], rows: Shaped[np.ndarray, "..."], shape: tuple[int, ...]
) -> Shaped[np.ndarray, "..."]:
    """Restore a whole tensor from its sparse rows.

    Raises:
        StoreError: the rows are not those of items.
    """
    # no larger than what was sent, which is in the same file
    whole = np.zeros(shape, part.dtype)
    whole[check_item_rows(rows, shape[0], "what a client was handed")] = part
    return whole


def check_item_rows(
    rows: Shaped[np.ndarray, "..."], many: int, where: str
) -> Int[np.ndarray, " items"]:
    """Check numbers of rows in a table of so many items, and convert them to int64.

    Raises:
        StoreError: they are no integers, empty, not distinct, or out of range.
    """
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or not len(rows):
        raise StoreError(f"expected numbers of items in {where}, got none: restore it")
    places = rows.astype(np.int64)
    if places.min() < 0 or places.max() >= many or len(np.unique(places)) < len(places):
        raise StoreError(
            f"expected distinct items from 0 to {many - 1} in {where}, got others: restore it"
        )
    return places
