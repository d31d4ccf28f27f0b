"""The log of a search: all trials, and what could not be tried."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SearchLog(Generic[T]):
    """All trials in order, and what could not be tried."""

    trials: tuple[T, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    """By defence, or by setting, why nothing could be trained."""
    chosen: int | None = None
    """The number of the trial whose setting is the final one; None where `choose` says it."""
    final: float | None = None
    """The work of the final model and its audit; None where it was not counted."""
    undefended: T | None = None
    """What has no defence, after all epochs; None where it is the first trial."""
