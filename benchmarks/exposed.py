"""Quality: the list of exposed records, and how many a top holds at least, where both are known.

A record has a hardness and two scores: the one that it gets if the model was not trained on it, and
the one that it gets if it was. They differ for exposed records alone. Chance decides who is a
member, so a listed member that is not exposed is a false discovery.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from scipy import stats

from divulge._util.random import stream
from divulge.metrics import exposed
from divulge.metrics.intervals import clopper_pearson
from divulge.metrics.max_test import LEVEL, SHARES

SUMMARY = "false-discovery rate of lists of exposed records, and limits of their number at the top"

AUDITS, MEMBERS, NONMEMBERS = 200, 1_000, 1_000
ATTACKS = 12
SIZES = (60, 200, 1_000)
"""Members, and as many non-members, in the table of tops."""
SHADOWS = 16

Column = Float64[np.ndarray, " records"]
Flags = Bool[np.ndarray, " records"]


class World(NamedTuple):
    """Random data of one simulated audit."""

    score: Column
    member: Flags
    exposed: Flags


class ListQuality(NamedTuple):
    """Quality of a list of exposed records, as means over audits."""

    share: float
    """False-discovery rate: share of the list that is not exposed; 0 for an empty list."""
    error: float
    """Standard error of this mean."""
    listed: float
    recall: float
    """Share of the exposed members that are on the list."""


class Top(NamedTuple):
    """The records that one attack ranks highest."""

    places: int
    members: int
    exposed: int
    """Members among them that training raised."""
    limit: int
    """How many that are at least, by `exposed.fewest_exposed_on_top`."""


def _alike(rng: np.random.Generator, records: int, share: float) -> tuple[Column, Column, Flags]:
    return rng.normal(size=records), _lift(rng, records), rng.random(records) < share


def _hardness(rng: np.random.Generator, records: int, share: float) -> tuple[Column, Column, Flags]:
    out = 2 * rng.normal(size=records) + rng.normal(size=records)
    return out, _lift(rng, records), rng.random(records) < share


def _hardest(rng: np.random.Generator, records: int, share: float) -> tuple[Column, Column, Flags]:
    hardness = rng.normal(size=records)
    out = -2 * hardness + 0.3 * rng.normal(size=records)
    return out, rng.gamma(4, 3, records), hardness > np.quantile(hardness, 1 - share)


def _heavy(rng: np.random.Generator, records: int, share: float) -> tuple[Column, Column, Flags]:
    return rng.standard_t(3, records), 2 * _lift(rng, records), rng.random(records) < share


def _levels(rng: np.random.Generator, records: int, share: float) -> tuple[Column, Column, Flags]:
    out = np.minimum(np.round(rng.normal(size=records)), 3.0)
    return out, np.round(_lift(rng, records)), rng.random(records) < share


def _lift(rng: np.random.Generator, records: int) -> Column:
    return rng.gamma(2.0, 2.0, records)


POPULATIONS: dict[
    str, Callable[[np.random.Generator, int, float], tuple[Column, Column, Flags]]
] = {
    "records alike": _alike,
    "hardness differs": _hardness,
    "the hardest are exposed": _hardest,
    "heavy tails": _heavy,
    "few levels, many ties": _levels,
}
"""By name: what draws scores without training, what training adds, and who is exposed."""


def draw(
    population: str, share: float, seed: int, members: int = MEMBERS, nonmembers: int = NONMEMBERS
) -> World:
    """One audit of a population of which this share is exposed."""
    rng = stream(seed, population, str(share), members, nonmembers)
    records = members + nonmembers
    out, lift, open_ = POPULATIONS[population](rng, records, share)
    member = rng.permutation(records) < members
    return World(out + lift * (open_ & member), member, open_)


def ours(world: World, q: float) -> Flags:
    """Whether each member is on our list at this rate."""
    accused = exposed.count_accused(world.score, world.member)
    return exposed.q_values(accused, int(np.sum(~world.member))) <= q


def longest(seed: int, q: float, share: float = 0.1) -> tuple[Flags, Flags]:
    """The longest of the lists of attacks of one strength, and who of the members is exposed."""
    rng = stream(seed, "longest", str(share))
    records = MEMBERS + NONMEMBERS
    member, open_ = rng.permutation(records) < MEMBERS, rng.random(records) < share
    lift = 2 + _lift(rng, records)
    lists = [
        ours(World(rng.normal(size=records) + lift * (open_ & member), member, open_), q)
        for _ in range(ATTACKS)
    ]
    return max(lists, key=np.sum), open_[member]


def gaussians(seed: int, q: float, share: float = 0.1) -> tuple[Flags, Flags]:
    """The list by a Gaussian per record, fitted to shadows; logits have t-distributed noise.

    p is that of Student's prediction, which allows for the estimated mean and variance.
    """
    rng = stream(seed, "gaussians", str(share))
    hardness, open_ = rng.normal(size=MEMBERS), rng.random(MEMBERS) < share
    shadows = hardness[:, None] + rng.standard_t(3, (MEMBERS, SHADOWS))
    target = hardness + rng.standard_t(3, MEMBERS) + 2 * _lift(rng, MEMBERS) * open_
    spread = shadows.std(axis=1, ddof=1) * np.sqrt(1 + 1 / SHADOWS)
    p = stats.t.sf((target - shadows.mean(axis=1)) / spread, SHADOWS - 1)
    return stats.false_discovery_control(p) <= q, open_


def average_lists(lists: Iterator[tuple[Flags, Flags]]) -> ListQuality:
    """Average the quality of lists, each given beside the exposed members."""
    rows = [
        (
            np.sum(chosen & ~open_) / max(1, np.sum(chosen)),
            np.sum(chosen),
            np.sum(chosen & open_) / max(1, np.sum(open_)),
        )
        for chosen, open_ in lists
    ]
    share, listed, recall = np.mean(rows, axis=0)
    error = np.std([row[0] for row in rows]) / np.sqrt(len(rows))
    return ListQuality(float(share), float(error), float(listed), float(recall))


def measure_lists(
    population: str,
    share: float,
    q: float,
    audits: int = AUDITS,
    members: int = MEMBERS,
    nonmembers: int = NONMEMBERS,
) -> ListQuality:
    """Measure the quality of our list."""
    worlds = (draw(population, share, seed, members, nonmembers) for seed in range(audits))
    return average_lists((ours(world, q), world.exposed[world.member]) for world in worlds)


def measure_tops(population: str, share: float, size: int, seed: int) -> list[Top]:
    """All tops that the verdict looks at, of all attacks on one model, one attack after another."""
    rng = stream(seed, "tops", population, str(share), size)
    member, tops = rng.permutation(2 * size) < size, []
    for _ in range(ATTACKS):
        out, lift, open_ = POPULATIONS[population](rng, 2 * size, share)
        raised = open_ & member & (lift > 0)
        score = out + lift * raised
        for places in (max(1, round(top_share * 2 * size)) for top_share in SHARES):
            top = score > np.sort(score)[-places - 1]  # ties that reach beyond it are left out
            limit = exposed.fewest_exposed_on_top(score, member, places, LEVEL / ATTACKS)
            tops.append(Top(places, int(np.sum(member & top)), int(np.sum(raised & top)), limit))
    return tops


def _row_of_tops(population: str, share: float, audits: int) -> str:
    cells = [_summarise_tops(population, share, size, audits) for size in SIZES]
    return f"| {population} | {100 * share:.0f} % | {' | '.join(cells)} |"


def _summarise_tops(population: str, share: float, size: int, audits: int) -> str:
    """How often some limit of an audit is too high; what is in the top 10 %, on average."""
    each = [measure_tops(population, share, size, seed) for seed in range(audits)]
    wrong = sum(any(top.limit > top.exposed for top in tops) for tops in each)
    high = clopper_pearson(wrong, audits).high
    tenth = [top for tops in each for top in tops[SHARES.index(0.1) :: len(SHARES)]]
    means = np.mean([top[1:] for top in tenth], axis=0)
    shown = " / ".join(f"{mean:.1f}" for mean in means)
    return f"{100 * wrong / audits:.1f} % (up to {100 * high:.1f} %), {shown}"


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print the table of docs/metrics.md."""
    audits = 20 if quick else AUDITS
    print("| population | exposed | listed at 10 % | realised rate | found of the exposed |")
    print("| --- | --- | --- | --- | --- |")
    for name in POPULATIONS:
        for share in (0.1, 0.4):
            _print(name, share, measure_lists(name, share, 0.1, audits))
    chosen = average_lists(longest(seed, 0.1) for seed in range(audits))
    _print("*the longest of 12 lists*", 0.1, chosen)
    fitted = average_lists(gaussians(seed, 0.1) for seed in range(audits))
    _print("*a Gaussian per record*", 0.1, fitted)
    print(f"\nrecords in each group: {2 * audits} audits with a limit too high, members in the top")
    print("10 % / exposed of them / at least so many by the limit for 12 attacks at once")
    print(f"| population | exposed | {' | '.join(f'{size:,}' for size in SIZES)} |")
    print("| --- " * (2 + len(SIZES)) + "|")
    print(_row_of_tops("records alike", 0.0, 2 * audits))
    for name in POPULATIONS:
        for share in (0.1, 0.4):
            print(_row_of_tops(name, share, 2 * audits), flush=True)


def _print(name: str, share: float, quality: ListQuality) -> None:
    rate = f"{100 * quality.share:.1f} % ± {100 * quality.error:.1f}"
    power = f"{100 * quality.recall:.0f} %"
    print(f"| {name} | {100 * share:.0f} % | {quality.listed:.0f} | {rate} | {power} |", flush=True)
