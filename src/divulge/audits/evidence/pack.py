"""A pack of evidence: what is in it, how it is written, and how it is checked.

    evidence/manifest.json          digests of all files, of the run folder, and the figures
    evidence/manifest.json.minisig  its signature, if there is a key; minisign.pub, who signed
    evidence/annex.html             what was asked, found and not asked, in plain words
    evidence/report.html            the report, and summary.json and summary.md where a run has them
    evidence/settings.json          the settings, seed and environment of the run
    evidence/reproduce.py           repeats the audit and compares the figures

It is a zip file without compression, whose bytes follow from its content alone: one that holds
anything else, twice, elsewhere or as a link is not what its own content would give.
"""

import hashlib
import io
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pydantic

from divulge._util import atomic, untrusted
from divulge._util.arguments import FilePath, check_arguments
from divulge._util.folders import LOCK
from divulge._util.json import JSON
from divulge._util.showable import make_showable
from divulge.audits.compare.result import Comparison
from divulge.audits.evidence import minisign
from divulge.audits.export import FoundRun, gather_cases
from divulge.audits.gate import Gate
from divulge.audits.load import load_audited
from divulge.audits.result import SecretAudit
from divulge.audits.trackers.tracked import gather_figures, name_figures, read_report
from divulge.errors import DivulgeError, SpecError, StoreError
from divulge.report import annex

FOLDER = "evidence/"
MANIFEST, SIGNATURE, PUBLIC = "manifest.json", "manifest.json.minisig", "minisign.pub"
_DATE = (1980, 1, 1, 0, 0, 0)
_MOST_FILES = 32


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=pydantic.ConfigDict(extra="forbid"))
class FileDigest:
    """One file, by its size and its SHA-256."""

    bytes: int
    sha256: str


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=pydantic.ConfigDict(extra="forbid"))
class EvidenceManifest:
    """What is signed."""

    schema: int
    divulge: str
    """The version that made the run."""
    name: str
    created: str
    about: str
    """What was asked: membership, assignment, composition or interactions."""
    challenge: str
    """The digest of model, records, truth and seed; of a comparison, of each defence."""
    verdicts: dict[str, str]
    """By defence (empty in a run with one verdict), the headline."""
    figures: dict[str, float]
    """Of attacks that passed their controls: ``ATTACK/METRIC``, with ``.low`` and ``.high``."""
    files: dict[str, FileDigest]
    """All other files of the pack."""
    run: dict[str, FileDigest]
    """All files of the run folder, which are not in the pack."""


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


@check_arguments
def evidence(
    run: FilePath,
    pack: FilePath,
    *,
    key: FilePath | None = None,
    password: str | None = None,
) -> Path:
    """Write a pack of evidence about a finished run, to hand in or to file.

    It holds the report, its summary, a page in plain words, the settings, digests of everything,
    and a script that repeats the audit; no records, scores, answers or ids.

    Args:
        run: a run folder of any kind.
        pack: the zip file to write.
        key: a secret key of minisign, which signs the digests.
        password: of that key, if it has one.

    Returns:
        The path of the pack.

    Raises:
        SpecError: the key cannot be used, or the pack would lie in the run folder.
        StoreError: the run is damaged or not finished, or the pack cannot be written.
        MissingExtra: a key is given, and cryptography is not installed.
    """
    path, place = Path(run), Path(pack)
    if path.resolve() in place.resolve().parents:
        raise SpecError(f"expected a pack outside of {path}, got {place}: name another file")
    signer = None if key is None else minisign.read_secret_key(Path(key), password)
    told, files = _gather(path)
    files[MANIFEST] = atomic.to_json(told, EvidenceManifest).encode()
    if signer is not None:
        comment = f"divulge evidence of {told.name}"
        files[SIGNATURE] = minisign.sign(files[MANIFEST], signer, comment)
        files[PUBLIC] = signer.public.as_file()
    atomic.write(place, _pack(files))
    return place


