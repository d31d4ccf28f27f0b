"""What a search has tried, and which of it leads."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from divulge.core import Estimate
from divulge.studies.harden.config import Ceilings
from divulge.studies.harden.looks import Leak, Look
from divulge.studies.harden.space import Proposal


@dataclass(frozen=True, slots=True)
class SearchTrial:
    """One setting that was tried, and what came of it at one of its looks: the best, unless said.

    The best look is the most accurate one under the ceilings; else the nearest to them.
    """

    number: int
    proposal: Proposal
    """What was tried."""
    models: int
    """How many models were trained and audited."""
    trainings: float
    """How much work that took, in trainings of an undefended model."""
    accuracy: Estimate
    """On records that a target was not trained on: the mean over targets."""
    leaks: Mapping[str, Leak]
    """By metric that has a ceiling."""
    given_up: bool
    """Whether it was not trained to the end, since it leaks more than allowed."""
    useful: bool
    """Whether it is more accurate than the constant answer of the most frequent class."""
    run: str = ""
    """The folder of its audits, within that of the search; empty where none were kept."""
    looks: tuple[Look, ...] = ()
    """What was seen after several of its epochs, behind each defence of answers."""

    @property
    def label(self) -> str:
        """What tells it from others, for people."""
        return self.proposal.label

    def excess(self, ceilings: Ceilings) -> float:
        """By how much an upper limit exceeds its ceiling; 0 or less where none does."""
        return max(self.leaks[name].limit - ceiling for name, ceiling in ceilings.items())

    def at_each_look(self) -> "list[SearchTrial]":
        """The same setting after each number of epochs at which it was seen."""
        return [self._at(look) for look in self.looks] or [self]

    def _at(self, look: Look) -> "SearchTrial":
        whole = look.epochs in (None, self.proposal.epochs)
        stop = None if whole else look.epochs
        return replace(
            self,
            proposal=replace(self.proposal, stop_after=stop, answers=look.answers),
            models=look.models,
            accuracy=look.accuracy,
            leaks=look.leaks,
            useful=look.useful,
        )


@dataclass(frozen=True, slots=True)
class SearchLog:
    """All trials in order, and what could not be tried: ``trials.json``."""

    trials: tuple[SearchTrial, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    """By defence, or by setting, why no model was trained."""
    chosen: int | None = None
    """The number of the trial whose setting the final model has; None where `choose` says it."""
    final: float | None = None
    """The work of the final model and its audit; None where it was not counted."""
    undefended: SearchTrial | None = None
    """The undefended model after all epochs; None where it is the first trial."""

    def find_chosen(self, ceilings: Ceilings) -> SearchTrial:
        """The trial whose setting the final model has."""
        if self.chosen is None:
            return choose([one for one in self.trials if not one.given_up] or self.trials, ceilings)
        return next(one for one in self.trials if one.number == self.chosen)


def choose(trials: Iterable[SearchTrial], ceilings: Ceilings) -> SearchTrial:
    """The most accurate setting under the ceilings; else the one whose limit is the nearest.

    Under a ceiling is what has there the limit that three of four audits would stay under; if there
    is none, what has the mean limit there; if there is none either, what has the leak itself there.
    Settings that are no better than a constant answer count only if all are.
    """
    given = list(trials)
    whole: Sequence[SearchTrial] = [one for one in given if one.useful] or given
    figures: tuple[Callable[[Leak], float], ...] = (
        lambda leak: leak.limit,
        lambda leak: leak.high,
        lambda leak: leak.value,
    )
    for figure in figures:
        under = [
            trial
            for trial in whole
            if all(figure(trial.leaks[name]) <= ceiling for name, ceiling in ceilings.items())
        ]
        if under:
            return max(under, key=lambda trial: trial.accuracy.value)
    return min(whole, key=lambda trial: trial.excess(ceilings))
