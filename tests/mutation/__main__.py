"""Change the code a little, and see whether a quick test notices: ``make mutate``.

Each mutant is one change of one line. Tests run that execute this line, closest first, and test
files that are near, until one fails: then it is killed. One that no test notices survives, and
shows a line whose result nobody checks, or that is not needed; or it is equivalent, and stands in
``equivalent.toml`` with the reason. One that never ends counts apart: it takes no assertion to
notice that. What is known is kept in ``.mutation``: a second call tries what is left of the sample,
then survivors again, and draws further mutants where the sample is larger. ``--map`` first runs
every quick test once, so that all tests that execute a line are known.

Why not mutmut or cosmic-ray: mutmut 3 changes function bodies alone, leaves out those with
decorators, and puts all mutants of a function into the module beside it, where jaxtyping's hook
would wrap each. cosmic-ray runs one command for every mutant, without saying which: it cannot
choose the tests that execute the line, and the whole suite takes many minutes.
"""

import random
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from tests.mutation.blocks import Numbering
from tests.mutation.imports import try_imports
from tests.mutation.operators import Mutant, mutants
from tests.mutation.reach import Reach, Tests
from tests.mutation.results import Results, find_package
from tests.mutation.server import try_functions

ROOT = Path(__file__).parents[2]
PACKAGE = Path("src", "divulge")
FOLDER = ROOT / ".mutation"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")

SCOPE = ("metrics", "attacks", "defences", "targets", "data", "canaries", "audits",
         "finished_runs", "secrets", "checks", "federation", "studies", "core", "testing",
         "training/shadows", "training/losses.py",
         "training/optimisers.py", "training/recipe.py", "exports/ci", "exports/outputs.py",
         "report/verdict.py", "report/evidence.py", "report/shifts.py", "report/doubts.py",
         "report/caveats.py", "report/claim.py", "report/exposed.py", "report/unmeasured.py",
         "report/ranking.py", "report/federation/verdicts", "report/federation/small_samples.py",
         "_util/arrays.py", "_util/contents.py", "_util/credentials.py", "_util/digest.py",
         "_util/norms.py", "_util/random.py", "_util/redaction.py", "_util/streams.py",
         "_util/untrusted.py")  # fmt: skip
"""What measures, judges, or keeps a guarantee."""

PAGES = ("page.py", "search_page.py", "charts.py", "front_chart.py", "table.py", "log.py",
         "export.py")  # fmt: skip
"""Files of these parts that only lay out what others found."""


@click.command()
@click.option("--sample", default=300, help="How many mutants, drawn by the seed.")
@click.option("--seed", default=0)
@click.option("--changed", metavar="COMMIT", help="Only files that differ from this commit.")
@click.option("--file", "files", multiple=True, type=Path, help="Only these files.")
@click.option("--only", default="", help="Only mutants whose key has this text.")
@click.option("--map", "mapped", is_flag=True, help="First run every quick test once.")
def main(
    sample: int, seed: int, changed: str | None, files: Sequence[Path], only: str, *, mapped: bool
) -> None:
    """Try mutants of the code that measures and judges; exit 1 where too many survive."""
    FOLDER.mkdir(exist_ok=True)
    paths = [path.relative_to(ROOT) for path in map(Path.absolute, files)] or _scope(changed)
    everything = [m for path in paths for m in mutants(path, (ROOT / path).read_text())]
    chosen = [m for m in _draw(everything, seed)[:sample] if only in m.key]
    known = {entry["key"]: entry["reason"] for entry in _equivalent()}
    results = Results(FOLDER)
    tried = [m for m in chosen if m.key not in known and not results.is_killed(m)]
    tried.sort(key=results.is_tried)  # after an interruption, what is left comes first
    numbering = Numbering(ROOT, _scope(None) if mapped else sorted({m.path for m in tried}))
    for attempt in (partial(try_functions, mapped=mapped), try_imports):
        attempt(tried, Tests(ROOT, numbering, Reach(FOLDER, ROOT, numbering)), results.add, FOLDER)
    click.echo(f"{len(everything)} mutants of {len(paths)} files, {len(chosen)} drawn")
    if not Results(FOLDER).describe(chosen, known):  # a process of its own added to them
        sys.exit(1)


def _draw(everything: Sequence[Mutant], seed: int) -> list[Mutant]:
    """All in an order whose every beginning has mutants of each package in proportion."""
    packages: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in everything:
        packages[find_package(mutant)].append(mutant)
    rng = random.Random(seed)  # noqa: S311
    ranked: list[tuple[float, str, Mutant]] = []
    for package, own in sorted(packages.items()):
        shift = rng.random()
        order = enumerate(rng.sample(own, len(own)))
        ranked += [((rank + shift) / len(own), package, mutant) for rank, mutant in order]
    return [mutant for _, _, mutant in sorted(ranked, key=lambda one: one[:2])]


def _scope(commit: str | None) -> list[Path]:
    """Python files to change, as paths from the root."""
    package = ROOT / PACKAGE
    found = [p for part in SCOPE for p in ([package / part] if part.endswith(".py")
             else sorted((package / part).rglob("*.py")))]  # fmt: skip
    inside = [path.relative_to(ROOT) for path in found if path.name not in PAGES]
    paths = [path for path in inside if "nvflare" not in path.parts]  # tested every night alone
    if commit is None:
        return paths
    line = ["git", "diff", "--name-only", commit, "--", "src"]
    names = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for path in paths if str(path) in names.split()]


def _equivalent() -> list[dict[str, str]]:
    found: list[dict[str, str]] = tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])
    return found


if __name__ == "__main__":
    main()
