"""Exposed records end to end: ids from every kind of input, the list from Python, old folders."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import divulge
from divulge.core import Records
from divulge.studies.leave_one_out import result
from divulge.testing import forests
from tests.slow import thin

from ..kinds import audit_in_turn, audit_model, load_model

MEMBERS, OTHERS = forests.draw(120, 0), forests.draw(120, 1)
IDS = [f"p_{k:03d}" for k in range(120)]
TREE = DecisionTreeClassifier(random_state=0).fit(MEMBERS.x, MEMBERS.y)
FAST = (divulge.attack("threshold"), divulge.attack("gap"))

SUBJECT = """
import numpy as np
from pathlib import Path
from sklearn.tree import DecisionTreeClassifier
def load(name):
    with np.load(Path(__file__).parent / name) as arrays:
        return arrays["x"], arrays["y"]
members, nonmembers = load("m.npz"), load("n.npz")
ids = [f"p_{k:03d}" for k in range(len(members[1]))]
model = DecisionTreeClassifier(random_state=0).fit(*members)
"""
ATTACKS = '\n[[attacks]]\nname = "threshold"\n[[attacks]]\nname = "gap"\n'


def exposed_csv(run: Path) -> list[dict[str, str]]:
    with (run / "exposed.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def check_ids(run: Path) -> None:
    """Each member's id stands beside its position and its class."""
    table = exposed_csv(run)
    assert len(table) == len(IDS)
    for row in table:
        position = int(row["position"])
        assert row["id"] == IDS[position]
        assert row["class"] == f"class {MEMBERS.y[position]}"


def write(folder: Path, name: str, records: Records, ids: list[str] | None) -> None:
    """Records in a file of the kind that the name says; ids come first, or not at all."""
    names = [f"x{k}" for k in range(records.x.shape[1])]
    if name.endswith(".npz"):
        np.savez(folder / name, x=records.x, y=records.y, user=np.array(ids or []))
        return
    columns: dict[str, list[Any]] = {} if ids is None else {"user": ids}
    columns |= {key: records.x[:, k].tolist() for k, key in enumerate(names)}
    columns |= {"label": records.y.tolist()}
    if name.endswith(".parquet"):
        pyarrow = pytest.importorskip("pyarrow")
        import pyarrow.parquet as parquet

        parquet.write_table(pyarrow.table(columns), folder / name)
        return
    with (folder / name).open("w", newline="") as file:
        csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])


def lay_out(folder: Path, data: str) -> Path:
    write(folder, "m.npz", MEMBERS, IDS)
    write(folder, "n.npz", OTHERS, None)
    (folder / "subject.py").write_text(SUBJECT)
    path = folder / "audit.toml"
    path.write_text(f'[target]\nmodel = "subject.py:model"\n[data]\n{data}{ATTACKS}')
    return path


@pytest.mark.parametrize(
    ("suffix", "others"),
    thin(5, [(s, others) for others in (None, IDS) for s in ("csv", "parquet", "npz")]),
)
def test_ids_come_from_a_column_that_is_no_feature(
    tmp_path: Path, suffix: str, others: list[str] | None
) -> None:
    data = f'members = "a.{suffix}"\nnonmembers = "b.{suffix}"\nid = "user"'
    path = lay_out(tmp_path, data)
    write(tmp_path, f"a.{suffix}", MEMBERS, IDS)
    write(tmp_path, f"b.{suffix}", OTHERS, others)
    found = audit_model(path, tmp_path / "run")
    assert found.findings[0].status is divulge.Status.DONE
    check_ids(tmp_path / "run")


def test_ids_of_records_in_a_python_file_are_named_likewise(tmp_path: Path) -> None:
    data = 'members = "subject.py:members"\nnonmembers = "subject.py:nonmembers"\nid = "{}"'
    audit_model(lay_out(tmp_path, data.format("subject.py:ids")), tmp_path / "run")
    check_ids(tmp_path / "run")
    with pytest.raises(divulge.SpecError, match="user"):
        audit_model(lay_out(tmp_path, data.format("user")), tmp_path / "other")


@pytest.mark.slow
def test_ids_of_a_table_of_answers_may_fit_the_pattern_of_answers(tmp_path: Path) -> None:
    answers = np.concatenate([TREE.predict_proba(MEMBERS.x), TREE.predict_proba(OTHERS.x)])
    labels, table = [*MEMBERS.y, *OTHERS.y], tmp_path / "answers.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["p_id", *(f"p_{k}" for k in range(answers.shape[1])), "label", "member"])
        for k, row in enumerate(answers):
            own = IDS[k] if k < 120 else "other"
            writer.writerow([own, *row, labels[k], int(k < 120)])
    divulge.audit_predictions(table, ids="p_id", attacks=FAST, run=tmp_path / "one")
    assert not (tmp_path / "one" / "answers.sqlite").exists()  # the table holds them
    check_ids(tmp_path / "one")
    settings = tmp_path / "audit.toml"
    settings.write_text(f'[predictions]\nfile = "answers.csv"\nid = "p_id"\n{ATTACKS}')
    audit_model(settings, tmp_path / "two")
    check_ids(tmp_path / "two")
    with pytest.raises(divulge.DataError, match="one column 'nobody'"):
        divulge.audit_predictions(table, probabilities="p_[0-9]", ids="nobody", attacks=FAST)


