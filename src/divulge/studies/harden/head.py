"""What a search was asked for: ``run.json`` of its folder."""

import datetime as dt
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from divulge._util.json import JSON
from divulge.audits.heads import describe_environment, has_head
from divulge.audits.run_folder import read_head, write_head
from divulge.core.runs import BEFORE_NAMING, SCHEMA
from divulge.errors import StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHead:
    """What every search was asked for."""

    name: str
    created: str
    """UTC, ISO 8601."""
    challenge: str
    """Digest of what is audited, ways to train, limits, search and seed."""
    seed: int
    budget: int
    searched: int
    """The number of records, clients or queries of the search."""
    fresh: int
    """The number of those that it never touches."""
    settings: dict[str, JSON]
    environment: dict[str, str]
    divulge: str = BEFORE_NAMING
    schema: int = SCHEMA
    kind: str


D = TypeVar("D", bound=SearchHead)


def make_head(kind: type[D], **facts: Any) -> D:
    """The head of a search that begins now, here and with this version.

    Args:
        kind: of the head.
        facts: all else that it holds.
    """
    created = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return kind(
        created=created, environment=describe_environment(), divulge=version("divulge"), **facts
    )


def begin(path: Path, head: D) -> D:
    """Write the head; of a run that is continued it keeps the date.

    Raises:
        StoreError: the folder belongs to another search, or cannot be written.
    """
    if has_head(path):
        before = read_head(path, type(head))
        if before.challenge != head.challenge:
            raise StoreError(
                f"expected the data, limits, search and seed that {path} was begun with, got "
                "different ones: start a new run"
            )
        return before
    write_head(path, head)
    return head
