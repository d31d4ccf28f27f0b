"""What every search came to: its head, its log, and its report."""

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from divulge._util.json import JSON
from divulge.core import Head
from divulge.finished_runs.finished_run import FinishedRun
from divulge.finished_runs.stored import PAGE
from divulge.studies.harden.log import SearchLog, T
from divulge.studies.harden.search_page import SearchPage


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFacts:
    """What every search is about."""

    budget: int
    searched: int
    """The number of records, clients or queries of the search."""
    fresh: int
    """The number of those that it never touches."""


P = TypeVar("P", bound=SearchFacts)


@dataclass(frozen=True, repr=False)
class SearchRun(FinishedRun, Generic[P, T]):
    """What a search came to, and its run folder."""

    head: Head[P]
    log: SearchLog[T]
    path: Path
    """The run folder."""

    @property
    def facts(self) -> P:
        """What was asked for besides what every run has."""
        return self.head.facts

    @abstractmethod
    def parts_of_folder(self) -> list[str]:
        """Paths in the run folder of the files on which the outcome depends besides its head."""

    @property
    @abstractmethod
    def contents(self) -> SearchPage:
        """What the report shows."""

    @abstractmethod
    def as_json(self) -> dict[str, JSON]:
        """What ``summary.json`` holds."""

    def draw(self) -> Mapping[str, str]:
        """By metric that can be drawn, accuracy over leakage of each trial, as SVG."""
        return {}

    @property
    def trials(self) -> tuple[T, ...]:
        """All settings that were tried, in order; the undefended one is the first."""
        return self.log.trials

    @property
    def refused(self) -> Mapping[str, str]:
        """By setting, why it could not be tried."""
        return self.log.refused

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        return self.contents.headline

    def table(self) -> str:
        """The trials as a Markdown table, with the outcome above it."""
        return self.contents.as_markdown()

    def render(self) -> dict[str, bytes]:
        """The files of the report: page, tables, figures, and all that they show as JSON."""
        from divulge.studies.harden import charts  # draws, so it loads the chart library

        contents, drawn = self.contents, self.draw()
        return {
            PAGE: charts.render_page(contents, drawn),
            "summary.json": (json.dumps(self.as_json(), indent=1, default=str) + "\n").encode(),
            **contents.as_files(),
            **{f"figures/trials-{metric}.svg": svg.encode() for metric, svg in drawn.items()},
        }
