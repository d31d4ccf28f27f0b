"""The head of every run folder, ``run.json``: how it is read, continued and written.

Each kind of run has a head of the same form, and facts of its own. What was written before that is
brought into this form as it is read.
"""

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

import pydantic

from divulge._util import atomic, seals
from divulge._util.json import JSON
from divulge.core import Head, MembershipFacts
from divulge.core.runs import SCHEMA
from divulge.errors import SpecError, StoreError

HEAD = "run.json"
EARLIER = {
    "federation.json": "audit",
    "across.json": "leave-one-out",
    "compare.json": "comparison",
}
"""Heads of folders from before all were called ``run.json``, with their kind."""

WITHIN = ("targets", "defences")
"""Folders of a run whose folders are runs."""

_NESTED = 6
"""The schema from which on facts stand by themselves in heads of every kind."""

SEALED = 7
"""The schema from which on files carry a checksum, and have to."""

F = TypeVar("F")


def new_head(
    kind: str,
    name: str,
    seed: int,
    settings: dict[str, JSON],
    *,
    challenge: str,
    facts: F,
    attacks: tuple[str, ...] = (),
    findings: tuple[str, ...] = (),
    libraries: Mapping[str, str] = MappingProxyType({}),
) -> Head[F]:
    """The head of a run that begins now; see `core.Head` for its fields.

    ``libraries`` are the versions of those that the model and its data come from, by name.
    """
    return Head(
        kind=kind,
        name=name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        challenge=challenge,
        seed=seed,
        settings=settings,
        environment=describe_environment() | dict(libraries),
        facts=facts,
        attacks=attacks,
        findings=findings,
        divulge=version("divulge"),
    )


def describe_environment() -> dict[str, str]:
    """What a figure may depend on besides the settings."""
    packages = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        **packages,
    }


def has_head(path: Path) -> bool:
    """Whether a folder holds a run of any kind."""
    return any((path / name).exists() for name in (HEAD, *EARLIER))


def read_raw_head(path: Path) -> dict[str, JSON]:
    """The head of a run folder of any kind as it was written, with its ``kind``.

    Raises:
        StoreError: there is none, or it is damaged or of a newer schema.
    """
    with atomic.translate_os_errors(path):
        place = next((path / name for name in (HEAD, *EARLIER) if (path / name).exists()), None)
    if place is None:
        refuse_other_folder(path)
    refuse_linked_folders(path)
    raw = atomic.read(place)
    raw_head: dict[str, JSON] = atomic.from_json(raw, dict, place)
    schema = _read_schema(raw_head, place)
    seals.refuse_edited_json(raw, place, sealed=schema >= SEALED)
    raw_head = {key: raw_head[key] for key in raw_head if key != seals.SEAL} | {"schema": schema}
    return (
        raw_head
        if "kind" in raw_head
        else _upgrade_head(raw_head, EARLIER.get(place.name, "audit"), path)
    )


def _read_schema(raw_head: Mapping[str, JSON], place: Path) -> int:
    """The version of a head; the first ones had no number.

    Raises:
        StoreError: it is of a newer divulge, or no version.
    """
    schema = raw_head.get("schema", 1)
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise StoreError(
            f"expected a schema from 1 to {SCHEMA} in {place}, got {str(schema)[:80]!r}: it was "
            "changed afterwards; restore it, or run the audit again"
        )
    if schema > SCHEMA:
        raise StoreError(
            f"expected schema {SCHEMA} or older, {place.parent} has schema {schema}: "
            "it was made by a newer divulge; update this one"
        )
    return schema


def refuse_other_folder(path: Path) -> NoReturn:
    """Refuse a folder that is no run folder.

    Raises:
        StoreError: always; of a transcript it says what to do with it.
    """
    from divulge.federation.transcript.layout import HEADER  # no run needs it

    if (path / HEADER).exists():
        raise StoreError(
            f"expected a run folder made by divulge, got the transcript of a federation in {path}: "
            "name it as transcript in an audit.toml, in [updates], [assignment] or [interactions], "
            "and run `divulge audit`"
        )
    raise StoreError(f"expected a run folder made by divulge, got {path}: check the path")


def refuse_linked_folders(path: Path) -> None:
    """Refuse a run folder that leads elsewhere: links in it could point at any file of the reader.

    Raises:
        StoreError: a folder in it is a link, or it is a run within a run and is a link itself.
    """
    with atomic.translate_os_errors(path):
        links = [folder for folder in path.iterdir() if folder.is_symlink() and folder.is_dir()]
    if path.is_symlink() and path.parent.name in WITHIN:
        links.append(path)
    if links:
        raise StoreError(
            f"expected a folder at {links[0]}, got a link: copy what it points to into its place"
        )


