"""Mutants of what imports execute: constants, defaults, fields. Each needs imports of its own."""

import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.mutation.operators import Mutant
from tests.mutation.reach import SECONDS, Ended, Recorder, Tests
from tests.mutation.server import QUICK, WALL_SECONDS, Verdict, become_child, wait_for

PRELOADED = ("numpy", "scipy.stats", "scipy.optimize", "sklearn.ensemble", "torch", "pydantic",
             "altair", "jinja2", "rich.console", "xgboost", "jaxtyping", "beartype", "hypothesis",
             "pandas", "vl_convert", "torch._dynamo")  # fmt: skip
"""Imported once, before each mutant gets a process of its own."""


def try_imports(
    mutants: Sequence[Mutant], tests: Tests, done: Callable[[Mutant, Verdict], None], folder: Path
) -> None:
    """Try each mutant of what no function executes, in a copy of the tree."""
    own = [m for m in mutants if tests.numbering.of_line(m.path, m.first) is None]
    if not own:
        return
    for name in PRELOADED:
        __import__(name)
    place = _copy(tests.root, folder)
    for mutant in own:
        begin = sum(os.times()[:4])
        (place / mutant.path).write_text(mutant.source)
        verdict = _judge(mutant, tests, place, folder)
        shutil.copy2(tests.root / mutant.path, place / mutant.path)
        done(mutant, verdict._replace(seconds=sum(os.times()[:4]) - begin))


def _judge(mutant: Mutant, tests: Tests, place: Path, folder: Path) -> Verdict:
    """Run tests that execute the file, closest first, and files that are near."""
    known = tests.reach.of(tests.numbering.of_file(mutant.path))
    new = [name for name in tests.near(mutant) if not tests.is_known(name)]
    nodes = [*new[:2], *known, *new[2:]]
    nodes = [node for node in nodes if (place / node.partition("::")[0]).exists()]
    ends, ended = _run(nodes, place, tests, folder)
    failed = [end.test for end in ends if end.failed]
    if failed or (not ends and ended):  # nothing ran: not even the import
        shutil.copy2(tests.root / mutant.path, place / mutant.path)
        passing, _ = _run(failed or nodes, place, tests, folder)
        if passing and not any(end.failed for end in passing):
            return Verdict("killed", failed[0] if failed else "import", 0.0)
        return Verdict("no test", "they fail without the change too", 0.0)
    return Verdict("survived" if ended else "time-out", str(len(ends)), 0.0)


def _copy(root: Path, folder: Path) -> Path:
    """A copy of the tree, in which files may be changed."""
    place = folder / "copy"
    shutil.rmtree(place, ignore_errors=True)
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=root, capture_output=True, text=True, check=True).stdout
    for name in names.splitlines():
        if (root / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, place / name)
    return place


def _run(nodes: Sequence[str], place: Path, tests: Tests, folder: Path) -> tuple[list[Ended], bool]:
    """Ends of tests in a process that imports divulge anew."""
    out = folder / "ends.jsonl"
    out.unlink(missing_ok=True)
    sys.stdout.flush()
    process = os.fork()
    if process:
        return wait_for(process, out, WALL_SECONDS)
    try:
        become_child(folder / "log.txt")
        _run_in_child(nodes, place, tests, out)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(0)


def _run_in_child(nodes: Sequence[str], place: Path, tests: Tests, out: Path) -> None:
    os.chdir(place)
    sys.dont_write_bytecode = True  # a later change of the same file can have its size and second
    folders = ("src", "papers/src", "fast/src", "")
    own = [str(place / name) for name in folders]
    os.environ["PYTHONPATH"] = os.pathsep.join(own)
    here = {"", *(str(tests.root / name) for name in folders)}
    sys.path[:] = [*own, *(path for path in sys.path if path not in here)]
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "divulge")]:
        del sys.modules[name]
    recorder = Recorder(out, bytearray(), tests.reach.seconds, SECONDS)
    pytest.main([*QUICK, *nodes], plugins=[recorder])
