"""The log of a search: each setting while it is tried, and what came of all."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import optuna

S = TypeVar("S")
T = TypeVar("T")

FOLDER = "trials"
"""The folder of what models answered, within that of a search."""


@dataclass(slots=True)
class Draft(Generic[S]):
    """A setting that was proposed, and what was seen of it so far."""

    setting: S
    trial: "optuna.Trial"
    number: int = 0
    """Of the trial, from 1; 0 as long as it is not tried."""
    orders: list[Any] = field(default_factory=list)
    """The work that was done on it, as its bench describes work."""
    looks: list[Any] = field(default_factory=list)
    """What was seen; empty where it could not be tried."""
    spent: float = 0.0
    """The work that took."""


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
    needed: int | None = None
    """The budget that pays for all settings that are tried first; None where this one did."""
    ended: str = ""
    """Why the search ended, in a sentence; empty where nothing says it."""
