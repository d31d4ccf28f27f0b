"""Limits on what the server of a federation may learn, and what one setting came to."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from divulge._util.arguments import check_arguments
from divulge._util.json import JSON
from divulge.core import Estimate, UpdateDefence
from divulge.defences import catalog
from divulge.errors import SpecError


class LimitedFigure(NamedTuple):
    """What a limit is on."""

    title: str
    largest: float = 1.0
    """The end of its range, which begins at 0."""
    least: bool = False
    """Whether the figure has to reach its limit; else it must not exceed it."""


LIMITED: Mapping[str, LimitedFigure] = {
    "class_shares": LimitedFigure("L1 of the best guess of class shares", 2.0, least=True),
    "which_client": LimitedFigure("AUC of which client"),
    "interactions": LimitedFigure("AUC of clicks"),
}
"""By field of `FederationLimits`, what it is on."""


@check_arguments
@dataclass(frozen=True, slots=True)
class FederationLimits:
    """What the server of a federation may learn about its clients, at most.

    Args:
        class_shares: the smallest admissible L1 distance, from 0 to 2, of the best guess of a
            client's class shares, the mean over clients. Its lower limit has to reach it.
        which_client: the largest admissible AUC, from 0 to 1, of the best attack over all pairs of
            a record and a client: did this client train on this record? Its upper limit must not
            exceed it. The interval takes pairs to be independent, so it is a little too short.
        interactions: the largest admissible AUC, from 0 to 1, of the attack on what users of a
            ranker clicked, the mean over users. Its upper limit must not exceed it.

    Raises:
        SpecError: none is given, or one is out of range.
    """

    class_shares: float | None = None
    which_client: float | None = None
    interactions: float | None = None

    def __post_init__(self) -> None:
        if not self.given:
            *names, last = LIMITED
            raise SpecError(f"expected a limit, got none: set {', '.join(names)} or {last}")
        for name, value in self.given.items():
            if not 0 <= value <= LIMITED[name].largest:
                raise SpecError(f"expected {name} from 0 to {LIMITED[name].largest:g}, got {value}")

    @property
    def given(self) -> dict[str, float]:
        """The limits that are given, by name."""
        each = {name: getattr(self, name) for name in LIMITED}
        return {name: limit for name, limit in each.items() if limit is not None}

    def choose(self, trials: "Sequence[FederationTrial]") -> "FederationTrial":
        """The most accurate setting within the limits by its intervals; else the nearest one."""
        within = [trial for trial in trials if trial.excess(self) <= 0]
        if within:
            return max(within, key=lambda trial: trial.accuracy.value)
        return min(trials, key=lambda trial: trial.excess(self))


@dataclass(frozen=True, slots=True)
class FederationVariant:
    """One setting of everything that is searched."""

    defence: str
    """Name of the update defence."""
    settings: Mapping[str, JSON]
    """Of the defence."""
    epochs: int | None
    """Local epochs; None for users of a ranker, who take one step."""

    @property
    def label(self) -> str:
        """What tells it from others, for people."""
        settings = [f"{name}={value}" for name, value in self.settings.items()]
        name = "undefended" if self.defence == "none" else self.defence
        settings += [] if self.epochs is None else [f"epochs={self.epochs}"]
        return f"{name} ({', '.join(settings)})" if settings else name

    def build(self) -> UpdateDefence:
        """The update defence.

        Raises:
            SpecError: there is none of this name, or it has other settings.
        """
        return catalog.update_defence(self.defence, **self.settings)

    def as_toml(self) -> str:
        """What belongs into ``federate.toml``."""
        lines = []
        if self.epochs is not None:
            lines += ["[training]", f"epochs = {self.epochs}     # your other keys stay", ""]
        if self.defence != "none":
            lines += ["[[defences]]", f'name = "{self.defence}"']
            lines += [f"{name} = {json.dumps(value)}" for name, value in self.settings.items()]
        return "\n".join(lines).strip() or "# nothing is to be added"


@dataclass(frozen=True, slots=True)
class FederationTrial:
    """One setting of a federation, and what its server learned."""

    setting: FederationVariant
    accuracy: Estimate
    """Of the models that clients use, after the last round; of a ranker NDCG@10."""
    leaks: Mapping[str, Estimate]
    """By limit, the figure of the strongest attack; intervals hold for all attacks at once."""

    def excess(self, limits: FederationLimits) -> float:
        """By how much of its range the worst interval misses its limit; 0 or less if none does."""
        return max(self._missed(name, limit) for name, limit in limits.given.items())

    def exceeds(self, limits: FederationLimits) -> bool:
        """Whether some figure is shown to miss its limit: its whole interval does."""
        return any(self._misses(name, limit) for name, limit in limits.given.items())

    def _missed(self, name: str, limit: float) -> float:
        figure, (_, largest, least) = self.leaks[name], LIMITED[name]
        high = largest if figure.high is None else figure.high
        return (limit - figure.low if least else high - limit) / largest

    def _misses(self, name: str, limit: float) -> bool:
        low, high = self.leaks[name].low, self.leaks[name].high
        return high is not None and high < limit if LIMITED[name].least else low > limit
