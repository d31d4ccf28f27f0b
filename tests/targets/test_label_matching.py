"""Labels and columns of a table as people name them: the figures of an independent computation,
or a refusal whose advice gives them."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import divulge
from divulge.errors import DataError
from divulge.targets import label_columns
from divulge.targets.column_names import ColumnNames
from divulge.targets.predictions import PredictionTable, read_predictions

N = 240
RNG = np.random.default_rng(0)
MEMBER = np.arange(N) < N // 2


def answers(classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and the number of the true class, for which members get more."""
    rng = np.random.default_rng(classes)
    y = rng.integers(0, classes, N)
    y[:classes] = np.arange(classes)
    logits = rng.normal(size=(N, classes))
    logits[np.arange(N), y] += 1 + 2 * MEMBER
    weights = np.exp(logits)
    return weights / weights.sum(axis=1, keepdims=True), y


def save(path: Path, columns: dict[str, Any]) -> Path:
    def cell(value: Any) -> str:
        return repr(float(value)) if isinstance(value, np.floating) else str(value)

    rows = zip(*columns.values(), strict=True)
    lines = [",".join(map(cell, row)) for row in rows]
    path.write_text("\n".join([",".join(columns), *lines]) + "\n")
    return path


def save_classes(
    path: Path, names: Sequence[str], labels: Sequence[Any], order: Sequence[int] | None = None
) -> tuple[Path, float]:
    """A table of so many classes, and the AUC of the true class's probability.

    Args:
        path: the file.
        names: the columns, by class.
        labels: what the classes are called in the column of labels.
        order: of the columns in the file.
    """
    p, y = answers(len(names))
    chosen = range(len(names)) if order is None else order
    columns: dict[str, Any] = {names[k]: p[:, k] for k in chosen}
    columns |= {"label": [labels[k] for k in y], "member": MEMBER.astype(int)}
    return save(path, columns), float(roc_auc_score(MEMBER, p[np.arange(N), y]))


def auc(table: PredictionTable) -> float:
    true = table.answers[np.arange(N), table.label]
    return float(roc_auc_score(table.member, true))


def numbers(form: Callable[[int], str], classes: int) -> list[str]:
    return [form(k) for k in range(classes)]


TWELVE: dict[str, tuple[list[str], list[Any], str]] = {
    "brackets": (numbers("p_{}".format, 12), list(range(12)), "p_[0-9]*"),
    "no separator in the pattern": (numbers("p_{}".format, 12), list(range(12)), "p*"),
    "a star alone": (numbers("p_{}".format, 12), list(range(12)), "*_*"),
    "two digits": (numbers("p_{:02}".format, 12), list(range(12)), "p_*"),
    "columns as floats": (numbers("p_{}.0".format, 12), list(range(12)), "p_*"),
    "labels as floats": (numbers("p_{}".format, 12), numbers("{}.0".format, 12), "p_*"),
    "labels in quotes": (numbers("p_{}".format, 12), numbers('"{}"'.format, 12), "p_*"),
    "labels with zeros": (numbers("p_{}".format, 12), numbers("{:03}".format, 12), "p_*"),
    "no separator": (numbers("p{}".format, 12), list(range(12)), "p*"),
    "from one": (numbers(lambda k: f"p_{k + 1}", 12), list(range(1, 13)), "p_*"),
    "behind": (numbers("{}_prob".format, 12), list(range(12)), "*_prob"),
    "words around": (numbers("prob class {} x".format, 12), list(range(12)), "prob*x"),
    "texts": ([f"p_{c}" for c in "lkjihgfedcba"], list("lkjihgfedcba"), "p_[a-z]"),
    "numbered texts": (numbers("p_c{}".format, 12), numbers("c{}".format, 12), "p_*"),
    "shared letters": (numbers("p_cat {}".format, 12), numbers("cat {}".format, 12), "p_*"),
    "shared word, plain labels": (numbers("p_cat {}".format, 12), list(range(12)), "p_*"),
    "negative": (numbers(lambda k: f"p_{k - 6}", 12), [k - 6 for k in range(12)], "p_*"),
}


