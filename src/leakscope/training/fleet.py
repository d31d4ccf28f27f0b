"""Many small PyTorch models, trained fast and reproducibly: the engine of shadow attacks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool
from torch import nn

from leakscope.core import Records, Target
from leakscope.errors import DataError, LeakscopeError, SpecError, TargetError, did_you_mean
from leakscope.targets.torch import TorchTarget
from leakscope.training.loop import Job, fresh, one_by_one
from leakscope.training.network import obstacle
from leakscope.training.pool import Arrays
from leakscope.training.processes import in_processes
from leakscope.training.recipe import Recipe
from leakscope.training.stacked import stacked

Way = Literal["auto", "processes", "stacked", "one-by-one"]


@dataclass(frozen=True, slots=True)
class Fleet:
    """A recipe, repeated: each model has its own weights, records and batch order, by its seed.

    Whatever the way, the models are the same to floating-point tolerance; within one way, on one
    machine and with one number of threads, bit for bit.

    Args:
        recipe: how one model is trained.
        way: ``processes`` trains in single-threaded processes, one model after another in each;
            ``stacked`` all models as one computation; ``one-by-one`` in this process; ``auto``
            chooses, see `chosen`.
        workers: how many processes; one a core unless given.
        device: where models are trained, as PyTorch names it: ``cpu``, ``cuda``, ``cuda:1``.

    Raises:
        SpecError: there is no such way or device, or there are no workers.
    """

    recipe: Recipe
    way: Way = "auto"
    workers: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.way not in get_args(Way):
            hint = did_you_mean(self.way, get_args(Way))
            raise SpecError(f"expected a known way to train a fleet, got {self.way!r}: {hint}")
        if self.workers is not None and self.workers < 1:
            raise SpecError(f"expected workers from 1, got {self.workers}: leave it out")
        try:
            cpu = torch.device(self.device).type == "cpu"
        except RuntimeError as error:
            raise SpecError(f"expected a device of PyTorch, got {self.device!r}: {error}") from None
        if self.way == "processes" and not cpu:
            raise SpecError(
                f'expected device="cpu" with processes, got {self.device!r}: processes would '
                'queue for one accelerator; use way="auto"'
            )

    @property
    def chosen(self) -> str:
        """The way that will be taken, and why.

        Raises:
            TargetError: the recipe makes no network.
        """
        with _explained():
            return ": ".join(self._choice(fresh(self.recipe, 0)))

    def many(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
    ) -> Iterator[Target]:
        """One trained network a row of ``subsets``, in order, as soon as it is there.

        Raises:
            SpecError: the network cannot be trained in the way that was asked for.
            DataError: a subset is empty.
            TargetError: the recipe makes no network, or one that could not be trained.
        """
        if not subsets.any(axis=1).all():
            raise DataError("expected records in every subset, got an empty one: enlarge the pool")
        jobs = [
            Job(np.flatnonzero(subset), int(seed))
            for subset, seed in zip(subsets, seeds, strict=True)
        ]
        if jobs:
            with _explained():
                for module in self._trained(pool, jobs):
                    yield TorchTarget(module, "logits")

    def _trained(self, pool: Records, jobs: Sequence[Job]) -> Iterator[nn.Module]:
        network = fresh(self.recipe, jobs[0].seed)
        way, _ = self._choice(network)
        data = Arrays.prepare(pool, network)
        if way == "processes":
            return in_processes(self.recipe, data, jobs, self._processes())
        train = stacked if way == "stacked" else one_by_one
        return train(self.recipe, data.tensors(self.device), jobs)

    def _choice(self, network: nn.Module) -> tuple[Way, str]:
        why_not = obstacle(network)
        if self.way == "stacked" and why_not:
            raise SpecError(
                f"expected layers that can be stacked, but {why_not}: "
                'use way="auto", or train without that layer'
            )
        if self.way != "auto":
            return self.way, "as asked for"
        if torch.device(self.device).type != "cpu":
            if why_not:
                return "one-by-one", why_not
            return "stacked", "small models leave an accelerator idle unless computed together"
        processes = self._processes()
        if processes == 1:
            return "one-by-one", "there is one worker, this process"
        return "processes", f"on a CPU {processes} single-threaded ones beat one stack of models"

    def _processes(self) -> int:
        import joblib

        return int(self.workers or joblib.cpu_count())


@contextmanager
def _explained() -> Iterator[None]:
    """A failure of the user's network as one of ours."""
    try:
        yield
    except LeakscopeError:
        raise
    except Exception as error:
        raise TargetError(
            f"expected a shadow model to train, got {type(error).__name__}: {error}: "
            "make one network by hand and put a few records to it to see why"
        ) from error
