"""The figures: drawn for every run that has something to draw, and always the same."""

import re
from collections.abc import Collection
from xml.parsers import expat

import pytest

from divulge.core import Estimate
from divulge.errors import StoreError
from divulge.report import charts, words
from divulge.report.summary import summarise
from divulge.report.verdict_facts import deciding_fpr
from tests.slow import thin

from . import cases, markup

NAMES = ("roc", "scores", "attacks", "classes")
DRAWN = [case for case in cases.CASES if case != "empty"]


def _svgs(case: str) -> dict[str, bytes]:
    return {
        name: cases.files(case)[f"figures/{name}.svg"]
        for name in NAMES
        if f"figures/{name}.svg" in cases.files(case)
    }


@pytest.mark.parametrize("case", thin(4, DRAWN))
def test_each_figure_comes_in_three_formats(case: str) -> None:
    files = cases.files(case)
    expected = NAMES[:3] if case == "tiny" else NAMES  # no class of the tiny run is large enough
    assert [name for name in NAMES if f"figures/{name}.svg" in files] == list(expected)
    for name in expected:
        assert files[f"figures/{name}.svg"].startswith(b"<svg")
        assert files[f"figures/{name}.png"].startswith(b"\x89PNG")
        assert files[f"figures/{name}.pdf"].startswith(b"%PDF")


@pytest.mark.parametrize("case", thin(2, DRAWN))
def test_each_figure_is_valid_vega_lite(case: str) -> None:
    for chart in charts.draw_charts(cases.summary(case)).values():
        chart.to_dict(validate=True)


def test_nothing_measured_is_nothing_drawn() -> None:
    assert not [name for name in cases.files("empty") if name.startswith("figures/")]


@pytest.mark.parametrize("case", thin(2, DRAWN))
def test_drawings_are_well_formed_and_load_nothing(case: str) -> None:
    for svg in _svgs(case).values():
        expat.ParserCreate().Parse(svg, True)
        parsed = markup.parse(svg.decode())
        assert not {"script", "image", "style", "foreignobject", "a", "use"} & set(parsed.tags)
        for name in ("href", "xlink:href", "onclick", "style"):
            assert parsed.values(name) == []
        # drawings share one page, where equal ids would meet
        assert parsed.values("id") == []
        assert not re.search(r"url\(", " ".join(value for _, _, value in parsed.attributes))


def test_hostile_names_are_drawn_as_text() -> None:
    svgs = _svgs("hostile")
    shown = [
        " ".join(text.split())
        for name in ("attacks", "classes")
        for text in markup.parse(svgs[name].decode()).texts
    ]
    for short in words.shorten_names(cases.HOSTILE, 46):
        assert shown.count(short) == 2
    assert all(len(text) <= 50 for text in shown)


@pytest.mark.parametrize("name", NAMES)
def test_drawing_twice_gives_the_same_bytes(name: str) -> None:
    chart = charts.draw_charts(cases.summary("leaky"))[name]
    assert charts.render(chart, "svg") == _svgs("leaky")[name]


def test_a_chart_renders_straight_to_a_file() -> None:
    chart = charts.draw_charts(cases.summary("tight"))["attacks"]
    assert charts.render(chart, "png").startswith(b"\x89PNG")
    assert charts.render(chart, "pdf").startswith(b"%PDF")


def test_the_attack_that_carries_the_verdict_comes_first_and_others_turn_grey() -> None:
    made = cases.bench(200, 200)
    entries = [made.done(f"attack{number}", made.shifted(number / 4)) for number in range(9)]
    summary = summarise(made.contents(entries))
    rows = charts.strongest_first(summary)
    assert rows[0].label == summary.verdict.attack
    chart = charts.roc_chart(summary)
    assert chart is not None
    legend = markup.parse(charts.render(chart, "svg").decode()).texts
    assert [text for text in legend if text.startswith("attack")] == [
        row.label for row in rows[: charts.HIGHLIGHTED]
    ]
    assert "3 other attacks" in legend


def test_long_lists_are_cut_to_what_a_page_can_hold() -> None:
    made = cases.bench(60, 60)
    entries = [made.done(f"attack{number}", made.shifted(0)) for number in range(35)]
    chart = charts.attack_chart(summarise(made.contents(entries)))
    assert chart is not None
    texts = markup.parse(charts.render(chart, "svg").decode()).texts
    assert sum(text.startswith("attack") for text in texts) == charts.MOST_ROWS


@pytest.mark.parametrize("case", DRAWN)
def test_figures_print_no_value_without_its_interval(case: str) -> None:
    texts = markup.parse(_svgs(case)["attacks"].decode()).texts
    values = [words.format_metric(*_deciding(case, label)) for label in _done(case)]
    assert set(values) <= set(texts)


def _done(case: str) -> list[str]:
    return [row.label for row in cases.summary(case).attacks if row.status == "done"]


def _deciding(case: str, label: str) -> tuple[str, Estimate, Collection[str]]:
    row = next(row for row in cases.summary(case).attacks if row.label == label)
    fpr = deciding_fpr(cases.summary(case).sizes.nonmembers)
    name = "auc" if fpr is None else f"tpr@{fpr:g}"
    return name, row.metrics[name], row.unmeasured


def test_a_limit_of_address_space_that_would_end_the_process_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resource = pytest.importorskip("resource")
    (chart, *_) = charts.draw_charts(cases.summary(DRAWN[0])).values()
    charts._check_address_space.cache_clear()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (4 * 2**30, resource.RLIM_INFINITY))
    with pytest.raises(StoreError, match=r"expected 80 GiB .* limit of 4.0 GiB \(ulimit -v\)"):
        charts.render(chart, "svg")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert charts.render(chart, "svg").startswith(b"<svg")
