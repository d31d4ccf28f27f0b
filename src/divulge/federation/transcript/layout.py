"""How a transcript lies on disk, and its two kinds of JSON file.

    FOLDER/
      transcript.json          schema version, kind of update, names and shapes of all tensors
      round-0000.safetensors   the tensors of a round
      round-0000.json          the rest of it; size and SHA-256 of the tensors

Each file is written beside its place and moved there, and a round's JSON comes last and makes it
count: a killed run leaves every finished round readable. Nothing in a transcript names a file.
docs/transcript.md says what other programs have to write.
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

from divulge.core import Guarantee, LocalTraining, Round, Tensors, UpdateKind
from divulge.errors import DataError, DivulgeError, StoreError

SCHEMA: Final = 1

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
"""What safetensors calls the types of arrays that may be in a transcript."""


Client = Annotated[str, pydantic.Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]

TensorName = Annotated[str, pydantic.Field(pattern=r"^[!-~]{1,200}$")]

Length = Annotated[int, pydantic.Field(ge=0)]

Word = Annotated[str, pydantic.Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]{0,100}$")]
"""It is printed: no control character that a terminal would obey."""

Metrics = Mapping[Word, float | None]

Handed = Annotated[str, pydantic.Field(pattern=r"^(item|features|query|image|original)$")]
"""What may be said of each item that a client was handed."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a ``transcript.json`` of any schema has."""

    schema: Any = None


@dataclass(frozen=True, slots=True)
class Header:
    """What holds for a whole federation: ``transcript.json``."""

    name: Word
    kind: UpdateKind
    shapes: Mapping[TensorName, tuple[Length, ...]]
    """Of every tensor that is sent, in the network's order."""
    rule: Word = ""
    """How the server aggregates, in a word: ``fedavg``."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else says how the run was made; divulge only shows it."""
    items: TensorName | None = None
    """The tensor that has a row for each item; None where items are no part of the weights."""
    writer: Word = f"divulge {version('divulge')}"
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Sender:
    """One client of a round."""

    client: Client
    records: int | None = None
    """Its own claim, so any number is possible."""
    guarantee: Guarantee | None = None


@dataclass(frozen=True, slots=True)
class Summed:
    """The clients of a round under secure aggregation."""

    clients: tuple[Client, ...]
    records: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One round, but for its tensors: ``round-0000.json``."""

    number: Length
    size: Length
    sha256: Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]{64}$")]
    received: tuple[Sender, ...] = ()
    sum: Summed | None = None
    training: LocalTraining = field(default_factory=LocalTraining)
    metrics: Metrics = field(default_factory=dict)
    """None is what was not a finite number."""
    handed: Mapping[Client, Mapping[Handed, tuple[Length, ...]]] = field(default_factory=dict)
    """Shapes of what each client was handed."""

    @property
    def clients(self) -> tuple[str, ...]:
        """Who took part."""
        return tuple(got.client for got in self.received) + (self.sum.clients if self.sum else ())


def place(folder: Path, number: int, suffix: str) -> Path:
    """Where a file of a round lies."""
    return folder / f"round-{number:04d}.{suffix}"


def finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Metrics as JSON can hold them."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


def to_json(value: Header | Entry) -> bytes:
    """The content of a file.

    Raises:
        DataError: a name or a number cannot stand in a transcript.
    """
    adapter: pydantic.TypeAdapter[Header | Entry] = pydantic.TypeAdapter(type(value))
    content = adapter.dump_json(value, indent=1, warnings=False) + b"\n"
    try:
        adapter.validate_json(content)
    except pydantic.ValidationError as error:
        raise DataError(f"expected what a transcript can hold, got {_first(error)}") from error
    return content


def from_json(raw: bytes, kind: type[T], path: Path) -> T:
    """What a file says.

    Raises:
        StoreError: it says something that cannot stand there.
    """
    try:
        return pydantic.TypeAdapter(kind).validate_json(raw)
    except (pydantic.ValidationError, DivulgeError) as error:
        said = _first(error) if isinstance(error, pydantic.ValidationError) else error
        raise StoreError(f"expected {path} as docs/transcript.md says, got {said}") from error


def _first(error: pydantic.ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{str(first['input'])[:100]!r} for {where or 'the whole'}: {first['msg']}"


# Updates of item tables stored short: the rows of items handed out alone, as all others are 0.


def shortened(seen: Round, client: str, items: str) -> Tensors:
    """What a client sent, short where nothing is lost by it."""
    tensors, told = seen.received[client].tensors, seen.handed[client]
    if "item" not in told or items not in tensors:
        return tensors
    whole = tensors[items]
    try:
        rows = numbers(told["item"], len(whole), "what a client was handed")
    except StoreError:
        return tensors  # written as it is; whoever reads it is told
    if len(rows) == len(whole) or np.delete(whole, rows, axis=0).any():
        return tensors
    return {**tensors, items: whole[rows]}


def shapes(header: Header, entry: Entry) -> dict[str, tuple[int, ...]]:
    """By name in the file of a round, the shapes that tensors may have besides their own."""
    if header.items is None or header.items not in header.shapes or header.kind == "weights":
        return {}
    _, *width = header.shapes[header.items]
    return {
        f"received/{got.client}/{header.items}": (*entry.handed[got.client]["item"], *width)
        for got in entry.received
        if "item" in entry.handed.get(got.client, {})
    }


def lengthened(
    part: Shaped[np.ndarray, "..."], rows: Shaped[np.ndarray, "..."], shape: tuple[int, ...]
) -> Shaped[np.ndarray, "..."]:
    """The whole of what was stored short.

    Raises:
        StoreError: the rows are not those of items.
    """
    # no larger than what was sent, which is in the same file
    whole = np.zeros(shape, part.dtype)
    whole[numbers(rows, shape[0], "what a client was handed")] = part
    return whole


def numbers(rows: Shaped[np.ndarray, "..."], many: int, where: str) -> Int[np.ndarray, " items"]:
    """Rows of a table of so many items.

    Raises:
        StoreError: they are no numbers, none, not distinct, or out of range.
    """
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or not len(rows):
        raise StoreError(f"expected numbers of items in {where}, got none: restore it")
    found = rows.astype(np.int64)
    if found.min() < 0 or found.max() >= many or len(np.unique(found)) < len(found):
        raise StoreError(
            f"expected distinct items from 0 to {many - 1} in {where}, got others: restore it"
        )
    return found
