"""Write a transcript round by round, while a federation runs."""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from divulge._util import atomic
from divulge._util.arguments import FilePath, check_arguments
from divulge._util.folders import has_content
from divulge.core import Round, Tensors
from divulge.errors import DataError, StoreError
from divulge.federation.transcript import layout
from divulge.federation.transcript.layout import Header, RoundEntry, Sender, SumEntry
from divulge.federation.transcript.reader import Transcript

_ORDER = ("I64", "F64", "F32", "I32", "F16", "I16", "I8", "U8", "BOOL")
"""Types in the order in which safetensors stores them, the widest first."""


@check_arguments
@dataclass(frozen=True, slots=True)
class Writer:
    """Adds rounds to a transcript on disk; `begin` and `resume` create it."""

    folder: Path
    header: Header

    @classmethod
    @check_arguments
    def begin(cls, folder: FilePath, header: Header) -> "Writer":
        """Begin a new transcript in a new folder, which only its owner can read.

        Raises:
            StoreError: there is something in the folder already, or it cannot be written.
            DataError: a name or a shape in the header cannot be written.
        """
        folder = Path(folder)
        content = layout.to_json(header)
        with atomic.translate_os_errors(folder):
            refuse_content(folder)
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
        atomic.write(folder / layout.HEADER, content)
        return cls(folder, header)

    @classmethod
    @check_arguments
    def resume(cls, folder: FilePath, header: Header) -> "Writer":
        """Continue a transcript after its last whole round; half-written files are deleted.

        Raises:
            StoreError: it is damaged, or was begun with another header.
        """
        there = Transcript.open(folder)
        before = dataclasses.replace(there.header, writer=header.writer)
        if layout.to_json(before) != layout.to_json(header):
            raise StoreError(
                f"expected the settings that {folder} was begun with, got different ones: "
                "start a new transcript"
            )
        with atomic.translate_os_errors(Path(folder)):
            for leftover in Path(folder).glob(".writing-*"):
                leftover.unlink(missing_ok=True)
        return cls(Path(folder), header)

    @check_arguments
    def add(self, played: Round) -> None:
        """Write one round; it counts from the moment its JSON is there.

        Raises:
            DataError: the name of a client or a tensor, or an array's type, cannot be written.
            StoreError: the disk is full, or the folder cannot be written.
        """
        pieces = _serialise(played, self.header.items)
        masked, hashed = played.masked, hashlib.sha256()
        for piece in pieces:
            hashed.update(piece)
        entry = RoundEntry(
            number=played.number,
            size=sum(piece.nbytes for piece in pieces),
            sha256=hashed.hexdigest(),
            received=tuple(Sender(c, u.records, u.guarantee) for c, u in played.received.items()),
            sum=None if masked is None else SumEntry(masked.clients, masked.records),
            training=played.training,
            metrics=layout.finite_or_none(played.metrics),
            handed={
                c: {n: a.shape for n, a in arrays.items()} for c, arrays in played.handed.items()
            },
        )
        described = layout.to_json(entry)
        path = layout.round_path(self.folder, played.number, "safetensors")
        with atomic.replace_file(path) as file:
            for piece in pieces:
                file.write(piece)
        atomic.write(layout.round_path(self.folder, played.number, "json"), described)


def refuse_content(folder: Path) -> None:
    """Refuse a folder that no new transcript can be in.

    Raises:
        StoreError: there is something in the folder already, or it is none.
    """
    if folder.exists() and (not folder.is_dir() or has_content(folder)):
        raise StoreError(
            f"expected a new folder for the transcript, {folder} exists: "
            "choose another one; a federation that divulge simulates is continued with --resume"
        )


def write(folder: str | Path, name: str, rounds: Sequence[Round], items: str | None = None) -> None:
    """Write a whole transcript at once.

    Args:
        folder: new folder for the transcript.
        name: name of the federation.
        rounds: one round or more, all with the same tensors.
        items: name of the tensor that has a row for each item; None if none has.

    Raises:
        StoreError: there is something in the folder already, or it cannot be written.
        DataError: a name, or an array's type, cannot be written.
    """
    first = rounds[0]
    shapes = {tensor: array.shape for tensor, array in first.sent.items()}
    writer = Writer.begin(folder, Header(name, first.kind, shapes, items=items))
    for played in rounds:
        writer.add(played)


def _serialise(played: Round, items: str | None) -> list[memoryview]:
    """The tensors of a round in safetensors format: the arrays where they are, without a copy."""
    groups: dict[str, Tensors] = {"sent": played.sent}
    groups |= {f"received/{client}": update.tensors for client, update in played.received.items()}
    if played.masked is not None:
        groups["sum"] = played.masked.tensors
    if played.aggregated is not None:
        groups["aggregated"] = played.aggregated
    groups |= {f"handed/{client}": arrays for client, arrays in played.handed.items()}
    if items is not None and played.kind != "weights":
        for client in played.received.keys() & played.handed.keys():
            groups[f"received/{client}"] = layout.to_sparse_rows(played, client, items)
    flat = {
        f"{group}/{name}": np.asarray(array, order="C")
        for group, tensors in groups.items()
        for name, array in tensors.items()
    }
    names = {np.dtype(kind): name for name, kind in layout.DTYPES.items()}
    for name, array in flat.items():
        if array.dtype not in names:
            raise DataError(
                f"expected numbers in {name}, got an array of type {array.dtype}: "
                f"convert it to one of {', '.join(layout.DTYPES)}"
            )
    kinds = {name: names[array.dtype] for name, array in flat.items()}
    order = sorted(flat, key=lambda name: (_ORDER.index(kinds[name]), name))
    described, end = {}, 0
    for name in order:
        start, end = end, end + flat[name].nbytes
        described[name] = {
            "dtype": kinds[name],
            "shape": flat[name].shape,
            "data_offsets": (start, end),
        }
    text = json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    head = len(text).to_bytes(8, "little") + text
    return [memoryview(head), *(flat[name].reshape(-1).view(np.uint8).data for name in order)]
