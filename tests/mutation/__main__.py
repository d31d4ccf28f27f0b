"""Change the code a little, and see whether a test notices: ``make mutate``.

Each mutant is one change of one line. It is put to the tests that execute that line, closest first,
until one fails: then it is killed. One that no test notices survives, and shows a line whose
result nobody checks, or that is not needed; or it is equivalent, and stands in ``equivalent.toml``
with the reason. One that never ends counts apart: it takes no assertion to notice that.

Why not mutmut or cosmic-ray: mutmut 3 changes function bodies alone, leaves out those with
decorators, and puts all mutants of a function into the module beside it, where jaxtyping's hook
would wrap each. cosmic-ray runs one command for every mutant, without saying which: it cannot
choose the tests that execute the line, and the whole suite takes many minutes.
"""

import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from tests.mutation.operators import Mutant, mutants

ROOT = Path(__file__).parents[2]
PACKAGE = Path("src", "divulge")
FOLDER = ROOT / ".mutation"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")

SCOPE = ("metrics", "attacks", "defences", "targets", "data/labels.py", "federation/canaries.py",
         "federation/manipulation", "canaries", "audits/checks", "studies/harden",
         "audits/gate.py", "audits/controls.py", "audits/run_folder.py", "audits/heads.py",
         "audits/runs.py", "report/verdict.py", "report/evidence.py", "report/shifts.py",
         "report/doubts.py", "report/caveats.py", "report/claim.py", "report/exposed.py",
         "report/federation/verdicts", "_util/contents.py")  # fmt: skip
"""What measures, judges, or keeps a guarantee."""

TESTS = ("tests/metrics", "tests/attacks", "tests/defences", "tests/targets", "tests/data",
         "tests/federation", "tests/report", "tests/audits", "tests/canaries", "tests/studies",
         "tests/exports", "tests/relations", "tests/test_contents.py", "src")  # fmt: skip

TESTS_SECONDS = 60.0
"""Tests are added, closest first, while they take no longer than this in all, without a change."""

BROKEN = 99
"""Exit status of a process that ran no test."""

PRELOADED = ("pytest", "numpy", "scipy.stats", "scipy.optimize", "sklearn.ensemble", "torch",
             "pydantic", "altair", "jinja2", "rich.console", "xgboost", "jaxtyping", "beartype",
             "hypothesis", "pandas", "vl_convert", "torch._dynamo")  # fmt: skip
"""Imported once, before each mutant gets a process of its own."""


_LOADED = "ignore:Module already imported so cannot be rewritten"


class Tests(NamedTuple):
    """Which tests execute a line, and how long each takes."""

    lines: dict[str, dict[int, set[str]]]
    seconds: dict[str, float]
    files: Counter[str]
    """How many files of the package each test executes: few are close to what it is about."""

    def of(self, mutant: Mutant) -> list[str]:
        """The tests to run, closest first: a file's own examples, which coverage may not show.

        What a cached function answers from memory executes none of its lines.
        """
        lines = self.lines.get(str(mutant.path), {})
        found = set().union(*(lines.get(n, set()) for n in range(mutant.first, mutant.last + 1)))
        found = found or set().union(*lines.values())  # executed when imported, in no test
        chosen = [str(mutant.path)] if ">>>" in mutant.source else []
        spent = 0.0
        for test in sorted(found, key=lambda t: (self.files[t], self.seconds.get(t, 0.0), t)):
            spent += self.seconds.get(test, 0.0)
            if spent > TESTS_SECONDS and chosen:
                break
            chosen.append(test)
        return chosen

    def spent(self, nodes: Sequence[str]) -> float:
        """Seconds that these tests take together."""
        return sum(self.seconds.get(node, 0.0) for node in nodes)