@pytest.mark.slow
def test_each_target_of_leave_one_out_has_the_ids_of_its_members(tmp_path: Path) -> None:
    path = lay_out(tmp_path, 'members = "m.csv"\nnonmembers = "n.csv"\nid = "user"')
    write(tmp_path, "m.csv", MEMBERS, IDS)
    write(tmp_path, "n.csv", OTHERS, [f"q_{own}" for own in IDS])
    (tmp_path / "trainer.py").write_text("from sklearn.tree import DecisionTreeClassifier\n"
                                         "tree = DecisionTreeClassifier()\n")  # fmt: skip
    in_turn = '[leave_one_out]\nmodels = 3\ntrain = "trainer.py:tree"\n'
    path.write_text(path.read_text().replace('[target]\nmodel = "subject.py:model"\n', in_turn))
    found = audit_in_turn(path, tmp_path / "run")
    both = [*IDS, *(f"q_{own}" for own in IDS)]
    for k, target in enumerate(found.targets):
        target.report()
        table = exposed_csv(result.target_folder(tmp_path / "run", k))
        assert len(table) == int(target.candidates.member.sum())
        assert all(row["id"] == both[int(row["position"])] for row in table)


@pytest.fixture(scope="module")
def found() -> divulge.Audit:
    return divulge.audit(
        TREE, members=MEMBERS, nonmembers=OTHERS, attacks=FAST, options=divulge.Options(ids=IDS)
    )


@pytest.mark.slow
def test_ids_from_python_come_back_after_saving(found: divulge.Audit, tmp_path: Path) -> None:
    run = found.save(tmp_path / "run")
    check_ids(run)
    before = (run / "exposed.csv").read_bytes()
    again = load_model(run)
    assert again.exposed(0.5) == found.exposed(0.5)
    again.report()
    assert (run / "exposed.csv").read_bytes() == before


def test_numbers_are_ids_too() -> None:
    numbered = divulge.audit(
        TREE,
        members=MEMBERS,
        nonmembers=OTHERS,
        attacks=FAST,
        options=divulge.Options(ids=np.arange(120) + 7_000),
    )
    frame = numbered.exposed(0.99)
    assert all(record.id == str(7_000 + record.position) for record in frame)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (IDS[:-1], "expected 120 ids"),
        (["x" * 201] * 120, "at most 200 characters"),
        ("user", "got 0 in str"),
        ([IDS], "got 0 in list"),
    ],
)
def test_ids_that_do_not_fit_are_refused(ids: Any, message: str) -> None:
    with pytest.raises(divulge.DataError, match=message):
        divulge.audit(
            TREE, members=MEMBERS, nonmembers=OTHERS, attacks=FAST, options=divulge.Options(ids=ids)
        )


def test_the_list_agrees_with_the_page_and_grows_with_the_rate(found: divulge.Audit) -> None:
    lists = {each.fdr: each.listed for each in found.summary.exposed.lists}
    assert {fdr: len(found.exposed(fdr)) for fdr in lists} == lists
    assert set(found.exposed(0.1)) <= set(found.exposed(0.5))
    assert len(found.exposed(0.99)) > 0
    for record in found.exposed(0.99):
        assert record.id == IDS[record.position]


@pytest.mark.parametrize("q", [0.0, 1.0, float("nan"), -1.0])
def test_a_rate_that_is_none_is_refused(found: divulge.Audit, q: float) -> None:
    with pytest.raises(divulge.SpecError, match=r"false-discovery rate|a finite number"):
        found.exposed(q)


def test_too_few_non_members_are_said_in_the_place_of_an_empty_list() -> None:
    few = Records(OTHERS.x[:8], OTHERS.y[:8])
    small = divulge.audit(TREE, members=MEMBERS, nonmembers=few, attacks=FAST)
    with pytest.raises(divulge.DataError, match="at least 9 for a list"):
        small.exposed(0.1)


def test_a_frame_of_scores_has_a_row_a_candidate(found: divulge.Audit) -> None:
    pytest.importorskip("pandas")
    frame = found.scores()
    labels = [finding.label for finding in found.findings]
    assert list(frame.columns) == ["member", "position", "id", "label", *labels]
    assert len(frame) == 240
    members = frame[frame["member"]].set_index("position").sort_index()
    assert members["id"].tolist() == IDS
    assert members["label"].tolist() == MEMBERS.y.tolist()
    assert (frame[~frame["member"]]["id"] == "").all()
    for record in found.exposed(0.99):
        assert members.loc[record.position, labels[0]] == record.score


@pytest.mark.slow
def test_a_resumed_audit_writes_the_same_file(tmp_path: Path) -> None:
    data = 'members = "subject.py:members"\nnonmembers = "subject.py:nonmembers"\n'
    path = lay_out(tmp_path, data + 'id = "subject.py:ids"')
    run = tmp_path / "run"
    first = audit_model(path, run)
    whole = (run / "exposed.csv").read_bytes()
    key = first.contents.head.findings[0]
    for name in (f"findings/{key}.json", "exposed.csv"):
        (run / name).unlink()
    audit_model(path, run, resume=True)
    assert (run / "exposed.csv").read_bytes() == whole


@pytest.mark.slow
def test_a_folder_from_before_there_were_ids_is_read(found: divulge.Audit, tmp_path: Path) -> None:
    run = found.save(tmp_path / "run")
    with np.load(run / "candidates.npz") as arrays:
        kept = {name: array for name, array in arrays.items() if name != "ids"}
    np.savez(run / "candidates.npz", **kept)
    (run / "exposed.csv").unlink()
    old = load_model(run)
    old.report()
    assert {row["id"] for row in exposed_csv(run)} == {""}
    assert old.summary == found.summary


@pytest.mark.parametrize("ids", [np.array(["a"]), np.zeros(240)])
def test_damaged_ids_are_said(found: divulge.Audit, tmp_path: Path, ids: np.ndarray) -> None:
    run = found.save(tmp_path / "run")
    with np.load(run / "candidates.npz") as arrays:
        kept = dict(arrays.items())
    np.savez(run / "candidates.npz", **kept | {"ids": ids})
    with pytest.raises(divulge.StoreError, match="damaged"):
        load_model(run)