@check_arguments
def check_evidence(pack: FilePath, *, public_key: FilePath | None = None) -> EvidenceCheck:
    """Check that a pack of evidence is as it was written, and who signed it.

    Nothing of it is unpacked or run.

    Args:
        pack: the zip file.
        public_key: a public key of minisign, by which it has to be signed.

    Raises:
        SpecError: the public key cannot be read.
        StoreError: the pack is damaged or changed, not signed by that key, or not signed at all
            though a key is given.
        MissingExtra: it is signed, and cryptography is not installed.
    """
    wanted = None
    if public_key is not None:
        raw = untrusted.read_file(Path(public_key), untrusted.MAX_TEXT_BYTES, SpecError)
        wanted = minisign.read_public_key(raw, str(public_key))
    place = Path(pack)
    packed = untrusted.read_file(place, untrusted.MAX_TEXT_BYTES, StoreError)
    files = _unpack(packed, place)
    told = atomic.from_json(files[MANIFEST], EvidenceManifest, place)
    others = {name: one for name, one in files.items() if name not in (MANIFEST, SIGNATURE, PUBLIC)}
    if told.schema != 1 or _digests(others) != told.files:
        raise StoreError(
            f"expected the files in {place} as its manifest says, got others: it was changed; ask "
            "for it again"
        )
    if SIGNATURE not in files or PUBLIC not in files:
        if wanted is not None:
            raise StoreError(
                f"expected {place} to be signed by the key {wanted.name}, it is not signed: ask "
                "for a signed one"
            )
        return EvidenceCheck(told, None, is_known=False, comment="")
    try:
        own = minisign.read_public_key(files[PUBLIC], f"{place}: {PUBLIC}")
    except SpecError as error:
        raise StoreError(str(error)) from error
    signer = wanted or own
    comment = minisign.verify(files[MANIFEST], files[SIGNATURE], signer)
    return EvidenceCheck(told, signer.name, is_known=wanted is not None, comment=comment)


def describe_run(path: Path) -> EvidenceManifest:
    """What a manifest says of a run; the files of a pack are not among it.

    Raises:
        StoreError: it is damaged or not finished.
    """
    return _describe(load_audited(path), path, {})


def _gather(path: Path) -> tuple[EvidenceManifest, dict[str, bytes]]:
    found = load_audited(path)
    cases = gather_cases(found, path, Gate())
    held = found.contents.manifest if isinstance(found, SecretAudit) else found.plan
    settings: dict[str, JSON] = {
        "seed": getattr(held, "seed", None),
        "attacks": list(getattr(held, "attacks", ())),
        "settings": dict(held.settings),
        "environment": dict(getattr(held, "environment", {})),
    }
    files = {
        **read_report(path, found.page),
        "annex.html": annex.render(cases).encode(),
        "settings.json": atomic.to_json(settings, dict).encode(),
        "reproduce.py": resources.files(__package__).joinpath("reproduce.py").read_bytes(),
    }
    return _describe(found, path, files), files


def _describe(found: FoundRun, path: Path, files: Mapping[str, bytes]) -> EvidenceManifest:
    cases = gather_cases(found, path, Gate())
    return EvidenceManifest(
        schema=1,
        divulge=cases.divulge,
        name=cases.name,
        created=cases.created,
        about="membership" if isinstance(found, Comparison) else found.about,
        challenge=_challenge(found),
        verdicts={one.about: one.headline for one in cases.verdicts},
        figures=name_figures(gather_figures(found)),
        files=_digests(files),
        run=_digest_folder(path),
    )


def _challenge(found: FoundRun) -> str:
    if isinstance(found, Comparison):
        return " ".join(_challenge(one.audits) for one in found.defences)
    held = found.contents.manifest if isinstance(found, SecretAudit) else found.plan
    return make_showable(held.challenge)


def _digests(files: Mapping[str, bytes]) -> dict[str, FileDigest]:
    return {
        name: FileDigest(len(content), hashlib.sha256(content).hexdigest())
        for name, content in sorted(files.items())
    }


def _digest_folder(path: Path) -> dict[str, FileDigest]:
    """By path in the folder, the digest of each file; links are refused."""
    found = {}
    with atomic.translate_os_errors(path):
        names = sorted(
            one for one in path.rglob("*") if one.is_symlink() or not one.is_dir()
        )  # rglob does not walk into links
    for one in names:
        if one.name == LOCK or one.name.startswith(atomic.UNFINISHED):
            continue
        with untrusted.open_file(one, untrusted.MAX_DATA_BYTES, StoreError, links=False) as file:
            made = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
        found[make_showable(one.relative_to(path).as_posix())] = FileDigest(size, made)
    return found


def _pack(files: Mapping[str, bytes]) -> bytes:
    """A zip file whose bytes follow from the content."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as packed:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(FOLDER + name, _DATE)
            entry.create_system = 3
            entry.external_attr = (stat.S_IFREG | stat.S_IRUSR | stat.S_IWUSR) << 16
            packed.writestr(entry, content)
    return made.getvalue()


def _unpack(packed: bytes, place: Path) -> dict[str, bytes]:
    """The files of a pack by name.

    Raises:
        StoreError: it is not what `_pack` writes.
    """
    problem: Exception | None = None
    files: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as held:
            entries = held.infolist()
            if len(entries) <= _MOST_FILES and all(
                one.compress_type == zipfile.ZIP_STORED and one.file_size <= len(packed)
                for one in entries
            ):
                files = {one.filename.removeprefix(FOLDER): held.read(one) for one in entries}
    except DivulgeError:
        raise
    except Exception as error:  # zipfile has many for damaged ones
        problem = error
    if MANIFEST not in files or _pack(files) != packed:
        raise StoreError(
            f"expected a pack of evidence in {place} as divulge wrote it, got something else: ask "
            "for it again"
        ) from problem
    return files
