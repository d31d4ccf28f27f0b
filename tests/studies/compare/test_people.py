"""Comparisons by person: the same halves of the people for every way to train."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import divulge
from divulge.studies.compare.result import Comparison
from tests.audits.test_people import Crowd

CROWD = Crowd(0, 40, 3, unequal=True)
WAYS = {
    "deep": DecisionTreeClassifier(min_samples_leaf=2),
    "stump": DecisionTreeClassifier(max_depth=1),
}


@pytest.mark.slow
def test_all_ways_to_train_get_whole_people_the_same_halves(tmp_path: Path) -> None:
    found = divulge.compare(
        WAYS,
        records=CROWD.pair,
        groups=CROWD.names("Secret"),
        attacks=[divulge.attack("threshold"), divulge.attack("calibrated")],
        rotation=divulge.Rotation(4, targets=3),
        options=divulge.Options(person_scores=("mean",)),
        run=tmp_path / "run",
    )
    first = np.unique(CROWD.person, return_index=True)[1]
    members = []
    for one in found.defences:
        assert one.audits.facts.people == 40
        assert list(one.audits.across) == [
            "threshold(signal=loss, person=mean)", "calibrated(person=mean)"
        ]  # fmt: skip
        members.append([audit.candidates.member for audit in one.audits.targets])
        for audit in one.audits.targets:
            np.testing.assert_array_equal(audit.candidates.index, first)
    np.testing.assert_array_equal(members[0], members[1])
    assert "leak whose records they were trained on" in found.headline
    assert f"{len(CROWD.person)} records of 40 people" in found.table()
    assert "auc" in found.rows[1].less
    for path in (tmp_path / "run").rglob("*"):
        assert not path.is_file() or b"Secret" not in path.read_bytes(), path
    assert Comparison.load(tmp_path / "run").rows == found.rows


SUBJECT = """
from sklearn.tree import DecisionTreeClassifier

def train(x, y, seed):
    return DecisionTreeClassifier(min_samples_leaf=2, random_state=seed).fit(x, y)
"""


def test_settings_of_a_comparison_name_the_column_of_people(tmp_path: Path) -> None:
    (tmp_path / "subject.py").write_text(SUBJECT)
    np.savez(tmp_path / "all.npz", x=CROWD.x, y=CROWD.y, patient=CROWD.person)
    (tmp_path / "compare.toml").write_text(
        'models = 3\ntargets = 2\n[data]\nrecords = "all.npz"\ngroup = "patient"\n'
        'person_scores = ["max"]\n[[defences]]\ntrain = "subject.py:train"\n'
        '[[attacks]]\nname = "calibrated"\n'
    )
    found = divulge.compare_file(tmp_path / "compare.toml", tmp_path / "run")
    (one,) = found.defences
    assert one.audits.facts.people == 40
    assert list(one.audits.across) == ["calibrated(person=max)"]
