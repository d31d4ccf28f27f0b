"""The page of a search for a model under a ceiling, with accuracy over leakage of each trial."""

import json

import altair as alt

from divulge._util import showable
from divulge.metrics.measure import GUESSING
from divulge.report import charts
from divulge.report.page import inline_figure, template_environment
from divulge.studies.compare.front_chart import FrontPoint, draw_front
from divulge.studies.compare.table import undominated
from divulge.studies.harden import page as harden_page
from divulge.studies.harden.page import HardenStory, MeasuredCeiling, TrialRow


def render_files(told: HardenStory) -> dict[str, bytes]:
    """The files of the report: page, tables, and a figure for each ceiling."""
    drawn = {
        one.metric: charts.render(trial_chart(told, one), "svg").decode() for one in told.ceilings
    }
    page = (
        template_environment("divulge.studies")
        .get_template("harden.html.j2")
        .render(
            told=told,
            headings=harden_page.headings(told),
            rows=[
                [showable.make_showable(cell) for cell in harden_page.cells(told, row)]
                for row in told.trials
            ],
            basis=harden_page.basis(told),
            refusals=harden_page.refusals(told),
            figures={metric: inline_figure(svg) for metric, svg in drawn.items()},
            reproduction=json.dumps(
                showable.make_all_showable(
                    {"settings": told.settings, "environment": dict(told.environment)}
                ),
                indent=2,
                ensure_ascii=False,
                default=str,
            ),
        )
    )
    return {
        "report.html": page.encode(),
        **harden_page.summary_files(told),
        **{f"figures/trials-{metric}.svg": svg.encode() for metric, svg in drawn.items()},
    }


def trial_chart(told: HardenStory, one: MeasuredCeiling) -> alt.LayerChart:
    """Accuracy over leakage of each trial; small dots are it after other numbers of epochs.

    Filled dots are dominated by none. Small dots far from the ceiling, which would squeeze all
    others together, are left out.
    """
    guessing = GUESSING[one.metric]
    most = guessing + 2 * max(0.0, one.ceiling - guessing)
    least = max(row.accuracy.value for row in told.trials) / 2
    small = [
        row
        for row in told.looks
        if row not in told.trials
        and row.leaks[one.metric].value <= most
        and row.accuracy.value >= least
    ]
    rows = (*told.trials, *small)
    best = undominated([(row.accuracy.value, row.leaks[one.metric].value) for row in rows])
    return draw_front(
        [
            FrontPoint(
                "" if k >= len(told.trials) else _name(told, row),
                row.leaks[one.metric],
                row.accuracy,
                good,
            )
            for k, (row, good) in enumerate(zip(rows, best, strict=True))
        ],
        one.metric,
        one.ceiling,
    )


def _name(told: HardenStory, row: TrialRow) -> str:
    return f"{row.number}, chosen" if row.number == told.chosen else str(row.number)
