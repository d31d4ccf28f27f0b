"""The page of a search, with accuracy over leakage of each trial."""

import json
from collections.abc import Mapping

import altair as alt

from divulge._util import showable
from divulge.metrics.measure import GUESSING
from divulge.report import charts
from divulge.report.page import inline_figure, template_environment
from divulge.studies.compare.front_chart import FrontPoint, draw_front
from divulge.studies.compare.table import undominated
from divulge.studies.harden.page import HardenStory, MeasuredCeiling, TrialRow
from divulge.studies.harden.search_page import SearchPage


def render_page(contents: SearchPage, drawn: Mapping[str, str]) -> bytes:
    """The page of a search.

    Args:
        contents: what it shows.
        drawn: by metric, a chart of accuracy over leakage as SVG.
    """
    reproduction = showable.make_all_showable(
        {"settings": contents.settings, "environment": dict(contents.environment)}
    )
    heads, *rows = contents.rows
    page = template_environment("divulge.studies").get_template("harden.html.j2")
    return page.render(
        contents=contents,
        headings=heads,
        rows=[[showable.make_showable(cell) for cell in row] for row in rows],
        label_at=heads.index("Setting"),
        figures={metric: inline_figure(svg) for metric, svg in drawn.items()},
        reproduction=json.dumps(reproduction, indent=2, ensure_ascii=False, default=str),
    ).encode()


def draw_trials(story: HardenStory) -> dict[str, str]:
    """By metric with a ceiling, accuracy over leakage of each trial, as SVG."""
    return {
        ceiling.metric: charts.render(trial_chart(story, ceiling), "svg").decode()
        for ceiling in story.ceilings
    }


def trial_chart(story: HardenStory, ceiling: MeasuredCeiling) -> alt.LayerChart:
    """Accuracy over leakage of each trial; small dots are it after other numbers of epochs.

    Filled dots are dominated by none. Small dots far from the ceiling, which would squeeze all
    others together, are left out.
    """
    guessing = GUESSING[ceiling.metric]
    most = guessing + 2 * max(0.0, ceiling.ceiling - guessing)
    least = max(row.accuracy.value for row in story.trials) / 2
    small = [
        row
        for row in story.looks
        if row not in story.trials
        and row.leaks[ceiling.metric].value <= most
        and row.accuracy.value >= least
    ]
    rows = (*story.trials, *small)
    best = undominated([(row.accuracy.value, row.leaks[ceiling.metric].value) for row in rows])
    return draw_front(
        [
            FrontPoint(
                "" if k >= len(story.trials) else _name(story, row),
                row.leaks[ceiling.metric],
                row.accuracy,
                good,
            )
            for k, (row, good) in enumerate(zip(rows, best, strict=True))
        ],
        ceiling.metric,
        ceiling.ceiling,
    )


def _name(story: HardenStory, row: TrialRow) -> str:
    return f"{row.number}, chosen" if row.number == story.chosen else str(row.number)
