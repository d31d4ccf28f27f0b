import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from divulge._util import arrays
from divulge.data import bundled, files
from divulge.errors import DataError

X = np.arange(12.0).reshape(4, 3)
Y = np.array([0, 1, 2, 1])


def write(folder: Path, suffix: str) -> Path:
    path = folder / f"data{suffix}"
    if suffix == ".npz":
        np.savez(path, x=X, y=Y)
    elif suffix == ".csv":
        rows = [f"{a},{b},{y},{c}" for (a, b, c), y in zip(X, Y, strict=True)]
        path.write_text("\n".join(["a,b,label,c", *rows]) + "\n")
    else:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as parquet

        parquet.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "label": Y, "c": X[:, 2]}), path)
    return path


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_every_format_gives_the_same_records(tmp_path: Path, suffix: str) -> None:
    records = files.read_record_file(write(tmp_path, suffix))
    np.testing.assert_array_equal(records.x, X)
    np.testing.assert_array_equal(records.y, Y)


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_a_truncated_file_is_an_error_not_a_crash(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, suffix)
    whole = path.read_bytes()
    # a table that ends at the end of a row is whole; this one ends two columns before it
    cut = whole.rindex(b",") - 2 if suffix == ".csv" else len(whole) // 3
    for size in (0, 1, cut):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError):
            files.read_record_file(path)


def test_a_zip_that_claims_petabytes_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "MAX_DATA_BYTES", 10_000)
    path = tmp_path / "bomb.npz"
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(10_000))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", buffer.getvalue())
    with pytest.raises(DataError, match="unpack"):
        files.read_record_file(path)


def test_a_pickle_inside_an_npz_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    np.savez(path, x=np.array([object()], dtype=object), y=Y)
    with pytest.raises(DataError, match="savez"):
        files.read_record_file(path)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([0.5, 1.0]), r"got 0\.5 at index 0"),
        (np.array([0.0, np.nan]), "got nan at index 1"),
        (np.array(["a", "b"]), "encode classes"),
        (np.zeros((2, 2)), "one class number"),
    ],
)
def test_labels_that_are_no_class_numbers_are_refused(y: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        files.as_labels(y, "members")


def test_labels_may_be_one_column() -> None:
    assert files.as_labels(np.array([[2.0], [0.0]]), "members").tolist() == [2, 0]


@pytest.mark.parametrize(
    ("name", "message"), [("data.py", "name the object"), ("data.csv", "there is none")]
)
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        files.read_record_file(tmp_path / name)


def test_a_missing_label_column_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a, b, label, c"):
        files.read_record_file(write(tmp_path, ".csv"), label="class")


@pytest.mark.parametrize("name", bundled.BUNDLED_DATA)
def test_bundled_data(name: str) -> None:
    records = bundled.BUNDLED_DATA[name]()
    assert len(records) > 500
    assert set(records.y.tolist()) == set(range(records.y.max() + 1))
