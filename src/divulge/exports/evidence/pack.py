"""A pack of evidence: what is in it, and how it is written.

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
import html
import io
import stat
import zipfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated

import pydantic

from divulge._util import atomic, untrusted
from divulge._util.arguments import FilePath, check_arguments
from divulge._util.folders import LOCK
from divulge._util.json import JSON, parse_strict_json
from divulge._util.showable import make_showable
from divulge.errors import SpecError, StoreError
from divulge.exports.ci.gather import gather_cases
from divulge.exports.evidence import annex, minisign
from divulge.exports.outputs import refuse_run_file
from divulge.exports.trackers.tracked import SUMMARIES, gather_figures, name_figures, read_report
from divulge.finished_runs.finished_run import FinishedRun, load
from divulge.finished_runs.gate import Gate
from divulge.finished_runs.stored import PAGE

FOLDER = "evidence/"
MANIFEST, SIGNATURE, PUBLIC = "manifest.json", "manifest.json.minisig", "minisign.pub"
ANNEX, SETTINGS, SCRIPT = "annex.html", "settings.json", "reproduce.py"
ALWAYS = frozenset({MANIFEST, ANNEX, PAGE, SETTINGS, SCRIPT})
"""Files of every pack."""
NAMES = ALWAYS | {SIGNATURE, PUBLIC, *SUMMARIES}
"""All files that a pack may have: a check accepts no others."""
SCRIPTS = frozenset(
    {
        "3380680b3e3599da41e26a23085da2fe09f982d49d6fa30a3cf03a358f6e95dd",
        "a60e677622dd4a584e572e5c31212af3431c9a7cfef47672aa77ad3afe00b102",
    }
)
"""The SHA-256 of `SCRIPT` in each version. One that is changed gets a line here; none goes."""
_DATE = (1980, 1, 1, 0, 0, 0)

Figure = Annotated[float, pydantic.Field(strict=True, allow_inf_nan=False)]


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=pydantic.ConfigDict(extra="forbid"))
class FileDigest:
    """One file, by its size and its SHA-256."""

    bytes: Annotated[int, pydantic.Field(strict=True, ge=0)]
    sha256: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{64}$")]


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=pydantic.ConfigDict(extra="forbid"))
class EvidenceManifest:
    """What is signed."""

    schema: int
    divulge: str
    """The version that made the run."""
    name: str
    created: str
    about: str
    """What was asked: membership, assignment, composition, interactions, canaries or federation."""
    challenge: str
    """The digest of model, records, truth and seed; of a comparison, of each defence."""
    verdicts: dict[str, str]
    """By defence (empty in a run with one verdict), the headline."""
    figures: dict[str, Figure]
    """Of attacks that passed their controls: ``ATTACK/METRIC``, with ``.low`` and ``.high``."""
    files: dict[str, FileDigest]
    """All other files of the pack."""
    run: dict[str, FileDigest]
    """All files of the run folder, which are not in the pack."""


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
        StoreError: the run is damaged or not finished, a figure of it is not finite, or the pack
            cannot be written.
        MissingExtra: a key is given, and py-minisign is not installed.
    """
    path, place = Path(run), Path(pack)
    if path.resolve() in place.resolve().parents:
        raise SpecError(f"expected a pack outside of {path}, got {place}: name another file")
    refuse_run_file(place.absolute(), "the pack")
    signer = None if key is None else minisign.read_secret_key(Path(key), password)
    manifest, files = _gather(path)
    files[MANIFEST] = atomic.to_json(manifest, EvidenceManifest).encode()
    read_json_files(files, path)
    if signer is not None:
        comment = f"divulge evidence of {manifest.name}"
        files[SIGNATURE] = minisign.sign(files[MANIFEST], signer, comment)
        files[PUBLIC] = bytes(signer.get_public_key()) + b"\n"
    atomic.write(place, pack_files(files))
    return place


def describe_run(path: Path) -> EvidenceManifest:
    """What a manifest says of a run; the files of a pack are not among it.

    Raises:
        StoreError: it is damaged or not finished.
    """
    return _describe(load(path), path, {})


def _gather(path: Path) -> tuple[EvidenceManifest, dict[str, bytes]]:
    finished = load(path)
    cases = gather_cases(finished, path, Gate())
    head = finished.head
    settings: dict[str, JSON] = {
        "seed": head.seed,
        "attacks": list(head.attacks),
        "settings": dict(head.settings),
        "environment": dict(head.environment),
    }
    report = read_report(path, finished.page)
    if finished.page != PAGE:  # one in Markdown
        text = html.escape(report[finished.page].decode())
        report[PAGE] = f'<!doctype html><meta charset="utf-8"><pre>{text}</pre>'.encode()
    files = {
        **report,
        ANNEX: annex.render(cases).encode(),
        SETTINGS: atomic.to_json(settings, dict).encode(),
        SCRIPT: resources.files(__package__).joinpath(SCRIPT).read_bytes(),
    }
    return _describe(finished, path, files), files


def _describe(finished: FinishedRun, path: Path, files: Mapping[str, bytes]) -> EvidenceManifest:
    cases = gather_cases(finished, path, Gate())
    return EvidenceManifest(
        schema=1,
        divulge=cases.divulge,
        name=cases.name,
        created=cases.created,
        about=finished.about,
        challenge=_challenge(finished),
        verdicts={verdict.about: verdict.headline for verdict in cases.verdicts},
        figures=name_figures(gather_figures(finished)),
        files=digest_files(files),
        run=_digest_folder(path),
    )


def _challenge(finished: FinishedRun) -> str:
    several = [part for part in finished.parts.values() if part is not finished]
    own = finished.head.challenge
    return make_showable(own) if own else " ".join(map(_challenge, several))


def read_json_files(files: Mapping[str, bytes], place: Path) -> None:
    """Read each JSON file of a pack, as strictly as anybody may.

    Raises:
        StoreError: one of them is none, has a key twice, or a number that is not finite.
    """
    for name, content in files.items():
        if name.endswith(".json"):
            try:
                parse_strict_json(content)
            except ValueError as error:
                raise StoreError(
                    f"expected JSON with finite numbers and each key once in {name} of {place}, "
                    f"got something else ({make_showable(str(error))[:200]}): write the report "
                    "again, or ask for the pack again"
                ) from error


def digest_files(files: Mapping[str, bytes]) -> dict[str, FileDigest]:
    """By name, the size and the SHA-256 of each file."""
    return {
        name: FileDigest(len(content), hashlib.sha256(content).hexdigest())
        for name, content in sorted(files.items())
    }


def _digest_folder(path: Path) -> dict[str, FileDigest]:
    """By path in the folder, the digest of each file; links are refused."""
    digests = {}
    with atomic.translate_os_errors(path):
        names = sorted(
            file_path
            for file_path in path.rglob("*")
            if file_path.is_symlink() or not file_path.is_dir()
        )  # rglob does not walk into links
    for file_path in names:
        if file_path.name == LOCK or file_path.name.startswith(atomic.UNFINISHED):
            continue
        with untrusted.open_file(
            file_path, untrusted.MAX_DATA_BYTES, StoreError, links=False
        ) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
        digests[make_showable(file_path.relative_to(path).as_posix())] = FileDigest(size, digest)
    return digests


def pack_files(files: Mapping[str, bytes]) -> bytes:
    """A zip file whose bytes follow from the content."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as packed:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(FOLDER + name, _DATE)
            entry.create_system = 3
            entry.external_attr = (stat.S_IFREG | stat.S_IRUSR | stat.S_IWUSR) << 16
            packed.writestr(entry, content)
    return made.getvalue()
