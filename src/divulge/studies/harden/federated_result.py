"""What a search for a federation within limits came to, and its run folder."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import pydantic

from divulge._util import atomic, seals
from divulge._util.json import JSON
from divulge.core import Estimate, Finding
from divulge.errors import StoreError
from divulge.finished_runs.finished_run import RunVerdict
from divulge.finished_runs.run_json import load_head
from divulge.finished_runs.stored import as_frame
from divulge.report import words
from divulge.studies.harden.federated_limits import (
    LIMITED,
    FederationLimits,
    FederationTrial,
    FederationVariant,
)
from divulge.studies.harden.hardened import SearchFacts, SearchRun
from divulge.studies.harden.log import SearchLog
from divulge.studies.harden.search_page import SearchPage

if TYPE_CHECKING:
    import pandas as pd

TRIALS, FRESH = "trials", "fresh.json"
"""Names of files: a folder with one for each setting, and the run with fresh clients."""


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """What ``trials/001.json`` and ``fresh.json`` hold."""

    setting: FederationVariant
    found: FederationTrial | None
    """None where it could not be simulated or attacked."""
    refused: str
    """Why it could not; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FederationSearchFacts(SearchFacts):
    """What a search for a federation is about."""

    limits: FederationLimits
    rounds: int


@dataclass(frozen=True, repr=False)
class HardenedFederation(SearchRun[FederationSearchFacts, FederationTrial]):
    """The setting that was found, its run with fresh clients, and all that was tried."""

    fresh: FederationTrial
    """The chosen setting with other clients and another seed: the claim."""
    findings: ClassVar[tuple[Finding, ...]] = ()
    """Of single attacks none are kept: one that fails ends the trial."""
    noun = "a search for a federation"
    about = "federation"

    @classmethod
    def load(cls, path: Path) -> "HardenedFederation":
        """What is in the run folder of a search for a federation.

        Raises:
            StoreError: it is none, or not finished, or damaged.
        """
        head = load_head(path, "hardened-federation", FederationSearchFacts)
        if not (path / FRESH).exists():
            raise StoreError(
                f"expected a finished search in {path}, got one that was interrupted: continue it "
                "with --resume"
            )
        last, names = _read(path / FRESH), head.facts.limits.given.keys()
        stored = [_read(place) for place in sorted((path / TRIALS).glob("*.json"))]
        trials = tuple(trial.found for trial in stored if trial.found is not None)
        if (
            not trials
            or last.found is None
            or any(trial.leaks.keys() != names for trial in (*trials, last.found))
        ):
            raise atomic.damaged_file_error(path / TRIALS, ValueError("trials without their leaks"))
        refused = {trial.setting.label: trial.refused for trial in stored if trial.found is None}
        search = cls(head, SearchLog(trials, refused), path, last.found)
        for name in search.parts_of_folder() if head.digests else ():
            if name not in head.digests:
                raise seals.edited_file_error(path / name)
        return search

    def parts_of_folder(self) -> list[str]:
        """The trials, and the run with fresh clients."""
        return [
            FRESH,
            *sorted(f"{TRIALS}/{file.name}" for file in (self.path / TRIALS).glob("*.json")),
        ]

    @property
    def instead(self) -> str:
        """A search keeps figures alone: what it found is to be audited."""
        return "record the chosen one with `divulge federate`, and audit its transcript"

    @property
    def verdicts(self) -> Mapping[str, RunVerdict]:
        """Whether the run with fresh clients is within the limits."""
        level = {"within": "within limits", "over": "over limits"}.get(self.outcome, self.outcome)
        contents = self.contents
        return {
            "": RunVerdict(level, contents.headline, tuple(contents.sentences), contents.next_step)
        }

    def to_frame(self) -> "pd.DataFrame":
        """One row per setting and metric: setting, state, metric, value, low, high.

        Raises:
            MissingExtra: pandas is not installed.
        """
        chosen = self.chosen
        tried = [("fresh", self.fresh)]
        tried += [("chosen" if trial is chosen else "", trial) for trial in self.trials]
        rows = [
            (trial.setting.label, state, name, figure.value, figure.low, figure.high)
            for state, trial in tried
            for name, figure in {"accuracy": trial.accuracy, **trial.leaks}.items()
        ]
        return as_frame(rows, ["setting", "state", "metric", "value", "low", "high"])

    @property
    def limits(self) -> FederationLimits:
        """What the server may learn."""
        return self.facts.limits

    @property
    def chosen(self) -> FederationTrial:
        """The setting that was found, as the search saw it."""
        return self.limits.choose(self.trials)

    @property
    def outcome(self) -> Literal["within", "over", "undecided"]:
        """Whether the run with fresh clients is within the limits.

        ``within``: all intervals are. ``over``: some whole interval is not. ``undecided``: neither.
        """
        if self.fresh.excess(self.limits) <= 0:
            return "within"
        return "over" if self.fresh.exceeds(self.limits) else "undecided"

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        label = self.fresh.setting.label
        if self.outcome == "within":
            return f"This federation stays within the limits: {label}"
        shown = "found" if self.outcome == "over" else "shown to exist"
        return f"No federation within these limits was {shown}; the nearest is {label}"

    @property
    def contents(self) -> SearchPage:
        """What the report shows."""
        limits, fresh, chosen = self.limits.given, self.fresh, self.chosen
        head, facts = self.head, self.facts
        ranker = fresh.setting.epochs is None
        merit, halves = ("NDCG@10", "queries") if ranker else ("Accuracy", "clients")
        titles = [LIMITED[name].title for name in limits]
        states = [(fresh, f"fresh {halves}")]
        states += [(trial, "chosen" if trial is chosen else "") for trial in self.trials]
        rows = [
            (
                trial.setting.label,
                *_show(trial.accuracy, *(trial.leaks[name] for name in limits)),
                state,
            )
            for trial, state in states
        ]
        again = f"Raise the budget, give more {halves}, or set wider limits, and run it again."
        return SearchPage(
            kind="a federation within limits",
            name=head.name,
            created=head.created,
            outcome=self.outcome,
            headline=self.headline,
            sentences=tuple(self._sentences(merit, halves)),
            next_step="Put the lines below into your federate.toml."
            if self.outcome == "within"
            else again,
            numbers=tuple(zip((merit, *titles), rows[0][1:-1], strict=True)),
            note=f"The last run is with {facts.fresh} {halves} that the search never saw, under "
            "another seed, and was attacked afresh.",
            audit="",
            toml=fresh.setting.as_toml(),
            rows=(("Setting", merit, *titles, "State"), *rows),
            basis=f"{words.format_count(len(self.trials), 'setting')} were tried with "
            f"{facts.searched} {halves}; {facts.fresh} others were kept for the last run. Only "
            f"figures with fresh {halves} are a claim.",
            refused=self.refused,
            settings=head.settings,
            environment=head.environment,
        )

    def _sentences(self, merit: str, halves: str) -> Iterator[str]:
        """What was measured with the fresh half, and how far the search was off."""
        for name, limit in self.limits.given.items():
            fresh, search = _show(self.fresh.leaks[name], self.chosen.leaks[name])
            title, _, least = LIMITED[name]
            side = "at least" if least else "at most"
            yield (
                f"{title}: {fresh} with fresh {halves}, {search} in the search; "
                f"the limit is {side} {limit:g}."
            )
        shown = (self.fresh, self.chosen, self.trials[0])
        fresh, search, plain = _show(*(trial.accuracy for trial in shown))
        yield (
            f"{merit}: {fresh} with fresh {halves}, {search} in the search, where the undefended "
            f"federation had {plain}."
        )

    def as_json(self) -> dict[str, JSON]:
        """What ``summary.json`` holds."""
        dump = pydantic.TypeAdapter(tuple[FederationTrial, ...]).dump_python
        chosen, fresh, *trials = dump((self.chosen, self.fresh, *self.trials), mode="json")
        return {
            "schema": 1,
            "name": self.head.name,
            "outcome": self.outcome,
            "headline": self.headline,
            "limits": self.limits.given,
            "fresh": fresh,
            "chosen": chosen,
            "trials": trials,
            "refused": dict(self.refused),
        }


def _show(*figures: Estimate) -> list[str]:
    return [
        f"{figure.value:.3f} ({figure.low:.3f}-"
        f"{'' if figure.high is None else f'{figure.high:.3f}'})"
        for figure in figures
    ]


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
