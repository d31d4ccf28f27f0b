"""What training models and simulating rounds will cost, from a short trial."""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from divulge._util import toml
from divulge._util.arguments import Count, FilePath, Seed, check_arguments
from divulge._util.progress import format_span
from divulge.attacks import Cascade
from divulge.audits import config, inputs
from divulge.audits.challenges import membership
from divulge.audits.compare import config as compare_config
from divulge.audits.compare import design as compare_design
from divulge.audits.known_members import set_known_members_aside
from divulge.audits.leave_one_out.design import LeaveOneOutDesign, design_from_config
from divulge.audits.matching import match
from divulge.audits.trial import Trial
from divulge.core import Records
from divulge.data import augmentation as augmenting
from divulge.data import records as data_records
from divulge.errors import SpecError
from divulge.federation import config as federation_config
from divulge.federation import from_config
from divulge.federation.config import FederationSpec
from divulge.federation.simulation import simulate
from divulge.report import words
from divulge.targets.outputs import Output
from divulge.training.shadows import train as training
from divulge.training.shadows import workers_by_name
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.workers import (
    ShadowWorkload,
    Workers,
)
from divulge.training.trainers import as_trainer, trains_regression

# How much memory this process and those that it started have held.


_PROCESSES = Path("/proc")


def peak_memory() -> int | None:
    """Bytes: the sum of their peaks, shared pages counted in each; None where nobody says.

    Linux says it in ``/proc``.
    """
    if not (_PROCESSES / "self" / "status").exists():
        return None
    found = {}
    for folder in _PROCESSES.glob("[0-9]*"):
        try:
            lines = (folder / "status").read_text("utf-8").splitlines()
        except OSError:  # it ended in the meantime
            continue
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        held = int(fields.get("VmHWM", "0").split()[0])  # in KiB; a thread of the kernel has none
        found[int(folder.name)] = (int(fields["PPid"]), 1024 * held)
    family, waiting = set(), {os.getpid()}
    while waiting:
        family |= waiting
        waiting = {process for process, (parent, _) in found.items() if parent in waiting} - family
    return sum(found[process][1] for process in family & found.keys())


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """About what it takes to train shadows and ask them; attacks come on top."""

    models: int
    """The number of models to be trained."""
    trained: int
    """The number of models that the trial trained."""
    share: float
    """The largest share of its records on which the trial trained a model."""
    trial: float
    """Seconds that the trial took, the start of workers included."""
    seconds: float
    """Seconds for all models, with as many workers as now."""
    at_least: bool
    """Whether it may be much longer: a model on few records took too long for a second look."""
    memory: int | None
    """Bytes held by this process and those it started, at their peaks in the trial; None if the
    system does not say."""
    disk: int
    """Bytes in the run folder for what the models say."""
    queries: int
    """Records that each model is asked about; in an ordinary audit the target is, too."""

    def __str__(self) -> str:
        models, trained = (
            words.format_count(number, "model") for number in (self.models, self.trained)
        )
        about, part = ("About", "all") if self.share == 1 else ("At least", f"{self.share:.0%}")
        return (
            f"{'At least' if self.at_least else 'About'} {format_span(self.seconds)} to train "
            f"{models} and to ask each about {words.format_count(self.queries, 'record')}.\n"
            f"{about} {_space(self)}\n"
            f"From a trial of {format_span(self.trial)}: {trained} on up to {part} of the records, "
            "the start of workers included. Attacks, and an audited model's own answers, come on "
            "top."
        )


@dataclass(frozen=True, slots=True)
class SimulationCost:
    """About what it takes to simulate a federation; an audit of its transcript comes on top."""

    rounds: int
    """The number of rounds to be simulated."""
    simulated: int
    """The number of them that the trial simulated: two, or the only one."""
    trial: float
    """Seconds that the trial took."""
    seconds: float
    """Seconds for all rounds; those after the trial take as long as its last one."""
    memory: int | None
    """Bytes held by this process and those it started, at their peaks; None if the system does
    not say."""
    disk: int
    """Bytes of the transcript."""

    def __str__(self) -> str:
        rounds, simulated = (
            words.format_count(number, "round") for number in (self.rounds, self.simulated)
        )
        return (
            f"About {format_span(self.seconds)} to simulate {rounds}.\n"
            f"About {_space(self)}\n"
            f"From a trial: {simulated} in {format_span(self.trial)}. An audit of the transcript "
            "comes on top."
        )


@check_arguments
def estimate(
    train: Any,
    *,
    records: Any,
    models: Count = 16,
    reference: Any = None,
    output: Output | None = None,
    augment: Iterable[Any] = (),
    workers: str = "local",
    seed: Seed = 0,
) -> CostEstimate:
    """About what training shadows will cost, from a short trial of some on a part of the records.

    Args:
        train: how to train one, as for `divulge.audit`.
        records: the candidates: members and non-members together. All are counted: an audit sets
            exact copies aside first.
        models: how many are to be trained.
        reference: further records that they are asked about.
        output: what a model answers that a function returned.
        augment: further ways to ask about a candidate.
        workers: who trains.
        seed: of the models.

    Raises:
        DivulgeError: the records, the trainer or a setting cannot be used; says what to do.

    Examples:
        >>> import numpy as np
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> x, y = np.random.default_rng(0).normal(size=(200, 5)), np.arange(200) % 2
        >>> cost = estimate(DecisionTreeClassifier(), records=(x, y), models=1000)
        >>> cost.models, cost.disk, cost.seconds > cost.trial
        (1000, 1600000, True)
    """
    plan = ShadowPlan(as_trainer(train, output), models)
    read = partial(data_records.as_records, values=trains_regression(plan.trainer))
    candidates, own = data_records.make_alike(
        read(records, "records"), None if reference is None else read(reference, "reference")
    )
    queries = _queries(candidates, tuple(augment), own)
    return _run_trial(training.prepare_workload(plan, queries, seed), workers_by_name(workers))


