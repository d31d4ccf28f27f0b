"""What a search has tried, and which of it leads."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from divulge.core import Estimate
from divulge.report import words
from divulge.studies.harden.leaks import Ceilings, Leak, Look, excess
from divulge.studies.harden.log import Draft, SearchLog
from divulge.studies.harden.proposal import UNDEFENDED, Proposal, next_stage

THREE_OF_FOUR = 0.6745
"""Standard deviations above the mean under which three of four normal values are."""
_MARGIN = 0.02
"""An accuracy this close to the best of the undefended model counts as reached."""


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
        return excess(self.leaks, ceilings)

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
class ModelLog(SearchLog[SearchTrial]):
    """The log of a search for a model: ``trials.json``."""

    trials: tuple[SearchTrial, ...]
    undefended: SearchTrial | None = None


def summarise(
    draft: Draft[Proposal], tried: Sequence[Draft[Proposal]], ceilings: Ceilings
) -> SearchTrial:
    """A setting that was seen, with upper limits that three of four audits would stay under.

    How much audits differ, relative to their limit, is taken from all settings near the ceiling
    together: three models of one setting do not show it.

    Args:
        draft: the setting.
        tried: all settings.
        ceilings: by metric.
    """
    spread = {name: _spread(name, tried, ceiling) for name, ceiling in ceilings.items()}
    looks = [_with_margin(look, spread) for look in draft.looks]
    last = looks[-1]
    return SearchTrial(
        number=draft.number,
        proposal=draft.setting,
        models=last.models,
        trainings=draft.spent,
        accuracy=last.accuracy,
        leaks=last.leaks,
        given_up=not is_ended(draft) and excess(last.leaks, ceilings) > 0,
        useful=last.useful,
        looks=tuple(looks),
    )


def is_ended(draft: Draft[Proposal]) -> bool:
    """Whether a setting was trained to the end."""
    epochs = draft.orders[0].epochs
    return not epochs or max(epochs) >= draft.setting.epochs


def _with_margin(look: Look, spread: Mapping[str, float]) -> Look:
    leaks = {}
    for name, leak in look.leaks.items():
        more = spread[name] * (1 + 1 / look.models) ** 0.5
        leaks[name] = replace(leak, likely=min(1.0, leak.high * (1 + THREE_OF_FOUR * more)))
    return replace(look, leaks=leaks)


def _spread(name: str, tried: Sequence[Draft[Proposal]], ceiling: float) -> float:
    """The standard deviation of upper limits over their mean, of settings near the ceiling."""
    near = [
        (leak.spread / leak.high) ** 2
        for draft in tried
        for look in draft.looks
        if look.useful and ceiling / 2 <= (leak := look.leaks[name]).high <= 2 * ceiling
    ]
    return (sum(near) / len(near)) ** 0.5 if near else 0.0


def useful_epochs(
    undefended: Sequence[Look], ceilings: Ceilings, whole: int
) -> tuple[int, tuple[int, ...]]:
    """For how long others are trained at first, and for how long teachers may be.

    Twice as long as an undefended model may be trained before it leaks too much: by then a
    defence has shown whether it leaks less. Teachers twice as long as until it is about as
    accurate as it gets, since they take fewer steps on fewer records; or as long as that.

    Args:
        undefended: the looks at the undefended model.
        ceilings: by metric.
        whole: for how many epochs it was trained.
    """
    plain = [look for look in undefended if look.answers == UNDEFENDED]
    best = max(look.accuracy.value for look in plain)
    reached = next(look.epochs or whole for look in plain if look.accuracy.value >= best - _MARGIN)
    over = [look.epochs or whole for look in plain if excess(look.leaks, ceilings) > 0]
    short = next_stage(2 * min(over), whole) if over else whole
    return short, (next_stage(2 * reached, whole), reached)


def find_chosen(log: SearchLog[SearchTrial], ceilings: Ceilings) -> SearchTrial:
    """The trial whose setting the final model has."""
    if log.chosen is None:
        return choose([trial for trial in log.trials if not trial.given_up] or log.trials, ceilings)
    return next(trial for trial in log.trials if trial.number == log.chosen)


def choose(trials: Iterable[SearchTrial], ceilings: Ceilings) -> SearchTrial:
    """The most accurate setting under the ceilings; else the one whose limit is the nearest.

    Under a ceiling is what has there the limit that three of four audits would stay under; if there
    is none, what has the mean limit there; if there is none either, what has the leak itself there.
    Settings that are no better than a constant answer count only if all are.
    """
    given = list(trials)
    whole: Sequence[SearchTrial] = [trial for trial in given if trial.useful] or given
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


def describe_progress(
    numbers: Sequence[int],
    spent: tuple[float, int],
    best: SearchTrial | None,
    ceilings: Ceilings,
) -> str:
    """What is done, what was spent, and the best that is known now.

    Args:
        numbers: of the trials that are under way.
        spent: the work so far, and the budget.
        best: what leads; None where nothing was seen yet.
        ceilings: by metric.
    """
    many = f"Trials {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"Trial {numbers[0]}"
    work = f"{spent[0]:.1f} of {spent[1]} trainings"
    if best is None:
        return f"{many} ({work})"
    leaks = ", ".join(
        f"{words.metric_title(name)} {leak.value:.3f}" for name, leak in best.leaks.items()
    )
    under = "" if best.excess(ceilings) <= 0 else ", over"
    return f"{many} ({work}; best so far: accuracy {best.accuracy.value:.3f}, {leaks}{under})"
