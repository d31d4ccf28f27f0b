from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divulge
from divulge.core import Need
from divulge.data import arrow_tables, tables
from divulge.errors import DataError, TargetError
from divulge.targets import predictions

Save = Callable[..., Path]
ROWS: dict[str, list[Any]] = {
    "id": ["a", "b", "c"],
    "p_0": [0.5, 0.25, 0.0],
    "label": [0, 1, 1],
    "p_1": [0.5, 0.75, 1.0],
    "member": ["true", "False", "1"],
}


def _csv(path: Path, rows: dict[str, list[Any]]) -> Path:
    lines = [",".join(f'"{name}"' for name in rows)]
    lines += [",".join(map(str, row)) for row in zip(*rows.values(), strict=True)]
    path = path.with_suffix(".csv")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    return path


def _parquet(path: Path, rows: dict[str, list[Any]]) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path = path.with_suffix(".parquet")
    parquet.write_table(pyarrow.table(rows), path)
    return path


both = pytest.mark.parametrize("save", [_csv, _parquet])


@both
def test_a_table_is_a_target(save: Save, tmp_path: Path) -> None:
    read = predictions.read_predictions(save(tmp_path / "t", ROWS))
    np.testing.assert_array_equal(read.answers, np.column_stack([ROWS["p_0"], ROWS["p_1"]]))
    np.testing.assert_array_equal(read.label, [0, 1, 1])
    np.testing.assert_array_equal(read.member, [True, False, True])
    assert read.target.offers == Need.PROBABILITIES | Need.HARD_LABELS
    for rows in (np.array([2, 0]), np.array([[2.0], [0.0]])):
        np.testing.assert_array_equal(read.target.predict(rows), read.answers[[2, 0]])


@both
@pytest.mark.parametrize("member", [[True, False, True], [1, 0, 1], [1.0, 0.0, 1.0]])
def test_membership_in_any_spelling(save: Save, member: list[Any], tmp_path: Path) -> None:
    read = predictions.read_predictions(save(tmp_path / "t", ROWS | {"member": member}))
    np.testing.assert_array_equal(read.member, [True, False, True])


@both
def test_columns_have_the_names_that_are_given(save: Save, tmp_path: Path) -> None:
    rows = {"score": [-1.0, 0.0, 2.0], "y": [0, 1, 1], "in": [1, 0, 1]}
    path = save(tmp_path / "t", rows)
    read = predictions.read_predictions(
        path, probabilities="*", label="y", member="in", output="logits"
    )
    np.testing.assert_allclose(read.answers[:, 1], 1 / (1 + np.exp([1.0, 0.0, -2.0])))


@both
def test_a_table_of_labels(save: Save, tmp_path: Path) -> None:
    rows = {"p": [0, 2, 1], "label": [0, 1, 1], "member": [1, 0, 1]}
    read = predictions.read_predictions(
        save(tmp_path / "t", rows), probabilities="p", output="labels"
    )
    np.testing.assert_array_equal(read.answers.argmax(axis=1), [0, 2, 1])
    assert read.target.offers == Need.HARD_LABELS


