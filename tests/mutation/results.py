"""What became of each mutant, kept between calls, and the table of it."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import click

from tests.mutation.operators import Mutant
from tests.mutation.server import Verdict

ENOUGH = 0.92
"""The share of mutants that tests have to notice."""


def find_package(mutant: Mutant) -> str:
    """The package of divulge that a mutant changes."""
    return mutant.path.parts[2]


class Results:
    """What became of each mutant: when it was tried first, and last."""

    def __init__(self, folder: Path) -> None:
        path = folder / "results.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        self._first: dict[str, Verdict] = {}
        self._last: dict[str, Verdict] = {}
        for line in lines:
            key, *verdict = json.loads(line)
            self._note(key, Verdict(*verdict))
        self._out = path.open("a")

    def _note(self, key: str, verdict: Verdict) -> None:
        self._first.setdefault(key, verdict)
        self._last[key] = verdict

    def is_killed(self, mutant: Mutant) -> bool:
        """Whether a test noticed it when it was tried last."""
        return mutant.key in self._last and _is_killed(self._last[mutant.key])

    def is_tried(self, mutant: Mutant) -> bool:
        """Whether it was tried at all."""
        return mutant.key in self._last

    def add(self, mutant: Mutant, verdict: Verdict) -> None:
        """Keep and show one."""
        self._note(mutant.key, verdict)
        print(json.dumps([mutant.key, *verdict]), file=self._out, flush=True)
        place = f"{mutant.path}:{mutant.line}: {mutant.before} -> {mutant.after}"
        click.echo(f"{verdict.end} ({verdict.test}, {verdict.seconds:.1f} s): {place}")

    def describe(self, chosen: Sequence[Mutant], known: dict[str, str]) -> bool:
        """A table by package, and whether tests notice enough."""
        count: dict[str, Counter[str]] = defaultdict(Counter)
        for mutant in chosen:
            for name in (find_package(mutant), "all"):
                own, key = count[name], mutant.key
                own["equivalent"] += key in known
                if key in self._last and key not in known:
                    own["tried"] += 1
                    own["first"] += _is_killed(self._first[key])
                    own["last"] += _is_killed(self._last[key])
                    own["time-out"] += self._last[key].end == "time-out"
        click.echo("package       tried  killed at first  killed now  by time-out  equivalent")
        for name, own in sorted(count.items(), key=lambda pair: (pair[0] == "all", pair[0])):
            row = (own["tried"], own["first"], own["last"], own["time-out"], own["equivalent"])
            click.echo(f"{name:12} {row[0]:6} {row[1]:16} {row[2]:11} {row[3]:12} {row[4]:11}")
        total = count["all"]
        for when in ("first", "last"):
            low, high = _interval(total[when], total["tried"])
            share = total[when] / max(total["tried"], 1)
            click.echo(f"{when}: {share:.1%} killed, 95 % interval {low:.1%} to {high:.1%}")
        return total["last"] >= ENOUGH * total["tried"]


def _is_killed(verdict: Verdict) -> bool:
    return verdict.end in ("killed", "time-out")


def _interval(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's."""
    if not trials:
        return 0.0, 1.0
    z = 1.959964
    middle = (successes + z * z / 2) / (trials + z * z)
    share = successes / trials
    width = z * math.sqrt(share * (1 - share) / trials + (z / trials / 2) ** 2)
    width /= 1 + z * z / trials
    return middle - width, middle + width
