"""Exposure by stratum in an audit, which names no small stratum and tells the size of none."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import divulge
from divulge.audits.strata import merge_small_strata
from divulge.core import Candidates
from divulge.errors import DataError
from divulge.report.strata import figures_by_unit


def candidates(sizes: Sequence[tuple[int, int]]) -> Candidates:
    stratum = np.repeat(np.arange(len(sizes)), [sum(each) for each in sizes])
    member = np.concatenate([np.arange(a + b) < a for a, b in sizes])
    nothing = np.zeros(len(member), np.int64)
    return Candidates(member, nothing, np.arange(len(member)), subpopulation=stratum)


def merge(sizes: Sequence[tuple[int, int]], smallest: int = 10) -> tuple[tuple[str, ...], int]:
    names = tuple(f"s{each}" for each in range(len(sizes)))
    _, facts = merge_small_strata(candidates(sizes), names, smallest)
    assert facts is not None
    return facts.names, facts.merged


@pytest.mark.parametrize(
    ("sizes", "names", "merged"),
    [
        ([(50, 50), (10, 10)], ("s0", "s1"), 0),
        # one small stratum: the smallest other one goes with it
        ([(50, 50), (20, 20), (9, 50)], ("s0",), 2),
        # two small ones that together are large enough
        ([(50, 50), (20, 20), (9, 9), (3, 3)], ("s0", "s1"), 2),
        # two that are not
        ([(50, 50), (20, 20), (4, 9), (3, 3)], ("s0",), 3),
        ([(50, 50), (3, 3)], (), 2),
        ([(5, 5), (3, 3)], (), 2),
        ([(5, 5)], (), 1),
        ([(50, 50)], ("s0",), 0),
        # strata of nobody, such as those of reference records alone, are none
        ([(50, 50), (0, 0)], ("s0",), 0),
        ([(50, 50), (1, 0)], (), 2),
    ],
)
def test_small_strata_are_merged(
    sizes: Sequence[tuple[int, int]], names: tuple[str, ...], merged: int
) -> None:
    assert merge(sizes) == (names, merged)


@pytest.mark.parametrize("seed", range(30))
def test_no_size_of_a_small_stratum_follows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [tuple(each) for each in rng.geometric(0.05, (int(rng.integers(1, 9)), 2)).tolist()]
    names = tuple(f"s{each}" for each in range(len(sizes)))
    given = candidates(sizes)
    found, facts = merge_small_strata(given, names, 10)
    assert facts is not None
    assert found.subpopulation is not None
    assert all(min(sizes[int(name[1:])]) >= 10 for name in facts.names)
    assert len(facts.names) + facts.merged == len(sizes)
    rest = found.subpopulation == len(facts.names)
    if facts.names and facts.merged:
        assert facts.merged >= 2
        assert min(np.sum(rest & found.member), np.sum(rest & ~found.member)) >= 10
    for number, name in enumerate(facts.names):
        np.testing.assert_array_equal(
            found.subpopulation == number, given.subpopulation == int(name[1:])
        )


def table(path: Path, sizes: dict[str, int], worst: str = "", **columns: Any) -> Path:
    """A table of losses: so many members, and as many non-members, of each stratum."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["loss", "member", "site", *columns])
        row = 0
        for name, count in sizes.items():
            for member in (1, 0):
                for _ in range(count):
                    lower = member * (3.0 if name == worst else 0.3)
                    further = [values[row] for values in columns.values()]
                    writer.writerow([rng.normal() - lower, member, name, *further])
                    row += 1
    return path


def shown(path: Path, run: Path, **settings: Any) -> dict[str, Any]:
    divulge.audit_predictions(path, loss="loss", strata="site", run=run, **settings)
    found: dict[str, Any] = json.loads((run / "summary.json").read_text())["strata"]
    return found


def test_names_of_small_strata_reach_no_file_and_no_number_tells_them_apart(tmp_path: Path) -> None:
    sizes = {"North": 80, "South": 60, "West": 40, "QuokkaRare": 4, "QuokkaOdd": 3}
    where = tmp_path / "run"
    found = shown(table(tmp_path / "losses.csv", sizes, worst="South"), where)
    for path in where.rglob("*"):
        assert not path.is_file() or b"Quokka" not in path.read_bytes(), path
    assert found["merged"] == 3
    assert {row["name"] for row in found["rows"]} == {"North", "South", "3 strata together"}
    (merged,) = (row for row in found["rows"] if row["name"] == "3 strata together")
    assert merged["members"] == merged["nonmembers"] == 47
    with np.load(where / "candidates.npz") as arrays:
        assert np.bincount(arrays["subpopulation"]).tolist() == [160, 120, 94]
    assert found["worst"] == "South"
    assert found["p_value"] <= 0.05
    assert "Hit hardest: South, AUC" in found["sentence"]
    page = (where / "report.html").read_text()
    assert 'id="figure-strata"' in page
    assert "3 strata together" in page
    assert "**By stratum:** Exposure differs" in (where / "summary.md").read_text()
    again = divulge.load(where)
    assert isinstance(again, divulge.Audit)
    assert again.summary.strata is not None
    assert again.summary.strata.sentence == found["sentence"]