@both
@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("p_0", [0.5, float("nan"), 0.0], "expected a number .* column 'p_0', row 2 .* got nan"),
        ("label", [0, 1, 0.5], "one of 0, 1 .* column 'label', row 3 .* got '0.5'"),
        ("label", [0, -1, 1], "one of 0, 1 .* row 2 .* got '-1'"),
        ("label", [0, 2, 5], "one of 0, 1 .* column 'label', row 2 .* got '2'"),
        ("member", [0, 1, 2], "1 or 0, true or false.* column 'member', row 3 .* got '2'"),
        ("member", ["yes", "val", "no"], "member_value= .* column 'member', row 2 .* got 'val'"),
        ("member", ["a", "b", "a"], "pass member_value='a' or member_value='b'"),
        ("label", ["a", "b", "a"], "one of 0, 1 .* row 1 .* got 'a': pass class_n"),
        ("label", ["0", "b", "1"], "one of 0, 1 .* row 2 .* got 'b': .* pass class_names"),
    ],
)
def test_wrong_cells_are_named(
    save: Save, column: str, values: list[Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        predictions.read_predictions(save(tmp_path / "t", ROWS | {column: values}))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("0.5,0.5,0,1\n0.5,x,0,1\n", "column 'p_1', row 2 .* got 'x'"),
        ("0.5,0.5,0,1\n0.5,0.5,,1\n", "column 'label', row 2 .* got ''"),
        ("0.5,0.5,0,1\n\n0.5,0.5\n", "column 'label', row 2 .* got ''"),
        ("0.5,0.5,0,1\n0.5,0.5,0,maybe\n", "column 'member', got '1', 'maybe': pass member_value"),
        ("", "one row per record"),
    ],
)
def test_wrong_cells_of_csv_are_named(body: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("p_0,p_1,label,member\n" + body)
    with pytest.raises(DataError, match=message):
        predictions.read_predictions(path)


def test_empty_cells_of_parquet_are_named(tmp_path: Path) -> None:
    path = _parquet(tmp_path / "t", ROWS | {"member": [True, None, False]})
    with pytest.raises(DataError, match=r"column 'member', row 2 .* got ''"):
        predictions.read_predictions(path)
    path = _parquet(tmp_path / "t", ROWS | {"label": [0, 1, None]})
    with pytest.raises(DataError, match=r"column 'label', row 3 .* got (''|'nan'|nan)"):
        predictions.read_predictions(path)


@both
@pytest.mark.parametrize("name", ["p_*", "label", "member"])
def test_missing_columns_are_named_with_those_there(save: Save, name: str, tmp_path: Path) -> None:
    rows = {key: value for key, value in ROWS.items() if key[:2] != name[:2]}
    with pytest.raises(DataError, match=r"expected a column '.*' in .*, got id, "):
        predictions.read_predictions(save(tmp_path / "t", rows))


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("p_0,p_0,label,member\n0.5,0.5,0,1\n")
    with pytest.raises(DataError, match=r"one column 'p_0' .* got 2"):
        predictions.read_predictions(path)


def test_logits_are_not_taken_for_probabilities(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match='pass output="logits"'):
        predictions.read_predictions(_csv(tmp_path / "t", ROWS | {"p_0": [3.0, 2.0, -1.0]}))


def test_probabilities_are_not_taken_for_labels(tmp_path: Path) -> None:
    path = _csv(tmp_path / "t", ROWS)
    for pattern in ("p_*", "p_0"):
        with pytest.raises(DataError, match="one column of predicted classes"):
            predictions.read_predictions(path, probabilities=pattern, output="labels")


def test_one_hot_classes_may_be_true_and_false(tmp_path: Path) -> None:
    words = {f"p_{k}": [str(k == place) for place in (2, 0, 1)] for k in range(3)}
    path = _csv(tmp_path / "t", words | {"label": [2, 0, 0], "member": [1, 0, 1]})
    read = predictions.read_predictions(path, output="labels")
    np.testing.assert_array_equal(read.answers.argmax(axis=1), [2, 0, 1])


def test_wide_parquet_is_read_in_parts_of_few_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_tables, "BATCH", 56)  # bytes: two rows of three numbers
    wide = {f"c{k}": [10.0 * row + k for row in range(5)] for k in range(3)}
    path = _parquet(tmp_path / "t", wide)
    batches = arrow_tables.ArrowTable(path, "parquet").batches(list(wide))
    assert [len(part[0]) for part in batches] == [2, 2, 1]
    np.testing.assert_array_equal(
        tables.read_columns(path, list(wide)), np.array(list(wide.values())).T
    )
    path = _parquet(tmp_path / "t", wide | {"c1": ["1", "2", "3", "4", "many"]})
    with pytest.raises(DataError, match="column 'c1', row 5 below the header"):
        tables.read_columns(path, list(wide))


@pytest.mark.parametrize("name", ["t.xlsx", "missing.csv", "missing.parquet"])
def test_what_is_no_table_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected"):
        predictions.read_predictions(tmp_path / name)


@pytest.mark.parametrize(
    "rows", [np.array([3]), np.array([-1]), np.array([0.5]), np.zeros((2, 2)), np.zeros((1, 2))]
)
def test_rows_that_are_not_there_cannot_be_asked_about(rows: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="row numbers from 0 to 2"):
        predictions.read_predictions(_csv(tmp_path / "t", ROWS)).target.predict(rows)


