"""What every search came to: its head, its log, and its report."""

import html
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from divulge._util import atomic
from divulge._util.json import JSON
from divulge.audits.harden.head import SearchHead
from divulge.audits.harden.log import SearchLog, T
from divulge.audits.run_folder import hold_run
from divulge.report.search_page import SearchPage

PAGE = "report.html"
P = TypeVar("P", bound=SearchHead)


@dataclass(frozen=True, repr=False)
class Hardened(ABC, Generic[P, T]):
    """What a search came to, and its run folder."""

    plan: P
    log: SearchLog[T]
    path: Path
    """The run folder."""
    page: ClassVar[str] = PAGE

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

    def files(self) -> dict[str, bytes]:
        """The files of the report: page, tables, figures, and all that they show as JSON."""
        from divulge.report import harden_charts  # draws, so it loads the chart library

        told, drawn = self.contents, self.draw()
        return {
            PAGE: harden_charts.render_page(told, drawn),
            "summary.json": (json.dumps(self.as_json(), indent=1, default=str) + "\n").encode(),
            **told.as_files(),
            **{f"figures/trials-{metric}.svg": svg.encode() for metric, svg in drawn.items()},
        }

    def report(self) -> Path:
        """Write these files into the run folder; the page's path.

        Raises:
            StoreError: they cannot be written.
        """
        files = self.files()
        with hold_run(self.path):
            for name, content in files.items():
                atomic.write_within(self.path, name, content)
        return self.path / PAGE

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.table())}</pre>"

    def __repr__(self) -> str:
        return f"<divulge.{type(self).__name__}>\n{self.table()}"
