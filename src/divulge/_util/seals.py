"""Checksums of what a run folder keeps, by which an edited file is found out.

A checksum is no signature: whoever changes a file on purpose can make another. It shows figures
that were changed by hand, files of another run, and damage. A signature is that of a pack of
evidence.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from divulge._util import untrusted
from divulge._util.atomic import damaged_file_error
from divulge._util.json import parse_json
from divulge.errors import StoreError

SEAL = "sha256"
"""The key of a JSON file's own checksum."""


def seal_json(content: str | bytes, name: str) -> bytes:
    """A JSON object as it was, with its checksum as the last member.

    Args:
        content: the object, which has a member at least.
        name: the file's name, which the checksum also covers: of two files that are exchanged
            neither passes.
    """
    raw = content.encode() if isinstance(content, str) else content
    members = raw.rstrip().removesuffix(b"}").rstrip()
    return members + f',\n "{SEAL}": "{_digest(json.loads(raw), name)}"\n}}\n'.encode()


def refuse_edited_json(raw: bytes, place: Path, *, sealed: bool) -> None:
    """Refuse a JSON object whose checksum is not its own.

    Args:
        raw: what the file holds.
        place: the file.
        sealed: whether it has to have one; files of schema 6 and older have none.

    Raises:
        StoreError: it is another one, or missing.
    """
    try:
        content = parse_json(raw)
    except (ValueError, RecursionError) as error:
        raise damaged_file_error(place, error) from error
    own = content.pop(SEAL, None)
    if own is None and not sealed:
        return
    if own != _digest(content, place.name):
        raise edited_file_error(place)


def digest_file(path: Path) -> str:
    """The SHA-256 of a file of a run folder.

    Raises:
        StoreError: there is none, or it cannot be read.
    """
    with untrusted.open_file(path, untrusted.MAX_DATA_BYTES, StoreError, links=False) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_other_files(folder: Path, digests: Mapping[str, str]) -> None:
    """Refuse a folder whose files are not those that were written.

    Args:
        folder: the run folder.
        digests: by path of a file in it, its SHA-256.

    Raises:
        StoreError: one is missing, or another.
    """
    for name, digest in digests.items():
        place = untrusted.path_within(folder, name, StoreError)
        if not place.exists():
            raise StoreError(
                f"expected {place} as divulge wrote it, it is gone: restore it, or continue the "
                "run with --resume"
            )
        if digest_file(place) != digest:
            raise edited_file_error(place)


def edited_file_error(place: Path) -> StoreError:
    """The error to raise where a file is not what its checksum says."""
    return StoreError(
        f"expected {place} as divulge wrote it, got another content than its checksum says: it was "
        "changed afterwards; restore it, or run the audit again"
    )


def _digest(content: Any, name: str) -> str:
    """Of a value, however it is written down."""
    text = json.dumps([name, content], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
