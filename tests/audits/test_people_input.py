"""Bad input about whose each record is: a clear error, or the right figure."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import divulge
from divulge.errors import DataError
from divulge.metrics import people
from divulge.metrics.membership import auc

ATTACKS = (divulge.attack("threshold"),)
MEAN = divulge.Options(person_scores=("mean",))


class Sets:
    """A model with members and non-members: 20 people each, of 3 records."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.x = {name: rng.normal(size=(60, 4)) for name in ("in", "out", "reference")}
        self.y = {name: (x[:, 0] > 0).astype(int) for name, x in self.x.items()}
        self.who = {
            name: [f"{name}{k // 3}" for k in range(60)] for name in ("in", "out", "reference")
        }
        self.model = DecisionTreeClassifier(random_state=0).fit(self.x["in"], self.y["in"])

    def audit(self, **settings: Any) -> divulge.Audit:
        given = {
            "members": (self.x["in"], self.y["in"]),
            "nonmembers": (self.x["out"], self.y["out"]),
            "groups": (self.who["in"], self.who["out"]),
            "attacks": ATTACKS,
        }
        return divulge.audit(self.model, **(given | settings))


@pytest.mark.parametrize("missing", [np.nan, None, "", pd.NA, pd.NaT])
def test_records_of_nobody_are_counted_and_refused(missing: Any) -> None:
    sets = Sets()
    sets.who["out"][7] = sets.who["out"][9] = missing
    with pytest.raises(DataError, match=r"for 2 records, the first at index 7: drop"):
        sets.audit()


def test_values_of_another_number_than_records_are_refused() -> None:
    sets = Sets()
    with pytest.raises(DataError, match="expected 60 values in groups of members, one a record"):
        sets.audit(groups=(sets.who["in"][:-1], sets.who["out"]))
    with pytest.raises(DataError, match="expected 60 values in groups of nonmembers"):
        sets.audit(groups=(sets.who["in"], [[name] for name in sets.who["out"]]))


@pytest.mark.parametrize("place", ["in", "out"])
def test_a_set_of_one_person_is_refused(place: str) -> None:
    sets = Sets()
    sets.who[place] = ["the same"] * 60
    with pytest.raises(DataError, match=r"at least 2 people in .*, got those of 1"):
        sets.audit()


def test_classes_are_not_people() -> None:
    sets = Sets()
    with pytest.raises(DataError, match="says the same as the labels"):
        sets.audit(groups=(sets.y["in"], sets.y["out"]))


def test_a_column_that_one_set_lacks_is_named_with_the_set() -> None:
    sets = Sets()
    frames = [pd.DataFrame(sets.x[name], columns=list("abcd")) for name in ("in", "out")]
    with pytest.raises(DataError, match="expected a column 'who' in nonmembers"):
        sets.audit(
            members=(frames[0].assign(who=sets.who["in"]), sets.y["in"]),
            nonmembers=(frames[1], sets.y["out"]),
            groups="who",
        )


def test_a_person_among_members_and_reference_records_is_refused() -> None:
    sets = Sets()
    sets.who["reference"][30] = sets.who["in"][0]
    reference = sets.x["reference"], sets.y["reference"]
    with pytest.raises(DataError, match="got 1 of 20 people of members among reference as well"):
        sets.audit(
            reference=reference,
            groups=(sets.who["in"], sets.who["out"], sets.who["reference"]),
        )


def test_equal_records_of_two_members_stay_with_each_of_them() -> None:
    sets = Sets()
    sets.x["in"][3] = sets.x["in"][0]
    sets.y["in"][3] = sets.y["in"][0]
    sets.model.fit(sets.x["in"], sets.y["in"])
    found = sets.audit(options=MEAN)
    assert found.sizes["members"] == found.sizes["nonmembers"] == 20
    assert found.candidates.person is not None
    by_record = found.contents.entries[0].arrays["by_record"]
    expected = people.combine(by_record, found.candidates.person, "mean")
    assert found.findings[0].metrics["auc"] == auc(expected, found.candidates.member)


def write_losses(path: Path, sizes: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A table of people with so many rows, each other person a member, whose losses are lower."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(len(sizes)), sizes)
    member = person % 2 == 0
    loss = rng.normal(5, 0.5, len(sizes))[person] + rng.normal(size=len(person)) - 0.2 * member
    frame = pd.DataFrame({"loss": loss.round(6), "member": member.astype(int), "who": person})
    frame.to_csv(path, index=False)
    return frame["loss"].to_numpy(), member, person


def check_losses(path: Path, sizes: list[int]) -> None:
    loss, member, person = write_losses(path, sizes)
    found = divulge.audit_predictions(path, loss="loss", group="who", options=MEAN)
    assert found.sizes["members"] == -(-len(sizes) // 2)
    assert found.sizes["nonmembers"] == len(sizes) // 2
    metrics = found.findings[0].metrics
    expected = auc(people.combine(-loss, person, "mean"), np.arange(len(sizes)) % 2 == 0)
    assert metrics["auc"].value == pytest.approx(expected.value, abs=1e-12)
    # every interval is that of people: of the records it would be far narrower
    assert metrics["auc"].low == pytest.approx(expected.low, abs=1e-12)
    by_record = people.record_auc(-loss, person, member)
    assert metrics["record_auc"].value == pytest.approx(by_record.value, abs=1e-12)
    assert metrics["record_auc"].low == pytest.approx(by_record.low, abs=1e-12)


def test_people_with_thousands_of_records_count_as_one_each(tmp_path: Path) -> None:
    check_losses(tmp_path / "losses.csv", [2_000, 1, 3_000, 5, 1_000, 1_500] * 2)


@pytest.mark.slow
def test_a_million_people_are_audited_with_the_right_figures(tmp_path: Path) -> None:
    check_losses(tmp_path / "losses.csv", [1] * 900_000 + [3] * 100_000)
