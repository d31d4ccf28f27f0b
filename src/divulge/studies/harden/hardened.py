"""What every search came to: its head, its log, and its report."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from divulge._util.json import JSON
from divulge.audits.runs import FinishedRun
from divulge.core import Head
from divulge.studies.harden.head import SearchHead
from divulge.studies.harden.log import SearchLog, T
from divulge.studies.harden.search_page import SearchPage

P = TypeVar("P", bound=SearchHead)


@dataclass(frozen=True, repr=False)
class Hardened(FinishedRun, Generic[P, T]):
    """What a search came to, and its run folder."""

    plan: P
    log: SearchLog[T]
    path: Path
    """The run folder."""

    @property
    def head(self) -> Head[P]:
        """What was asked for."""
        plan = self.plan
        return Head(
            kind=plan.kind, name=plan.name, created=plan.created, challenge=plan.challenge,
            seed=plan.seed, settings=plan.settings, environment=plan.environment, facts=plan,
            attacks=self.attacks, divulge=plan.divulge, schema=plan.schema,
        )  # fmt: skip

    @property
    def attacks(self) -> tuple[str, ...]:
        """Labels of the attacks of the final audit, if there is one."""
        return ()

    @property
    def contents(self) -> SearchPage:
        """What the report shows."""
        raise NotImplementedError

    def as_json(self) -> dict[str, JSON]:
        """What ``summary.json`` holds."""
        raise NotImplementedError

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
        # draws, so it loads the chart library
        from divulge.studies.harden import charts as harden_charts

        told, drawn = self.contents, self.draw()
        return {
            self.page: harden_charts.render_page(told, drawn),
            "summary.json": (json.dumps(self.as_json(), indent=1, default=str) + "\n").encode(),
            **told.as_files(),
            **{f"figures/trials-{metric}.svg": svg.encode() for metric, svg in drawn.items()},
        }
