"""The ways to train a fleet, behind one call."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from torch import nn

from divulge.core import Records
from divulge.training.loop import Job, threads, train
from divulge.training.pool import Arrays
from divulge.training.processes import in_processes
from divulge.training.recipe import Recipe
from divulge.training.stacked import stacked

Way = Literal["processes", "stacked", "one-by-one"]


class Work(NamedTuple):
    """What all models of a fleet have in common."""

    recipe: Recipe
    pool: Records
    data: Arrays
    device: str
    wave: int
    """How many of them may be in memory at once."""


def trained(work: Work, way: Way, workers: int, jobs: Sequence[Job]) -> Iterator[nn.Module]:
    """The models in order, as soon as they are there."""
    tensors = work.data.tensors(work.device)
    if way == "one-by-one":
        for job in jobs:
            with threads(workers):
                module = train(work.recipe, tensors, job)
            yield module
        return
    for first in range(0, len(jobs), work.wave):
        some = jobs[first : first + work.wave]
        if way == "processes":
            yield from in_processes(work.recipe, work.pool, work.data, some, workers)
        else:
            with threads(workers):
                modules = stacked(work.recipe, tensors, some)
            yield from modules
