"""Read the transcript of a federated run: all that its server sent, received and computed.

A transcript is not trusted: no pickle is read, and sizes, checksums, names, types and shapes are
checked first. One round is open at a time, and only the tensors that are used are read.
"""

import hashlib
import os
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from divulge._util import untrusted
from divulge._util.arguments import FilePath, check_arguments
from divulge._util.extras import name_missing_extra
from divulge.core import MaskedSum, ReceivedUpdate, Records, Round, Rounds, UpdateView
from divulge.errors import SpecError, StoreError, did_you_mean
from divulge.federation.transcript import layout
from divulge.federation.transcript.layout import Header, RoundEntry

LARGEST_JSON: Final = 64 * 2**20
"""Largest size of a JSON file in bytes, enough for some hundred thousand clients."""


@check_arguments
@dataclass(frozen=True, slots=True)
class Transcript:
    """A federation as its server saw it."""

    header: Header
    rounds: Rounds
    """Rounds in order; those on disk are read one at a time, when they are used."""

    @classmethod
    @check_arguments
    def open(cls, folder: FilePath) -> "Transcript":
        """Open the transcript in a folder.

        Asking for one of its ``rounds`` raises StoreError when that round is damaged.

        Raises:
            StoreError: there is none, it is damaged, of another schema, or a round is missing.
        """
        folder = Path(folder)
        path = folder / layout.HEADER
        if not os.path.lexists(path):
            raise StoreError(f"expected a transcript in {folder}, there is none: check the path")
        raw = _read_json(path)
        schema = layout.from_json(raw, layout.SchemaStamp, path).schema
        if schema != layout.SCHEMA:
            raise StoreError(
                f"expected a transcript of schema {layout.SCHEMA} in {path}, got {schema!r}: "
                "read it with a divulge that knows this schema"
            )
        header = layout.from_json(raw, Header, path)
        return cls(header, _RoundsOnDisk(folder, header, _count_rounds(folder)))

    def clients(self, number: int) -> tuple[str, ...]:
        """Names of the clients that took part in a round; its tensors are not read."""
        if isinstance(self.rounds, _RoundsOnDisk):
            return self.rounds.entry(number).clients
        return self.rounds[number].clients

    def entries(self) -> tuple[RoundEntry, ...]:
        """Read the JSON of each round: all but its tensors, and their checksum.

        Raises:
            StoreError: one of them is damaged, or the rounds never were on disk.
        """
        if not isinstance(self.rounds, _RoundsOnDisk):
            raise StoreError("expected a transcript on disk, got one in memory: open its folder")
        return tuple(map(self.rounds.entry, range(len(self.rounds))))

    def view(
        self,
        victim: str,
        network: Callable[[], Any] | None = None,
        reference: Records | None = None,
        without: Container[int] = (),
    ) -> UpdateView:
        """Build the server's view of one client: the rounds in which that client took part.

        Args:
            victim: name of the client.
            network: function that makes the module that the weights belong to.
            reference: records that the attacker owns, of the same population as the victim's.
            without: positions of rounds to leave out.

        Raises:
            SpecError: no such client ever took part.
        """
        clients = [self.clients(k) for k in range(len(self.rounds))]
        part = [k for k, names in enumerate(clients) if victim in names and k not in without]
        if not part:
            hint = did_you_mean(victim, set().union(*clients))
            raise SpecError(f"expected a client of the transcript, got {victim!r}: {hint}")
        return UpdateView(victim, RoundSubset(self.rounds, part), network, reference)


class RoundSubset:
    """A subset of the rounds, which are still read one at a time."""

    def __init__(self, rounds: Rounds, chosen: Sequence[int]) -> None:
        self._rounds, self._chosen = rounds, chosen

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, index: int) -> Round:
        return self._rounds[self._chosen[index]]

    def __iter__(self) -> Iterator[Round]:
        return map(self._rounds.__getitem__, self._chosen)


class _RoundsOnDisk:
    """The rounds in a folder; a file's checksum is verified when it is first opened."""

    def __init__(self, folder: Path, header: Header, count: int) -> None:
        self._folder, self._header, self._count = folder, header, count
        self._verified: set[int] = set()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Round:
        number = range(self._count)[index]
        entry = self.entry(number)
        path = layout.round_path(self._folder, number, "safetensors")
        if number not in self._verified:
            _verify_checksum(path, entry)
            self._verified.add(number)
        return _read_round(path, entry, self._header)

    def __iter__(self) -> Iterator[Round]:
        return map(self.__getitem__, range(self._count))

    def entry(self, number: int) -> RoundEntry:
        """Read the JSON of a round.

        Raises:
            StoreError: it is damaged.
        """
        path = layout.round_path(self._folder, number, "json")
        entry = layout.from_json(_read_json(path), RoundEntry, path)
        if entry.number != number:
            raise StoreError(f"expected round {number} in {path}, got {entry.number}: restore it")
        if len(set(entry.clients)) != len(entry.clients):
            raise StoreError(f"expected distinct clients in {path}, got one twice: restore it")
        return entry


