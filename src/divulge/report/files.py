"""A report is a set of files; this makes them as bytes by name, and the caller stores them."""

import pydantic

from divulge.core import Contents
from divulge.report import charts, exposed, markdown, page
from divulge.report.schema import Summary
from divulge.report.summary import summarise


def render_files(contents: Contents) -> dict[str, bytes]:
    """Make the files of a run's report: page, summary.json, summary.md, exposed.csv, figures.

    Figures that the run cannot support, such as classes too small to compare, are left out.

    Raises:
        StoreError: the scores of a finished attack are gone.
        DataError: a stored score is not finite.
    """
    summary = summarise(contents)
    drawn = {
        name: charts.render(chart, "svg") for name, chart in charts.draw_charts(summary).items()
    }
    texts = {name: svg.decode() for name, svg in drawn.items()}
    files = {
        "report.html": page.render(summary, texts).encode(),
        "summary.json": pydantic.TypeAdapter(Summary).dump_json(summary, indent=1) + b"\n",
        "summary.md": markdown.render(summary).encode(),
        "exposed.csv": exposed.as_exposed_csv(
            exposed.exposed_records(contents, summary),
            {0: "true value", 1: None}.get(summary.sizes.classes, "class"),
        ),
    }
    for name, svg in texts.items():
        files[f"figures/{name}.svg"] = drawn[name]
        files[f"figures/{name}.png"] = charts.convert(svg, "png")
        files[f"figures/{name}.pdf"] = charts.convert(svg, "pdf")
    return files
