"""A short trial of training models: a few of them, on more and more of their records."""

import math
import time
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from divulge.errors import DivulgeError
from divulge.training.shadows.strategy import ResolvableTrainer, settle
from divulge.training.shadows.workers import LocalWorkers, Workers
from divulge.training.shadows.workload import ShadowWorkload
from divulge.training.trainers import FunctionTrainer

FREE = 8.0
"""Seconds that a trial may take, whatever it estimates."""

FRACTION = 0.04
"""Share of the estimated time that a trial may take, where that is more."""

FEWEST = 64
"""Records that a model is trained on in the first part of a trial, or all."""

FEWEST_A_CLASS = 32
"""Records of a class that stay in every part of a trial, or all: a model gets about half."""


class Part(NamedTuple):
    """What models took that were trained at once, on some of their records."""

    share: float
    """Of the records that they are trained on, and about that of those they are asked about."""
    seconds: float
    """For one model, where so many are trained at once."""


class Trial:
    """Parts of a workload, the smallest first: the same models on more and more records."""

    def __init__(self, work: ShadowWorkload, workers: Workers) -> None:
        self._workers, self._begun = workers, time.perf_counter()
        self._work = work
        self.parts: list[Part] = []
        self.trained, self.classes = 0, 0.0
        self._once = 0.0  # seconds that are spent once: the choice of a way, the start of workers

    def run(self) -> None:
        """Train the smallest part twice, as the start of workers is in the first; then others."""
        work = self._work
        if isinstance(work.trainer, ResolvableTrainer):  # as it would be for all models
            self._work = replace(work, trainer=settle(work, self._workers))
            self._once = self.spent()
        share = min(1.0, FEWEST / max(1.0, float(work.subsets.sum(axis=1).mean())))
        try:
            self._train(share)
        except DivulgeError:  # so few records may be too few; if not, all say it again
            if share == 1:
                raise
            share = 1.0
            self._train(share)
        if not self._alone or self._left() > 0:
            first = self.parts.pop()
            self._train(share)
            begun = (first.seconds - self.parts[0].seconds) * self._wave
            self._once += max(0.0, begun)
        while (share := self._next_share()) > self.parts[-1].share:
            self._train(share)

    def spent(self) -> float:
        """Seconds since the trial began."""
        return time.perf_counter() - self._begun

    @property
    def at_least(self) -> bool:
        """Whether one part was all: it says nothing of how time grows with records."""
        return len(self.parts) == 1 and self.parts[0].share < 1

    def seconds(self) -> float:
        """For all models."""
        return self._least() if self.at_least else self._all(self._predict(1.0))

    def _all(self, seconds: float) -> float:
        return self._once + len(self._work.seeds) * seconds

    def _least(self) -> float:
        """As if more records took no more time than those of the last part."""
        return self._all(self.parts[-1].seconds)

    @property
    def _wave(self) -> int:
        """How many models are trained at once."""
        return 1 if self._alone else min(len(self._work.seeds), self._workers.processors())

    @property
    def _alone(self) -> bool:
        """Whether this process trains one model after another, without workers to be started."""
        alone = isinstance(self._work.trainer, FunctionTrainer)
        return alone and isinstance(self._workers, LocalWorkers)

    def _left(self) -> float:
        """Seconds that may still be spent."""
        return max(FREE, FRACTION * self._least()) - self.spent()

    def _predict(self, share: float) -> float:
        """Seconds for one model: the two last parts carried on, in a line or as a power.

        The higher of the two: a fixed time beside one for each record is a line, and training that
        takes more for a record the more there are is a power.
        """
        *before, last = self.parts
        growth = share / last.share
        if not before or min(before[-1].seconds, last.seconds) <= 0:
            return last.seconds * growth
        first = before[-1]
        slope = (last.seconds - first.seconds) / (last.share - first.share)
        power = math.log(last.seconds / first.seconds) / math.log(last.share / first.share)
        line = last.seconds + max(0.0, slope) * (share - last.share)
        return max(line, float(last.seconds * growth ** max(0.0, power)))

    def _next_share(self) -> float:
        """The largest share that can still be paid for; that of before if none can."""
        last, left = self.parts[-1].share, self._left()
        # one part does not tell how time grows with records: no more than four times as many
        limit = 1.0 if len(self.parts) > 1 else 4 * last
        for share in (limit, last + (limit - last) / 2, 2 * last):
            share = min(1.0, share)
            if share > 1.2 * last and self._wave * self._predict(share) < 0.6 * left:
                return share
        return last

    def _train(self, share: float) -> None:
        """Train as many models as can be trained at once, or fewer if that takes too long."""
        begun, count = time.perf_counter(), 0
        part = _shrink(self._work, share)
        queries = sum(map(len, part.queries))
        with closing(self._workers.train(part, range(self._wave))) as arriving:
            for arrived in arriving:
                count += 1
                took = time.perf_counter() - begun
                if arrived.answers is not None:
                    self.classes = arrived.answers.size / queries
                left = max(FREE, FRACTION * took / count * len(self._work.seeds)) - self.spent()
                if left < 0:
                    break
        self.trained += count
        self.parts.append(Part(_trained_share(self._work, part, count), took / count))


def _trained_share(work: ShadowWorkload, part: ShadowWorkload, count: int) -> float:
    """The share of what a model has on average on which the first models of a part were trained."""
    if part is work:
        return 1.0
    return float(part.subsets[:count].sum(axis=1).mean() / work.subsets.sum(axis=1).mean())


def _shrink(work: ShadowWorkload, share: float) -> ShadowWorkload:
    """The same models on a share of their records, taken evenly, and with enough of each class."""
    if share >= 1:
        return work
    chosen = np.zeros(len(work.pool), bool)
    stratum = work.pool.stratum
    for label in np.unique(stratum):
        rows = np.flatnonzero(stratum == label)
        wanted = min(len(rows), max(FEWEST_A_CLASS, math.ceil(share * len(rows))))
        chosen[rows[np.linspace(0, len(rows) - 1, wanted).astype(np.int64)]] = True
    actual = float(chosen.mean())
    queries = tuple(
        group.take(np.linspace(0, len(group) - 1, math.ceil(actual * len(group))).astype(np.int64))
        for group in work.queries
    )
    return replace(work, subsets=work.subsets & chosen, queries=queries)