def test_one_column_is_not_read_as_class_and_membership(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("p_0,p_1,label,member\n0.5,0.5,0,1\n")
    with pytest.raises(DataError, match="'member' for both"):
        predictions.read_predictions(path, label="member")


ANIMALS: dict[str, list[Any]] = {
    "p_cat": [0.5, 0.25, 0.0],
    "p_dog": [0.5, 0.75, 1.0],
    "label": ["dog", "cat", "dog"],
}


@both
@pytest.mark.parametrize(
    ("label", "class_names", "expected", "classes"),
    [
        (["dog", "cat", " dog"], (), [1, 0, 1], ("cat", "dog")),
        ([1, 0, 1], (), [1, 0, 1], ("cat", "dog")),
        (["mop", "tom", "mop"], ("tom", "mop"), [1, 0, 1], ("tom", "mop")),
        (["dog", "cat", "dog"], ("tom", "mop"), [1, 0, 1], ("tom", "mop")),
        (["7", "3", "7"], ("3", "7"), [1, 0, 1], ("3", "7")),
    ],
)
def test_labels_are_names_of_columns_or_of_classes(
    save: Save,
    label: list[Any],
    class_names: tuple[str, ...],
    expected: list[int],
    classes: tuple[str, ...],
    tmp_path: Path,
) -> None:
    path = save(tmp_path / "t", ANIMALS | {"label": label, "member": [1, 0, 1]})
    read = predictions.read_predictions(path, class_names=class_names)
    np.testing.assert_array_equal(read.label, expected)
    assert read.classes == classes


@both
def test_one_column_is_class_one_of_two_whatever_it_is_called(save: Save, tmp_path: Path) -> None:
    rows: dict[str, list[Any]] = {"p_1": [0.9, 0.2, 0.7], "label": [1] * 3, "member": [1, 0, 1]}
    read = predictions.read_predictions(save(tmp_path / "t", rows))
    np.testing.assert_array_equal(read.label, [1, 1, 1])
    np.testing.assert_allclose(read.answers[:, 1], rows["p_1"])


@both
def test_numbers_in_the_names_of_columns_are_classes_too(save: Save, tmp_path: Path) -> None:
    rows = {"p_0": [0.5, 0.2], "p_10": [0.2, 0.3], "p_2": [0.3, 0.5]}
    path = save(tmp_path / "t", rows | {"label": [10.0, 2.0], "member": [1, 0]})
    read = predictions.read_predictions(path)
    np.testing.assert_array_equal(read.label, [2, 1])  # in their order, whatever the file has
    np.testing.assert_array_equal(read.answers[0], [0.5, 0.3, 0.2])


@both
@pytest.mark.parametrize(
    ("member", "value", "said"),
    [
        (["train", "Test", "train"], None, "'train' means a member, and 'Test' a"),
        (["out", "in", "in"], None, "'in' means a member, and 'out' a"),
        ([True, False, True], None, "'True' means"),
        (["a", "b", "a"], "b", "'b' means a member, and 'a' a non-member"),
        ([2, 1, 2], "2", "'2' means"),
        (["train", "test", "test"], "test", "'test' means a member"),
    ],
)
def test_two_values_say_who_is_a_member(
    save: Save, member: list[Any], value: str | None, said: str, tmp_path: Path
) -> None:
    path = save(tmp_path / "t", ANIMALS | {"member": member})
    read = predictions.read_predictions(path, member_value=value)
    members = {"train", "in", "True"} if value is None else {value}
    np.testing.assert_array_equal(read.member, [str(cell) in members for cell in member])
    assert said in read.membership


@pytest.mark.parametrize(
    ("member", "value"), [(["a", "b", "c"], "a"), (["a", "b", "b"], "c"), (["a", "", "b"], "a")]
)
def test_a_value_of_members_that_does_not_part_records_in_two(
    member: list[str], value: str, tmp_path: Path
) -> None:
    path = _csv(tmp_path / "t", ANIMALS | {"member": member})
    with pytest.raises(DataError, match="column 'member'"):
        predictions.read_predictions(path, member_value=value)


@both
@pytest.mark.parametrize("class_names", [(), ("dog", "cat", "cow")])
def test_a_table_of_predicted_names(
    save: Save, class_names: tuple[str, ...], tmp_path: Path
) -> None:
    rows = {"said": ["cat", "dog", "dog"], "label": ["cat", "cow", "dog"], "member": [1, 0, 1]}
    path = save(tmp_path / "t", rows)
    read = predictions.read_predictions(
        path, probabilities="said", output="labels", class_names=class_names
    )
    names = class_names or ("cat", "cow", "dog")
    assert read.classes == names
    assert [names[k] for k in read.label] == rows["label"]
    assert [names[k] for k in read.answers.argmax(axis=1)] == rows["said"]
    with pytest.raises(DataError, match=r"one of dog, cat .* row 2 .* got 'cow'"):
        predictions.read_predictions(
            path, probabilities="said", output="labels", class_names=("dog", "cat")
        )


def test_the_page_says_how_labels_and_members_were_read(tmp_path: Path) -> None:
    rows = {name: values * 20 for name, values in ANIMALS.items()}
    path = _csv(tmp_path / "t", rows | {"member": ["train", "test", "train"] * 20})
    found = divulge.audit_predictions(path, attacks=[divulge.attack("gap")])
    said = {check.name: check.text for check in found.checks}
    assert said["labels"] == "Labels by number of class: 'cat' is 0, 'dog' is 1."
    assert said["membership column"].startswith("In column 'member', 'train' means a member")
    assert found.facts.class_names == ("cat", "dog")
