"""Logs of interactions and judged queries: real files whole, hostile ones refused."""

import lzma
import os
from pathlib import Path

import numpy as np
import pytest

from divulge.data import interactions, lines, ranking
from divulge.errors import DataError


def real(name: str) -> Path:
    path = Path(os.environ.get("DIVULGE_DATA", ""), name)
    if "DIVULGE_DATA" not in os.environ or not path.is_file():
        pytest.skip(f"no {name} in the folder DIVULGE_DATA")
    return path


def test_movielens_has_its_published_size() -> None:
    log = interactions.movielens_100k(real("ml-100k/u.data.xz"))
    assert (log.users, log.items, len(log.user)) == (943, 1682, 100_000)


def test_steam_has_its_published_size() -> None:
    log = interactions.steam_200k(real("steam-200k/steam-200k.csv.xz"))
    assert (log.users, log.items, len(log.user)) == (12_393, 5_155, 128_804)
    counts = np.bincount(log.user)
    assert round(counts.mean(), 1) == 10.4
    assert (float(np.median(counts)), int(counts.max())) == (2.0, 1068)


def test_mq2008_has_its_published_size() -> None:
    found = ranking.read_queries(real("letor-mq2008/Fold1-train.txt.xz"))
    assert (found.count, found.x.shape) == (471, (9630, 46))
    assert np.bincount(found.relevance).tolist() == [7820, 1223, 587]


def test_the_items_of_each_user_come_back(tmp_path: Path) -> None:
    path = tmp_path / "u.data"
    path.write_text("7\t3\t5\t0\n2\t9\t1\t0\n7\t9\t2\t0\n\n7\t3\t1\t0\n")
    log = interactions.movielens_100k(path)
    assert [items.tolist() for items in log.of_each] == [[0, 1], [1]]
    path = tmp_path / "steam.csv"
    path.write_text('5,"A, B",purchase,1.0,0\n5,"A, B",play,3.5,0\n')
    log = interactions.steam_200k(path)
    assert (log.users, log.items, len(log.user)) == (1, 1, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\t2\t3\n", "line 1"),
        ("1\t2\t3\t4\n1\t-2\t3\t4\n", "line 2"),
        ("1\t²\t3\t4\n", "line 1"),
        ("1\tnan\t3\t4\n", "line 1"),
        ("", "got none"),
        ("9" * 70_000, "65536 a line"),
    ],
)
def test_odd_ratings_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "u.data"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        interactions.movielens_100k(path)


def test_odd_games_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "steam.csv"
    path.write_text("1,A,sold,1.0,0\n")
    with pytest.raises(DataError, match="purchase or play"):
        interactions.steam_200k(path)


def test_damaged_and_huge_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "u.data.xz"
    path.write_bytes(lzma.compress(b"1\t2\t3\t4\n" * 1000)[:-20])
    with pytest.raises(DataError, match="damaged"):
        interactions.movielens_100k(path)
    path.write_bytes(lzma.compress(b"1\t2\t3\t4\n" * 1000))
    with pytest.raises(DataError, match="at most 100 bytes"):
        list(lines.read_lines(path, largest=100))
    with pytest.raises(DataError, match="there is none"):
        ranking.read_queries(tmp_path / "nothing.txt")
    (tmp_path / "raw").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="damaged"):
        ranking.read_queries(tmp_path / "raw")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 qid:1 1:0.5 2:nan\n", "finite"),
        ("0 qid:1 1:0.5 2:1e999\n", "finite"),
        ("9 qid:1 1:0.5\n", "0 to 4"),
        ("-1 qid:1 1:0.5\n", "0 to 4"),
        ("0 qid:1 1:0.5 3:0.5\n", "not numbered"),
        ("0 qid:1 1:0.5\n0 qid:1 1:0.5 2:0.5\n", "2 features"),
        ("0 qid:1 1:a\n", "line 1"),
        ("0 1:0.5\n", "no grade"),
        ("0.5 qid:1 1:0.5\n", "line 1"),
        ("0 qid:1 1:0\n0 qid:2 1:0\n0 qid:1 1:0\n", "sort it by qid"),
        ("", "got none"),
    ],
)
def test_odd_queries_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "train.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        ranking.read_queries(path)


def test_queries_keep_their_documents(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("0 qid:8 1:1 2:5 #a\n2 qid:8 1:3 2:5\n1 qid:3 1:2 2:5 # b\n")
    found = ranking.read_queries(path)
    assert found.of_each() == [slice(0, 2), slice(2, 3)]
    scaled = found.standardise()
    np.testing.assert_allclose(scaled.x.std(axis=0), [1.0, 0.0])
    twice = ranking.concatenate_queries([found, found])
    assert (twice.count, len(twice.x)) == (4, 6)


def test_synthetic_stand_ins_have_the_shapes_they_promise() -> None:
    rng = np.random.default_rng(0)
    log = interactions.synthetic_interactions(30, 40, rng)
    assert len(log.of_each) == 30
    assert all(1 <= len(items) == len(set(items)) <= 10 for items in log.of_each)
    found = ranking.synthetic_queries(12, 6, rng)
    assert found.count == 12
    assert set(found.relevance) == {0, 1, 2}


def test_wrong_numbers_are_refused() -> None:
    one = np.array([0])
    with pytest.raises(DataError, match="or others"):
        ranking.concatenate_queries([])
    with pytest.raises(DataError, match="item numbers from 0 to 0"):
        interactions.InteractionLog(one, one + 1, 1, 1)
    with pytest.raises(DataError, match="numbered from 0"):
        ranking.Queries(np.zeros((1, 2)), one, one + 1)
    with pytest.raises(DataError, match="got none"):
        ranking.Queries(np.zeros((0, 2)), one[:0], one[:0])
