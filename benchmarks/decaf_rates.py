"""Decaf at three rates of Adadelta, three federations each: published, by virtual clients, RLU."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.timing import environment
from divulge.metrics import intervals

if TYPE_CHECKING:
    from divulge_papers.data import ImageSetName

SUMMARY = "Decaf on the paper's users with small images, at three rates, three federations each"

RATES, SEEDS = (1.0, 0.1, 0.01), 3


def run(quick: bool, data: "ImageSetName", published: float) -> None:  # noqa: FBT001 (like every benchmark)
    """Print the mean L1 over users of all federations, and how far it is from the published one.

    Records, starting weights and the attack's random choices differ between federations.
    """
    from divulge_papers.papers.decaf.study import measure_distances
    from divulge_papers.papers.decaf.tables import PUBLISHED, REFINED, RLU, UNIFORM

    print(environment(("divulge", "torch")))
    print(f"{data}, size small, the fifth round; the paper has {published}")
    attacks = {"published": PUBLISHED, "refined": REFINED, "RLU": RLU, "equal shares": UNIFORM}
    for rate in RATES:
        # attacks of one federation one after another: two federations are kept
        distances = [
            measure_distances(seed, "small", attack=attack, data=data, rate=rate).values["L1"]
            for seed in range(1 if quick else SEEDS)
            for attack in attacks.values()
        ]
        by_attack = np.reshape(distances, (-1, len(attacks), len(distances[0]))).swapaxes(0, 1)
        each = dict(zip(attacks, by_attack.reshape(len(attacks), -1), strict=True))
        for name, off in each.items():
            less = _mean(off - each["published"]) if name != "published" else ""
            print(f"rate {rate:<5}{name:14}{_mean(off):26}{less}", flush=True)


def _mean(off: np.ndarray) -> str:
    low, high = intervals.student_mean(off.tolist())
    return f"{off.mean():.3f} ({low:.3f} to {high:.3f})"


PARTS = {
    f"decaf-rates-{data}": partial(run, data=data, published=published)
    for data, published in (("mnist", 0.185), ("fashion_mnist", 0.263), ("cifar10", 0.192))
}
