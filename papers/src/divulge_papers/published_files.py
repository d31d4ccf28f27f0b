"""Read the published files of a data set from a folder, an archive, or the file itself."""

import gzip
import hashlib
import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, runtime_checkable

from divulge._util import untrusted
from divulge.errors import DataError
from divulge_papers.datasets import DataSet, PublishedFile


@runtime_checkable
class Stream(Protocol):
    """What is read from: a file, or a member of an archive."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most so many."""
        ...


_UNPACKED = 4 * 2**30
"""Largest number of bytes that an archive may unpack to."""
_MAX_MEMBERS = 10_000


def read_published(data_set: DataSet, source: Path) -> dict[str, bytes]:
    """Contents of the published files, each by its first name."""
    if not source.exists():
        raise DataError(
            f"expected a folder or a file at {source}, there is nothing: name what you got from "
            f"{data_set.source}"
        )
    if source.is_dir():
        contents = _read_folder(data_set.published, source)
    else:
        digest = data_set.archives.get(source.name, "")
        _compare(str(source), digest, lambda kind: _hash_file(kind, source))
        contents = _read_file(data_set.published, source)
    for file in data_set.published:
        if not set(file.names) & set(contents):
            raise DataError(
                f"expected {' or '.join(file.names)} in {source}, found none: name the folder or "
                f"the archive that you got from {data_set.source}"
            )
    for name, content in contents.items():
        (digest,) = [file.names[name] for file in data_set.published if name in file.names]
        _compare(name, digest, lambda kind, content=content: _hash(kind, content))  # type: ignore[misc]
    return {
        next(iter(file.names)): next(contents[name] for name in file.names if name in contents)
        for file in data_set.published
    }


def _read_folder(files: Sequence[PublishedFile], source: Path) -> dict[str, bytes]:
    """Read files from a folder, or from one folder below it."""
    contents = {}
    for file in files:
        for name in file.names:
            near = [source / f"{name}{end}" for end in ("", ".gz")]
            below = [path for end in ("", ".gz") for path in sorted(source.glob(f"*/{name}{end}"))]
            path = next((path for path in (*near, *below) if path.is_file()), None)
            if path is not None:
                with _open(path) as opened:
                    contents[name] = _read(opened, file, path)
                break  # another name is the same file in another form
    return contents


def _read_file(files: Sequence[PublishedFile], source: Path) -> dict[str, bytes]:
    """Read an archive, or the one file."""
    if source.name.endswith((".tar.gz", ".tgz")):
        return dict(_read_tar(files, source))
    if source.suffix == ".zip":
        return dict(_read_zip(files, source))
    if len(files) > 1:
        raise DataError(
            f"expected a folder or an archive with {len(files)} files, got {source}: name the "
            "folder that holds them"
        )
    plain = source.name.removesuffix(".gz")
    name = plain if plain in files[0].names else next(iter(files[0].names))
    with _open(source) as opened:
        return {name: _read(opened, files[0], source)}


def _read_tar(files: Sequence[PublishedFile], source: Path) -> Iterator[tuple[str, bytes]]:
    with (
        _open(source) as unpacked,
        _reading(source),
        tarfile.open(fileobj=_SizeLimit(unpacked), mode="r|") as archive,
    ):
        for number, member in enumerate(archive):
            if number >= _MAX_MEMBERS:
                raise DataError(f"expected at most {_MAX_MEMBERS:,} files in {source}, got more")
            file, name = _match_file(files, member.name)
            content = archive.extractfile(member) if file and member.isfile() else None
            if file and content is not None:
                yield name, _read(content, file, source)


def _read_zip(files: Sequence[PublishedFile], source: Path) -> Iterator[tuple[str, bytes]]:
    with (
        untrusted.open_file(source, untrusted.MAX_DATA_BYTES, DataError) as packed,
        _reading(source),
        zipfile.ZipFile(packed) as archive,
    ):
        for member in archive.infolist()[:_MAX_MEMBERS]:
            file, name = _match_file(files, member.filename)
            if file:
                with archive.open(member) as content:
                    yield name, _read(content, file, source)


def _match_file(files: Sequence[PublishedFile], path: str) -> tuple[PublishedFile | None, str]:
    """The published file that a member of an archive is, and its name."""
    for file in files:
        for name in file.names:
            if path == name or path.endswith(f"/{name}"):
                return file, name
    return None, ""


class _SizeLimit(io.RawIOBase):
    """Hands a stream on, and refuses one that is longer than any data set."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._stream, self._left = stream, _UNPACKED

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(content)
        if self._left < 0:
            raise DataError(f"expected an archive of at most {_UNPACKED:,} bytes, got a larger one")
        return content


@contextmanager
def _open(path: Path) -> Iterator[Stream]:
    """Open a file, unpacked where its name says that gzip packed it."""
    with untrusted.open_file(path, untrusted.MAX_DATA_BYTES, DataError) as file:
        packed = path.name.endswith((".gz", ".tgz"))
        yield gzip.GzipFile(fileobj=file) if packed else file


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say in our words that a file is damaged."""
    try:
        yield
    except (
        OSError,
        EOFError,
        zlib.error,
        tarfile.TarError,
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
    ) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DataError(
            f"expected {path} as it was published, got something else ({reason}): get it again"
        ) from error


def _read(opened: Stream, file: PublishedFile, path: Path) -> bytes:
    with _reading(path):
        content = opened.read(file.limit + (not file.start))
    if len(content) > file.limit:
        raise DataError(f"expected at most {file.limit:,} bytes in {path}, got more: get it again")
    return content


def _compare(what: str, digest: str, compute: Callable[[str], str]) -> None:
    """Compare a checksum, where one is known."""
    kind, _, wanted = digest.partition(":")
    if wanted and (checksum := compute(kind)) != wanted:
        raise DataError(
            f"expected {what} with {kind} {wanted}, got {checksum}: get it again from its source"
        )


def _hash(kind: str, content: bytes) -> str:
    return hashlib.new(kind, content, usedforsecurity=False).hexdigest()


def _hash_file(kind: str, path: Path) -> str:
    with untrusted.open_file(path, untrusted.MAX_DATA_BYTES, DataError) as file:
        return hashlib.file_digest(
            file, lambda: hashlib.new(kind, usedforsecurity=False)
        ).hexdigest()
