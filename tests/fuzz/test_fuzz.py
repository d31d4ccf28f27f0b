"""Damaged files are read or refused; what once was not stands in ``corpus/``."""

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import planted, search
from .formats import FORMATS
from .search import Reader

CORPUS = Path(__file__).parent / "corpus"
KEPT = sorted(path for kind in CORPUS.iterdir() for path in kind.iterdir())
LARGEST = 24 * 2**10
"""Bytes of a kept case, which is read by people too."""
SLOW = {"run-comparison", "run-in-turn", "settings-predictions"}
"""Reading one draws several pages."""

needs_limits = pytest.mark.skipif(
    not importlib.util.find_spec("resource"), reason="no limits of memory on this system"
)


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """An undamaged specimen of each kind."""
    with search.specimens(search.available()) as folder:
        yield folder


@pytest.fixture(scope="module")
def reader(made: Path) -> Iterator[Reader]:
    with Reader(made) as one:
        yield one


def test_what_is_kept_is_small_and_of_a_known_kind() -> None:
    assert KEPT
    for path in KEPT:
        assert path.parent.name in FORMATS
        assert sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) <= LARGEST, path


@pytest.mark.slow
@pytest.mark.parametrize("kept", KEPT, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_once_is_read_or_refused(
    kept: Path, made: Path, reader: Reader, tmp_path: Path
) -> None:
    name = kept.parent.name
    if name not in search.available():
        pytest.skip(f"needs {', '.join(FORMATS[name].packages)}")
    place = tmp_path / name
    shutil.copytree(kept, place, symlinks=True)
    for code in (made / name).glob("*.py"):
        shutil.copy(code, place)
    found = reader.read(name, place)
    assert found.accepted, found


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FORMATS.keys() - SLOW))
def test_damaged_files_are_read_or_refused(
    name: str, made: Path, reader: Reader, tmp_path: Path
) -> None:
    """A few; ``make fuzz`` tries many. Each undamaged one is read first."""
    if name not in search.available():
        pytest.skip(f"needs {', '.join(FORMATS[name].packages)}")
    for number in range(3):
        search.damage(FORMATS[name], made / name, tmp_path / name, [f"test/{name}/{number}"])
        found = reader.read(name, tmp_path / name)
        assert found.accepted, (number, found)


@pytest.mark.slow
def test_the_same_seed_damages_in_the_same_way(made: Path, tmp_path: Path) -> None:
    contents = []
    for _ in range(2):
        search.damage(FORMATS["npz"], made / "npz", tmp_path / "npz", ["7", "8"])
        contents.append((tmp_path / "npz" / "records.npz").read_bytes())
    assert contents[0] == contents[1] != (made / "npz" / "records.npz").read_bytes()


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Reader, Path]]:
    """A process whose readers have known faults, and specimens that show none."""
    whole = tmp_path_factory.mktemp("whole")
    for name in planted.VERDICTS:
        (whole / name).mkdir()
        (whole / name / "number.txt").write_text("1")
    with Reader(whole, planted.__name__, patience=2) as one:
        yield one, whole


@pytest.mark.slow
@needs_limits
@pytest.mark.parametrize("name", planted.VERDICTS)
def test_every_fault_is_found(name: str, faulty: tuple[Reader, Path], tmp_path: Path) -> None:
    """Tests of the search: a reader with a known fault, which an undamaged file does not show."""
    (tmp_path / "number.txt").write_text("2")
    assert faulty[0].read(name, tmp_path).verdict == planted.VERDICTS[name][0]


@pytest.mark.slow
def test_an_undamaged_file_that_is_not_read_ends_the_search(
    faulty: tuple[Reader, Path], tmp_path: Path
) -> None:
    (tmp_path / "raises").mkdir()
    (tmp_path / "raises" / "number.txt").write_text("2")
    with (
        Reader(tmp_path, planted.__name__) as reader,
        pytest.raises(AssertionError, match="undamaged"),
    ):
        reader.read("raises", tmp_path / "raises")


@pytest.mark.slow
def test_edits_that_a_fault_does_not_need_are_left_out(faulty: tuple[Reader, Path]) -> None:
    reader, whole = faulty
    edits = ("a", "b", "c", "d")
    found = search.try_edits(reader, whole, "raises", edits)
    assert (found.verdict, found.place) == ("traceback", "KeyError in no function of divulge")
    assert len(search.needed_edits(reader, whole, "raises", edits, found)) == 1