@pytest.mark.parametrize(
    ("sizes", "rows", "sentence"),
    [
        ({"A": 60}, 1, "Strata were not compared: fewer than two"),
        ({"A": 60, "": 60}, 2, "between strata"),
        ({f"s{k}": 6 for k in range(9)}, 0, "9 strata are not shown: with fewer than 10 members"),
        ({f"s{k:02}": 10 for k in range(50)}, 50, "between strata"),
    ],
)
def test_one_stratum_all_small_ones_missing_values_and_fifty(
    tmp_path: Path, sizes: dict[str, int], rows: int, sentence: str
) -> None:
    found = shown(table(tmp_path / "losses.csv", sizes), tmp_path / "run")
    assert len(found["rows"]) == rows
    assert sentence in found["sentence"]
    assert ("" in sizes) == any(row["name"] == "not given" for row in found["rows"])
    drawn = (tmp_path / "run" / "figures" / "strata.svg").exists()
    assert drawn == bool(rows)


@pytest.mark.slow
def test_the_threshold_is_set(tmp_path: Path) -> None:
    path = table(tmp_path / "losses.csv", {"A": 60, "B": 30, "C": 25})
    found = shown(path, tmp_path / "run", options=divulge.Options(smallest_stratum=28))
    assert {row["name"] for row in found["rows"]} == {"A", "2 strata together"}
    assert found["smallest"] == 28


def test_people_have_strata_and_figures_by_person_and_by_record(tmp_path: Path) -> None:
    who = [f"p{k // 3}" for k in range(4 * 90)]
    path = table(tmp_path / "losses.csv", {"A": 90, "B": 90}, who=who)
    found = divulge.audit_predictions(path, loss="loss", strata="site", group="who")
    strata, units = found.summary.strata, found.summary.units
    assert strata is not None
    assert [(row.members, row.nonmembers) for row in strata.rows] == [(30, 30), (30, 30)]
    assert units is not None
    row = next(one for one in found.summary.attacks if one.label == found.verdict.attack)
    assert units.auc_by_person == row.metrics["auc"]
    assert units.auc_by_record == row.metrics["record_auc"]
    assert units.most == 3
    assert "AUC by record" in found.report(tmp_path / "page").read_text()


def test_epsilon_by_record_is_that_by_person_over_the_most_records(tmp_path: Path) -> None:
    who = [f"p{k // 2}" for k in range(2 * 200)]
    path = table(tmp_path / "losses.csv", {"A": 200}, worst="A", who=who)
    options = divulge.Options(membership="coins", person_scores=("mean",))
    found = divulge.audit_predictions(path, loss="loss", group="who", options=options)
    rows = found.summary.attacks
    epsilon = rows[0].metrics["epsilon"].low
    assert epsilon > 0
    units = figures_by_unit(found.verdict, rows, found.facts)
    assert units is not None
    assert units.epsilon_by_person == epsilon / 2
    assert units.epsilon_by_record == epsilon / 4
    other = divulge.Options(membership="coins", person_scores=("mean",), delta=1e-3)
    derived = divulge.audit_predictions(path, loss="loss", group="who", options=other).summary.units
    assert derived is not None
    assert derived.epsilon_by_record is None  # group privacy needs more where δ is above 0


def test_regression_models_have_strata() -> None:
    rng = np.random.default_rng(0)
    x, site = rng.normal(size=(160, 4)), np.tile(["A", "B"], 80)
    y = x[:, 0] + rng.normal(size=160)
    model = RandomForestRegressor(5, random_state=0).fit(x[:80], y[:80])
    found = divulge.audit(
        model,
        members=(x[:80], y[:80]),
        nonmembers=(x[80:], y[80:]),
        strata=(site[:80], site[80:]),
        attacks=[divulge.attack("residual")],
    )
    assert found.summary.strata is not None
    assert [row.members for row in found.summary.strata.rows] == [40, 40]


def test_strata_of_some_records_alone_are_refused() -> None:
    given = candidates([(20, 20)])
    bare = Candidates(given.member, given.label, given.index)
    assert merge_small_strata(given, (), 10)[0].subpopulation is None
    with pytest.raises(DataError, match="strata for members and nonmembers, got them for one"):
        merge_small_strata(bare, ("A",), 10)