@click.command()
@click.option("--sample", default=300, help="How many mutants, drawn by the seed.")
@click.option("--seed", default=0)
@click.option("--changed", metavar="COMMIT", help="Only files that differ from this commit.")
@click.option("--file", "files", multiple=True, type=Path, help="Only these files.")
@click.option("--workers", default=2, help="Mutants tried at a time.")
@click.option("--limit", default=3600.0, help="Seconds after which no other mutant is begun.")
def main(
    sample: int, seed: int, changed: str | None, files: Sequence[Path], workers: int, limit: float
) -> None:
    """Try mutants of the code that measures and judges; exit 1 where too many survive."""
    FOLDER.mkdir(exist_ok=True)
    tests = _read_coverage()
    paths = [path.relative_to(ROOT) for path in map(Path.absolute, files)] or _scope(changed)
    everything = [m for path in paths for m in mutants(path, (ROOT / path).read_text())]
    known = {entry["key"]: entry["reason"] for entry in _equivalent()}
    chosen = random.Random(seed).sample(everything, min(sample, len(everything)))  # noqa: S311
    tried = [mutant for mutant in chosen if mutant.key not in known]
    count: Counter[str] = Counter()
    parts: dict[str, Counter[str]] = defaultdict(Counter)
    with (FOLDER / "results.txt").open("w") as results:
        for mutant, end in _run(tried, tests, workers, limit):
            count[end] += 1
            parts[_part(mutant.path)][end] += 1
            line = f"{end}: {mutant.path}:{mutant.line}: {mutant.before} -> {mutant.after}"
            print(line, file=results, flush=True)
            if end != "killed":
                click.echo(line)
    for name, own in sorted(parts.items()):
        click.echo(f"{name}: {_killed(own)} of {own.total()} killed")
    done, killed = count.total(), _killed(count)
    click.echo(
        f"{len(everything)} mutants of {len(paths)} files, {len(chosen)} drawn, "
        f"{len(chosen) - len(tried)} equivalent, {done} tried: {count['killed']} killed, "
        f"{count['time-out']} by time-out, {count['survived']} survived, "
        f"{count['no test']} executed by no test"
    )
    if killed < 0.97 * done:
        sys.exit(1)


def _part(path: Path) -> str:
    """The part of the scope that a file is in."""
    parts = (part for part in SCOPE if path.is_relative_to(PACKAGE / part))
    return next(parts, str(path.parent))


def _killed(count: Counter[str]) -> int:
    return count["killed"] + count["time-out"]


def _scope(commit: str | None) -> list[Path]:
    """Python files to change, as paths from the root."""
    package = ROOT / PACKAGE
    found = [p for part in SCOPE for p in ([package / part] if part.endswith(".py")
             else sorted((package / part).rglob("*.py")))]  # fmt: skip
    paths = [path.relative_to(ROOT) for path in found]
    if commit is None:
        return paths
    line = ["git", "diff", "--name-only", commit, "--", "src"]
    names = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for path in paths if str(path) in names.split()]


def _equivalent() -> list[dict[str, str]]:
    found: list[dict[str, str]] = tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])
    return found


def _read_coverage() -> Tests:
    """Which tests execute which lines; measured first, unless it was: delete it to measure anew."""
    import coverage

    log, data = FOLDER / "durations.txt", FOLDER / "coverage"
    if not data.exists():
        rules = FOLDER / "rules.ini"  # coverage deletes what begins with the name of its data
        rules.write_text(f"[run]\nsource_pkgs=divulge\nrelative_files=true\ndata_file={data}\n")
        line = [sys.executable, "-m", "pytest", *TESTS, "-m", "not slow", "-q", "-n", "auto",
                "--dist", "loadfile", "--cov", f"--cov-config={rules}", "--cov-context=test",
                "--cov-report=", "--durations=0", "--durations-min=0.001"]  # fmt: skip
        with log.open("w") as out:
            subprocess.run(line, cwd=ROOT, stdout=out, check=True)
    measured = coverage.CoverageData(str(data))
    measured.read()
    lines: dict[str, dict[int, set[str]]] = {}
    files: Counter[str] = Counter()
    for name in measured.measured_files():
        by_line = {
            number: {context.rpartition("|")[0] for context in contexts if context}
            for number, contexts in measured.contexts_by_lineno(name).items()
        }
        lines[name] = by_line
        files.update(set().union(*by_line.values()))
    seconds: dict[str, float] = {}
    for took, test in re.findall(r"(?m)^([\d.]+)s (?:call|setup) +(.+)$", log.read_text()):
        seconds[test] = seconds.get(test, 0.0) + float(took)
    return Tests(lines, seconds, files)