def _upgrade_head(raw_head: dict[str, JSON], kind: str, path: Path) -> dict[str, JSON]:
    """A head that was written before heads had kinds."""
    raw_head = {**raw_head, "kind": kind}
    if kind != "audit":
        return raw_head
    if "subject" not in raw_head:
        names = MembershipFacts.__dataclass_fields__.keys() - {"kind"}
        own = names & raw_head.keys()
        return raw_head | {
            "facts": {name: raw_head.pop(name) for name in own} | {"kind": "membership"}
        }
    facts = raw_head.pop("subject")
    if isinstance(facts, dict) and facts.get("kind") == "assignment" and "labels" not in facts:
        raise StoreError(
            f"expected the classes of all candidates, {path} lacks them: it was made by an "
            "earlier divulge; run the audit again"
        )
    return raw_head | {"facts": facts}


_COMMON = frozenset(one.name for one in fields(Head))


def _gather_facts(raw_head: dict[str, JSON]) -> dict[str, JSON]:
    """A head of a kind whose facts stood beside what all heads have, some of which it lacked."""
    own: JSON = {name: value for name, value in raw_head.items() if name not in _COMMON}
    common = {name: value for name, value in raw_head.items() if name in _COMMON}
    if raw_head["kind"] == "canaries" and isinstance(audit := raw_head.get("audit"), dict):
        own, common = audit, common | {"challenge": audit.get("commitment", "")}
    before: dict[str, JSON] = {
        "name": str(raw_head["kind"]), "created": "", "challenge": "", "seed": 0,
        "settings": {}, "environment": {}, "facts": own,
    }  # fmt: skip
    return before | common


def load_head(path: Path, kind: str, facts: Any) -> Head[Any]:
    """The head of a run folder, which has to be of this kind.

    Args:
        path: the run folder.
        kind: of run.
        facts: the type of its facts.

    Raises:
        StoreError: see `read_raw_head`; or it is of another kind, or does not hold what it should.
    """
    raw_head = read_raw_head(path)
    refuse_other_kind(path, raw_head, kind)
    if kind != "audit" and raw_head["schema"] < _NESTED:  # type: ignore[operator]
        raw_head = _gather_facts(raw_head)
    raw = pydantic.TypeAdapter(Any).dump_json(raw_head)
    try:
        head: Head[Any] = _adapter(facts).validate_json(raw)
    except (pydantic.ValidationError, SpecError) as error:
        raise atomic.damaged_file_error(path / HEAD, error) from error
    seals.refuse_other_files(path, head.digests)
    return head


def refuse_other_kind(path: Path, raw_head: dict[str, JSON], wanted: str) -> None:
    """Refuse the head of a run of another kind.

    Raises:
        StoreError: it is one.
    """
    if raw_head["kind"] != wanted:
        raise StoreError(
            f"expected a run of kind {wanted!r} in {path}, got {raw_head['kind']!r}: "
            "divulge.load reads every kind"
        )


def continue_head(path: Path, head: Head[F], same: str) -> Head[F]:
    """The head as it is to be written: of a run that is continued it keeps the date.

    Args:
        path: the run folder.
        head: of what is asked now.
        same: what has to be as it was when the folder was begun, in words.

    Raises:
        StoreError: the folder holds another kind of run, or was begun with another challenge.
    """
    if not has_head(path):
        return head
    before = read_raw_head(path)
    refuse_other_kind(path, before, head.kind)
    if before.get("challenge", "") != head.challenge:
        raise StoreError(
            f"expected the {same} that {path} was begun with, got different ones: start a new run"
        )
    created = str(before.get("created") or head.created)
    # what an earlier divulge wrote without checksums stays in the folder, and is read
    schema = SCHEMA if before["schema"] == SCHEMA else _NESTED
    return replace(head, created=created, schema=schema)


def store_head(path: Path, head: Head[F], files: Iterable[str] = ()) -> Head[F]:
    """Write ``run.json`` into a folder, and return what it holds.

    Args:
        path: the run folder.
        head: what was asked for, and what it is about.
        files: paths of files in the folder that are not written again; `load_head` refuses others
            in their place.

    Raises:
        StoreError: it cannot be written.
    """
    digests = {name: seals.digest_file(path / name) for name in files}
    head = replace(head, schema=max(head.schema, _NESTED), digests=digests)
    raw = _adapter(type(head.facts)).dump_json(head, indent=1)
    atomic.write(path / HEAD, seals.seal_json(raw, HEAD))
    return head


def _adapter(facts: Any) -> Any:
    """What reads and writes heads with facts of a type."""
    return pydantic.TypeAdapter(Head[facts])
