import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest

import divulge
from divulge.errors import SpecError
from divulge.studies.planning import SHADOWS
from tests.kinds import audit_model


def test_sizes_are_answered_with_what_they_show() -> None:
    found = divulge.plan(members=200, nonmembers=200)
    assert found.auc is not None
    assert 0.55 < found.auc < 0.65
    assert "200 members, 200 non-members" in str(found)
    assert "With 80 % power" in str(found)


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
    assert divulge.plan_file(tmp_path / "run") == before
    assert found.verdict.tested == 1
    assert dataclasses.asdict(divulge.plan_file(tmp_path / "run", power=0.9))["power"] == 0.9