@check_arguments
def estimate_file(
    path: FilePath, workers: str = "local"
) -> dict[str, CostEstimate | SimulationCost]:
    """About what the work that settings ask for will cost, after a short trial.

    Args:
        path: an ``audit.toml``, ``compare.toml`` or ``federate.toml``.
        workers: who trains models, as for `audit`; a federation is simulated in this process.

    Returns:
        By what is done: ``shadows`` of an audit, ``models`` that are audited in turn, each defence
        of a comparison by its name, ``rounds`` of a simulated federation.

    Raises:
        DivulgeError: the settings, the data or a model cannot be used; or nothing is trained
            before attacks run, as in audits of predictions and of federations.
    """
    path, who = Path(path), workers_by_name(workers)
    table = toml.read_toml(path)
    if table.keys() & {"clients", "recommender", "ranker"}:
        return {"rounds": _estimate_rounds(federation_config.parse(table, str(path)), path.parent)}
    if table.keys() & {"training", "defences"}:
        wanted = compare_design.design_from_config(
            compare_config.parse(table, str(path)), path.parent
        )
        return {variant.name: _estimate_in_turn(one, who) for variant, one in wanted.questions}
    settings = config.parse_config(table, str(path))
    if isinstance(settings, config.LeaveOneOutAuditSpec):
        return {"models": _estimate_in_turn(design_from_config(settings, path.parent), who)}
    if not isinstance(settings, config.ModelAuditSpec) or settings.shadows is None:
        raise SpecError(
            f"expected [shadows] or [leave_one_out] in {path}, got neither: without models to "
            "train there is nothing to estimate"
        )
    matched, _ = match(inputs.load_inputs(settings, path.parent))
    subject, _ = membership.set_copies_aside(matched)
    subject, *_ = set_known_members_aside(subject, settings.seed)
    assert subject.shadows is not None
    candidates = subject.members.joined(subject.nonmembers)
    further = subject.shadows.own
    queries = (*_queries(candidates, subject.augment, subject.reference), *further)
    plan, attacks = subject.shadows, config.requested_attacks(settings, path.parent)
    rounds = sum(attack.rounds for attack in attacks if isinstance(attack, Cascade))
    plan = replace(plan, models=plan.models + training.count_further(plan, rounds))
    work = training.prepare_workload(plan, queries, settings.seed)
    return {"shadows": _run_trial(work, who)}


def _estimate_in_turn(asked: LeaveOneOutDesign, who: Workers) -> CostEstimate:
    """About what training models will cost that are audited in turn."""
    plan = asked.plan
    return _run_trial(
        training.prepare_workload(asked.shadows, asked.queries, plan.seed, plan.targets), who
    )


def _estimate_rounds(settings: FederationSpec, folder: Path) -> SimulationCost:
    """About what a simulation will cost: the first round with all that starts, then one more."""
    federation = from_config.load_simulation(settings, folder)
    seconds: list[float] = []
    sizes: list[int] = []
    with TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        run = Path(scratch, "trial")
        for rounds in range(1, min(2, settings.rounds) + 1):
            begun = time.perf_counter()
            simulate(federation, rounds, run, resume=rounds > 1)
            seconds.append(time.perf_counter() - begun)
            sizes.append(sum(file.stat().st_size for file in run.iterdir()))
    more = settings.rounds - len(seconds)
    return SimulationCost(
        rounds=settings.rounds,
        simulated=len(seconds),
        trial=sum(seconds),
        seconds=sum(seconds) + more * seconds[-1],
        memory=peak_memory(),
        disk=sizes[-1] + more * (sizes[-1] - sizes[0]),
    )


def _queries(
    candidates: Records, ways: tuple[Any, ...], reference: Records | None
) -> tuple[Records, ...]:
    further = () if reference is None else (reference,)
    return (candidates, *augmenting.augment(candidates, ways), *further)


def _run_trial(work: ShadowWorkload, workers: Workers) -> CostEstimate:
    """Train as many models as can be trained at once, on more records each time, while it pays."""
    trial = Trial(work, workers)
    with workers.session():
        trial.run()
        memory = peak_memory()  # while workers are still there
    queries, models = sum(map(len, work.queries)), len(work.seeds)
    return CostEstimate(
        models=models,
        trained=trial.trained,
        share=trial.parts[-1].share,
        trial=trial.spent(),
        seconds=trial.seconds(),
        at_least=trial.at_least,
        memory=memory,
        disk=round(8 * queries * (models + work.models_with_predictions * trial.classes)),
        queries=queries,
    )


def _space(cost: CostEstimate | SimulationCost) -> str:
    memory = "memory unknown on this system" if cost.memory is None else _bytes(cost.memory)
    return f"{memory} of memory, and {_bytes(cost.disk)} on disk."


def _bytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(size / 1e6, 0.1):.1f} MB"
