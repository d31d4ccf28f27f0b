"""Arrays come out of pickles and nothing else does; made genotypes look like genotypes."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divulge.errors import DataError
from divulge_papers.papers.nist import genomics
from tests import federations


def written(path: Path, value: Any, protocol: int = 4) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(value, protocol=protocol))
    return path


TABLE = np.array([[0, 1, 1, 2], [1, 0, 0, 3]])


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "u1", ">i4", "b1"])
def test_reads_arrays_of_numbers(tmp_path: Path, kind: str, protocol: int) -> None:
    for table in (TABLE.astype(kind), np.asfortranarray(TABLE.astype(kind))):
        found = genomics.read_records(written(tmp_path / "a.dat", table, protocol))
        np.testing.assert_array_equal(found.x, table[:, :-1])
        np.testing.assert_array_equal(found.y, table[:, -1])


class _Runs:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (Path.touch, (self.mark,))


def test_runs_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for value in (_Runs(mark), [_Runs(mark)], np.array([[_Runs(mark), 1]], dtype=object)):
        with pytest.raises(DataError, match="refused"):
            genomics.read_records(written(tmp_path / "a.dat", value))
    assert not mark.exists()


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        np.array([["a", "b"]]),
        np.array([[None, 1]], dtype=object),
        np.zeros(3),
        np.zeros((2, 1)),
        np.zeros((2, 2), "M8[s]"),
        np.zeros(2, [("a", "f8"), ("b", "f8")]),
    ],
    ids=str,
)
def test_refuses_what_is_no_table_of_numbers(tmp_path: Path, value: Any) -> None:
    with pytest.raises(DataError):
        genomics.read_records(written(tmp_path / "a.dat", value))


def test_allocates_nothing_that_a_pickle_only_claims(tmp_path: Path) -> None:
    """A shape of a petabyte with eight bytes behind it."""
    raw = pickle.dumps(np.zeros((1, 1)), protocol=4)
    claimed = raw.replace(b"K\x01K\x01\x86", b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86")
    assert claimed != raw
    (tmp_path / "a.dat").write_bytes(claimed[:2] + claimed[11:])  # without the frame's length
    with pytest.raises(DataError, match="refused"):
        genomics.read_records(tmp_path / "a.dat")


@pytest.mark.parametrize("cut", [0, 1, 20, 60])
def test_refuses_damaged_files(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "a.dat", TABLE)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError):
        genomics.read_records(path)
    with pytest.raises(DataError, match="there is none"):
        genomics.read_records(tmp_path / "b.dat")


def archive(folder: Path, members: Any = (1,)) -> Path:
    top = folder / "attack_targets" / "dpcnn200"
    written(top / "dpcnn200_challenge_records.dat", TABLE)
    for k in range(1, 5):
        for what in ("relevant", "external"):
            written(top / f"client_{k}" / f"dpcnn_{k}_{what}_records.dat", TABLE + k)
    for what in ("relevant", "challenge"):
        path = top / "client_4" / f"dpcnn_4_{what}_members.json"
        path.write_text(json.dumps({f"{what} members": members}))
    return folder


def test_reads_the_layout_of_the_challenge(tmp_path: Path) -> None:
    tier = genomics.read_tier(archive(tmp_path), "dpcnn200")
    np.testing.assert_array_equal(tier.candidates.y, [2, 3])
    np.testing.assert_array_equal(tier.external[2].y, [5, 6])
    assert tier.known_relevant.tolist() == [False, True]


@pytest.mark.parametrize("members", [[2], [-1], ["0"], [True], 7, None])
def test_refuses_members_that_are_no_row_numbers(tmp_path: Path, members: Any) -> None:
    with pytest.raises(DataError, match="list of members"):
        genomics.read_tier(archive(tmp_path, members), "dpcnn200")


def test_made_genotypes_are_linked_and_have_the_shares_of_the_challenge() -> None:
    rng = np.random.default_rng(0)
    genotypes, y = genomics.make_synthetic(775, 400, rng)
    np.testing.assert_allclose(np.bincount(y) / 775, [0.22, 0.05, 0.67, 0.06], atol=0.03)
    varied = genotypes[:, genotypes.std(axis=0) > 0.3].astype(float)
    r = np.abs(np.corrcoef(varied.T))
    near, far = np.diagonal(r, 1).mean(), np.diagonal(r, 200).mean()
    assert near > far + 0.1
    again, _ = genomics.make_synthetic(775, 400, np.random.default_rng(0))
    np.testing.assert_array_equal(again, genotypes)


def test_one_hot_has_a_one_at_every_known_place() -> None:
    x = genomics.one_hot(np.array([[0, 2], [1, 2], [3, 2]], np.uint8))
    np.testing.assert_array_equal(x, [[1, 0, 1], [0, 1, 1], [0, 0, 1]])


def test_reads_soynam() -> None:
    genotypes, traits = genomics.read_soynam(federations.shared_file("soynam/soynam.npz.xz"))
    assert genotypes.shape == (5555, 4240)
    assert genotypes.max() == 2
    assert traits.shape == (5555, 4)


def test_refuses_what_is_not_soynam(tmp_path: Path) -> None:
    path = tmp_path / "soynam.npz.xz"
    path.write_bytes(b"nothing")
    with pytest.raises(DataError, match="something else"):
        genomics.read_soynam(path)
