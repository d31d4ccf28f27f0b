"""Try ways to train a model within a budget of work, and give the one that leads more models.

Three models of each setting show accuracy and leakage at several epochs. First comes every defence
as its authors set it, for as long as the undefended model shows to be worth it; the more accurate
half of those that may still be under the ceilings is trained to the end. What leads is given more
models, and so is what leads then.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divulge._util.progress import Track, with_title
from divulge._util.random import stream
from divulge.core import Head
from divulge.errors import DivulgeError, MissingExtra, NotApplicable, SpecError
from divulge.studies.harden import looks, result
from divulge.studies.harden.config import FIRST, choose_families
from divulge.studies.harden.final import HardenDesign
from divulge.studies.harden.finish import finish
from divulge.studies.harden.log import Draft
from divulge.studies.harden.looks import Training
from divulge.studies.harden.proposal import UNDEFENDED, Proposal, next_stage, stages
from divulge.studies.harden.result import HardenedModel, HardeningFacts
from divulge.studies.harden.search import Bench, Study
from divulge.studies.harden.space import (
    first_choices,
    first_proposal,
    first_tuned,
    is_staged,
    propose,
    values_of,
)
from divulge.studies.harden.trials import (
    ModelLog,
    SearchTrial,
    choose,
    describe_progress,
    is_ended,
    summarise,
    useful_epochs,
)
from divulge.training.shadows.workers import Workers
from divulge.training.tuning import Tunable

if TYPE_CHECKING:
    import optuna

_CONFIRMED = 1
"""For how many settings the budget is to leave further models."""


class ModelBench(Bench[Proposal, HardeningFacts, HardenedModel]):
    """Trains models on halves of the records of the search.

    Args:
        design: what is asked for.
        workers: trains.
    """

    misses, together, by_chance = 25, 4, 5

    def __init__(self, design: HardenDesign, workers: Workers) -> None:
        super().__init__()
        self._design, self._workers = design, workers
        self._models, self._settings = design.models, design.settings
        self._base, self._ceilings = self._models.base, self._models.ceilings
        self._refused: dict[str, str] = {}
        self._whole = self._base.epochs
        self._short = self._whole
        """For how many epochs settings are trained at first."""
        self._lengths: tuple[int, ...] = (self._short,)
        """Numbers of epochs for those whose looks do not show what fewer would come to."""
        self._undefended: SearchTrial | None = None
        """The undefended model after all epochs, as it was seen then."""
        tuned = isinstance(self._base, Tunable)
        self._families = choose_families(self._settings.defences, tuned=tuned)
        self._needed: int | None = None
        """The budget that pays for all settings that are tried first, where this one does not."""

    def finish(self, head: Head[HardeningFacts], folder: Path, track: Track[Any]) -> HardenedModel:
        """See `Bench.finish`."""
        self._models = replace(self._models, folder=folder)
        log = result.read_trials(folder) or self._search(track)
        result.store_trials(folder, log)
        return finish(self._design, head, log, folder, track, self._workers)

    def _search(self, track: Track[Any]) -> ModelLog:
        (study := Study(self, track)).run()
        leader = self._confirm(track)
        trials = (
            leader if draft.number == leader.number else self._best([draft])
            for draft in self.tried
            if draft.looks
        )
        cost = self._final_cost(leader)
        rest = self._undefended, self._needed, study.ended
        return ModelLog(tuple(trials), self._refused, leader.number, cost, *rest)

    def firsts(self, study: Study[Proposal]) -> Iterator[list[Draft[Proposal]]]:
        """The undefended model for all epochs; then each defence as its authors set it."""
        plain = study.propose(first_proposal(UNDEFENDED, self._whole))
        yield [plain]
        (self._undefended,) = (
            trial for trial in self._trials(plain) if trial.proposal == plain.setting
        )
        group, waiting = list[Draft[Proposal]](), list[Draft[Proposal]]()
        for firsts in self._first_choices(plain):
            possible = [first for first in firsts if self._work(first) is not None]
            for first in possible:  # the longest that the budget pays for
                draft = study.propose(first)
                if self._affords([*group, draft]):
                    group.append(draft)
                    break
                study.drop(draft)
            else:
                if possible:
                    waiting.append(draft)
                    self._refused[draft.setting.label] = (
                        f"the budget of {self._settings.budget} trainings does not pay for {FIRST} "
                        "models, further ones if they lead, and a final audit"
                    )
        if waiting:
            spent = self._settings.budget - self._left
            self._needed = math.ceil(spent + self._cost([*group, *waiting]))
        yield group

    def _first_choices(self, plain: Draft[Proposal]) -> list[list[Proposal]]:
        """Each setting that is tried before any is proposed, the longest training of it first."""
        if isinstance(self._base, Tunable):
            return [[proposal] for proposal in first_tuned(self._families, self._base)]
        self._short, longer = useful_epochs(plain.looks, self._ceilings, self._whole)
        self._lengths = tuple(sorted({self._short, *longer, self._whole}))
        return first_choices(self._families[1:], (*longer, self._short), self._whole)

    def values_of(self, first: Proposal) -> Mapping[str, Any]:
        """See `Bench.values_of`."""
        return values_of(first, self._families, self._base)

    def propose(self, trial: "optuna.Trial") -> Proposal:
        """See `Bench.propose`."""
        return propose(trial, self._families, self._lengths, self._base)

    def seed_of(self, proposed: int, missed: int) -> int:
        """See `Bench.seed_of`."""
        del missed
        return int(stream(self._models.seed, "trial", proposed).integers(2**31))

    def admits(self, draft: Draft[Proposal], group: Sequence[Draft[Proposal]]) -> bool:
        """See `Bench.admits`."""
        return self._work(draft.setting) is not None and self._affords([*group, draft])

    def lessons(self, draft: Draft[Proposal]) -> Iterator[tuple[float, float]]:
        """See `Bench.lessons`; the optimiser proposes no defences of answers."""
        for trial in self._trials(draft):
            if trial.proposal.answers == UNDEFENDED:
                yield trial.accuracy.value, trial.excess(self._ceilings)

    def _confirm(self, track: Track[Any]) -> SearchTrial:
        """Give more models to the setting that leads, then to any that overtakes it."""
        more = range(FIRST, self._settings.models)
        while True:
            leader = self._best(self.tried)
            draft = self.tried[leader.number - 1]
            if len(draft.orders) > 1 or not more:
                return leader
            first: Training = draft.orders[0]
            # one look later than it leads with, in case its leak was overestimated
            epochs = [k for k in first.epochs if k <= (leader.proposal.stop_after or k)]
            further = replace(first, epochs=first.epochs[: len(epochs) + 1], models=more)
            if further.work(self._base) + self._final_cost(leader) > self._left:
                confirmed = [draft for draft in self.tried if len(draft.orders) > 1]
                best = self._best(confirmed) if confirmed else leader
                return best if best.excess(self._ceilings) <= 0 else leader
            self._run([(draft, further)], track)

    # How it is tried.

    def try_group(self, group: Sequence[Draft[Proposal]], track: Track[Any]) -> None:
        """Train all for a while; then the better half for twice as long, and so on."""
        until, going = self._short, list(group)
        while going:
            self._run([(draft, self._first(draft, until)) for draft in going], track)
            until = next_stage(2 * until, self._whole)
            going = self._promising(going, until)

    def _promising(self, group: Sequence[Draft[Proposal]], until: int) -> list[Draft[Proposal]]:
        """The more accurate half of those that may still be under when trained for so long."""
        going = [draft for draft in group if draft.looks and not is_ended(draft)]
        waiting = [draft for draft in going if not draft.looks[-1].surely_exceeds(self._ceilings)]
        waiting.sort(key=lambda draft: -self._best([draft]).accuracy.value)
        promising: list[Draft[Proposal]] = []
        for draft in waiting[: (len(waiting) + 1) // 2]:
            if self._affords([*promising, draft], until):
                promising.append(draft)
        return promising

    def _first(self, draft: Draft[Proposal], until: int) -> Training:
        """Its first models, trained for so many epochs; what prepares for long is trained whole."""
        trainer = draft.setting.as_trainer(self._base)
        every = stages(draft.setting.epochs) if is_staged(trainer) else ()
        if not getattr(trainer, "preparation", 0.0):
            every = tuple(k for k in every if k <= max(until, every[0]))
        return Training(draft.number, draft.setting, every, range(FIRST))

    def _run(self, wanted: Sequence[tuple[Draft[Proposal], Training]], track: Track[Any]) -> None:
        """Train, side by side, and look at what came of it."""
        if not wanted:
            return
        best = self._best(self.tried) if any(draft.looks for draft in self.tried) else None
        spent = self._settings.budget - self._left, self._settings.budget
        numbers = [draft.number for draft, _ in wanted]
        title = describe_progress(numbers, spent, best, self._ceilings)
        trainings = [training for _, training in wanted]
        failed = looks.train_all(self._models, trainings, with_title(track, title), self._workers)
        for draft, training in track(wanted, f"{title}: Attacking models"):
            draft.spent += training.work(self._base)
            further = [*draft.orders, training] if training.models.start else [training]
            try:
                if training.number in failed:
                    raise failed[training.number]
                draft.looks = looks.look_at(self._models, further)
            except DivulgeError as error:
                self._refuse(draft.setting, error)
            else:
                draft.orders = further

    def _refuse(self, proposal: Proposal, error: DivulgeError) -> None:
        """Note why a setting cannot be tried.

        Raises:
            DivulgeError: it is the undefended model.
        """
        if proposal.defence == UNDEFENDED and not any(draft.looks for draft in self.tried):
            if not isinstance(error, NotApplicable):
                raise error
            raise SpecError(
                f"expected records enough for a ceiling on {', '.join(self._ceilings)}, got "
                f"{len(self._models.pool.records)} in the search, half of them members ({error}): "
                "raise the number of records, or choose another metric"
            ) from error
        # who refuses a network always does; a training may fail by its settings
        always = isinstance(error, SpecError)
        self._refused[proposal.defence if always else proposal.label] = str(error)

    # Which one leads, and what it costs.

    def _best(self, tried: Sequence[Draft[Proposal]]) -> SearchTrial:
        """What leads of these, after the epochs at which it does; one whose final audit is paid."""
        every = [trial for draft in tried for trial in self._trials(draft)]
        paid = [trial for trial in every if self._final_cost(trial) <= self._left]
        return choose(paid or every, self._ceilings)

    def _trials(self, draft: Draft[Proposal]) -> list[SearchTrial]:
        """A setting at each look, by the limits of all that was tried; nothing if none was seen."""
        return summarise(draft, self.tried, self._ceilings).at_each_look() if draft.looks else []

    @property
    def _left(self) -> float:
        """The work that is left."""
        return self._settings.budget - sum(draft.spent for draft in self.tried)

    def _final_cost(self, trial: SearchTrial) -> float:
        return self._settings.final_models * trial.proposal.work(self._base)

    def _first_cost(self, draft: Draft[Proposal], until: int | None = None) -> float:
        return self._first(draft, until or self._short).work(self._base)

    def _affords(self, group: Sequence[Draft[Proposal]], until: int | None = None) -> bool:
        """Whether the budget pays for first models, and for what comes if any of them leads.

        These are further models of the one that leads, and the final audit.

        Args:
            group: the settings.
            until: for how many epochs they are trained; as at first, unless given.
        """
        return self._cost(group, until) <= self._left

    def _cost(self, group: Sequence[Draft[Proposal]], until: int | None = None) -> float:
        costs = [self._first_cost(draft, until) for draft in group]
        leading = self._best(self.tried).proposal.work(self._base)
        later = _CONFIRMED * (self._settings.models - FIRST) + self._settings.final_models
        return sum(costs) + later * max(leading, *(cost / FIRST for cost in costs))

    def _work(self, proposal: Proposal) -> float | None:
        """The work of one of its models; None if it was refused before, or is now."""
        if {proposal.defence, proposal.beneath, proposal.label} & self._refused.keys():
            return None
        try:
            proposal.check_records(self._base, self._models.pool.records)
            return proposal.work(self._base)
        except (SpecError, MissingExtra) as error:
            self._refuse(proposal, error)
            return None