@pytest.mark.parametrize("order", ["given", "text", "shuffled"])
@pytest.mark.parametrize("case", TWELVE)
def test_labels_find_their_columns_by_name_in_any_order(
    case: str, order: str, tmp_path: Path
) -> None:
    names, labels, pattern = TWELVE[case]
    orders = {
        "given": range(12),
        "text": sorted(range(12), key=names.__getitem__),
        "shuffled": np.random.default_rng(1).permutation(12).tolist(),
    }
    path, expected = save_classes(tmp_path / "t.csv", names, labels, orders[order])
    assert auc(read_predictions(path, probabilities=pattern)) == pytest.approx(expected, abs=1e-12)


TWO: dict[str, tuple[list[str], list[Any], str]] = {
    "brackets": (["p_0", "p_1"], [0, 1], "p_[01]"),
    "a question mark": (["p_0", "p_1"], [0, 1], "p_?"),
    "words of truth": (["p_false", "p_true"], ["False", "True"], "p_*"),
    "capitals": (["p_FALSE", "p_TRUE"], ["false", "true"], "p_*"),
    "words beside numbers": (["p_0", "p_1"], ["FALSE", "TRUE"], "p_*"),
    "numbers beside words": (["p_False", "p_True"], [0, 1], "p_*"),
    "floats beside words": (["p_False", "p_True"], ["0.0", "1.0"], "p_*"),
    "signs": (["p_-1", "p_1"], [-1, 1], "p_*"),
    "texts": (["p_no", "p_yes"], ["no", "yes"], "p_*"),
    "sorted texts, numbers": (["p_no", "p_yes"], [0, 1], "p_*"),
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("case", TWO)
def test_two_columns(case: str, turned: bool, tmp_path: Path) -> None:
    names, labels, pattern = TWO[case]
    if turned and case == "sorted texts, numbers":
        pytest.skip("nobody could know")
    path, expected = save_classes(tmp_path / "t.csv", names, labels, [1, 0] if turned else [0, 1])
    assert auc(read_predictions(path, probabilities=pattern)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("output", ["probabilities", "logits"])
@pytest.mark.parametrize(
    ("column", "about", "labels", "pattern"),
    [
        ("p_1", 1, [0, 1], "p_*"),
        ("p_0", 0, [0, 1], "p_*"),
        ("p_0", 0, [0, 1], "p_0"),
        ("p_0", 0, ["0.0", "1.0"], "p_*"),
        ("p_false", 0, ["False", "True"], "p_*"),
        ("p_FALSE", 0, [0, 1], "p_*"),
        ("p_true", 1, ["FALSE", "TRUE"], "p_*"),
        ("prob.class.0", 0, [0, 1], "prob.class.0"),
        ("p_bad", 1, [0, 1], "p_*"),
        ("score", 1, [0, 1], "score"),
        ("model_0", 1, [0, 1], "model_0"),
    ],
)
def test_the_only_column_is_about_the_class_that_its_name_says(
    column: str, about: int, labels: list[Any], pattern: str, output: Any, tmp_path: Path
) -> None:
    p, y = answers(2)
    said = p[:, about] if output == "probabilities" else np.log(p[:, about] / p[:, 1 - about])
    rows = {column: said, "label": [labels[k] for k in y], "member": MEMBER.astype(int)}
    path = save(tmp_path / "t.csv", rows)
    expected = roc_auc_score(MEMBER, p[np.arange(N), y])
    read = read_predictions(path, probabilities=pattern, output=output)
    assert auc(read) == pytest.approx(expected, abs=1e-12)
    assert ("about class 0" in read.matching) is (about == 0)


def advised(error: pytest.ExceptionInfo[DataError]) -> tuple[str, ...]:
    """The first list of class names in a message."""
    found = re.search(r"class_names = (\[[^\]]*\])", str(error.value))
    assert found, str(error.value)
    return tuple(json.loads(found[1]))


REFUSED: dict[str, tuple[list[str], list[Any]]] = {
    "columns from one, labels from zero": (numbers(lambda k: f"p_{k + 1}", 12), list(range(12))),
    "labels from one, columns from zero": (numbers("p_{}".format, 12), list(range(1, 13))),
    "numbers that are no positions": (["p_10", "p_20", "p_30"], [0, 1, 2]),
    "such numbers behind a word": (["p_c10", "p_c20", "p_c30"], [0, 1, 2]),
    "texts that are not sorted": (["p_dog", "p_cat", "p_cow"], [0, 1, 2]),
    "texts, and labels from one": (["p_a", "p_b", "p_c"], [1, 2, 3]),
    "signs beside zero and one": (["p_0", "p_1"], [-1, 1]),
    "other numbers": (["p_0", "p_1", "p_2"], [10, 20, 30]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_labels_that_contradict_the_columns_are_refused_with_advice_that_works(
    case: str, tmp_path: Path
) -> None:
    names, labels = REFUSED[case]
    path, expected = save_classes(tmp_path / "t.csv", names, labels)
    with pytest.raises(DataError, match="column 'label'") as error:
        read_predictions(path)
    read = read_predictions(path, class_names=advised(error))
    assert auc(read) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        ("p_malignant", ["benign", "malignant"]),
        ("p_1", [-1, 1]),
        ("p_2", [1, 2]),
        ("p_1", [2, 1]),
        ("p_true", ["no", "true"]),
    ],
)
def test_the_other_class_of_the_only_column_is_asked_for(
    column: str, labels: list[Any], tmp_path: Path
) -> None:
    p, y = answers(2)
    rows = {column: p[:, 1], "label": [labels[k] for k in y], "member": MEMBER.astype(int)}
    path = save(tmp_path / "t.csv", rows)
    with pytest.raises(DataError, match="the only column") as error:
        read_predictions(path)
    expected = roc_auc_score(MEMBER, p[np.arange(N), y])
    for names in (advised(error), advised(error)[::-1]):  # the column's name says which it is
        read = read_predictions(path, class_names=names)
        assert auc(read) == pytest.approx(expected, abs=1e-12)


def test_texts_of_which_the_columns_say_nothing_are_taken_from_class_names(tmp_path: Path) -> None:
    path, expected = save_classes(tmp_path / "t.csv", ["p_0", "p_1", "p_2"], ["tom", "mop", "pip"])
    with pytest.raises(DataError, match=r"got 'tom'.*pass class_names"):
        read_predictions(path)
    read = read_predictions(path, class_names=("tom", "mop", "pip"))
    assert auc(read) == pytest.approx(expected, abs=1e-12)


def test_names_of_columns_in_another_order_say_what_class_numbers_mean(tmp_path: Path) -> None:
    names = ["p_dog", "p_cat", "p_cow"]
    path, expected = save_classes(tmp_path / "t.csv", names, [1, 0, 2])
    read = read_predictions(path, class_names=("cat", "dog", "cow"))
    assert auc(read) == pytest.approx(expected, abs=1e-12)
    assert read.classes == ("dog", "cat", "cow")
    assert "'dog' is 0" in read.matching


def test_letters_may_be_composed_otherwise_than_in_the_header(tmp_path: Path) -> None:
    names = ["p_caf\u00e9", "p_the\u0301", "p_eau"]
    path, expected = save_classes(tmp_path / "t.csv", names, ["cafe\u0301", "th\u00e9", "eau"])
    assert auc(read_predictions(path)) == pytest.approx(expected, abs=1e-12)


def test_two_classes_of_one_name_are_refused(tmp_path: Path) -> None:
    path, _ = save_classes(tmp_path / "t.csv", ["p_0", "p_1", "p_2"], ["tom", "tom", "pip"])
    with pytest.raises(DataError, match=r"its own for each class.* got 'tom' twice"):
        read_predictions(path, class_names=("tom", "tom", "pip"))


def test_case_and_spelling_are_not_guessed_but_named(tmp_path: Path) -> None:
    names = ["p_class 0", "p_class 1", "p_class 2"]
    path, _ = save_classes(tmp_path / "t.csv", names, ["Class 0", "Class 1", "Class 2"])
    with pytest.raises(DataError, match=r"got 'Class \d' \(there is 'class \d'\)"):
        read_predictions(path)


def test_a_class_that_only_some_records_have_gets_probability_zero_if_it_is_named(
    tmp_path: Path,
) -> None:
    p, y = answers(3)
    labels = np.array(list("abc"))[y]
    labels[-20:] = "d"
    rows = {f"p_{name}": p[:, k] for k, name in enumerate("abc")}
    path = save(tmp_path / "t.csv", rows | {"label": labels, "member": MEMBER.astype(int)})
    with pytest.raises(DataError, match="leave its records out") as error:
        read_predictions(path)
    assert advised(error) == tuple("abcd")
    read = read_predictions(path, class_names=advised(error))
    true = np.where(labels == "d", 0, p[np.arange(N), y])
    np.testing.assert_allclose(read.answers[np.arange(N), read.label], true, rtol=1e-12)
    kept = labels != "d"
    path = save(
        tmp_path / "left.csv",
        {name: column[kept] for name, column in rows.items()}
        | {"label": labels[kept], "member": MEMBER[kept].astype(int)},
    )
    assert len(read_predictions(path).label) == kept.sum()


def test_the_page_says_when_numbers_are_taken_for_positions(tmp_path: Path) -> None:
    path, _ = save_classes(tmp_path / "t.csv", ["p_cat", "p_dog"], [0, 1])
    found = divulge.audit_predictions(path, attacks=[divulge.attack("gap")])
    said = {check.name: check.text for check in found.checks}["labels"]
    assert said == (
        "Labels are class numbers, taken for positions in the order of the columns: 'cat' is 0, "
        "'dog' is 1."
    )
    assert found.facts.class_names == ("cat", "dog")


@pytest.mark.parametrize(
    ("predicted", "labels"),
    [
        (["0", "1"], ["0.0", "1.0"]),
        (["True", "False"], ["1", "0"]),
        (["TRUE", "FALSE"], ["true", "false"]),
        (["-1", "1"], ["-1.0", "1.0"]),
        (["cat", "dog"], [" cat", "dog "]),
    ],
)
def test_predicted_and_true_classes_are_matched_by_value(
    predicted: list[str], labels: list[str], tmp_path: Path
) -> None:
    y = RNG.integers(0, 2, N)
    said = np.where(RNG.random(N) < 0.5 + 0.4 * MEMBER, y, 1 - y)
    rows = {
        "said": [predicted[k] for k in said],
        "label": [labels[k] for k in y],
        "member": MEMBER.astype(int),
    }
    read = read_predictions(save(tmp_path / "t.csv", rows), probabilities="said", output="labels")
    np.testing.assert_array_equal(read.answers.argmax(axis=1) == read.label, said == y)


@pytest.mark.parametrize(
    ("predicted", "class_names"), [(["cat", "dog"], ("cat", "dog")), (["Cat", "Dog"], ())]
)
def test_predicted_classes_of_which_none_is_a_label_are_refused(
    predicted: list[str], class_names: tuple[str, ...], tmp_path: Path
) -> None:
    y = RNG.integers(0, 2, N)
    labels = [0, 1] if class_names else ["cat", "dog"]
    rows = {
        "said": [predicted[k] for k in y],
        "label": [labels[k] for k in y],
        "member": MEMBER.astype(int),
    }
    path = save(tmp_path / "t.csv", rows)
    with pytest.raises(DataError, match="the same names for classes"):
        read_predictions(path, probabilities="said", output="labels")
    if class_names:
        read = read_predictions(
            path, probabilities="said", output="labels", class_names=class_names
        )
        np.testing.assert_array_equal(read.answers.argmax(axis=1), read.label)


@pytest.mark.parametrize(
    ("label", "passes"), [("0", True), ("2", True), ("3", False), ("-1", False), ("cat", False)]
)
def test_a_label_that_is_no_position_of_a_column_is_refused(label: str, passes: bool) -> None:
    columns = ColumnNames("*", ("x", "y", "z"))
    if passes:
        label_columns._check_positions(["1", label], columns, str)
        return
    with pytest.raises(DataError, match=f"expected a class number from 0 to 2{label}"):
        label_columns._check_positions(["1", label], columns, str)


@pytest.mark.parametrize("empty", ["said", "label"])
def test_an_empty_cell_of_classes_is_named_by_row_and_column(empty: str, tmp_path: Path) -> None:
    rows: dict[str, Any] = {
        "said": ["cat", "dog", "cat"],
        "label": ["dog", "dog", "cat"],
        "member": [1, 1, 0],
    }
    rows[empty][1] = " "
    path = save(tmp_path / "t.csv", rows)
    said = f"expected a class in {path}, column '{empty}', row 2 below the header"
    for names in ((), ("cat", "dog")):
        with pytest.raises(DataError, match=re.escape(said)):
            read_predictions(path, probabilities="said", output="labels", class_names=names)
