"""The list of exposed records: which attack makes it, what it holds, and what it never does."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from divulge.core import Contents, Status
from divulge.metrics.membership import Unmeasurable
from divulge.report import exposed
from divulge.report.files import render_files
from divulge.report.parts import ExposedRecords
from divulge.report.schema import Summary
from divulge.report.summary import summarise

from . import cases


def rows(table: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table.decode())))


def separated(stand_out: int, nonmembers: int = 200, members: int = 200) -> Contents:
    """So many members stand above every non-member, the others below."""
    made = cases.bench(members, nonmembers)
    score = np.where(made.member, -1.0, 0.0)
    score[np.flatnonzero(made.member)[:stand_out]] = 1.0
    return made.contents([made.done("threshold", score)])


def listed(contents: Contents) -> dict[float, int | None]:
    return {each.fdr: each.listed for each in summarise(contents).exposed.lists}


@pytest.mark.parametrize(
    ("stand_out", "found"),
    [(9, {0.05: 0, 0.1: 0}), (10, {0.05: 0, 0.1: 10}), (20, {0.05: 20, 0.1: 20})],
)
def test_with_200_of_each_ten_can_be_listed_at_10_percent_and_twenty_at_5(
    stand_out: int, found: dict[float, int]
) -> None:
    assert listed(separated(stand_out)) == found


def test_an_empty_list_says_how_few_it_could_have_held() -> None:
    first, second = summarise(separated(9)).exposed.lists
    assert "none. With 200 non-members a list holds at least 20 members, or none." in first.sentence
    assert "To list a single member, give 3,999." in first.sentence
    assert "at least 10 members" in second.sentence
    many = cases.bench(200, 8_000)
    alike = many.contents([many.done("threshold", np.zeros(8_200))])
    assert "at least" not in summarise(alike).exposed.lists[0].sentence


def test_with_too_few_non_members_nothing_is_measured_and_none_is_not_said() -> None:
    contents = separated(200, nonmembers=18)
    summary = summarise(contents)
    assert listed(contents) == {0.05: None, 0.1: 200}
    assert "not measured" in summary.exposed.lists[0].sentence
    assert "at least 19 for a list that can hold all" in summary.exposed.lists[0].sentence
    (item,) = [item for item in summary.not_measured if "Exposed records" in item.what]
    assert "5 %" in item.what


@pytest.mark.parametrize("case", ["confounded", "failed", "empty"])
def test_where_scores_cannot_be_compared_there_is_a_reason_and_no_p(case: str) -> None:
    found = cases.summary(case).exposed
    assert found.reason
    assert found.lists == ()
    assert found.groups == ()
    table = rows(cases.files(case)["exposed.csv"])
    assert len(table) == (0 if case == "empty" else 1000)
    assert {row["p"] + row["q"] for row in table} <= {""}
    assert f"<p>{found.reason}</p>" in cases.files(case)["report.html"].decode()


def _choice(*attacks: tuple[str, bool]) -> str | None:
    made = cases.bench(40, 40)
    entries = [
        made.done(name, made.shifted(1), control=cases.SOUND if sound else cases.BLIND)
        for name, sound in attacks
    ]
    entries += [cases.lost("rmia", Status.FAILED, "it broke")]
    chosen = exposed.choose_attack(summarise(made.contents(entries)).attacks)
    return None if chosen is None else chosen.label


def test_the_attack_is_chosen_by_its_name_among_those_that_passed_their_controls() -> None:
    assert _choice(("threshold", True), ("quantile", True), ("lira", True)) == "lira"
    assert _choice(("threshold", True), ("quantile", True), ("lira", False)) == "quantile"
    assert _choice(("gap", True), ("threshold", True)) == "gap"
    assert _choice(("gap", False), ("lira", False)) == "lira"
    assert _choice() is None


def test_the_choice_does_not_depend_on_who_is_a_member() -> None:
    made = cases.bench(300, 300)
    strong, weak = made.shifted(4), made.shifted(0)
    for scores in ((strong, weak), (weak, strong)):
        entries = [made.done("threshold", scores[0]), made.done("lira", scores[1])]
        assert summarise(made.contents(entries)).exposed.attack == "lira"


def test_groups_hold_the_list_with_the_highest_first() -> None:
    contents, found = cases.contents("leaky"), cases.summary("leaky").exposed
    score, member = contents.entries[0].score, contents.model()[1].member
    assert score is not None
    inside, outside = score[member], score[~member]
    order = np.argsort(-inside)
    assert found.attack == "threshold(signal=loss)"
    assert len(found.groups) == exposed.GROUPS
    at = 0
    for group in found.groups:
        positions = order[at : at + group.members]
        counts = {int(np.sum(outside >= inside[position])) for position in positions}
        assert counts == {group.accused}
        assert group.positions == tuple(positions[: exposed.POSITIONS].tolist())
        assert group.p == pytest.approx((1 + group.accused) / 1001)
        at += group.members


def test_ties_are_one_row_and_never_a_screenful() -> None:
    contents = separated(80)
    found = summarise(contents).exposed
    (group,) = found.groups
    assert group.members == 80
    assert list(group.positions) == list(range(10))
    assert "and 70 more" in render_files(contents)["report.html"].decode()


def test_the_file_has_every_member_once_and_agrees_with_the_page() -> None:
    contents, summary = cases.contents("leaky"), cases.summary("leaky")
    table = rows(cases.files("leaky")["exposed.csv"])
    assert tuple(table[0]) == exposed.COLUMNS
    assert sorted(int(row["position"]) for row in table) == list(range(1000))
    scores = [float(row["score"]) for row in table]
    assert scores == sorted(scores, reverse=True)
    kept = contents.entries[0].score
    assert kept is not None
    assert sorted(scores) == sorted(kept[contents.model()[1].member].tolist())
    for each in summary.exposed.lists:
        assert sum(float(row["q"]) <= each.fdr for row in table) == each.listed
    assert {row["class"] for row in table} == {f"kind {number}" for number in range(10)}


HOSTILE = {
    "=1+1": "'=1+1",
    "+1+1": "'+1+1",
    "-1+1": "'-1+1",
    "@SUM(A1)": "'@SUM(A1)",
    " =1": "' =1",
    "\t=1": "\ufffd=1",
    "a\r\n=1": "a\ufffd\ufffd=1",
    "a;=1": "a;'=1",
    "\uff1d1": "'\uff1d1",
    '"=1': "'\"=1",
    "x\x00y\u202e": "x\ufffdy\ufffd",
    'say "hi", you': 'say "hi", you',
}
"""Ids, and the cells that stand for them."""


def test_no_cell_is_a_formula_or_breaks_its_row() -> None:
    made = cases.bench(len(HOSTILE), 40, classes=2)
    ids = np.full(len(made.member), "", dtype="<U20")
    ids[made.member] = list(HOSTILE)
    contents = made.contents(
        [made.done("threshold", made.shifted(1))], class_names=["=cmd", "@two"], ids=ids
    )
    table = render_files(contents)["exposed.csv"]
    assert len(table.decode().splitlines()) == 1 + len(HOSTILE)
    by_position = sorted(rows(table), key=lambda row: int(row["position"]))
    assert [row["id"] for row in by_position] == list(HOSTILE.values())
    assert {row["class"] for row in by_position} <= {"'=cmd", "'@two"}


@pytest.mark.parametrize("text", ["17", "-3", "-3.5", "a-b", "a@b.example", "", "x=1", "0012"])
def test_harmless_ids_come_as_they_are(text: str) -> None:
    assert exposed.escape_cell(text) == text


def test_ids_are_in_the_file_alone() -> None:
    made = cases.bench(60, 60)
    ids = np.array([f"customer-{k}" for k in range(120)])
    files = render_files(made.contents([made.done("threshold", made.shifted(3))], ids=ids))
    for name, content in files.items():
        assert (b"customer-" in content) == (name == "exposed.csv")


def test_a_list_without_anything_measured_is_refused() -> None:
    with pytest.raises(Unmeasurable, match="passed its controls"):
        exposed.refuse_empty_list(cases.summary("failed").exposed, 1000, 1000, 0.1)
    nothing = ExposedRecords("lira", "", (), ())
    with pytest.raises(Unmeasurable, match="at least 19"):
        exposed.refuse_empty_list(nothing, 10, 18, 0.05)


def test_one_score_for_all_lists_nobody() -> None:
    found = cases.summary("constant").exposed
    assert [each.listed for each in found.lists] == [0, 0]
    assert found.groups == ()


def test_a_summary_survives_without_groups() -> None:
    from pydantic import TypeAdapter

    summary = replace(cases.summary("tiny"))
    raw = TypeAdapter(Summary).dump_json(summary)
    assert TypeAdapter(Summary).validate_json(raw).exposed == summary.exposed
