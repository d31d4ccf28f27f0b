"""What a search for a federation within limits came to, and its run folder."""

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import pydantic

from divulge._util import atomic
from divulge._util.json import JSON
from divulge.audits.run_folder import has_head, hold_run, read_head, write_head
from divulge.core import Estimate, Finding
from divulge.core.runs import BEFORE_NAMING, SCHEMA
from divulge.errors import StoreError
from divulge.report import words
from divulge.report.markdown import make_inert
from divulge.studies.harden.federated_limits import (
    FederationLimits,
    FederationTrial,
    FederationVariant,
)

PAGE = "summary.md"
TRIALS, FRESH = "trials", "fresh.json"
"""Names of files: a folder with one for each setting, and the run with fresh clients."""
TITLES = {
    "class_shares": "L1 of the best guess of class shares",
    "which_client": "AUC of which client",
    "interactions": "AUC of clicks",
}


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """What ``trials/001.json`` and ``fresh.json`` hold."""

    setting: FederationVariant
    found: FederationTrial | None
    """None where it could not be simulated or attacked."""
    refused: str
    """Why it could not; else empty."""


@dataclass(frozen=True, slots=True)
class FederationSearchManifest:
    """What was asked for: ``run.json``."""

    name: str
    created: str
    """UTC, ISO 8601."""
    challenge: str
    """Digest of records, clients, ways to train, limits, search and seed."""
    seed: int
    limits: FederationLimits
    rounds: int
    budget: int
    searched: int
    """The number of clients of the search."""
    fresh: int
    """The number of clients that it never sees."""
    settings: dict[str, JSON]
    environment: dict[str, str]
    divulge: str = BEFORE_NAMING
    schema: int = SCHEMA
    kind: Literal["hardened-federation"] = "hardened-federation"


