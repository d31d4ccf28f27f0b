"""Decaf at three rates of Adadelta, three federations each: published, by virtual clients, RLU."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.timing import environment
from divulge.metrics import intervals

if TYPE_CHECKING:
    from divulge_papers.data import ImageSetName

SUMMARY = "Decaf on the paper's users with small images, at three rates, three federations each"

RATES, SEEDS = (1.0, 0.1, 0.01), 3

ROUND = 4
"""Number of the attacked round, from 0, of tables of size small."""


def run(quick: bool, data: "ImageSetName") -> None:  # noqa: FBT001 (like every benchmark)
    """Print the mean L1 over users of all federations, and how far it is from the published one.

    Records, starting weights and the attack's random choices differ between federations.
    """
    from divulge_papers.papers.decaf.study import find_federation, measure_distances, read_setting
    from divulge_papers.papers.decaf.tables import PUBLISHED, REFINED, RLU, UNIFORM

    print(environment(("divulge", "torch")))
    print(f"{data}, size small, the fifth round; the paper has {PAPER[data]}")
    attacks = {"published": PUBLISHED, "refined": REFINED, "RLU": RLU, "equal shares": UNIFORM}
    for rate in RATES:
        settings: dict[str, Any] = {"data": data, "rate": rate}
        hits: list[float] = []
        distances: list[Sequence[float]] = []
        # attacks of one federation one after another: two federations are kept
        for seed in range(1 if quick else SEEDS):
            hits += find_federation(read_setting(seed, "small", settings)).hits(ROUND)
            measured = [
                measure_distances(seed, "small", attack=attack, number=ROUND, **settings)
                for attack in attacks.values()
            ]
            distances += [row.values["L1"] for row in measured]
        by_attack = np.reshape(distances, (-1, len(attacks), len(distances[0]))).swapaxes(0, 1)
        each = dict(zip(attacks, by_attack.reshape(len(attacks), -1), strict=True))
        print(f"rate {rate:<5}accuracy of the model {np.mean(hits):.3f}", flush=True)
        for name, off in each.items():
            less = _mean(off - each["published"]) if name != "published" else ""
            print(f"rate {rate:<5}{name:14}{_mean(off):26}{less}", flush=True)


def _mean(off: np.ndarray) -> str:
    low, high = intervals.student_mean(off.tolist())
    return f"{off.mean():.3f} ({low:.3f} to {high:.3f})"


PAPER: "Mapping[ImageSetName, float]" = {"mnist": 0.185, "fashion_mnist": 0.263, "cifar10": 0.192}
"""Published mean L1 of tables III, IV and V."""

PARTS = {f"decaf-rates-{name}": partial(run, data=name) for name in PAPER}
