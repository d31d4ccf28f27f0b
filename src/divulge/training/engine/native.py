"""Training in native code, which the distribution divulge-fast brings: what it has to offer.

It is found by its entry point; training that can do without it does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType
from typing import Protocol, cast, runtime_checkable

import numpy as np
from torch import nn

from divulge._util.extras import import_optional, name_missing_extra
from divulge.errors import SpecError
from divulge.training.engine.loop import (
    Job,
)
from divulge.training.recipe import Precision, RaggedRows, Recipe
from divulge.training.tensors import PoolArrays

PACKAGE = "divulge_fast"
"""What brings it."""
GROUP = "divulge.training_strategies"
"""The group of entry points: a strategy's name, and the module that trains by it."""


@runtime_checkable
class NativeClientTraining(Protocol):
    """Trains one network from given weights, again and again, in threads."""

    def states(
        self,
        start: Mapping[str, np.ndarray],
        tasks: Sequence[tuple[RaggedRows, int]],
        threads: int,
    ) -> Iterator[dict[str, np.ndarray]]:
        """The state dictionaries after each training, in order, as soon as they are there.

        Args:
            start: the state dictionary from which each of them sets out.
            tasks: the rows and the seed of each training.
            threads: how many are trained at a time.
        """
        ...


@runtime_checkable
class NativeTraining(Protocol):
    """What a module offers that trains networks in native code."""

    @property
    def KERNELS(self) -> str:  # noqa: N802 (a constant of the module)
        """The module with the native code, which needs a compiler."""
        ...

    @property
    def NativeClients(  # noqa: N802 (a class of the module)
        self,
    ) -> Callable[[Recipe, PoolArrays, nn.Module], NativeClientTraining]:
        """Makes what trains the clients of a federation."""
        ...

    def load_kernels(self) -> ModuleType | None:
        """The native code; None where its compiler is not installed, or does not work here."""
        ...

    def is_native(self, recipe: Recipe, network: nn.Module, data: PoolArrays) -> bool:
        """Whether native code can train this network by this recipe, if it can be loaded."""
        ...

    def is_large(self, network: nn.Module) -> bool:
        """Whether PyTorch's kernels may be faster than native code; then a trial decides."""
        ...

    def bfloat16_obstacle(self, recipe: Recipe, network: nn.Module, data: PoolArrays) -> str | None:
        """Why native code, which is loaded, should not train in bfloat16; None where it can."""
        ...

    def train_in_threads(
        self,
        recipe: Recipe,
        data: PoolArrays,
        jobs: Sequence[Job],
        threads: int,
        precision: Precision = "float32",
    ) -> Iterator[nn.Module]:
        """The models in order, as soon as they are there."""
        ...


@cache
def find_native() -> NativeTraining | None:
    """What is installed; None where divulge-fast is not, or does not work here."""
    for point in entry_points(group=GROUP, name="compiled"):
        return cast("NativeTraining | None", import_optional(point.value))
    return None


def load_native() -> NativeTraining:
    """What is installed, its native code loaded.

    Raises:
        MissingExtra: divulge-fast, or Numba, which compiles its native code, is not installed.
    """
    native = find_native()
    with name_missing_extra():
        if native is None:
            raise ModuleNotFoundError(f"No module named {PACKAGE!r}", name=PACKAGE)
        import_module(native.KERNELS)
    return native


def check_native(recipe: Recipe, network: nn.Module, data: PoolArrays) -> None:
    """Refuse to train in native code what cannot be.

    Raises:
        SpecError: another network or recipe.
        MissingExtra: divulge-fast, or Numba, which compiles it, is not installed.
    """
    code = find_native()
    if code is not None and not code.is_native(recipe, network, data):
        raise SpecError(
            "expected a dense or simple convolutional network with sgd, adam or adamw and no loss "
            'of its own to train in native code, got another one: use way="auto"'
        )
    load_native()


def check_bfloat16(recipe: Recipe, network: nn.Module, data: PoolArrays) -> None:
    """Refuse to train in bfloat16 what cannot be, or would not be faster.

    Raises:
        SpecError: another network, recipe or processor, or records with many zeros.
        MissingExtra: divulge-fast, or Numba, which compiles native code, is not installed.
    """
    if why_not := load_native().bfloat16_obstacle(recipe, network, data):
        raise SpecError(f"expected a training in bfloat16, but {why_not}: leave the precision out")


def native_clients(
    recipe: Recipe, data: PoolArrays, network: nn.Module
) -> NativeClientTraining | None:
    """What trains in native code; None where it is not installed, cannot, or may be slower."""
    code = find_native()
    if code is None or not code.is_native(recipe, network, data) or code.is_large(network):
        return None
    return code.NativeClients(recipe, data, network) if code.load_kernels() else None
