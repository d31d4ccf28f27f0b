import dataclasses
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

import divulge
from divulge.errors import DivulgeError, SpecError
from divulge.studies.planning import SHADOWS
from tests.kinds import audit_model
from tests.uneven_tables import TABLES


def test_sizes_are_answered_with_what_they_show() -> None:
    found = divulge.plan(members=200, nonmembers=200)
    assert found.auc is not None
    assert 0.55 < found.auc < 0.65
    assert "200 members, 200 non-members" in str(found)
    assert "With 80 % power" in str(found)


@pytest.mark.parametrize("name", TABLES)
def test_more_attacks_see_no_smaller_leak_whatever_the_shape(name: str) -> None:
    table, seen = TABLES[name], []
    for attacks in (1, 40):
        found = divulge.plan(members=table.members, nonmembers=table.nonmembers, attacks=attacks)
        assert (found.members, found.nonmembers) == (table.members, table.nonmembers)
        assert f"{table.nonmembers:,} non-members, {attacks} attack" in str(found)
        seen.append((found.auc or math.inf, found.exposed or math.inf))
    assert seen[0][0] < seen[1][0] or seen[1][0] == math.inf
    assert seen[0][1] <= seen[1][1]


def test_a_leak_is_answered_with_sizes_for_each_number_of_shadows() -> None:
    found = divulge.plan(auc=0.7)
    sizes = [row.records or 0 for row in found.needed]
    assert [row.shadows for row in found.needed] == list(SHADOWS)
    # each size is right to about 5 %
    assert all(0.9 * more < fewer for fewer, more in itertools.pairwise(sizes))
    assert sizes[0] > 5 * sizes[-1]
    assert "64" in str(found)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "give one of the two"),
        ({"members": 100}, "two sizes"),
        ({"members": 100, "nonmembers": 100, "auc": 0.6}, "two sizes"),
        ({"members": 0, "nonmembers": 10}, "members of plan to be a whole number of 1 or more"),
        ({"auc": 0.6, "power": 1.0}, "power above 0.05"),
        ({"auc": 0.6, "attacks": 0}, "attacks of plan to be a whole number of 1 or more"),
        ({"auc": 0.4}, "auc=0.4"),
        ({"people": 60, "alike": 0.5}, "people, records_each and alike together"),
        ({"people": 60, "records_each": 3, "alike": 0.5, "auc": 0.6}, "no other sizes or leaks"),
        ({"people": 1, "records_each": 3, "alike": 0.5}, "2 people or more"),
        ({"people": 60, "records_each": 3, "alike": 1.5}, "alike from 0 to 1"),
    ],
)
def test_other_questions_are_refused(asked: dict[str, float], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        divulge.plan(**asked)  # type: ignore[arg-type]


def test_the_audit_at_hand_is_its_settings_or_its_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = ["p_0,p_1,label,member"]
    for number in range(90):
        p = rng.random()
        rows.append(f"{p},{1 - p},{rng.integers(2)},{int(number < 40)}")
    (tmp_path / "answers.csv").write_text("\n".join(rows))
    (tmp_path / "audit.toml").write_text(
        'name = "x"\nattacks = [{ name = "gap" }]\n[predictions]\nfile = "answers.csv"\n'
    )
    before = divulge.plan_file(tmp_path / "audit.toml")
    assert (before.members, before.nonmembers, before.attacks) == (40, 50, 1)
    found = audit_model(tmp_path / "audit.toml", tmp_path / "run")
    after = divulge.plan_file(tmp_path / "run")
    assert (after.members, after.nonmembers, after.attacks) == (40, 50, found.verdict.tested)
    assert found.verdict.sensitivity  # one figure: that of the report
    assert str(after).endswith(found.verdict.sensitivity)
    assert dataclasses.asdict(divulge.plan_file(tmp_path / "run", power=0.9))["power"] == 0.9


def test_people_show_less_than_as_many_records_of_others_the_more_their_records_are_alike() -> None:
    seen = [divulge.plan(people=60, records_each=10, alike=alike) for alike in (0.0, 0.5, 1.0)]
    assert all(found.auc == seen[0].auc for found in seen)
    by_record = [found.people.auc_by_record or 0 for found in seen if found.people is not None]
    assert sorted(by_record) == by_record
    assert by_record[2] == pytest.approx(seen[2].auc)
    # where records of one person are not alike, they count as those of others
    assert seen[0].people is not None
    assert by_record[0] == pytest.approx(seen[0].people.auc_of_others, abs=0.02)
    said = str(seen[1])
    assert "30 members, 30 non-members, each a person, with 600 records" in said
    assert "here they count as 109 (design effect 5.5)" in said


def test_settings_and_runs_by_person_are_planned_by_person(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = ["p_0,p_1,label,member,who"]
    for person in range(60):
        own = rng.random()
        for _ in range(4):
            p = 0.9 * own + 0.1 * rng.random()
            rows.append(f"{p},{1 - p},{person % 2},{int(person < 30)},{person}")
    (tmp_path / "answers.csv").write_text("\n".join(rows))
    (tmp_path / "audit.toml").write_text(
        'name = "x"\nattacks = [{ name = "threshold" }]\n'
        '[predictions]\nfile = "answers.csv"\ngroup = "who"\n'
    )
    before = divulge.plan_file(tmp_path / "audit.toml")
    assert (before.members, before.nonmembers) == (30, 30)
    assert before.people is not None
    assert (before.people.records, before.people.alike) == (240, None)
    audit_model(tmp_path / "audit.toml", tmp_path / "run")
    after = divulge.plan_file(tmp_path / "run")
    assert (after.members, after.nonmembers) == (30, 30)
    assert after.people is not None
    assert after.people.records == 240
    assert after.people.alike is not None
    assert after.people.alike > 0.9
    assert "each a person, with 240 records" in str(after)


def test_sets_and_pools_are_counted_by_person(tmp_path: Path) -> None:
    for name, people in (("in", 6), ("out", 8)):
        rows = [f"{k}.5,{k % 2},{name}{k // 3}" for k in range(3 * people)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,label,who", *rows]))
    data = '[data]\nmembers = "in.csv"\nnonmembers = "out.csv"\ngroup = "who"\n'
    (tmp_path / "audit.toml").write_text(f'[target]\nmodel = "model.py:model"\n{data}')
    found = divulge.plan_file(tmp_path / "audit.toml")
    assert (found.members, found.nonmembers) == (6, 8)
    assert found.people is not None
    assert found.people.records == 42
    (tmp_path / "out.csv").write_text("x,label,who\n1.0,1,\n2.0,0,b\n")
    with pytest.raises(DivulgeError, match=r"whose each record is in group of out\.csv"):
        divulge.plan_file(tmp_path / "audit.toml")
