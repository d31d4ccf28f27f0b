"""What an export writes: every place is checked before the first output is written."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from divulge._util import atomic
from divulge.errors import SpecError, StoreError
from divulge.finished_runs.run_json import EARLIER, HEAD, has_head


@dataclass(frozen=True, slots=True)
class Output:
    """One thing to write."""

    name: str
    """As messages name it."""
    write: Callable[[], object]
    """Writes it, and raises a `StoreError` where that fails."""


def check_places(files: Mapping[str, Path]) -> None:
    """Refuse places that cannot take a file, before anything is written.

    Args:
        files: by option, where its file is to be.

    Raises:
        SpecError: two options name one place.
        StoreError: a folder is missing or cannot be written, or something that is no file, or a
            file that a run is read from, is there.
    """
    taken: dict[Path, str] = {}
    for option, path in files.items():
        with atomic.translate_os_errors(path):
            place = path.parent.resolve() / path.name  # a link at the place itself is replaced
            if path.exists() and not path.is_file():
                raise StoreError(
                    f"expected a file at {path} for {option}, got a folder or a device: name a file"
                )
            check_folder(path.parent)
            refuse_run_file(place, option)
        if place in taken:
            raise SpecError(
                f"expected a file of its own for each option, got {path} for {taken[place]} and "
                f"{option}: name two"
            )
        taken[place] = option


def refuse_run_file(place: Path, option: str) -> None:
    """Refuse a file that a run is read from: what it holds could not be made again.

    Raises:
        StoreError: it is one.
    """
    stored = place.name in (HEAD, *EARLIER) or place.parent.name == "findings"
    stored |= place.suffix in _ARRAYS
    if stored and place.exists() and any(map(has_head, list(place.parents)[:2])):
        raise StoreError(
            f"expected a place for {option} that no run is read from, got {place}: name another "
            "file"
        )


_ARRAYS = (".npz", ".npy", ".sqlite")
"""Endings of the files in which runs keep arrays."""


def check_folder(folder: Path) -> None:
    """Make a file without a name in a folder, which is gone at once.

    Raises:
        OSError: no file can be made there.
    """
    with tempfile.TemporaryFile(dir=folder):
        pass


def write_outputs(outputs: Sequence[Output]) -> None:
    """Write one output after the other.

    Raises:
        StoreError: one cannot be written, for a reason that no check could show before, such as a
            full disk; says what was written and what was not.
    """
    for number, output in enumerate(outputs):
        try:
            output.write()
        except StoreError as error:
            if len(outputs) == 1:
                raise
            written, missing = outputs[:number], outputs[number:]
            raise StoreError(
                f"{error} (written: {_list_names(written)}; not written: {_list_names(missing)})"
            ) from error


def _list_names(outputs: Sequence[Output]) -> str:
    return ", ".join(output.name for output in outputs) or "nothing"
