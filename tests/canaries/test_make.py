"""What canaries are, and how their files are bound to each other."""

import secrets
from pathlib import Path

import numpy as np
import pytest

from divulge.canaries.make import CanaryKind, make_canaries
from divulge.core import Records
from divulge.data import canary_files as files
from divulge.data.sealed_coins import open_coins
from divulge.errors import DataError, SpecError, StoreError
from tests.canaries import sets

TEXTS = (["a red fox", "the blue sky is wide", "one two", "two three four"] * 5, ["x", "y"] * 10)


def test_the_trainer_gets_the_inserted_half_and_nobody_is_told_which(tmp_path: Path) -> None:
    made = make_canaries(sets.records(), tmp_path / "c", 400)
    held, inserted = files.read_candidates(made.folder), sets.coins(made.folder)
    with np.load(made.folder / files.TRAIN) as train:
        x, y = train["x"], train["y"]
    assert made.inserted == inserted.sum() == len(x)
    assert 150 < made.inserted < 250
    rows = {(one.tobytes(), int(label)) for one, label in zip(x, y, strict=True)}
    expected = zip(held.x[inserted], held.y[inserted], strict=True)
    assert rows == {(one.tobytes(), int(label)) for one, label in expected}
    with np.load(made.folder / files.CANDIDATES) as candidates:
        assert set(candidates.files) == {"x", "y", "digest", "commitment"}
    assert not (made.folder / files._STAGED).exists()


def test_two_sets_have_other_coins_and_canaries_unless_seeded(tmp_path: Path) -> None:
    made = [make_canaries(sets.records(), tmp_path / f"{k}", 100).folder for k in range(2)]
    assert (sets.coins(made[0]) != sets.coins(made[1])).any()
    assert len({files.read_candidates(one).digest for one in made}) == 2
    again = [make_canaries(sets.records(), tmp_path / f"s{k}", 100, seed=7) for k in range(2)]
    assert again[0].commitment == again[1].commitment


