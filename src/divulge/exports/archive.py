"""A run folder as one zip file: the same bytes for the same files."""

import shutil
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

from divulge._util import atomic, untrusted
from divulge._util.folders import LOCK
from divulge.errors import StoreError

_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest date that a zip file can hold: when files were written changes nothing."""


def check_archive(run: Path, place: Path) -> None:
    """Refuse what cannot be packed, before anything is written.

    Args:
        run: the run folder.
        place: the zip file to be written.

    Raises:
        StoreError: something in the folder is no ordinary file.
    """
    with atomic.translate_os_errors(run):
        for file in _files(run, place):
            with untrusted.open_file(file, untrusted.MAX_DATA_BYTES, StoreError, links=False):
                pass


def write_archive(run: Path, place: Path) -> None:
    """Write all files of a run folder into one zip file, under the folder's name.

    Args:
        run: the run folder.
        place: the zip file.

    Raises:
        StoreError: something in the folder is no ordinary file, or the file cannot be written.
    """
    with atomic.translate_os_errors(run):
        files = sorted(_files(run, place))
    with (
        atomic.replace_file(place) as target,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for file in files:
            name = f"{run.resolve().name}/{file.relative_to(run).as_posix()}"
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (stat.S_IFREG | stat.S_IRUSR | stat.S_IWUSR) << 16
            with (
                untrusted.open_file(
                    file, untrusted.MAX_DATA_BYTES, StoreError, links=False
                ) as source,
                packed.open(entry, "w", force_zip64=True) as inside,
            ):
                shutil.copyfileobj(source, inside)


def _files(folder: Path, place: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_symlink() or not path.is_dir():
            unfinished = path.name.startswith(atomic.UNFINISHED)
            if path.name != LOCK and not unfinished and path.resolve() != place.resolve():
                yield path
        else:
            yield from _files(path, place)
