"""All comparisons with peers, by name."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from benchmarks.peers import answers, shadows, stacking, targets

SUMMARY = "every comparison with peers, one after another"


class Part(NamedTuple):
    """One comparison on one task."""

    name: str
    summary: str
    run: Callable[[bool], None]


def parts() -> Iterator[Part]:
    """All of them, in the order in which they are run."""
    for name in targets.TASKS:
        own, same = (partial(shadows.run, name=name, same=same) for same in (False, True))
        yield Part(f"peers-shadows-{name}", shadows.OWN, own)
        yield Part(f"peers-same-shadows-{name}", shadows.SAME, same)
    for name in targets.TASKS:
        yield Part(f"peers-answers-{name}", answers.SUMMARY, partial(answers.run, name=name))
    for name in stacking.TASKS:
        yield Part(f"peers-stacking-{name}", stacking.SUMMARY, partial(stacking.run, name=name))


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print all tables.

    Raises:
        MissingData: some records are not at hand.
    """
    for part in parts():
        print(f"\n{part.name}: {part.summary}")
        part.run(quick)
