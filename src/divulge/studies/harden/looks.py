"""Train the models of settings, keep what they answer at several epochs, and attack each look.

A look is a setting's models as they are after some of their epochs. They are audited in turn: each
is attacked with the others as shadow models. The search's figures choose a setting and are no
claim, so there are no controls here: every attack passes them in the final audit, or does not
count there. Carried out and stored by `audits.runner`, a look would take some forty times as long,
for controls and metrics that no choice depends on.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from divulge._util import atomic
from divulge._util.digest import digest
from divulge._util.progress import Track
from divulge._util.random import stream
from divulge.core import (
    AnswerDefence,
    Estimate,
    Game,
    Measurements,
    Membership,
    MembershipAttack,
    ModelView,
    Records,
    Scores,
    Shadows,
)
from divulge.defences import catalog
from divulge.errors import DivulgeError, NotApplicable
from divulge.metrics import intervals, signals
from divulge.metrics.measure import measure_one
from divulge.metrics.people import first_of_each, mean_by_record
from divulge.metrics.softened import softened_log_probability
from divulge.report.evidence import limits_by_metric
from divulge.secrets import attempt
from divulge.studies.harden.leaks import Ceilings, Leak, Look
from divulge.studies.harden.log import FOLDER
from divulge.studies.harden.proposal import UNDEFENDED, Proposal
from divulge.studies.harden.space import is_staged
from divulge.studies.leave_one_out import means
from divulge.studies.leave_one_out.design import RecordPool
from divulge.targets.outputs import access_of
from divulge.targets.recorded import RecordedTarget
from divulge.training.recipe import Recipe
from divulge.training.shadows.plan import ShadowPlan, random_halves
from divulge.training.shadows.workers import Workers
from divulge.training.shadows.workload import ShadowWorkload, TrainingTask
from divulge.training.trainers import trainer_identity, use_one_thread
from divulge.training.tuning import Tunable


@dataclass(frozen=True, slots=True)
class SearchedModels:
    """What all settings of a search share: records, attacks, ceilings, and the folder."""

    base: Recipe | Tunable
    """How an undefended model is trained."""
    pool: RecordPool
    """The records of the search."""
    ceilings: Ceilings
    answers: tuple[str, ...]
    """Defences of answers to look behind, beside none."""
    attacks: tuple[MembershipAttack, ...]
    final_attacks: int
    """The number of attacks in the final audit, for all of which its limits hold at once."""
    seed: int
    folder: Path

    @property
    def queries(self) -> tuple[Records, ...]:
        """What every model is asked about: the records of the search, and reference records."""
        further = () if self.pool.reference is None else (self.pool.reference,)
        return (self.pool.records, *further)

    @property
    def defences(self) -> tuple[AnswerDefence | None, ...]:
        """The defences of answers, none first."""
        return (None, *map(catalog.answer_defence, self.answers))


@dataclass(frozen=True, slots=True)
class Training:
    """Models of one setting, all trained alike for as many epochs."""

    number: int
    """Of the trial, from 1."""
    proposal: Proposal
    epochs: tuple[int, ...]
    """After how many epochs models are looked at; none for the whole training alone."""
    models: range

    def work(self, base: Recipe | Tunable) -> float:
        """The work of its models, in trainings of an undefended one."""
        stop = max(self.epochs) if self.epochs else None
        return len(self.models) * replace(self.proposal, stop_after=stop).work(base)

    def place(self, shared: SearchedModels, model: int) -> str:
        """The file of a model's answers, within the folder of the search.

        As numpy.save writes it; files that end in .npy count as nothing computed yet.
        """
        how = digest(f"{trainer_identity(self.proposal.as_trainer(shared.base))} {self.epochs}")
        return f"{FOLDER}/{self.number:03d}-{how[:12]}/model-{model}.answers"


Answers = Float64[np.ndarray, "looks queries classes"]
"""What a model answers at each look: after each of the epochs, behind each defence of answers."""


def train_all(
    shared: SearchedModels, trainings: Sequence[Training], track: Track[Any], workers: Workers
) -> dict[int, DivulgeError]:
    """Train the models of settings side by side, and store what each answers.

    What the folder holds is not trained again.

    Args:
        shared: what they share.
        trainings: the settings and their models.
        track: shows progress.
        workers: trains.

    Returns:
        By number of the trial, why a model of it could not be trained.
    """
    tasks, places, failed = [], [], dict[int, DivulgeError]()
    for training in trainings:
        missing = [
            k for k in training.models if not (shared.folder / training.place(shared, k)).exists()
        ]
        if missing:
            work = _workload(shared, training)
            tasks += [TrainingTask(work, k) for k in missing]
            places += [(training.number, training.place(shared, k)) for k in missing]
    done = sum(len(training.models) for training in trainings) - len(tasks)
    fresh = workers.train_each(tasks)
    for _ in track(tasks, "Training models", done):
        k, trained = next(fresh)
        number, place = places[k]
        if isinstance(trained, DivulgeError):
            failed[number] = trained
            continue
        answers = [stage.answers for look in trained.stages for stage in look]
        file = io.BytesIO()
        np.save(file, np.stack([rows for rows in answers if rows is not None]))
        atomic.write_within(shared.folder, place, file.getvalue())
    return failed


def _workload(shared: SearchedModels, training: Training) -> ShadowWorkload:
    """The models of a setting, each of which needs one thread."""
    trainer = use_one_thread(training.proposal.as_trainer(shared.base))
    assert not training.epochs or is_staged(trainer)
    plan = ShadowPlan(trainer, max(training.models) + 1)
    first, *also = shared.defences
    return ShadowWorkload(
        trainer=trainer,
        pool=shared.pool.records,
        queries=shared.queries,
        subsets=plan.subsets(shared.pool.records, shared.seed),
        seeds=plan.seeds(shared.seed),
        models_with_predictions=plan.models,
        answers=first,
        also=tuple(also),
        epochs=training.epochs,
    )


def look_at(shared: SearchedModels, trainings: Sequence[Training]) -> list[Look]:
    """Audit the models of one setting in turn, at each look.

    Args:
        shared: what all settings share.
        trainings: of this setting, as trained for as many epochs; where they differ in that, the
            looks that all have.

    Raises:
        NotApplicable: no attack has a metric that has a ceiling.
        StoreError: answers are damaged.
    """
    fewest = min(trainings, key=lambda training: len(training.epochs))
    shape = (len(fewest.epochs) or 1, len(shared.defences))
    files = [
        _read(shared, shared.folder / training.place(shared, k), len(training.epochs) or 1)
        for training in trainings
        for k in training.models
    ]
    results = []
    for k in range(shape[0]):
        for behind, name in enumerate((UNDEFENDED, *shared.answers)):
            answers = [file[k * shape[1] + behind] for file in files]
            epochs = fewest.epochs[k] if fewest.epochs else None
            results.append(_look(shared, answers, epochs, name))
    return results


def _read(shared: SearchedModels, place: Path, looks: int) -> Answers:
    answers = atomic.map_array(place)
    wanted = (looks * len(shared.defences), sum(map(len, shared.queries)))
    if answers.ndim != 3 or answers.shape[:2] != wanted or answers.dtype != np.float64:
        raise atomic.damaged_file_error(
            place, ValueError(f"{answers.dtype} of shape {answers.shape}")
        )
    return np.asarray(answers)


def _look(
    shared: SearchedModels,
    answers: Sequence[Float64[np.ndarray, "queries classes"]],
    epochs: int | None,
    behind: str,
) -> Look:
    """Accuracy and leaks of models that are audited in turn."""
    records, models = shared.pool.records, len(answers)
    person = np.arange(len(records)) if records.people is None else records.people
    member = random_halves(int(person.max()) + 1, models, shared.seed)[:, person]
    texts = records.unlabelled_texts
    accuracy = [
        mean_by_record(predictions[: len(records)][~mine, 0], None, 0.0, 1.0)
        if texts
        else _rate_labels(predictions[: len(records)][~mine], records.y[~mine])
        for predictions, mine in zip(answers, member, strict=True)
    ]
    mean = means.mean_over_targets("accuracy", accuracy)
    guessing = 0.0 if texts else np.bincount(records.y).max() / len(records)
    return Look(
        epochs=epochs,
        answers=behind,
        models=models,
        accuracy=mean,
        leaks=_leaks(shared, answers, member, behind),
        useful=bool(mean.value > guessing),
    )


def _rate_labels(answers: Float64[np.ndarray, "records classes"], y: np.ndarray) -> Estimate:
    hits, of = int((answers.argmax(axis=1) == y).sum()), len(y)
    return Estimate(hits / of, *intervals.wilson(hits, of))


def _leaks(
    shared: SearchedModels,
    answers: Sequence[Float64[np.ndarray, "queries classes"]],
    member: Bool[np.ndarray, "models records"],
    behind: str,
) -> dict[str, Leak]:
    """Of each target's audit the strongest attack and the limits, and their means over targets.

    The final audit is one such audit of as many records: its upper limit, for all of its attacks at
    once, is what has to be under the ceiling.
    """
    each = [
        limits_by_metric(dict(_attacked(shared, k, game)))
        for k, game in enumerate(_games(shared, answers, member, behind))
    ]
    leaks = {}
    for name in shared.ceilings:
        limits = [by_name[name] for by_name in each if name in by_name]
        if len(limits) < len(each):
            raise NotApplicable(
                f"expected an attack with {name} on each of {len(each)} targets, got "
                f"{len(limits)} of them with one"
            )
        highs = [1.0 if limit.highest is None else limit.highest for limit in limits]
        leaks[name] = Leak(
            value=_mean(limit.most for limit in limits),
            low=_mean(limit.estimate.low for limit in limits),
            high=float(np.mean(highs)),
            attack=limits[0].attack,
            spread=float(np.std(highs, ddof=1)),
        )
    return leaks


def _games(
    shared: SearchedModels,
    answers: Sequence[Float64[np.ndarray, "queries classes"]],
    member: Bool[np.ndarray, "models records"],
    behind: str,
) -> Iterator[Game[ModelView, Membership]]:
    """Each model as a target, with all others as its shadows."""
    records, reference = shared.pool.records, shared.pool.reference
    edges = np.cumsum([len(group) for group in shared.queries])[:-1]
    phi = [
        np.stack([
            signals.compute_phi(part, group)
            for part in (np.split(each, edges)[place] for each in answers)
        ])
        for place, group in enumerate(shared.queries)
    ]  # fmt: skip
    softened = np.stack([softened_log_probability(p[: len(records)], records.y) for p in answers])
    person = np.arange(len(records)) if records.people is None else records.people
    defence = dict(zip((UNDEFENDED, *shared.answers), shared.defences, strict=True))[behind]
    allowed = access_of("probabilities")
    for k, own in enumerate(answers):
        others = [j for j in range(len(answers)) if j != k]
        target = RecordedTarget(
            shared.queries, own, allowed if defence is None else defence.offers(allowed)
        )
        on_reference = np.empty((0, len(others))) if reference is None else phi[1][others].T
        shadows = Shadows(
            phi[0][others].T, member[others].T, on_reference, softened=(softened[others].T,)
        )
        mine = first_of_each(member[k], person)
        yield Game(ModelView(target, records, reference, shadows), Membership(mine, "coins"))


def _attacked(
    shared: SearchedModels, k: int, game: Game[ModelView, Membership]
) -> Iterator[tuple[str, Measurements]]:
    """By attack, the metrics that have a ceiling, with limits for all final attacks at once."""

    def measured(guess: Scores, truth: Membership, delta: float) -> Measurements:
        del delta
        metrics, unmeasured = dict[str, Estimate](), dict[str, str]()
        for name in shared.ceilings:
            try:
                metrics[name] = measure_one(name, guess, truth, shared.final_attacks)
            except DivulgeError as error:
                unmeasured[name] = str(error)
        return Measurements(metrics, unmeasured)

    seed = int(stream(shared.seed, "target", k).integers(2**31))
    scores = attempt.SharedScores()
    for attack in shared.attacks:
        done = attempt.run_on_model(game, attack, seed, measure_guess=measured, shared=scores)
        if done.guess is not None and done.finding.metrics:
            yield done.finding.label, Measurements(done.finding.metrics, {})


def _mean(values: Iterator[float]) -> float:
    return float(np.mean(list(values)))
