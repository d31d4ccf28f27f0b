"""A run of any kind that somebody changed afterwards is refused, whatever was changed."""

import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divulge
from divulge._util.seals import SEAL
from divulge.core.runs import SCHEMA
from divulge.errors import StoreError
from tests import resealed
from tests.exports.finished import call, make_runs
from tests.fuzz import formats

KINDS = [kind for kind in formats.FORMATS if kind.startswith("run-")]
OLD = Path(__file__).parent / "old_runs"
EACH = 6
"""Values of a file that are changed, one at a time."""
CHANGED = "changed afterwards"


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    return make_runs(tmp_path_factory)


@pytest.fixture(params=KINDS)
def run(request: pytest.FixtureRequest, make: Callable[[str], Path], tmp_path: Path) -> Path:
    """A finished run, to be changed."""
    return Path(shutil.copytree(make(request.param), tmp_path / "run"))


def leaves(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Each place of a value, with its key there."""
    places = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in places:
        if isinstance(value, dict | list):
            yield from leaves(value)
        else:
            yield tree, key


def other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value or ''}x"


def pieces(run: Path, suffix: str) -> list[Path]:
    """Files that the run is read from: no caches, nothing that is written anew."""
    caches = ("shadows", "figures")
    files = (path for path in run.rglob(f"*{suffix}") if path.name != "summary.json")
    return sorted(path for path in files if not set(caches) & set(path.parts))


def test_no_value_can_be_changed(run: Path) -> None:
    assert divulge.load(run).headline
    for file in pieces(run, ".json"):
        raw = file.read_bytes()
        count = len(list(leaves(json.loads(raw))))
        for k in sorted({round(part) for part in np.linspace(0, count - 1, EACH)}):
            tree = json.loads(raw)
            place, key = list(leaves(tree))[k]
            place[key] = other(place[key])
            file.write_text(json.dumps(tree))
            with pytest.raises(StoreError):
                divulge.load(run)
        file.write_bytes(raw)


def test_a_figure_and_its_checksum_cannot_both_go(run: Path) -> None:
    files = [file for file in pieces(run, ".json") if SEAL in json.loads(file.read_bytes())]
    assert files
    for file in files:
        raw = file.read_bytes()
        tree = json.loads(raw)
        del tree[SEAL]
        file.write_text(json.dumps(tree))
        with pytest.raises(StoreError, match=CHANGED):
            divulge.load(run)
        file.write_bytes(raw)


def test_no_array_can_be_changed(run: Path) -> None:
    for file in pieces(run, ".npz"):
        raw = file.read_bytes()
        with np.load(io.BytesIO(raw)) as archive:
            arrays = dict(archive.items())
        name = max(arrays)
        arrays[name] = arrays[name][::-1].copy()
        arrays[name][:1] = arrays[name][-1:]
        np.savez(file, allow_pickle=False, **arrays)
        if file.read_bytes() == raw:  # of equal values
            continue
        with pytest.raises(StoreError):
            divulge.load(run)
        file.write_bytes(raw)


def test_no_piece_can_be_taken_from_another_run_of_the_kind(run: Path) -> None:
    """Its head is the one thing that nobody can exchange without all the rest."""
    for file in pieces(run, "run.json"):
        if file.parent != run:
            tree = json.loads(file.read_bytes())
            resealed.write(file, tree | {"name": "another"})
            with pytest.raises(StoreError, match=CHANGED):
                divulge.load(run)
            return


@pytest.mark.parametrize("words", [("report",), ("measure",), ("export", "--junit", "x.xml")])
def test_no_command_takes_an_edited_run(
    words: tuple[str, ...], make: Callable[[str], Path], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(make("run-membership"), tmp_path / "run"))
    (finding,) = (run / "findings").glob("threshold*.json")
    tree = json.loads(finding.read_bytes())
    tree["finding"]["metrics"]["auc"] |= {"value": 0.5, "low": 0.4, "high": 0.6}
    finding.write_text(json.dumps(tree))
    done = call(words[0], run, *words[1:], code=2)
    assert CHANGED in done.stderr


@pytest.mark.parametrize("schema", [-1, 0, "x", "6", None, True, 1.5, [], {}, 10**9, 10**400])
def test_a_schema_is_a_version(schema: Any, make: Callable[[str], Path], tmp_path: Path) -> None:
    run = Path(shutil.copytree(make("run-membership"), tmp_path / "run"))
    resealed.write(
        run / "run.json", json.loads((run / "run.json").read_bytes()) | {"schema": schema}
    )
    with pytest.raises(StoreError, match=rf"expected (a schema from 1 to|schema) {SCHEMA}"):
        divulge.load(run)


def test_figures_of_canaries_and_searches_are_held_too(tmp_path: Path) -> None:
    for kind, key in (("canaries", "canaries"), ("in-turn", "models"), ("comparison", "lambdas")):
        with zipfile.ZipFile(OLD / f"{kind}.zip") as packed:
            packed.extractall(tmp_path)
        run = divulge.load(tmp_path / kind).save(tmp_path / f"{kind} again")
        head = json.loads((run / "run.json").read_bytes())
        head["facts"][key] = other(head["facts"][key]) if key != "lambdas" else [3.0]
        (run / "run.json").write_text(json.dumps(head))
        with pytest.raises(StoreError, match=CHANGED):
            divulge.load(run)


@pytest.mark.parametrize("canaries", [-1, 0, 100, 10])
def test_canaries_that_cannot_be_are_damage_whoever_made_the_checksum(
    canaries: int, tmp_path: Path
) -> None:
    with zipfile.ZipFile(OLD / "canaries.zip") as packed:
        packed.extractall(tmp_path)
    run = divulge.load(tmp_path / "canaries").save(tmp_path / "run")
    head = json.loads((run / "run.json").read_bytes())
    head["facts"]["canaries"] = canaries  # of which 102 were inserted
    resealed.write(run / "run.json", head)
    with pytest.raises(StoreError, match="as divulge wrote it"):
        divulge.load(run)


def test_an_assignment_without_its_accuracy_is_damage(
    make: Callable[[str], Path], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(make("run-assignment"), tmp_path / "run"))
    (finding,) = (run / "findings").glob("*.json")
    tree = json.loads(finding.read_bytes())
    del tree["finding"]["metrics"]["accuracy"]
    resealed.write(finding, tree)
    with pytest.raises(StoreError, match="no metric accuracy"):
        divulge.load(run)


def test_another_way_to_write_the_same_values_is_no_change(
    make: Callable[[str], Path], tmp_path: Path
) -> None:
    """As of an editor that sorts keys, indents otherwise or ends lines as Windows does."""
    run = Path(shutil.copytree(make("run-membership"), tmp_path / "run"))
    before = str(divulge.load(run))
    for file in pieces(run, ".json"):
        written = json.dumps(json.loads(file.read_bytes()), indent=4, sort_keys=True)
        file.write_bytes(written.replace("\n", "\r\n").encode())
    assert str(divulge.load(run)) == before
