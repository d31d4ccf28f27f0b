"""Try settings one after another, each by audits in turn of models that are trained with it.

The optimiser is Optuna's tree-structured Parzen estimator, with accuracy and leakage as its two
goals and the ceilings as constraints. It gets a seed of its own for each trial, and is told the
results in their order. So what it proposes follows from the seed and the results before: a search
that was killed goes on as if it had not been.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from divulge._util import atomic
from divulge._util.progress import Track, with_title
from divulge._util.random import stream
from divulge.audits.compare.defences import Variant
from divulge.audits.harden import optimiser
from divulge.audits.harden.config import UNDEFENDED, Ceilings, SearchSettings
from divulge.audits.harden.space import Proposal, count_trainings, first_proposals, propose
from divulge.audits.leave_one_out import result
from divulge.audits.leave_one_out.design import RecordPool, design_leave_one_out
from divulge.audits.leave_one_out.result import LeaveOneOut
from divulge.audits.leave_one_out.run import audit_each
from divulge.audits.options import Rotation
from divulge.audits.result import Audit
from divulge.audits.runner import RunHeading
from divulge.core import Estimate, Measurements, MembershipAttack
from divulge.errors import NotApplicable, SpecError, TargetError
from divulge.report.evidence import limits_by_metric
from divulge.report.schema import Limits
from divulge.training.recipe import Recipe
from divulge.training.shadows.workers import Workers

FOLDER = "trials"
_FEWEST_EARLY = 3
"""The fewest models with which a setting can be given up early."""
_LEAST = 1e-6
"""What a ceiling of 0 counts as, where a leak is divided by it."""
_MISSES = 25
"""After so many proposals in a row that are known or cost too much, a search ends."""


@dataclass(frozen=True, slots=True)
class Leak:
    """What the strongest attack reaches by one metric: means over the targets of a setting."""

    value: float
    low: float
    """Lower limit of one audit, which holds for all of its attacks at once."""
    high: float
    """Upper limit of one audit, which holds for all of its attacks at once."""
    attack: str
    """The attack that was strongest on the first target."""


@dataclass(frozen=True, slots=True)
class SearchTrial:
    """One setting that was tried, and what came of it."""

    number: int
    proposal: Proposal
    """What was tried."""
    models: int
    """How many models were trained with it."""
    trainings: int
    """How many networks that took."""
    accuracy: Estimate
    """On records that a target was not trained on: the mean over targets."""
    leaks: Mapping[str, Leak]
    """By metric that has a ceiling."""
    given_up: bool
    """Whether it was given up with half of the models, since it leaks more than allowed."""
    useful: bool
    """Whether it is more accurate than the constant answer of the most frequent class."""
    run: str
    """The folder of its audits, within that of the search."""

    @property
    def label(self) -> str:
        """What tells it from others, for people."""
        return self.proposal.label

    def excess(self, ceilings: Ceilings) -> float:
        """By how much an upper limit exceeds its ceiling; 0 or less where none does."""
        return max(self.leaks[name].high - ceiling for name, ceiling in ceilings.items())


@dataclass(frozen=True, slots=True)
class SearchDesign:
    """What is searched, and on what."""

    recipe: Recipe
    pool: RecordPool
    """The records of the search."""
    ceilings: Ceilings
    asked: SearchSettings
    attacks: tuple[MembershipAttack, ...]
    final_attacks: int
    """The number of attacks in the final audit, for all of which its limits hold at once."""
    heading: RunHeading
    class_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchLog:
    """All trials in order, and what could not be tried: ``trials.json``."""

    trials: tuple[SearchTrial, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    """By defence, or by setting, why no model could be trained."""


def search(design: SearchDesign, path: Path, track: Track[Any], who: Workers) -> SearchLog:
    """Try settings until the budget is spent.

    A defence that refuses the network, and a setting with which a model cannot be trained, are
    noted and left out.

    Args:
        design: what is searched.
        path: the run folder; a trial that is there is not computed again.
        track: shows progress.
        who: trains.

    Raises:
        MissingExtra: Optuna is not installed.
        SpecError: the records are too few for a metric that has a ceiling.
        TargetError: an undefended model could not be trained.
    """
    asked, epochs = design.asked, design.recipe.epochs
    firsts = first_proposals(asked.families, asked.answers, epochs)
    study = optimiser.new_study(firsts)
    trials: list[SearchTrial] = []
    refused: dict[str, str] = {}
    misses = lost = 0
    while misses < _MISSES:
        left = asked.budget - asked.final_cost - lost - sum(trial.trainings for trial in trials)
        seed = int(stream(design.heading.seed, "trial", len(trials), misses).integers(2**31))
        study.sampler = optimiser.seeded_sampler(seed, len(firsts))
        asking = study.ask()
        proposal = propose(asking, asked.families, asked.answers, epochs)
        found = next((one for one in trials if one.proposal == proposal), None)
        misses += 1
        if found is None and not {proposal.defence, proposal.label} & refused.keys():
            title = f"Trial {len(trials) + 1} ({asked.budget - left} of {asked.budget} trainings)"
            cost = 0
            try:
                variant = proposal.as_variant(design.recipe, asked.models)
                cost = asked.models * count_trainings(variant.plan.trainer)
                if cost <= left:
                    titled = with_title(track, title)
                    found = _try(design, len(trials), proposal, variant, path, titled, who)
                    trials.append(found)
                    misses = 0
            except NotApplicable as error:
                if not trials:
                    raise SpecError(
                        f"expected records enough for a ceiling on {', '.join(design.ceilings)}, "
                        f"got {len(design.pool.records)} in the search, half of them members "
                        f"({error}): raise the number of records, or choose another metric"
                    ) from error
                refused[proposal.label] = str(error)
                lost += cost
            except (SpecError, TargetError) as error:
                if proposal.defence == UNDEFENDED:
                    raise
                # who refuses a network always does; a training may fail by its settings
                always = isinstance(error, SpecError)
                refused[proposal.defence if always else proposal.label] = str(error)
                lost += 0 if always else cost
        if found is None:
            study.tell(asking, state=optimiser.failed())
            continue
        for name, ceiling in design.ceilings.items():
            asking.set_constraint(name, found.leaks[name].high - ceiling)
        study.tell(asking, [found.accuracy.value, _worst_ratio(found, design.ceilings)])
    return SearchLog(tuple(trials), refused)


def choose(trials: Sequence[SearchTrial], ceilings: Ceilings) -> SearchTrial:
    """The most accurate setting whose upper limits are under the ceilings; else the nearest one.

    Settings that were given up, or are no better than a constant answer, count only if all are.
    """
    whole = [one for one in trials if one.useful and not one.given_up] or list(trials)
    under = [trial for trial in whole if trial.excess(ceilings) <= 0]
    if under:
        return max(under, key=lambda trial: trial.accuracy.value)
    return min(whole, key=lambda trial: trial.excess(ceilings))


def _try(
    design: SearchDesign,
    number: int,
    proposal: Proposal,
    variant: Variant,
    path: Path,
    track: Track[Any],
    who: Workers,
) -> SearchTrial:
    """Train and audit; half of the models first, so that what leaks anyway costs half."""
    asked, whole = design.asked, design.asked.models
    early = whole // 2
    if early >= _FEWEST_EARLY:
        audits, place = _audit(
            design, number, variant, (early, min(early, asked.targets)), path, track, who
        )
        leaks = _leaks(audits, design)
        if any(leaks[name].low > ceiling for name, ceiling in design.ceilings.items()):
            return _describe(design, number, proposal, variant, audits, place, given_up=True)
    audits, place = _audit(design, number, variant, (whole, asked.targets), path, track, who)
    return _describe(design, number, proposal, variant, audits, place, given_up=False)


def _audit(
    design: SearchDesign,
    number: int,
    variant: Variant,
    size: tuple[int, int],
    path: Path,
    track: Track[Any],
    who: Workers,
) -> tuple[LeaveOneOut, str]:
    models, targets = size
    question = design_leave_one_out(
        design.pool,
        replace(variant.plan, models=models),
        Rotation(models, targets),
        design.attacks,
        RunHeading(f"{design.heading.name}: {variant.name}", design.heading.seed, {}),
        class_names=design.class_names,
    )
    place = path / FOLDER / f"{number + 1:03d}-{question.plan.challenge[:12]}"
    with atomic.translate_os_errors(place):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return audit_each(question, place, track, who), f"{FOLDER}/{place.name}"


def _describe(
    design: SearchDesign,
    number: int,
    proposal: Proposal,
    variant: Variant,
    audits: LeaveOneOut,
    place: str,
    *,
    given_up: bool,
) -> SearchTrial:
    models, classes = audits.plan.models, design.pool.records.y
    accuracy = result.mean_over_targets("accuracy", audits.accuracies("non-members"))
    return SearchTrial(
        number=number + 1,
        proposal=proposal,
        models=models,
        trainings=models * count_trainings(variant.plan.trainer),
        accuracy=accuracy,
        leaks=_leaks(audits, design),
        given_up=given_up,
        useful=bool(accuracy.value > np.bincount(classes).max() / len(classes)),
        run=place,
    )


def _leaks(audits: LeaveOneOut, design: SearchDesign) -> dict[str, Leak]:
    """Of each target's audit the strongest attack and the limits, and their means over targets.

    The final audit is one such audit of as many records: its upper limit, for all of its attacks at
    once, is what has to be under the ceiling.

    Raises:
        NotApplicable: of some target no attack has the metric and passed its controls.
    """
    each_target = [_limits(audit, design.final_attacks) for audit in audits.targets]
    found = {}
    for name in design.ceilings:
        each = [limits[name] for limits in each_target if name in limits]
        if len(each) < len(audits.targets):
            raise NotApplicable(
                f"expected an attack with {name} that passed its controls on each of "
                f"{len(audits.targets)} targets, got {len(each)} of them with one"
            )
        found[name] = Leak(
            value=_mean(one.most for one in each),
            low=_mean(one.estimate.low for one in each),
            high=_mean(1.0 if one.highest is None else one.highest for one in each),
            attack=each[0].attack,
        )
    return found


def _limits(audit: Audit, together: int) -> Mapping[str, Limits]:
    """As the verdict's, for so many attacks at once."""
    return limits_by_metric(
        {
            label: Measurements(metrics, {})
            for label, metrics in audit.figures(best_of=together).items()
        }
    )


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _worst_ratio(trial: SearchTrial, ceilings: Ceilings) -> float:
    """The leak as the optimiser sees it: over its ceiling, by the worst metric."""
    return max(trial.leaks[name].value / max(ceiling, _LEAST) for name, ceiling in ceilings.items())