def test_who_sees_the_canaries_cannot_work_out_the_coins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coins and salt come from entropy of their own: with another, the canaries stay."""
    made = []
    for own in (2, 3):
        entropy = iter([1, own])
        monkeypatch.setattr(secrets, "randbits", lambda _, entropy=entropy: next(entropy))
        made.append(make_canaries(sets.records(), tmp_path / f"{own}", 100))
        assert not list(entropy)
    assert len({files.read_candidates(one.folder).digest for one in made}) == 1
    first, second = (sets.coins(one.folder) for one in made)
    assert 20 < (first != second).sum() < 80  # 50 on average, standard deviation 5
    assert len({one.commitment for one in made}) == 2


def test_directions_are_those_in_which_no_other_record_lies(tmp_path: Path) -> None:
    made = files.read_candidates(sets.make(tmp_path, 50)).x.astype(np.float64)
    unit = made / np.linalg.norm(made, axis=1, keepdims=True)
    np.testing.assert_allclose(unit @ unit.T, np.eye(50), atol=1e-6)
    assert np.abs(unit @ sets.records().x.T).max() < 1e-5


@pytest.mark.parametrize("kind", ["direction", "out-of-distribution", "mislabelled"])
def test_images_of_bytes_stay_images_of_bytes(kind: CanaryKind, tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(10, 200, (30, 4, 4), dtype=np.uint8)
    folder = make_canaries((x, np.arange(30) % 3), tmp_path / "c", 25, kind=kind).folder
    held = files.read_candidates(folder)
    assert held.x.shape == (25, 4, 4)
    assert held.x.dtype == np.uint8
    assert held.x.min() >= 10
    assert held.x.max() < 200


def test_the_mislabelled_are_records_with_another_label(tmp_path: Path) -> None:
    given = sets.records()
    folder = make_canaries(given, tmp_path / "c", 40, kind="mislabelled").folder
    held = files.read_candidates(folder)
    label = {one.tobytes(): int(y) for one, y in zip(given.x, given.y, strict=True)}
    assert all(label[x.tobytes()] != y for x, y in zip(held.x, held.y, strict=True))


def test_texts_are_of_known_words_and_keep_the_users_labels(tmp_path: Path) -> None:
    made = make_canaries(TEXTS, tmp_path / "c", 30)
    held = files.read_candidates(made.folder)
    known = {word for text in TEXTS[0] for word in text.split()}
    assert made.kind == "out-of-distribution"
    assert {word for text in held.x.tolist() for word in text.split()} <= known
    with np.load(made.folder / files.TRAIN) as train:
        assert set(train["y"].tolist()) == {"x", "y"}


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        (TEXTS, "direction", "words have no directions"),
        ((np.ones((30, 2)), np.zeros(30, int)), None, "two classes"),
        ((np.ones((5, 2)), np.arange(5) % 2), "mislabelled", "as many records as canaries"),
    ],
)
def test_what_makes_no_canaries_is_refused(
    given: object, kind: CanaryKind | None, said: str, tmp_path: Path
) -> None:
    with pytest.raises((DataError, SpecError), match=said):
        make_canaries(given, tmp_path / "c", 20, kind=kind)
    assert not (tmp_path / "c").exists()


REPEATED = Records(np.repeat(np.eye(10), 8, axis=0), np.repeat(np.arange(10) % 2, 8))


@pytest.mark.parametrize(
    ("given", "kind", "advice"),
    [
        ([" ", ""] * 40, None, "more different words"),
        (["one two", "two one"] * 40, None, "more different words"),
        (["one two three four", "five six seven"] * 40, "in-distribution", "keep one of each"),
        (REPEATED, "in-distribution", "keep one of each"),
        (REPEATED, "mislabelled", "keep one of each"),
        (Records(REPEATED.x[:, :2].astype(np.int64), REPEATED.y), None, "more different words"),
    ],
)
def test_canaries_that_repeat_are_refused(
    given: object, kind: CanaryKind | None, advice: str, tmp_path: Path
) -> None:
    """A training that got the one of two equal canaries shows the other as much."""
    with pytest.raises(DataError, match=f"canaries that differ from each other, .*{advice}"):
        make_canaries(given, tmp_path / "c", 80, kind=kind)
    assert not (tmp_path / "c").exists()


def test_a_folder_is_used_once(tmp_path: Path) -> None:
    sets.make(tmp_path)
    with pytest.raises(StoreError, match="expected a new"):
        sets.make(tmp_path)


@pytest.mark.parametrize("path", [files.CANDIDATES, files.TRAIN, files.SEALED])
def test_what_was_changed_afterwards_is_refused(path: Path, tmp_path: Path) -> None:
    folder = sets.make(tmp_path)
    held = dict(np.load(folder / path))
    name = "inserted" if path == files.SEALED else "y"
    held[name] = held[name].copy()
    held[name][0] = 1 - held[name][0]
    if path == files.CANDIDATES:  # its digest is changed with it
        held["digest"] = np.array([files.sha256(held["x"], held["y"])])
    np.savez(folder / path, **held)
    with pytest.raises(StoreError, match=f"{path.name} as `divulge canary make`"):
        open_coins(folder, files.read_candidates(folder), ["s"], "any")
    assert not (folder / files.OPENED).exists()


@pytest.mark.parametrize("path", [files.CANDIDATES, files.TRAIN, files.SEALED])
@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04", b"x" * 100])
def test_a_damaged_file_is_refused(path: Path, content: bytes | None, tmp_path: Path) -> None:
    folder = sets.make(tmp_path)
    (folder / path).unlink()
    if content is not None:
        (folder / path).write_bytes(content)
    with pytest.raises(StoreError):
        open_coins(folder, files.read_candidates(folder), ["s"], "any")


def test_records_are_left_alone(tmp_path: Path) -> None:
    given = Records(sets.records().x.copy(), sets.records().y.copy())
    make_canaries(given, tmp_path / "c", 20)
    assert (given.x == sets.records().x).all()


def test_records_of_people_need_the_number_of_records_of_a_canary(tmp_path: Path) -> None:
    """A canary of one record gives no bound by person."""
    x, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    records = Records(x, y, group=np.arange(60) // 2)
    with pytest.raises(SpecError, match="got records of people"):
        make_canaries(records, tmp_path / "canaries", 20)
    assert not (tmp_path / "canaries").exists()
    made = make_canaries(records, tmp_path / "canaries", 20, records_each=2)
    assert files.read_candidates(made.folder).count == 20
