"""Records that are no array of numbers: what stands for them, and what the model gets back."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from divulge.core import Records
from divulge.data.containers import container_of
from divulge.data.encoding import hash_rows, share_encoding
from divulge.data.labels import encode_labels, share_classes
from divulge.data.records import as_records
from divulge.errors import DataError

pd = pytest.importorskip("pandas")

N = 12
RNG = np.random.default_rng(0)
DAYS = np.array(["2026-01-01", "2026-02-01", "NaT", "2026-03-01"], "datetime64[D]")


def frame() -> Any:
    return pd.DataFrame(
        {
            "age": np.arange(N) % 5,
            "income": np.where(np.arange(N) % 4, np.arange(N) / 3, np.nan),
            "job": ["cook", None, "smith"] * (N // 3),
            "city": pd.Categorical(["x", "y", "z", "y"] * (N // 4)),
            "since": list(DAYS) * (N // 4),
            "about": ["a few words of text", "and some other words here"] * (N // 2),
        }
    )


def polars_frame() -> Any:
    polars = pytest.importorskip("polars")
    return polars.DataFrame(
        {"a": np.arange(N) / 2, "b": ["x", None, "y"] * (N // 3), "c": [dt.date(2026, 1, 2)] * N}
    )


def matrix() -> Any:
    return sparse.random(N, 3000, density=0.01, format="coo", random_state=0)


HOLDERS: dict[str, Callable[[], Any]] = {
    "pandas": frame,
    "polars": polars_frame,
    "sparse": matrix,
    "texts": lambda: [f"text {k % 7}" for k in range(N)],
    "column of pandas": lambda: pd.Series(["a b", None, "c d e", "f"] * (N // 4), name="text"),
    "categories": lambda: pd.Series(pd.Categorical(["x", "y", "z", "y"] * (N // 4))),
    "column of polars": lambda: polars_frame()["b"],
    "array of texts": lambda: np.array([["a", "b"], ["c", "d"], ["a", "b"]] * (N // 3)),
    "dict": lambda: {"ids": np.arange(2 * N).reshape(N, 2) % 9, "mask": np.ones((N, 2))},
    "objects": lambda: [{"k": k % 7} for k in range(N)],
}


def same(one: Any, other: Any) -> bool:
    kind = container_of(one)
    return bool((kind.contents(one) == kind.contents(other)).all())


@pytest.mark.parametrize("name", HOLDERS)
def test_the_model_gets_the_records_back_in_any_order(name: str) -> None:
    rows, order = HOLDERS[name](), RNG.permutation(N)
    kind = container_of(rows)
    records = as_records((rows, np.arange(N) % 2), "records").take(order)
    back = records.rows()
    assert container_of(back) is kind
    assert kind.count(back) == N
    assert same(back, kind.take(rows, order))


@pytest.mark.parametrize("name", HOLDERS)
def test_equal_records_have_equal_keys_whoever_holds_them(name: str) -> None:
    rows = HOLDERS[name]()
    kind = container_of(rows)
    halves = [np.arange(N // 2), np.arange(N // 2, N)]
    parts = [as_records((kind.take(rows, half), half % 2), "half") for half in halves]
    whole = as_records((rows, np.arange(N) % 2), "all")
    assert (np.concatenate([part.x for part in parts]) == whole.x).all()
    shared = share_encoding(parts)
    assert shared[0].encoding is shared[1].encoding
    assert same(shared[0].joined(shared[1]).rows(), rows)


@pytest.mark.parametrize("name", HOLDERS)
def test_features_are_numbers_that_tell_records_apart(name: str) -> None:
    records = as_records((HOLDERS[name](), np.arange(N) % 2), "records")
    features = records.features()
    assert features.shape[0] == N
    assert np.isfinite(features).all()
    different = len(np.unique(features, axis=0))
    assert (different == 1) if name == "objects" else (1 < different <= len(np.unique(records.x)))


def test_keys_do_not_depend_on_types_that_a_column_has_by_chance() -> None:
    whole = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    loose = pd.DataFrame({"a": [1.0, 2.0], "b": pd.Categorical(["x", "y"])}).astype({"a": object})
    first, second = (as_records((f, [0, 1]), "records") for f in (whole, loose))
    assert (first.x == second.x).all()
    other = as_records((whole.assign(b=["x", "x"]), [0, 1]), "records")
    assert (first.x == other.x).tolist() == [True, False]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": np.arange(4)}, {"a": np.arange(4, dtype=np.float32)}),
        (sparse.csr_matrix([[1, 0], [0, 2]]), sparse.csc_array([[1.0, 0.0], [0.0, 2.0]])),
        (pd.DataFrame({"a": [0.0, None]}), pd.DataFrame({"a": [-0.0, None]}, dtype=object)),
        (pd.DataFrame({"a": [1, 0]}, dtype="Sparse[int]"), pd.DataFrame({"a": [1, 0]})),
    ],
    ids=["dict", "sparse", "frame", "sparse frame"],
)
def test_equal_numbers_have_equal_keys_in_any_type(one: Any, other: Any) -> None:
    assert hash_rows(one).tolist() == hash_rows(other).tolist()


@pytest.mark.parametrize(
    "rows",
    [
        lambda: pd.DataFrame({"a": [np.zeros(2000), np.eye(1, 2000, 1000)[0]]}),
        lambda: pd.DataFrame({"a": [[np.zeros(2000)], [np.eye(1, 2000, 1000)[0]]]}),
        lambda: pd.DataFrame({"a": [np.array([0.1]), np.array([0.1 + 1e-12])]}),
        lambda: sparse.csr_matrix([[2**60], [2**60 + 1]]),
        lambda: {"a": np.array([2**60, 2**60 + 1])},
    ],
    ids=["long arrays", "arrays in lists", "close numbers", "sparse", "dict"],
)
def test_different_records_have_different_keys(rows: Any) -> None:
    assert len(set(hash_rows(rows()).tolist())) == 2


def test_nested_columns_of_polars_are_kept() -> None:
    polars = pytest.importorskip("polars")
    pairs = polars.Series([[1, 2], [2, 3]] * (N // 2), dtype=polars.Array(polars.Int64, 2))
    named = [{"x": 1}, None, {"x": 2}] * (N // 3)
    frame = polars.DataFrame({"pairs": pairs, "named": named})
    back = as_records((frame, np.arange(N) % 2), "records").rows()
    assert back.equals(frame)


def test_categories_stay_categories_when_sets_have_different_ones() -> None:
    first = pd.DataFrame({"c": pd.Categorical(["a", "b"]), "k": ["t", "u"]})
    second = pd.DataFrame({"k": ["v", "t"], "c": pd.Categorical(["b", "z"])})
    shared = share_encoding([as_records((f, [0, 1]), "records") for f in (first, second)])
    back = shared[1].rows()
    assert list(back.columns) == ["c", "k"]
    assert isinstance(back["c"].dtype, pd.CategoricalDtype)
    assert back["c"].tolist() == ["b", "z"]


def test_a_frame_of_numbers_stays_numbers_and_comes_back_in_its_types() -> None:
    given = pd.DataFrame({"a": np.arange(3), "b": np.arange(3) / 2, "c": [True, False, True]})
    records = as_records((given, [0, 1, 0]), "records")
    assert records.x.dtype == np.float64
    assert records.columns == ("a", "b", "c")
    pd.testing.assert_frame_equal(records.rows(), given)
    moved = records.arranged(("c", "a", "b"), "the model")
    pd.testing.assert_frame_equal(moved.rows(), given[["c", "a", "b"]])


def test_whole_numbers_that_doubles_do_not_hold_are_kept() -> None:
    given = pd.DataFrame({"id": [2**60 + 1, 2**60 + 2], "x": [0.5, 1.5]})
    assert as_records((given, [0, 1]), "records").rows()["id"].tolist() == given["id"].tolist()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: pd.DataFrame({"a": [1.0, np.inf], "b": ["x", "y"]}), "infinity in column 'a'"),
        (lambda: pd.DataFrame([[1, 2]] * 2, columns=["a", "a"]), "'a' twice"),
        (lambda: pd.DataFrame(index=[0, 1]), "frame of shape"),
        (lambda: {"a": np.zeros(2), "b": np.zeros(3)}, "one length"),
        (lambda: {"a": np.array(["x", "y"])}, "expected numbers in each array"),
        (lambda: pd.DataFrame({"a": [1.0, np.inf]}, dtype=object), "infinity in column 'a'"),
        (lambda: {"a": np.array([[1.0], [np.nan]])}, "finite features, got NaN or infinity in 'a'"),
        (lambda: {"a": [[1, 2], [3]]}, "pad all records to one length"),
        (lambda: sparse.csr_matrix([[np.inf], [1.0]]), "finite features"),
        (lambda: [lambda: 1, lambda: 2], "records that can be compared"),
        (lambda: np.ma.array([[1.0], [2.0]], mask=[[False], [True]]), "without a mask"),
        (lambda: {1, 2}, "x of shape"),
        (lambda: 3, "x of shape"),
    ],
)
def test_what_cannot_be_held_is_refused(bad: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_records((bad(), [0, 1]), "members")


def test_kinds_of_containers_are_not_mixed() -> None:
    texts = as_records((["a", "b"], [0, 1]), "members")
    table = as_records((pd.DataFrame({"a": ["x", "y"]}), [0, 1]), "non-members")
    with pytest.raises(DataError, match="one kind of container"):
        share_encoding([texts, table])


@pytest.mark.parametrize(
    ("labels", "numbers", "classes"),
    [
        (["no", "yes", "no"], [0, 1, 0], ("no", "yes")),
        ([-1, 1, 1], [0, 1, 1], (-1, 1)),
        ([True, False, True], [1, 0, 1], ()),
        ([2, 0, 1], [2, 0, 1], ()),
        ([1.0, 0.0, 1.0], [1, 0, 1], ()),
        ([1, "1", 1], [0, 1, 0], (1, "1")),
        ([(1, 2), "a", (1, 2)], [1, 0, 1], ("a", (1, 2))),
    ],
)
def test_labels_of_any_kind_are_numbered(labels: Any, numbers: Any, classes: Any) -> None:
    given = labels
    if any(isinstance(label, tuple) for label in labels):
        given = np.empty(len(labels), object)
        given[:] = labels
    found, known = encode_labels(given, "members")
    assert found.tolist() == numbers
    assert known == classes
    records = Records(np.zeros((3, 1)), found, classes=known)
    assert records.labels().tolist() == (labels if classes else numbers)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", None], "got none at index 1"),
        (["a", float("nan")], "got none at index 1"),
        (pd.array([1, None], dtype="Int64"), "got nan at index 1"),
        ([["a"], ["b", "c"]], "expected"),
        ([0.5, 1.0], "whole numbers"),
        ([-0.5, 1.0], "whole numbers"),
    ],
)
def test_labels_that_say_no_class_are_refused(labels: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        encode_labels(labels, "members")


def test_numbers_of_classes_among_other_objects_are_numbers() -> None:
    assert encode_labels(np.array([1, 0, True], object), "members")[1] == ()
    assert encode_labels(np.array([1.0, 0], object), "members")[0].tolist() == [1, 0]


def labelled(*labels: object) -> Records:
    y, classes = encode_labels(list(labels), "records")
    return Records(np.zeros((len(labels), 1)), y, classes=classes)


def test_one_number_a_label_in_the_order_of_the_model() -> None:
    first, second = share_classes([labelled("b", "a"), labelled("c", "b")], ("c", "b", "a"))
    assert (first.y.tolist(), second.y.tolist()) == ([1, 2], [0, 1])
    assert first.labels().tolist() == ["b", "a"]
    (texts,) = share_classes([labelled("-1", "1")], (-1, 1))
    assert texts.y.tolist() == [0, 1]
    assert texts.labels().tolist() == [-1, 1]


def test_a_set_that_holds_only_some_of_the_labels_has_the_same_numbers() -> None:
    both, ones = share_classes([labelled(-1, 1), labelled(1, 1)], (-1, 1))
    assert (both.y.tolist(), ones.y.tolist()) == ([0, 1], [1, 1])
    assert ones.labels().tolist() == [1, 1]


def test_labels_that_the_model_does_not_have_are_named() -> None:
    with pytest.raises(DataError, match="'d'"):
        share_classes([labelled("a", "d")], ("a", "b"))
    with pytest.raises(DataError, match="numbers in others"):
        share_classes([labelled("a", "b"), labelled(0, 1)])


def test_data_sets_of_pytorch_are_read_in_their_own_order() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(12.0).reshape(6, 2)
    data = torch.utils.data.TensorDataset(x, torch.tensor([0, 1, 2] * 2))
    loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, drop_last=True)
    for given in (data, loader):
        records = as_records(given, "members")
        assert records.x.tolist() == x.tolist()
        assert records.y.tolist() == [0, 1, 2] * 2


def test_data_sets_of_hugging_face_are_read() -> None:
    datasets = pytest.importorskip("datasets")
    texts = datasets.Dataset.from_dict({"text": ["a b", "c"], "label": [1, 0]})
    records = as_records(texts, "members")
    assert (records.rows(), records.y.tolist()) == (["a b", "c"], [1, 0])
    tokens = datasets.Dataset.from_dict({"input_ids": [[1, 2], [3, 4]], "labels": [0, 1]})
    assert as_records(tokens, "members").x.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(DataError, match="named label or labels"):
        as_records(tokens.remove_columns("labels"), "members")
    named = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["z", "a"])}
    )
    records = as_records(datasets.Dataset.from_dict(texts.to_dict(), named), "members")
    assert (records.y.tolist(), records.classes) == ([1, 0], ())


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"sentence": ["a b", "c"], "idx": [7, 3]}, ["a b", "c"]),
        ({"guid": ["x1", "x2"], "text": ["a b", "c"], "id": [0, 1]}, ["a b", "c"]),
        ({"input_ids": [[1, 2], [3, 4]], "idx": [0, 1]}, [[1, 2], [3, 4]]),
        ({"text": ["a", "b"], "input_ids": [[1], [2]], "idx": [0, 1]}, [[1], [2]]),
        ({"a": [0.5, 2.0], "__index_level_0__": [4, 9]}, [0.5, 2.0]),
        ({"idx": [4, 9]}, [4, 9]),
    ],
)
def test_numbers_of_records_in_data_sets_of_hugging_face_are_no_features(
    columns: Any, expected: Any
) -> None:
    datasets = pytest.importorskip("datasets")
    given = datasets.Dataset.from_dict(columns | {"label": [1, 0]})
    for one in (given, given.with_format("numpy")):
        records = as_records(one, "members")
        rows = records.rows()
        assert (rows if isinstance(rows, list) else rows.tolist()) == expected
        assert records.y.tolist() == [1, 0]


def test_columns_of_a_data_set_of_hugging_face_that_repeat_are_features() -> None:
    datasets = pytest.importorskip("datasets")
    columns = {"a": [1, 2], "id": [3, 3], "label": [1, 0]}
    records = as_records(datasets.Dataset.from_dict(columns), "members")
    assert set(records.rows()) == {"a", "id"}
    masked = {"input_ids": [[1], [2]], "attention_mask": [[1], [1]], "idx": [0, 1]}
    records = as_records(datasets.Dataset.from_dict(masked | {"label": [1, 0]}), "members")
    assert set(records.rows()) == {"input_ids", "attention_mask"}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"input_ids": [[1, 2], [3]], "label": [0, 1]}, "got 1 to 2: pad them"),
        ({"text": ["a", None], "label": [0, 1]}, "got None at index 1"),
        ({"text": [None, "a"], "label": [0, 1]}, "got None at index 0"),
        ({"text": ["a", "b"], "boxes": [[1], [2]], "label": [0, 1]}, "remove_columns"),
        ({"text": [], "label": []}, "got 0 records"),
        ({"label": [0, 1]}, "of 0 columns"),
    ],
)
def test_data_sets_that_hold_no_records_of_one_kind_are_refused(columns: Any, message: str) -> None:
    datasets = pytest.importorskip("datasets")
    with pytest.raises(DataError, match=message):
        as_records(datasets.Dataset.from_dict(columns), "members")
