"""Copies in a pool from which membership is drawn: one of each counts, under its own position."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.tree import DecisionTreeClassifier

import divulge
from divulge.cli.main import main
from divulge.core import Records
from divulge.studies.compare.result import Comparison
from divulge.studies.leave_one_out import result
from divulge.studies.leave_one_out.result import LeaveOneOut
from divulge.testing import forests
from tests import resealed
from tests.slow import slow

POOL, REFERENCE = forests.draw(160, 0), forests.draw(60, 1)
ATTACKS = tuple(divulge.attack(name) for name in ("calibrated", "threshold", "rmia"))
TREE = DecisionTreeClassifier(min_samples_leaf=2, random_state=0)
GIVEN: dict[str, Any] = {"rotation": divulge.Rotation(3, targets=2), "attacks": ATTACKS}
SAID = (
    "Of the 208 records given, 48 repeat an earlier one, and were set aside before membership was "
    "drawn. Of the 80 reference records, 20 are exact copies of candidates, and were set aside."
)
TRAINED: list[int] = []


def train(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    TRAINED.append(seed)
    return DecisionTreeClassifier(min_samples_leaf=2, random_state=seed).fit(x, y)


def repeated(seed: int = 0) -> tuple[Records, np.ndarray]:
    """The pool with 48 copies of another label strewn in, and where its own records stand there."""
    rng = np.random.default_rng(seed)
    own = np.sort(np.append(rng.choice(np.arange(1, 208), 159, replace=False), 0))
    at = np.cumsum(np.isin(np.arange(208), own)) - 1  # a copy is of the record before it, or
    copy = ~np.isin(np.arange(208), own)
    at[copy] = [rng.integers(0, k + 1) for k in at[copy]]  # of any other one before it
    return Records(POOL.x[at], np.where(copy, (POOL.y[at] + 1) % 3, POOL.y[at])), own


COPIED, OWN = repeated()
KNOWING = REFERENCE.joined(POOL.take(np.arange(20)))
IDS = [f"r{k}" for k in range(208)]


@pytest.fixture(scope="module")
def plain() -> divulge.LeaveOneOut:
    return divulge.leave_one_out(train, records=POOL, reference=REFERENCE, **GIVEN)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> divulge.LeaveOneOut:
    run = tmp_path_factory.mktemp("copies") / "run"
    return divulge.leave_one_out(
        train, records=COPIED, reference=KNOWING, options=divulge.Options(ids=IDS), run=run, **GIVEN
    )


def test_copies_change_nothing_but_positions(
    plain: divulge.LeaveOneOut, found: divulge.LeaveOneOut
) -> None:
    assert found.across == plain.across
    assert found.verdict == plain.verdict
    assert found.facts.records == plain.facts.records == 160
    for one, other in zip(found.targets, plain.targets, strict=True):
        ours, theirs = one.candidates, other.candidates
        np.testing.assert_array_equal(ours.member, theirs.member)
        np.testing.assert_array_equal(ours.label, theirs.label)
        np.testing.assert_array_equal(ours.index, OWN)
        np.testing.assert_array_equal(theirs.index, np.arange(160))
        assert ours.ids is not None
        assert ours.ids.tolist() == [IDS[k] for k in OWN]
        assert one.facts.reference == other.facts.reference == 60
        for mine, its in zip(one.contents.entries, other.contents.entries, strict=True):
            np.testing.assert_array_equal(mine.score, its.score)


@pytest.mark.slow
def test_what_was_set_aside_is_said_everywhere(
    plain: divulge.LeaveOneOut, found: divulge.LeaveOneOut
) -> None:
    assert found.path is not None
    assert SAID in found.table()
    assert SAID in (found.path / "summary.md").read_text()
    told = json.loads((found.path / "run.json").read_text())["facts"]["copies"]
    assert told == {"records": 208, "repeated": 48, "reference": 80, "known": 20, "repeats": 0}
    assert plain.facts.set_aside == ""
    assert "set aside" not in plain.table()
    for target in found.targets:
        (check,) = [one for one in target.checks if one.name == "duplicates"]
        assert (check.verdict, check.text) == ("pass", SAID)
        assert target.path is not None
        assert SAID in target.report().read_text()
        checks = json.loads((target.path / "summary.json").read_text())["checks"]
        assert [one["text"] for one in checks if one["name"] == "duplicates"] == [SAID]


@pytest.mark.slow
def test_members_are_listed_under_the_users_own_positions_and_ids(
    found: divulge.LeaveOneOut,
) -> None:
    for k, target in enumerate(found.targets):
        target.report()
        assert found.path is not None
        with (result.target_folder(found.path, k) / "exposed.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        member = target.candidates.member
        assert sorted(int(row["position"]) for row in rows) == OWN[member].tolist()
        for row in rows:
            position = int(row["position"])
            assert row["id"] == IDS[position]
            assert row["class"] == f"class {COPIED.y[position]}"
        assert {record.position for record in target.exposed(0.99)} <= set(OWN[member].tolist())


def test_a_run_that_is_continued_or_read_says_the_same(found: divulge.LeaveOneOut) -> None:
    assert found.path is not None
    again = LeaveOneOut.load(found.path)
    assert again.head == found.head
    assert again.table() == found.table()
    TRAINED.clear()
    more = divulge.leave_one_out(
        train,
        records=COPIED,
        reference=KNOWING,
        options=divulge.Options(ids=IDS, resume=True),
        run=found.path,
        **GIVEN,
    )
    assert not TRAINED
    assert more.table() == found.table()


@pytest.mark.parametrize("other", [POOL, repeated(1)[0]])
def test_a_run_is_not_continued_with_other_positions(
    found: divulge.LeaveOneOut, other: Records
) -> None:
    """The distinct records are the same, but stand elsewhere."""
    with pytest.raises(divulge.StoreError, match="different ones"):
        divulge.leave_one_out(
            train,
            records=other,
            reference=KNOWING,
            run=found.path,
            options=divulge.Options(resume=True),
            **GIVEN,
        )


@pytest.mark.slow
def test_a_folder_from_before_copies_were_looked_for_is_read(
    found: divulge.LeaveOneOut, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    divulge.leave_one_out(train, records=POOL, run=run, **GIVEN)
    content = json.loads((run / "run.json").read_text())
    del content["facts"]["copies"]
    resealed.write(run / "run.json", content)
    assert LeaveOneOut.load(run).facts.set_aside == ""
    TRAINED.clear()
    divulge.leave_one_out(
        train, records=POOL, run=run, options=divulge.Options(resume=True), **GIVEN
    )
    assert not TRAINED


@pytest.mark.slow
def test_a_comparison_sets_copies_aside_likewise(tmp_path: Path) -> None:
    ways = {"deep": train, "stump": DecisionTreeClassifier(max_depth=1, random_state=0)}
    plain = divulge.compare(ways, records=POOL, reference=REFERENCE, **GIVEN)
    run = tmp_path / "run"
    found = divulge.compare(ways, records=COPIED, reference=KNOWING, run=run, **GIVEN)
    for ours, theirs in zip(found.rows, plain.rows, strict=True):
        assert (ours.accuracy, ours.strongest, ours.level) == (
            theirs.accuracy,
            theirs.strongest,
            theirs.level,
        )
    for one in found.defences:
        for target in one.audits.targets:
            np.testing.assert_array_equal(target.candidates.index, OWN)
    assert SAID in found.table()
    assert "set aside" not in plain.table()
    assert SAID in (run / "report.html").read_text()
    assert json.loads((run / "summary.json").read_text())["set_aside"] == SAID
    assert Comparison.load(run).table() == found.table()
    TRAINED.clear()
    more = divulge.compare(
        ways,
        records=COPIED,
        reference=KNOWING,
        run=run,
        options=divulge.Options(resume=True),
        **GIVEN,
    )
    assert not TRAINED
    assert more.table() == found.table()


@pytest.mark.parametrize("audit", [divulge.leave_one_out, lambda one, **given: divulge.compare(
    {"one": one}, **given)])  # fmt: skip
def test_a_reference_that_is_mostly_the_pool_is_refused(audit: Any) -> None:
    known = REFERENCE.take(np.arange(10)).joined(POOL.take(np.arange(11)))
    with pytest.raises(divulge.DataError, match="got 11 of 21 that are exact copies of records"):
        audit(TREE, records=POOL, reference=known, **GIVEN)


SUBJECT = """
import numpy as np
from sklearn.tree import DecisionTreeClassifier
x = np.random.default_rng(0).normal(size=(100, 4))
x = np.concatenate([x[:60], x[20:50], x[60:]])
y = (x[:, 0] > 0).astype(int)
records, some, rest = (x, y), (x[:60], y[:60]), (x[60:], y[60:])
same = (x[:5], y[:5])
ids = [f"r{k}" for k in range(len(x))]
tree = DecisionTreeClassifier(random_state=0)
fitted = DecisionTreeClassifier(random_state=0).fit(*some)
"""
IN_TURN = """
[leave_one_out]
models = 3
train = "subject.py:tree"
[data]
{data}
[[attacks]]
name = "gap"
"""
COMPARED = """
models = 3
targets = 2
[data]
{data}
[[defences]]
train = "subject.py:tree"
[[attacks]]
name = "gap"
"""


def command(folder: Path, settings: str, *more: str, data: str) -> Any:
    name = "compare" if settings == COMPARED else "audit"
    (folder / "subject.py").write_text(SUBJECT)
    (folder / "settings.toml").write_text(settings.format(data=data))
    return CliRunner().invoke(main, [name, str(folder / "settings.toml"), *more])


BOTH = 'members = "subject.py:some"\nnonmembers = "subject.py:rest"'


@pytest.mark.parametrize(
    ("settings", "data"),
    [
        (IN_TURN, 'records = "subject.py:records"'),
        slow(IN_TURN, BOTH),
        slow(COMPARED, 'records = "subject.py:records"'),
        slow(COMPARED, BOTH),
    ],
)
def test_settings_set_copies_aside_too(tmp_path: Path, settings: str, data: str) -> None:
    run = tmp_path / "run"
    done = command(tmp_path, settings, "--run", str(run), data=data)
    assert done.exit_code == 0, done.output
    said = "Of the 130 records given, 30 repeat an earlier one, and were set aside"
    assert said in " ".join(done.output.split())  # a terminal wraps lines
    inside = [run] if settings == IN_TURN else list((run / "defences").iterdir())
    for folder in inside:
        for target in LeaveOneOut.load(folder).targets:
            index = target.candidates.index.tolist()
            assert index == [*range(60), *range(90, 130)]
    again = command(tmp_path, settings, "--run", str(run), "--resume", data=data)
    assert again.exit_code == 0, again.output
    assert said in " ".join(again.output.split())


def test_ids_in_settings_are_those_of_the_records_kept(tmp_path: Path) -> None:
    data = 'records = "subject.py:records"\nid = "subject.py:ids"'
    done = command(tmp_path, IN_TURN, "--run", str(tmp_path / "run"), data=data)
    assert done.exit_code == 0, done.output
    ids = LeaveOneOut.load(tmp_path / "run").targets[0].candidates.ids
    assert ids is not None
    assert ids.tolist() == [f"r{k}" for k in (*range(60), *range(90, 130))]


@pytest.mark.parametrize("settings", [IN_TURN, COMPARED])
def test_an_estimate_counts_the_records_that_are_used(tmp_path: Path, settings: str) -> None:
    done = command(tmp_path, settings, "--estimate", data='records = "subject.py:records"')
    assert done.exit_code == 0, done.output
    assert "ask each about 100 records" in done.output


def test_an_estimate_of_shadows_counts_the_candidates_that_are_left(tmp_path: Path) -> None:
    """Thirty of 60 members and 70 non-members are copies of each other: 30 and 40 are left."""
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "settings.toml").write_text(
        '[target]\nmodel = "subject.py:fitted"\n[shadows]\nmodels = 3\ntrain = "subject.py:tree"\n'
        f"[data]\n{BOTH}\n"
    )
    done = CliRunner().invoke(main, ["audit", str(tmp_path / "settings.toml"), "--estimate"])
    assert done.exit_code == 0, done.output
    assert "ask each about 70 records" in done.output


@pytest.mark.parametrize("settings", [IN_TURN, COMPARED])
def test_settings_with_a_reference_that_is_the_pool_are_refused(
    tmp_path: Path, settings: str
) -> None:
    data = 'records = "subject.py:records"\nreference = "subject.py:same"'
    done = command(tmp_path, settings, data=data)
    assert done.exit_code == 2
    assert "got 5 of 5 that are exact copies of records" in done.output
    assert not (tmp_path / "runs").exists()
