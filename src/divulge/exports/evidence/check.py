"""How a pack of evidence is checked: what of it is computed again, what compared, what believed."""

import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from divulge._util import atomic, untrusted
from divulge._util.arguments import FilePath, check_arguments
from divulge.errors import DivulgeError, SpecError, StoreError
from divulge.exports.evidence import minisign
from divulge.exports.evidence.pack import (
    ALWAYS,
    FOLDER,
    MANIFEST,
    NAMES,
    PUBLIC,
    SCRIPT,
    SCRIPTS,
    SIGNATURE,
    EvidenceManifest,
    digest_files,
    pack_files,
    read_json_files,
)

HowChecked = Literal["recomputed", "compared", "digest only", "not checked"]


@dataclass(frozen=True, slots=True)
class EvidenceCheck:
    """A pack that is whole, and who signed it."""

    manifest: EvidenceManifest
    signed_by: str | None
    """Number of the key that signed, as minisign prints it; None if nobody did."""
    is_known: bool
    """Whether the key is the one that was asked for; else it came with the pack, and says nothing
    about who made it."""
    comment: str
    """The trusted comment of the signature; empty without one."""

    @property
    def parts(self) -> Mapping[str, HowChecked]:
        """By part of the pack, how it was checked.

        ``recomputed`` from what the pack holds; ``compared`` with what divulge itself would write;
        ``digest only``: as it was when the manifest was written, whatever it says; ``not checked``:
        it takes the run folder, the model or the data, which are not in the pack.
        """
        believed = sorted(self.manifest.files.keys() - {SCRIPT})
        return {
            "digests of files": "recomputed",
            **({} if self.signed_by is None else {"signature": "recomputed"}),
            SCRIPT: "compared",
            **dict.fromkeys(believed, "digest only"),
            "figures and verdicts": "not checked",
            "run folder": "not checked",
        }


@check_arguments
def check_evidence(pack: FilePath, *, public_key: FilePath | None = None) -> EvidenceCheck:
    """Check that a pack of evidence is as it was written, and who signed it.

    Nothing of it is unpacked or run, and nothing is measured again: `EvidenceCheck.parts` says how
    each part was checked.

    Args:
        pack: the zip file.
        public_key: a public key of minisign, by which it has to be signed.

    Raises:
        SpecError: the public key cannot be read.
        StoreError: the pack is damaged or changed, holds a file that divulge does not write, a
            script that is not divulge's own or a number that is not finite, is not signed by that
            key, or not signed at all though a key is given.
        MissingExtra: it is signed, and py-minisign is not installed.
    """
    wanted = None
    if public_key is not None:
        raw = untrusted.read_file(Path(public_key), untrusted.MAX_TEXT_BYTES, SpecError)
        wanted = minisign.read_public_key(raw, str(public_key))
    place = Path(pack)
    files = _unpack(untrusted.read_file(place, untrusted.MAX_TEXT_BYTES, StoreError), place)
    manifest = _read_manifest(files, place)
    _check_script(files[SCRIPT], place)
    if SIGNATURE not in files:
        if wanted is not None:
            raise StoreError(
                f"expected {place} to be signed by the key {minisign.name_key(wanted)}, it is not "
                "signed: ask for a signed one"
            )
        return EvidenceCheck(manifest, None, is_known=False, comment="")
    try:
        own = minisign.read_public_key(files[PUBLIC], f"{place}: {PUBLIC}")
    except SpecError as error:
        raise StoreError(str(error)) from error
    signer = wanted or own
    comment = minisign.verify(files[MANIFEST], files[SIGNATURE], signer)
    return EvidenceCheck(
        manifest, minisign.name_key(signer), is_known=wanted is not None, comment=comment
    )


def _unpack(packed: bytes, place: Path) -> dict[str, bytes]:
    """The files of a pack by name.

    Raises:
        StoreError: it is not what `pack_files` writes of files that divulge writes.
    """
    problem: Exception | None = None
    files: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            entries = archive.infolist()
            if all(
                entry.filename in _PATHS
                and entry.compress_type == zipfile.ZIP_STORED
                and entry.file_size <= len(packed)
                for entry in entries
            ):
                files = {
                    entry.filename.removeprefix(FOLDER): archive.read(entry) for entry in entries
                }
    except DivulgeError:
        raise
    except Exception as error:  # zipfile has many for damaged ones
        problem = error
    whole = files.keys() >= ALWAYS and (SIGNATURE in files) == (PUBLIC in files)
    if not whole or pack_files(files) != packed:
        raise StoreError(
            f"expected a pack of evidence in {place} as divulge wrote it, got something else: ask "
            "for it again"
        ) from problem
    return files


_PATHS = {FOLDER + name for name in NAMES}


def _read_manifest(files: Mapping[str, bytes], place: Path) -> EvidenceManifest:
    """What the manifest says, which all other files are held against.

    Raises:
        StoreError: it is none, or says something else.
    """
    read_json_files(files, place)
    manifest = atomic.from_json(files[MANIFEST], EvidenceManifest, place)
    others = {
        name: content
        for name, content in files.items()
        if name not in (MANIFEST, SIGNATURE, PUBLIC)
    }
    if manifest.schema != 1 or digest_files(others) != manifest.files:
        raise StoreError(
            f"expected the files in {place} as its manifest says, got others: it was changed; ask "
            "for it again"
        )
    for name in manifest.run:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise StoreError(
                f"expected paths within the run folder in the manifest of {place}, got "
                f"{name[:200]!r}: ask for the pack again"
            )
    return manifest


def _check_script(script: bytes, place: Path) -> None:
    if hashlib.sha256(script).hexdigest() not in SCRIPTS:
        raise StoreError(
            f"expected {SCRIPT} in {place} as this version of divulge or an earlier one writes it, "
            "got another: do not run it; if a later version wrote the pack, check it with that one"
        )
