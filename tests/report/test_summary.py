"""The summary: complete, consistent with the scores, and as documented."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pydantic
import pytest

from divulge.core import Estimate, Membership, Scores, Status
from divulge.errors import StoreError
from divulge.metrics import membership
from divulge.metrics.measure import measure
from divulge.report import summary
from divulge.report.schema import Summary
from divulge.report.summary import summarise

from . import cases

ADAPTER = pydantic.TypeAdapter(Summary)
DOCS = Path(__file__).parents[2] / "docs" / "reference" / "summary-json.md"


def test_every_attack_asked_for_has_a_row_in_order() -> None:
    rows = cases.summary("leaky").attacks
    assert [row.label for row in rows] == list(cases.contents("leaky").head.attacks)
    assert [row.status for row in rows] == [
        *["done"] * 3, "not applicable", "failed", "missing",
    ]  # fmt: skip


def test_a_finding_that_nobody_asked_for_is_kept() -> None:
    contents = cases.contents("tight")
    fewer = replace(contents.head, attacks=contents.head.attacks[:1])
    rows = summarise(replace(contents, head=fewer)).attacks
    assert [row.label for row in rows] == ["attack0", "attack1", "attack2"]


@pytest.mark.parametrize("case", cases.CASES)
def test_it_is_pure_and_survives_json(case: str) -> None:
    again = summarise(cases.contents(case))
    dumped = ADAPTER.dump_json(again)
    assert dumped == ADAPTER.dump_json(cases.summary(case))
    assert ADAPTER.dump_json(ADAPTER.validate_json(dumped)) == dumped
    assert ADAPTER.validate_json(cases.files(case)["summary.json"]) is not None


def test_scores_that_are_gone_are_an_error_that_says_so() -> None:
    contents = cases.contents("tight")
    gutted = replace(contents.entries[1], arrays={})
    with pytest.raises(StoreError, match="expected the scores of attack1"):
        summarise(replace(contents, entries=(contents.entries[0], gutted, *contents.entries[2:])))


@pytest.mark.parametrize("size", [20, 1000, 5000])
@pytest.mark.parametrize("digits", [0, 1, 12])
def test_a_curve_and_its_band_are_the_figures_that_tables_print(size: int, digits: int) -> None:
    made = cases.bench(size, 2 * size)
    score = np.round(made.shifted(1), digits)
    curve = summary.roc_curve(score, made.member)
    assert 1 <= len(curve.fpr) <= summary.POINTS + len(summary.PRINTED)
    assert np.all(np.diff(curve.fpr) > 0)
    assert curve.fpr[-1] == curve.tpr[-1] == 1
    points = {
        at: Estimate(value, low, high)
        for at, value, low, high in zip(curve.fpr, curve.tpr, curve.low, curve.high, strict=True)
    }
    for at in curve.fpr[::7]:
        assert points[at] == membership.tpr_at_fpr(score, made.member, at)
    printed = measure(Scores(score), Membership(made.member)).metrics
    rates = [float(name[4:]) for name in printed if name.startswith("tpr@")]
    assert rates
    for rate in rates:
        assert points[rate] == printed[f"tpr@{rate:g}"]


def test_a_curve_of_few_records_has_a_point_for_each_non_member() -> None:
    member = np.array([True] * 4 + [False] * 4)
    score = np.array([3.0, 2.0, 2.0, 0.0, 2.0, 1.0, 1.0, 0.0])
    curve = summary.roc_curve(score, member)
    assert curve.fpr == (0.25, 0.5, 0.75, 1.0)
    assert curve.tpr == (0.75, 0.75, 0.75, 1.0)


@pytest.mark.parametrize("case", [case for case in cases.CASES if case != "empty"])
def test_histograms_hold_everybody(case: str) -> None:
    shown = cases.summary(case).exposure
    assert shown is not None
    bins = shown.histogram
    assert sum(bins.members) == pytest.approx(1)
    assert sum(bins.nonmembers) == pytest.approx(1)
    assert len(bins.edges) == len(bins.members) + 1 == len(bins.nonmembers) + 1
    assert np.all(np.diff(bins.edges) > 0)


def test_the_threshold_accuses_no_more_than_its_fpr() -> None:
    made = cases.bench()
    score = np.round(made.shifted(1), 1)
    bins = summary.make_histogram(score, made.member, fpr=0.01)
    assert bins.threshold is not None
    assert np.mean(score[~made.member] > bins.threshold) <= 0.01


def test_classes_are_measured_if_large_enough_and_listed_if_not() -> None:
    contents = cases.contents("many_classes")
    member, label = contents.model()[1].member, contents.model()[1].label
    shown = cases.summary("many_classes").exposure
    assert shown is not None
    assert {row.label for row in shown.classes} == set(label.tolist())
    for row in shown.classes:
        assert row.members == np.sum(member & (label == row.label))
        assert row.nonmembers == np.sum(~member & (label == row.label))
        assert (row.auc is not None) == (min(row.members, row.nonmembers) >= 5)
    lows = [row.auc.low for row in shown.classes if row.auc is not None]
    assert lows == sorted(lows, reverse=True)


def test_each_thing_not_measured_has_its_reason() -> None:
    made = cases.bench(members=40, nonmembers=40)
    contents = made.contents(
        [
            made.done("one", made.shifted(1)),
            made.done("two", made.shifted(1), control=None),
            made.done("five", made.shifted(1), control=cases.UNTESTED),
            made.done("six", made.shifted(1), replace(cases.SOUND, planted=None, reason="Odd.")),
            cases.lost("three", Status.FAILED, "It broke."),
        ],
        missing=["four"],
    )
    items = summarise(contents).not_measured
    assert all(item.what and item.why for item in items)
    by_kind = {kind: [item.what for item in items if item.kind == kind] for kind in _kinds(items)}
    assert by_kind["attack"] == ["three", "four"]
    assert by_kind["control"] == ["two", "five", "six"]
    (why,) = (item.why for item in items if item.what == "five")
    assert "9 are too few" in why
    (why,) = (item.why for item in items if item.what == "six")
    assert why.startswith("Not tested on a planted leak: Odd.")
    assert {"TPR at 1 % FPR", "TPR at 0.1 % FPR"} <= set(by_kind["metric"])
    assert "Attacks with shadow models (LiRA, RMIA)" in by_kind["scope"]


def _kinds(items: tuple[object, ...]) -> set[str]:
    return {str(getattr(item, "kind", "")) for item in items}


def test_shadow_models_are_not_called_untried_when_they_were() -> None:
    made = cases.bench()
    items = summarise(made.contents([made.done("lira", made.shifted(1))])).not_measured
    assert not any("shadow" in item.what for item in items)


@pytest.mark.parametrize(("attack", "said"), [("lira", True), ("gradient-norm", False)])
def test_looks_inside_are_not_called_untried_when_there_were_some(attack: str, said: bool) -> None:
    made = cases.bench()
    items = summarise(made.contents([made.done(attack, made.shifted(1))])).not_measured
    assert any(item.what == "White-box attacks" for item in items) == said


def test_the_documentation_names_every_field_and_no_other() -> None:
    schema = ADAPTER.json_schema(mode="serialization")
    parts = {"Summary": schema, **schema["$defs"]}
    fields = {name: set(part["properties"]) for name, part in parts.items() if "properties" in part}
    documented = {
        heading: set(re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE))
        for heading, text in re.findall(
            r"^## (\w+)\n(.*?)(?=^## |\Z)", DOCS.read_text(), re.M | re.S
        )
    }
    assert documented == fields