@dataclass(frozen=True)
class HardenedFederation:
    """The setting that was found, its run with fresh clients, and all that was tried."""

    plan: FederationSearchManifest
    trials: tuple[FederationTrial, ...]
    """All settings that were tried, in order; the undefended federation is the first."""
    refused: Mapping[str, str]
    """By setting, why it could not be simulated or attacked."""
    fresh: FederationTrial
    """The chosen setting with other clients and another seed: the claim."""
    path: Path
    """The run folder."""
    page: ClassVar[str] = PAGE
    findings: ClassVar[tuple[Finding, ...]] = ()
    """Of single attacks none are kept: one that fails ends the trial."""

    @property
    def limits(self) -> FederationLimits:
        """What the server may learn."""
        return self.plan.limits

    @property
    def chosen(self) -> FederationTrial:
        """The setting that was found, as the search saw it."""
        return self.limits.choose(self.trials)

    @property
    def outcome(self) -> Literal["within", "over", "undecided"]:
        """Whether the run with fresh clients is within the limits.

        ``within``: all intervals are. ``over``: some value is not. ``undecided``: neither.
        """
        if self.fresh.excess(self.limits) <= 0:
            return "within"
        return "over" if self.fresh.exceeds(self.limits) else "undecided"

    @property
    def merit(self) -> str:
        """The figure that is to be high, in words."""
        return "NDCG@10" if "interactions" in self.limits.given else "Accuracy"

    @property
    def seen_by(self) -> str:
        """What the search sees one half of, in words."""
        return "queries" if "interactions" in self.limits.given else "clients"

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        if self.outcome == "within":
            return f"This federation stays within the limits: {self.fresh.setting.label}"
        said = "found" if self.outcome == "over" else "shown to exist"
        return (
            f"No federation within these limits was {said}; the nearest is "
            f"{self.fresh.setting.label}"
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was measured with fresh clients, and how far the search was off."""
        chosen, plain = self.chosen, self.trials[0]
        sides = {"class_shares": "at least", "which_client": "at most", "interactions": "at most"}
        told = [
            f"{TITLES[name]}: {_show(self.fresh.leaks[name])} with fresh {self.seen_by}, "
            f"{_show(chosen.leaks[name])} in the search; the limit is {sides[name]} {limit:g}."
            for name, limit in self.limits.given.items()
        ]
        return (
            *told,
            f"{self.merit}: {_show(self.fresh.accuracy)} with fresh {self.seen_by}, "
            f"{_show(chosen.accuracy)} "
            f"in the search, where the undefended federation had {_show(plain.accuracy)}.",
            f"{words.format_count(len(self.trials), 'setting')} were tried with "
            f"{self.plan.searched} {self.seen_by}; {self.plan.fresh} others were kept for the last "
            "run. "
            f"Only figures with fresh {self.seen_by} are a claim.",
        )

    def rows(self) -> list[tuple[str, ...]]:
        """The run with fresh clients and all settings as cells, with their headings on top."""
        chosen = self.chosen
        told = [(f"fresh {self.seen_by}", self.fresh)]
        told += [("chosen" if one is chosen else "", one) for one in self.trials]
        return [
            ("Setting", self.merit, *(TITLES[name] for name in self.fresh.leaks), "State"),
            *(
                (one.setting.label, *map(_show, (one.accuracy, *one.leaks.values())), state)
                for state, one in told
            ),
        ]

    def refusals(self) -> list[str]:
        """A sentence for each setting that could not be tried."""
        return [f"{label} could not be tried: {why}" for label, why in self.refused.items()]

    def table(self) -> str:
        """Outcome and settings as Markdown."""
        head, *rest = [tuple(map(make_inert, row)) for row in self.rows()]
        lines = [head, ("---",) * len(head), *rest]
        return "\n".join([
            f"**{make_inert(self.headline)}**",
            "",
            *(make_inert(sentence) for sentence in self.sentences),
            "",
            *(f"| {' | '.join(cells)} |" for cells in lines),
            *(f"\n{make_inert(line)}" for line in self.refusals()),
        ])  # fmt: skip

    def as_json(self) -> dict[str, JSON]:
        """What ``summary.json`` holds."""
        dump = pydantic.TypeAdapter(tuple[FederationTrial, ...]).dump_python
        chosen, fresh, *trials = dump((self.chosen, self.fresh, *self.trials), mode="json")
        return {
            "schema": 1,
            "name": self.plan.name,
            "outcome": self.outcome,
            "headline": self.headline,
            "limits": self.limits.given,
            "fresh": fresh,
            "chosen": chosen,
            "trials": trials,
            "refused": dict(self.refused),
        }

    def report(self) -> Path:
        """Write ``summary.md`` and ``summary.json`` into the run folder; the former's path.

        Raises:
            StoreError: they cannot be written.
        """
        page = (
            f"# {make_inert(self.plan.name)}\n\n{self.table()}\n\nFor your `federate.toml`:\n\n"
            f"```toml\n{self.fresh.setting.as_toml()}\n```\n"
        )
        with hold_run(self.path):
            atomic.write_within(self.path, PAGE, page.encode())
            figures = json.dumps(self.as_json(), indent=1) + "\n"
            atomic.write_within(self.path, "summary.json", figures.encode())
        return self.path / PAGE

    def measure(self) -> "HardenedFederation":
        """Refuse: a search keeps figures, not the guesses that they were computed from.

        Raises:
            StoreError: always.
        """
        raise StoreError(
            f"expected a run with stored guesses, got a search for a federation in {self.path}, "
            "which keeps figures alone: run the search again"
        )

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.table())}</pre>"

    def __repr__(self) -> str:
        return f"<divulge.HardenedFederation>\n{self.table()}"


def _show(one: Estimate) -> str:
    high = "" if one.high is None else f"{one.high:.3f}"
    return f"{one.value:.3f} ({one.low:.3f}-{high})"


def begin(path: Path, plan: FederationSearchManifest) -> FederationSearchManifest:
    """Write the plan; of a run that is continued it keeps the date.

    Raises:
        StoreError: the folder belongs to another search, or cannot be written.
    """
    if has_head(path):
        before = read_head(path, FederationSearchManifest)
        if before.challenge != plan.challenge:
            raise StoreError(
                f"expected the federation, limits, search and seed that {path} was begun with, got "
                "different ones: start a new run"
            )
        return before
    write_head(path, plan)
    return plan


def store_trial(folder: Path, name: str, trial: StoredTrial) -> None:
    """Write what a setting came to into a run folder.

    Raises:
        StoreError: it cannot be written.
    """
    atomic.write_within(folder, name, atomic.to_json(trial, StoredTrial).encode())


def read_trial(folder: Path, name: str, setting: FederationVariant) -> StoredTrial | None:
    """What was stored of this setting; None if nothing was.

    Raises:
        StoreError: it is damaged, or of another setting.
    """
    place = folder / name
    if not place.exists():
        return None
    stored = _read(place)
    if stored.setting != setting:
        raise atomic.damaged_file_error(place, ValueError(f"no trial of {setting.label}"))
    return stored


def _read(place: Path) -> StoredTrial:
    return atomic.from_json(atomic.read(place), StoredTrial, place)


def load_hardened_federation(path: Path) -> HardenedFederation:
    """What is in the run folder of a search for a federation.

    Raises:
        StoreError: it is none, or not finished, or damaged.
    """
    plan = read_head(path, FederationSearchManifest)
    if not (path / FRESH).exists():
        raise StoreError(
            f"expected a finished search in {path}, got one that was interrupted: continue it with "
            "--resume"
        )
    last = _read(path / FRESH)
    names = plan.limits.given.keys()
    stored = [_read(place) for place in sorted((path / TRIALS).glob("*.json"))]
    trials = tuple(one.found for one in stored if one.found is not None)
    if (
        not trials
        or last.found is None
        or any(one.leaks.keys() != names for one in (*trials, last.found))
    ):
        raise atomic.damaged_file_error(path / TRIALS, ValueError("trials without their leaks"))
    refused = {one.setting.label: one.refused for one in stored if one.found is None}
    return HardenedFederation(plan, trials, refused, last.found, path)