def _run(
    chosen: Sequence[Mutant], tests: Tests, workers: int, limit: float
) -> Iterator[tuple[Mutant, str]]:
    """What becomes of each mutant, as it ends."""
    for name in PRELOADED:
        __import__(name)
    places = [_copy(number) for number in range(workers)]
    _check_that_tests_pass(places[0], tests, chosen)
    end = time.monotonic() + limit
    waiting, running = list(chosen), dict[int, tuple[Mutant, Path, float]]()
    while (waiting and time.monotonic() < end) or running:
        while waiting and places and time.monotonic() < end:
            mutant = waiting.pop(0)
            nodes = tests.of(mutant)
            if not nodes:
                yield mutant, "no test"
                continue
            place = places.pop()
            (place / mutant.path).write_text(mutant.source)
            seconds = 60 + 4 * int(tests.spent(nodes))
            running[_fork(place, nodes, seconds)] = mutant, place, time.monotonic() + 8 * seconds
        time.sleep(0.05)
        for process, (mutant, place, latest) in list(running.items()):
            late = time.monotonic() > latest
            if late:
                os.killpg(process, signal.SIGKILL)
            found, status = os.waitpid(process, 0 if late else os.WNOHANG)
            if found:
                del running[process]
                shutil.copy2(ROOT / mutant.path, place / mutant.path)
                places.append(place)
                yield mutant, _verdict(status, place)


def _check_that_tests_pass(place: Path, tests: Tests, chosen: Sequence[Mutant]) -> None:
    """Without a change; else whatever stops every test would look like a suite that notices all."""
    nodes = sorted({node for mutant in chosen[:10] for node in tests.of(mutant)[:1]})
    if not nodes:
        sys.exit(f"expected tests that execute a mutant, {FOLDER / 'coverage'} has none: delete it")
    _, status = os.waitpid(_fork(place, nodes, 600), 0)
    if _verdict(status, place) != "survived":
        sys.exit(f"expected tests to pass before anything changes: see {place / 'log.txt'}")


def _verdict(status: int, place: Path) -> str:
    if os.WIFSIGNALED(status):
        limits = (signal.SIGXCPU, signal.SIGKILL)
        return "time-out" if os.WTERMSIG(status) in limits else "killed"
    if os.WEXITSTATUS(status) == BROKEN:
        sys.exit(f"expected pytest to start: see {place / 'log.txt'}")
    return {0: "survived", 5: "no test"}.get(os.WEXITSTATUS(status), "killed")


def _copy(number: int) -> Path:
    """A copy of the tree, in which files may be changed."""
    place = FOLDER / f"copy-{number}"
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.splitlines():
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    return place


def _fork(place: Path, nodes: Sequence[str], seconds: int) -> int:
    """A process that runs these tests in a copy of the tree, for so many seconds of a processor."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = BROKEN
    try:
        code = _in_child(place, nodes, seconds)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _in_child(place: Path, nodes: Sequence[str], seconds: int) -> int:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    out = os.open(place / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(place)
    os.environ["PYTHONPATH"] = str(place / "src")
    here = {"", str(ROOT), str(ROOT / "src")}
    sys.path[:] = [str(place / "src"), str(place), *(p for p in sys.path if p not in here)]
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "divulge")]:
        del sys.modules[name]
    import pytest

    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-W", _LOADED, *nodes]))


if __name__ == "__main__":
    main()
