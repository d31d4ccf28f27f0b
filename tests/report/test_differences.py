"""The deciding attack less each other one: on the page, and from Python by name."""

from dataclasses import replace

import pytest

from divulge.audits.result import Audit
from divulge.errors import SpecError

from . import cases


def test_the_page_and_python_subtract_the_same_attacks() -> None:
    case = "leaky"
    found, shown = Audit(cases.contents(case)), cases.summary(case)
    deciding = shown.verdict.attack
    assert deciding is not None
    sound = [row.label for row in shown.attacks if row.status == "done" and row.sound]
    assert {row.attack for row in shown.differences} == {*sound} - {deciding}
    pairs = len(sound) * (len(sound) - 1) // 2
    for row in shown.differences:
        again = found.difference(deciding, row.attack, pairs)
        assert {name: again[name] for name in row.metrics} == dict(row.metrics)
        forth, back = again["auc"], found.difference(row.attack, deciding, pairs)["auc"]
        assert forth.value == pytest.approx(-back.value)
    page = cases.files(case)["report.html"].decode()
    assert 'id="differences"' in page
    assert f"{shown.differences[0].metrics['auc'].value:+.3f}" in page


def test_where_figures_do_not_count_nothing_is_subtracted() -> None:
    contents = cases.contents("leaky")
    lost = next(one.finding for one in contents.entries if one.finding.status == "failed")
    found = Audit(contents)
    deciding = found.verdict.attack
    assert deciding is not None
    with pytest.raises(SpecError, match="expected an attack whose figures count"):
        found.difference(deciding, lost.label)
    with pytest.raises(SpecError, match="expected the label of an attack, got 'liar'"):
        found.difference("liar", deciding)
    broken = tuple(replace(one, control=cases.BROKEN) for one in contents.entries)
    assert Audit(replace(contents, entries=broken)).summary.differences == ()