class _TensorsOnDisk(Mapping[str, np.ndarray]):
    """Tensors in a file, each of which is read when it is used.

    A tensor that was stored sparse gets its other rows back, which are 0.
    """

    def __init__(
        self, file: Any, group: str, names: Mapping[Any, tuple[int, ...]], rows: str = ""
    ) -> None:
        self._file, self._group, self._names, self._rows = file, group, names, rows

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        array: np.ndarray = self._file.get_tensor(f"{self._group}/{name}")
        shape = tuple(self._names[name])
        if array.shape == shape:
            return array
        return layout.to_dense_rows(array, self._file.get_tensor(self._rows), shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __reduce__(self) -> tuple[type, tuple[dict[str, np.ndarray]]]:
        # another process, perhaps on another machine, gets the arrays: an open file stays here
        return dict, (dict(self),)


def _count_rounds(folder: Path) -> int:
    """Count the rounds of a folder, and refuse a gap."""
    matches = (re.fullmatch(r"round-(\d{4,9})\.json", path.name) for path in folder.iterdir())
    numbers = sorted(int(match[1]) for match in matches if match)
    for expected, number in enumerate(numbers):
        if expected != number:
            raise StoreError(
                f"expected rounds from 0 without a gap in {folder}, round {expected} is missing: "
                "restore it, or keep only the rounds before it"
            )
    return len(numbers)


def _read_json(path: Path) -> bytes:
    return untrusted.read_file(path, LARGEST_JSON, StoreError, links=False)


def _verify_checksum(path: Path, entry: RoundEntry) -> None:
    with untrusted.open_file(path, untrusted.MAX_DATA_BYTES, StoreError, links=False) as file:
        size = os.fstat(file.fileno()).st_size
        if size != entry.size:
            raise StoreError(
                f"expected {entry.size} bytes in {path}, got {size}: "
                "it was cut off or replaced; restore it"
            )
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != entry.sha256:
        raise StoreError(
            f"expected SHA-256 {entry.sha256[:12]}... of {path}, got {digest[:12]}...: "
            "its content was changed; restore it"
        )


def _read_round(path: Path, entry: RoundEntry, header: Header) -> Round:
    file = _open_tensors(path)
    present = set(file.keys())
    groups = ["sent", *(f"received/{got.client}" for got in entry.received)]
    groups += ["sum"] if entry.sum else []
    aggregated = any(name.startswith("aggregated/") for name in present)
    groups += ["aggregated"] if aggregated else []
    announced = {f"{g}/{n}": s for g in groups for n, s in header.shapes.items()}
    for client, arrays in entry.handed.items():
        announced |= {f"handed/{client}/{name}": shape for name, shape in arrays.items()}
    _check_tensors(path, file, present, announced, layout.sparse_shapes(header, entry))
    stored = {
        group: _TensorsOnDisk(
            file, group, header.shapes, f"{group.replace('received', 'handed', 1)}/item"
        )
        for group in groups
    }
    received = {
        got.client: ReceivedUpdate(stored[f"received/{got.client}"], got.records, got.guarantee)
        for got in entry.received
    }
    summed = entry.sum
    return Round(
        entry.number,
        header.kind,
        sent=stored["sent"],
        received=received,
        masked=MaskedSum(summed.clients, stored["sum"], summed.records) if summed else None,
        training=entry.training,
        aggregated=stored.get("aggregated"),
        metrics={k: float("nan") if v is None else v for k, v in entry.metrics.items()},
        handed={
            c: _TensorsOnDisk(file, f"handed/{c}", arrays) for c, arrays in entry.handed.items()
        },
    )


def _open_tensors(path: Path) -> Any:
    with name_missing_extra():
        from safetensors import SafetensorError, safe_open
    try:
        return safe_open(path, framework="np")
    except SafetensorError as error:
        raise StoreError(
            f"expected {path} in safetensors format, got something else ({error}): restore it"
        ) from error


def _check_tensors(
    path: Path,
    file: Any,
    present: set[str],
    announced: Mapping[str, tuple[int, ...]],
    others: Mapping[str, tuple[int, ...]],
) -> None:
    """Refuse a file whose tensors do not have the announced names and one of their shapes."""
    if present != set(announced):
        odd = min(present ^ set(announced))
        why = "was not announced" if odd in present else "is missing"
        raise StoreError(
            f"expected the announced tensors in {path}, but {odd[:300]!r} {why}: whoever sent or "
            "wrote it did not keep to the network"
        )
    for name, shape in announced.items():
        part = file.get_slice(name)
        fits = tuple(part.get_shape()) in (tuple(shape), others.get(name))
        if not fits or part.get_dtype() not in layout.DTYPES:
            raise StoreError(
                f"expected numbers of shape {list(shape)} for {name!r} in {path}, got "
                f"{part.get_dtype()} of shape {part.get_shape()}: whoever sent or wrote it did "
                "not keep to the network"
            )
