"""The search for a model under a ceiling, by person: no person is known to the search and fresh."""

from pathlib import Path

import numpy as np
import pytest

import divulge
from divulge.attacks import catalog
from divulge.core import Records
from divulge.errors import DataError
from divulge.studies.harden import final
from divulge.training import Recipe

from ...defences import trained_table

pytest.importorskip("optuna")

RECORDS = trained_table.draw(240, 0)
PERSON = np.arange(240) // 3
GROUPED = Records(RECORDS.x, RECORDS.y, group=PERSON)


def test_the_search_the_fresh_records_and_the_members_are_of_whole_people() -> None:
    searched, fresh = final.split_records(GROUPED, 0.4, 7)
    assert sorted([*searched, *fresh]) == list(range(240))
    assert not set(PERSON[searched]) & set(PERSON[fresh])
    assert len(set(PERSON[fresh])) == 32
    untouched = GROUPED.take(fresh)
    member = final.draw_members(untouched, 0)
    assert untouched.people is not None
    assert not set(untouched.people[member]) & set(untouched.people[~member])
    assert 0 < member.sum() < len(member)
    with pytest.raises(DataError, match="got 79 and 1"):
        final.split_records(GROUPED, 0.01, 7)


def test_the_final_audit_is_of_fresh_people(tmp_path: Path) -> None:
    found = divulge.harden(
        Recipe(trained_table.network, "adam", lr=0.02, epochs=8, batch_size=16),
        records=RECORDS,
        groups=PERSON,
        ceiling={"auc": 0.9},
        attacks=(catalog.attack("threshold"), catalog.attack("calibrated")),
        search=divulge.SearchSettings(("label-smoothing",), budget=9, models=3, shadows=2),
        run=tmp_path / "run",
        options=divulge.Options(person_scores=("mean",)),
    )
    facts = found.audit.facts
    assert facts.people is not None
    assert facts.members + facts.nonmembers == 40
    assert facts.people.members + facts.people.nonmembers == found.facts.fresh == 120
    assert [one.settings["person"] for one in found.audit.findings] == ["mean", "mean"]
    assert found.trials[0].leaks["auc"].attack.endswith("person=mean)")
