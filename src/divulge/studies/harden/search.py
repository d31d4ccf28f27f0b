"""Try settings within a budget of work, and give the one that leads more models.

Three models of each setting show accuracy and leakage at several epochs. First comes every defence
as its authors set it, for as long as the undefended model shows to be worth it; the more accurate
half of those that may still be under the ceilings is trained to the end. Further settings are
proposed by Optuna's tree-structured Parzen estimator, with accuracy and leakage as its two goals
and the ceilings as a constraint. What leads is given more models, until the leader has them.

The estimator gets a seed of its own for each proposal, and is shown the results in their order, in
groups whose size does not depend on the machine. So what it proposes follows from the seed and the
results before: a search that was killed goes on as if it had not been.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from divulge._util.progress import Track, with_title
from divulge._util.random import stream
from divulge.errors import DivulgeError, NotApplicable, SpecError
from divulge.report import words
from divulge.studies.harden import looks, optimiser
from divulge.studies.harden.config import FIRST, UNDEFENDED, SearchSettings
from divulge.studies.harden.looks import Bench, Look, Training
from divulge.studies.harden.space import (
    SEVERAL_LENGTHS,
    Proposal,
    first_proposal,
    is_staged,
    propose,
    stages,
    values_of,
)
from divulge.studies.harden.trials import SearchLog, SearchTrial, choose
from divulge.training.shadows.workers import Workers

if TYPE_CHECKING:
    import optuna

_GROUP = 4
"""Settings that are proposed at a time, and trained side by side."""
_MISSES = 25
"""After so many proposals in a row that are known or cost too much, a search ends."""
_CONFIRMED = 1
"""For how many settings the budget is to leave further models."""
THREE_OF_FOUR = 0.6745
"""Standard deviations above the mean under which three of four normal values are."""
_MARGIN = 0.02
"""An accuracy this close to the best of the undefended model counts as reached."""


def search(bench: Bench, asked: SearchSettings, track: Track[Any], who: Workers) -> SearchLog:
    """Try settings until the budget is spent.

    A defence that refuses the network, and a setting with which a model cannot be trained, are
    noted and left out.

    Args:
        bench: records, attacks and ceilings; what its folder holds is not computed again.
        asked: what is tried, and how much may be spent on it.
        track: shows progress.
        who: trains.

    Raises:
        MissingExtra: Optuna is not installed.
        SpecError: the records are too few for a metric that has a ceiling.
        TargetError: an undefended model could not be trained.
        StoreError: what models answered cannot be stored or read.
    """
    return _Search(bench, asked, track, who).run()


@dataclass(slots=True)
class _Attempt:
    """A setting of a search: what was proposed, and what was seen so far."""

    proposal: Proposal
    asked: "optuna.Trial"
    number: int = 0
    """Of the trial, from 1; 0 as long as it is not tried."""
    trainings: list[Training] = field(default_factory=list)
    """Those whose looks count: of the first models, then of further ones."""
    looks: list[Look] = field(default_factory=list)
    spent: float = 0.0

    @property
    def ended(self) -> bool:
        """Whether it was trained to the end."""
        epochs = self.trainings[0].epochs
        return not epochs or max(epochs) >= self.proposal.epochs


class _Search:
    """A search as it goes on."""

    def __init__(
        self, bench: Bench, asked: SearchSettings, track: Track[Any], who: Workers
    ) -> None:
        self._bench, self._asked, self._track, self._who = bench, asked, track, who
        self._study, self._proposed = optimiser.new_study(), 0
        self._tried: list[_Attempt] = []
        """All that were trained, those with which no model could be among them."""
        self._refused: dict[str, str] = {}
        self._whole = bench.recipe.epochs
        self._short = self._whole
        """For how many epochs settings are trained at first."""
        self._lengths: tuple[int, ...] = (self._short,)
        """Numbers of epochs for those whose looks do not show what fewer would come to."""

    def run(self) -> SearchLog:
        """All of it."""
        undefended = self._try_undefended()
        self._try_defaults()
        self._try_proposals()
        leader = self._confirm()
        trials = (
            leader if one.number == leader.number else self._best([one])
            for one in self._tried
            if one.looks
        )
        final = self._final_cost(leader)
        return SearchLog(tuple(trials), self._refused, leader.number, final, undefended)

    # What is tried.

    def _try_undefended(self) -> SearchTrial:
        """The undefended model, for all epochs: as it is then."""
        one = self._propose(first_proposal(UNDEFENDED, self._whole))
        self._try([one])
        (last,) = (
            trial for trial in self._summary(one).at_each_look() if trial.proposal == one.proposal
        )
        return last

    def _try_defaults(self) -> None:
        """Each defence as its authors set it."""
        whole = self._whole
        self._short, longer = self._useful_epochs(self._tried[0].looks)
        self._lengths = tuple(sorted({self._short, *longer, whole}))
        group: list[_Attempt] = []
        for name in self._asked.families[1:]:
            lengths = (*longer, self._short) if name in SEVERAL_LENGTHS else (whole,)
            firsts = [first_proposal(name, length) for length in lengths]
            possible = [one for one in firsts if self._work(one) is not None]
            for first in possible:  # the longest that the budget pays for
                one = self._propose(first)
                if self._affords([*group, one]):
                    group.append(one)
                    break
                optimiser.end(self._study, one.asked)
            else:
                if possible:
                    left = self._left - sum(map(self._first_cost, group))
                    self._refused[possible[-1].label] = (
                        f"{FIRST} models of it, further ones if it leads, and a final audit take "
                        f"more than the {left:.1f} trainings that are left"
                    )
        self._try(group)

    def _useful_epochs(self, undefended: Sequence[Look]) -> tuple[int, tuple[int, ...]]:
        """For how long others are trained at first, and for how long teachers may be.

        Twice as long as an undefended model may be trained before it leaks too much: by then a
        defence has shown whether it leaks less. Teachers twice as long as until it is about as
        accurate as it gets, since they take fewer steps on fewer records; or as long as that.
        """
        whole, ceilings = self._whole, self._bench.ceilings
        plain = [look for look in undefended if look.answers == UNDEFENDED]
        best = max(look.accuracy.value for look in plain)
        reached = next(
            look.epochs or whole for look in plain if look.accuracy.value >= best - _MARGIN
        )
        over = [look.epochs or whole for look in plain if look.excess(ceilings) > 0]
        short = self._at_least(2 * min(over)) if over else whole
        return short, (self._at_least(2 * reached), reached)

    def _at_least(self, epochs: int) -> int:
        """The first number of epochs to look at that is not smaller; the last one if all are."""
        return next((k for k in stages(self._whole) if k >= epochs), self._whole)

    def _try_proposals(self) -> None:
        """Settings that the optimiser proposes, some at a time, while the budget lasts."""
        misses = 0
        while misses < _MISSES:
            group: list[_Attempt] = []
            while len(group) < _GROUP and misses < _MISSES:
                one = self._propose(None)
                known = any(one.proposal == other.proposal for other in (*self._tried, *group))
                misses += 1
                if not known and self._work(one.proposal) and self._affords([*group, one]):
                    group.append(one)
                    misses = 0
                else:
                    optimiser.end(self._study, one.asked)
            self._try(group)

    def _propose(self, first: Proposal | None) -> _Attempt:
        """What is given, or what the optimiser proposes."""
        self._proposed += 1
        seed = int(stream(self._bench.seed, "trial", self._proposed).integers(2**31))
        given = None if first is None else values_of(first)
        asked = optimiser.ask(self._study, seed, given)
        return _Attempt(propose(asked, self._asked.families, self._lengths), asked)

    def _confirm(self) -> SearchTrial:
        """Give the leader more models until the leader has them, or the budget is spent."""
        more = range(FIRST, self._asked.models)
        while True:
            leader = self._best(self._tried)
            one = self._tried[leader.number - 1]
            if len(one.trainings) > 1 or not more:
                return leader
            first = one.trainings[0]
            # one look later than it leads with, in case its leak was overestimated
            seen = [k for k in first.epochs if k <= (leader.proposal.stop_after or k)]
            further = replace(first, epochs=first.epochs[: len(seen) + 1], models=more)
            if further.work(self._bench.recipe) + self._final_cost(leader) > self._left:
                confirmed = [one for one in self._tried if len(one.trainings) > 1]
                kept = self._best(confirmed) if confirmed else leader
                return kept if kept.excess(self._bench.ceilings) <= 0 else leader
            self._run([(one, further)])

    # How it is tried.

    def _try(self, group: Sequence[_Attempt]) -> None:
        """Train all for a while; then the better half for twice as long, and so on."""
        for one in group:
            self._tried.append(one)
            one.number = len(self._tried)
        until, going = self._short, list(group)
        while going:
            self._run([(one, self._first(one, until)) for one in going])
            until = self._at_least(2 * until)
            going = self._promising(going, until)
        for one in group:
            for look in map(self._with_margin, one.looks):
                if look.answers == UNDEFENDED:
                    excess = look.excess(self._bench.ceilings)
                    # to leak less than allowed is worth nothing here
                    over = max(excess, 0.0)
                    optimiser.show(self._study, one.asked, look.accuracy.value, over, excess)
            optimiser.end(self._study, one.asked)

    def _promising(self, group: Sequence[_Attempt], until: int) -> list[_Attempt]:
        """The more accurate half of those that may still be under when trained for so long."""
        waiting = [
            one
            for one in group
            if one.looks
            and not one.ended
            and not one.looks[-1].surely_exceeds(self._bench.ceilings)
        ]
        waiting.sort(key=lambda one: -self._best([one]).accuracy.value)
        found: list[_Attempt] = []
        for one in waiting[: (len(waiting) + 1) // 2]:
            if self._affords([*found, one], until):
                found.append(one)
        return found

    def _first(self, one: _Attempt, until: int) -> Training:
        """Its first models, trained for so many epochs; what prepares for long is trained whole."""
        trainer = one.proposal.as_trainer(self._bench.recipe)
        every = stages(one.proposal.epochs) if is_staged(trainer) else ()
        if not getattr(trainer, "preparation", 0.0):
            every = tuple(k for k in every if k <= max(until, every[0]))
        return Training(one.number, one.proposal, every, range(FIRST))

    def _run(self, wanted: Sequence[tuple[_Attempt, Training]]) -> None:
        """Train, side by side, and look at what came of it."""
        if not wanted:
            return
        title = self._title([one.number for one, _ in wanted])
        trainings = [training for _, training in wanted]
        failed = looks.train_all(self._bench, trainings, with_title(self._track, title), self._who)
        for one, training in self._track(wanted, f"{title}: Attacking models"):
            one.spent += training.work(self._bench.recipe)
            further = [*one.trainings, training] if training.models.start else [training]
            try:
                if training.number in failed:
                    raise failed[training.number]
                one.looks = looks.look_at(self._bench, further)
            except DivulgeError as error:
                self._refuse(one.proposal, error)
            else:
                one.trainings = further

    def _refuse(self, proposal: Proposal, error: DivulgeError) -> None:
        """Note why a setting cannot be tried.

        Raises:
            DivulgeError: it is the undefended model.
        """
        if proposal.defence == UNDEFENDED and not any(one.looks for one in self._tried):
            if not isinstance(error, NotApplicable):
                raise error
            raise SpecError(
                f"expected records enough for a ceiling on {', '.join(self._bench.ceilings)}, got "
                f"{len(self._bench.pool.records)} in the search, half of them members ({error}): "
                "raise the number of records, or choose another metric"
            ) from error
        # who refuses a network always does; a training may fail by its settings
        always = isinstance(error, SpecError)
        self._refused[proposal.defence if always else proposal.label] = str(error)

    def _title(self, numbers: Sequence[int]) -> str:
        """What is done, what was spent, and the best that is known now."""
        many = (
            f"Trials {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"Trial {numbers[0]}"
        )
        spent = f"{self._asked.budget - self._left:.1f} of {self._asked.budget} trainings"
        if not any(one.looks for one in self._tried):
            return f"{many} ({spent})"
        best = self._best(self._tried)
        leaks = ", ".join(
            f"{words.metric_title(name)} {leak.value:.3f}" for name, leak in best.leaks.items()
        )
        under = "" if best.excess(self._bench.ceilings) <= 0 else ", over"
        return f"{many} ({spent}; best so far: accuracy {best.accuracy.value:.3f}, {leaks}{under})"

    # Which one leads, and what it costs.

    def _best(self, tried: Sequence[_Attempt]) -> SearchTrial:
        """What leads of these, after the epochs at which it does; one whose final audit is paid."""
        every = [trial for one in tried if one.looks for trial in self._summary(one).at_each_look()]
        paid = [trial for trial in every if self._final_cost(trial) <= self._left]
        return choose(paid or every, self._bench.ceilings)

    def _summary(self, one: _Attempt) -> SearchTrial:
        seen = [self._with_margin(look) for look in one.looks]
        last = seen[-1]
        return SearchTrial(
            number=one.number,
            proposal=one.proposal,
            models=last.models,
            trainings=one.spent,
            accuracy=last.accuracy,
            leaks=last.leaks,
            given_up=not one.ended and last.excess(self._bench.ceilings) > 0,
            useful=last.useful,
            looks=tuple(seen),
        )

    def _with_margin(self, look: Look) -> Look:
        """The look with the upper limits that three of four audits would stay under.

        How much audits differ, relative to their limit, is taken from all settings near the ceiling
        together: three models of one setting do not show it.
        """
        leaks = {}
        for name, leak in look.leaks.items():
            spread = self._spread(name) * (1 + 1 / look.models) ** 0.5
            likely = min(1.0, leak.high * (1 + THREE_OF_FOUR * spread))
            leaks[name] = replace(leak, likely=likely)
        return replace(look, leaks=leaks)

    def _spread(self, name: str) -> float:
        """The standard deviation of upper limits over their mean, of settings near the ceiling."""
        ceiling = self._bench.ceilings[name]
        near = [
            (leak.spread / leak.high) ** 2
            for one in self._tried
            for look in one.looks
            if look.useful and ceiling / 2 <= (leak := look.leaks[name]).high <= 2 * ceiling
        ]
        return (sum(near) / len(near)) ** 0.5 if near else 0.0

    @property
    def _left(self) -> float:
        """The work that is left."""
        return self._asked.budget - sum(one.spent for one in self._tried)

    def _final_cost(self, trial: SearchTrial) -> float:
        return self._asked.final_models * trial.proposal.work(self._bench.recipe)

    def _first_cost(self, one: _Attempt, until: int | None = None) -> float:
        return self._first(one, until or self._short).work(self._bench.recipe)

    def _affords(self, group: Sequence[_Attempt], until: int | None = None) -> bool:
        """Whether the budget pays for first models, and for what comes if any of them leads.

        These are further models of the one that leads, and the final audit.

        Args:
            group: the settings.
            until: for how many epochs they are trained; as at first, unless given.
        """
        costs = [self._first_cost(one, until) for one in group]
        leading = self._best(self._tried).proposal.work(self._bench.recipe)
        later = _CONFIRMED * (self._asked.models - FIRST) + self._asked.final_models
        return sum(costs) + later * max(leading, *(cost / FIRST for cost in costs)) <= self._left

    def _work(self, proposal: Proposal) -> float | None:
        """The work of one of its models; None if it was refused before, or is now."""
        if {proposal.defence, proposal.beneath, proposal.label} & self._refused.keys():
            return None
        try:
            proposal.check_records(self._bench.recipe, self._bench.pool.records)
            return proposal.work(self._bench.recipe)
        except SpecError as error:
            self._refuse(proposal, error)
            return None
