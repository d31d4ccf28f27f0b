"""What a search for a federation within limits came to."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from divulge._util.arguments import check_arguments
from divulge.core import Estimate, UpdateDefence
from divulge.errors import SpecError
from divulge.report.markdown import make_inert

TITLES = {
    "class_shares": "L1 of the best guess of class shares",
    "which_client": "AUC of which client",
}


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

    Raises:
        SpecError: neither is given, or one is out of range.
    """

    class_shares: float | None = None
    which_client: float | None = None

    def __post_init__(self) -> None:
        if self.class_shares is None and self.which_client is None:
            raise SpecError("expected a limit, got none: set class_shares or which_client")
        for name, most in (("class_shares", 2.0), ("which_client", 1.0)):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= most:
                raise SpecError(f"expected {name} from 0 to {most:g}, got {value}")

    def choose(self, trials: "Sequence[FederationTrial]") -> "FederationTrial":
        """The most accurate setting within the limits by its intervals; else the nearest one."""
        within = [trial for trial in trials if trial.excess(self) <= 0]
        if within:
            return max(within, key=lambda trial: trial.accuracy.value)
        return min(trials, key=lambda trial: trial.excess(self))


@dataclass(frozen=True, slots=True)
class FederationTrial:
    """One setting of a federation, and what its server learned."""

    defence: UpdateDefence
    epochs: int
    """Local epochs."""
    accuracy: Estimate
    """Of the global model after the last round."""
    leaks: Mapping[str, Estimate]
    """By limit, the figure of the strongest attack; intervals hold for all attacks at once."""

    @property
    def label(self) -> str:
        """What tells it from others, for people."""
        name = "undefended" if self.defence.name == "none" else repr(self.defence)
        return f"{name}, epochs={self.epochs}"

    def excess(self, limits: FederationLimits) -> float:
        """By how much of its range the worst figure misses its limit; 0 or less if none does."""
        missed = []
        if limits.class_shares is not None:
            missed.append((limits.class_shares - self.leaks["class_shares"].low) / 2)
        if limits.which_client is not None:
            high = self.leaks["which_client"].high
            missed.append((1.0 if high is None else high) - limits.which_client)
        return max(missed, default=-math.inf)


@dataclass(frozen=True)
class HardenedFederation:
    """The setting that was found, its run with fresh clients, and all that was tried."""

    limits: FederationLimits
    trials: tuple[FederationTrial, ...]
    refused: Mapping[str, str]
    """By setting, why it could not be simulated or attacked."""
    chosen: FederationTrial
    """As the search saw it."""
    fresh: FederationTrial
    """The same setting with other clients and another seed: the claim."""

    @property
    def outcome(self) -> Literal["within", "not within"]:
        """Whether the run with fresh clients is within the limits by its intervals."""
        return "within" if self.fresh.excess(self.limits) <= 0 else "not within"

    def table(self) -> str:
        """The run with fresh clients and all settings, as a Markdown table."""
        names = tuple(self.fresh.leaks)
        rows = [
            ("setting", "accuracy", *(TITLES[name] for name in names)),
            ("---",) * (2 + len(names)),
            *(
                (mark + make_inert(one.label), _show(one.accuracy), *map(_show, one.leaks.values()))
                for mark, one in (
                    ("**fresh clients**: ", self.fresh),
                    *(("chosen: " if one is self.chosen else "", one) for one in self.trials),
                )
            ),
        ]
        lines = [f"| {' | '.join(cells)} |" for cells in rows]
        lines += [
            f"Not tried: {make_inert(label)}: {make_inert(why)}"
            for label, why in self.refused.items()
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<divulge.HardenedFederation: {self.outcome}>\n{self.table()}"


def _show(one: Estimate) -> str:
    high = "" if one.high is None else f"{one.high:.3f}"
    return f"{one.value:.3f} ({one.low:.3f}-{high})"
