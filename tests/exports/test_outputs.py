"""Nothing that is exported replaces what a run is read from."""

import shutil
from pathlib import Path

import pytest

import divulge
from divulge.errors import StoreError
from tests.exports import finished


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished.make_runs(tmp_path_factory)("run-membership")


@pytest.mark.parametrize("file", ["run.json", "candidates.npz", "findings/*.json"])
def test_what_a_run_is_read_from_is_not_replaced(run: Path, file: str) -> None:
    place = next(run.glob(file))
    before = place.read_bytes()
    with pytest.raises(StoreError, match="place for --junit that no run is read from"):
        divulge.export(run, junit=place)
    with pytest.raises(StoreError, match="place for --page that no run is read from"):
        divulge.history([run, run]).report(place)
    assert place.read_bytes() == before


def test_other_files_may_stand_in_the_folder_of_a_run(run: Path) -> None:
    for _ in range(2):
        divulge.export(run, junit=run / "junit.xml")
    assert (run / "junit.xml").exists()


def test_a_pack_does_not_replace_another_run(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(run, other)
    before = (other / "run.json").read_bytes()
    with pytest.raises(StoreError, match="place for the pack that no run is read from"):
        divulge.evidence(run, other / "run.json")
    assert (other / "run.json").read_bytes() == before
