"""What training models and simulating rounds will cost, from a short trial."""

import os
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from divulge._util import toml
from divulge._util.arguments import Count, FilePath, Seed, check_arguments
from divulge.attacks import Cascade
from divulge.audits import config, inputs
from divulge.audits.challenges.drawn_candidates import set_copies_aside
from divulge.audits.known_members import set_known_members_aside
from divulge.audits.matching import match
from divulge.audits.requested_attacks import requested_attacks
from divulge.core import Records
from divulge.data import augmentation as augmenting
from divulge.data import records as data_records
from divulge.errors import SpecError
from divulge.federation import config as federation_config
from divulge.federation import from_config
from divulge.federation.config import FederationSpec
from divulge.federation.simulation import simulate
from divulge.studies.compare import config as compare_config
from divulge.studies.compare import design as compare_design
from divulge.studies.cost_estimates import CostEstimate, SearchCost, SimulationCost
from divulge.studies.harden import config as harden_config
from divulge.studies.harden.final import HardenDesign
from divulge.studies.harden.proposal import UNDEFENDED, stages
from divulge.studies.harden.run import design_from_config as harden_design
from divulge.studies.harden.space import first_proposal, make_variant
from divulge.studies.leave_one_out.design import LeaveOneOutDesign, design_from_config
from divulge.studies.trial import Trial
from divulge.targets.outputs import Output
from divulge.training.shadows import train as training
from divulge.training.shadows import workers_by_name
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.workers import Workers
from divulge.training.shadows.workload import ShadowWorkload
from divulge.training.trainers import as_trainer, trains_regression

# How much memory this process and those that it started have held.


_PROCESSES = Path("/proc")


def peak_memory() -> int | None:
    """Bytes: the sum of their peaks, shared pages counted in each; None where nobody says.

    Linux says it in ``/proc``.
    """
    if not (_PROCESSES / "self" / "status").exists():
        return None
    processes = {}
    for folder in _PROCESSES.glob("[0-9]*"):
        try:
            lines = (folder / "status").read_text("utf-8").splitlines()
        except OSError:  # it ended in the meantime
            continue
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        peak = int(fields.get("VmHWM", "0").split()[0])  # in KiB; a thread of the kernel has none
        processes[int(folder.name)] = (int(fields["PPid"]), 1024 * peak)
    family, waiting = set(), {os.getpid()}
    while waiting:
        family |= waiting
        waiting = {
            process for process, (parent, _) in processes.items() if parent in waiting
        } - family
    return sum(processes[process][1] for process in family & processes.keys())


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
) -> dict[str, CostEstimate | SearchCost | SimulationCost]:
    """About what the work that settings ask for will cost, after a short trial.

    Args:
        path: an ``audit.toml``, ``compare.toml``, ``harden.toml`` or ``federate.toml``.
        workers: who trains models, as for `audit`; a federation is simulated in this process.

    Returns:
        By what is done: ``shadows`` of an audit, ``models`` that are audited in turn, each defence
        of a comparison by its name, the ``search`` for a model under a ceiling, ``rounds`` of a
        simulated federation and, with ``[harden]``, of the ``search`` for one within limits.

    Raises:
        DivulgeError: the settings, the data or a model cannot be used; or nothing is trained
            before attacks run, as in audits of predictions and of federations.
    """
    path, workers_object = Path(path), workers_by_name(workers)
    table = toml.read_toml(path)
    if federation_config.is_federation(table):
        asked_for = federation_config.parse(table, str(path))
        rounds = _estimate_rounds(asked_for, path.parent)
        if asked_for.harden is None:
            return {"rounds": rounds}
        times = asked_for.harden.budget  # each with half of the clients, and none stored
        search = replace(
            rounds, rounds=times * rounds.rounds, seconds=times * rounds.seconds / 2, disk=0
        )
        return {"rounds": rounds, "search": search}
    if table.keys() & {"ceiling", "search"}:
        spec = harden_config.parse(table, str(path))
        return {"search": _estimate_search(harden_design(spec, path.parent)[0], workers_object)}
    if table.keys() & {"training", "defences"}:
        wanted = compare_design.design_from_config(
            compare_config.parse(table, str(path)), path.parent
        )
        return {
            variant.name: _estimate_in_turn(question, workers_object)
            for variant, question in wanted.questions
        }
    settings = config.parse_config(table, str(path))
    if isinstance(settings, config.LeaveOneOutAuditSpec):
        return {
            "models": _estimate_in_turn(design_from_config(settings, path.parent), workers_object)
        }
    if not isinstance(settings, config.ModelAuditSpec) or settings.shadows is None:
        raise SpecError(
            f"expected [shadows] or [leave_one_out] in {path}, got neither: without models to "
            "train there is nothing to estimate"
        )
    return {"shadows": _estimate_shadows(settings, path.parent, workers_object)}


def _estimate_shadows(
    settings: config.ModelAuditSpec, folder: Path, workers: Workers
) -> CostEstimate:
    """About what training the shadow models of an audit will cost, further ones included."""
    matched, _ = match(inputs.load_inputs(settings, folder))
    subject, _ = set_copies_aside(matched)
    subject, *_ = set_known_members_aside(subject, settings.seed)
    assert subject.shadows is not None
    candidates = subject.members.joined(subject.nonmembers)
    own = subject.shadows.own
    queries = (*_queries(candidates, subject.augment, subject.reference), *own)
    plan, attacks = subject.shadows, requested_attacks(settings, folder)
    rounds = sum(attack.rounds for attack in attacks if isinstance(attack, Cascade))
    plan = replace(plan, models=plan.models + training.count_further(plan, rounds))
    return _run_trial(training.prepare_workload(plan, queries, settings.seed), workers)


def _estimate_in_turn(question: LeaveOneOutDesign, workers: Workers) -> CostEstimate:
    """About what training models will cost that are audited in turn."""
    head = question.head
    work = training.prepare_workload(
        question.shadows, question.queries, head.seed, head.facts.targets
    )
    return _run_trial(work, workers)


def _estimate_search(wanted: HardenDesign, workers: Workers) -> SearchCost:
    """About what a search will cost, from a trial of an undefended model."""
    models, settings = wanted.models, wanted.settings
    base = models.base
    undefended = first_proposal(UNDEFENDED, base.epochs)
    plan = make_variant(undefended, base, settings.models).plan
    queries = _queries(models.pool.records, (), models.pool.reference)
    trial = _run_trial(
        training.prepare_workload(plan, queries, models.seed, settings.models), workers
    )
    # a model of the search learns half of its records; the last ones all, and half of the fresh
    larger = 2 + len(wanted.records.fresh) / len(wanted.records.searched)
    search = settings.budget - settings.final_models
    return SearchCost(
        one=trial,
        trainings=settings.budget,
        final=settings.final_models,
        processors=workers.processors(),
        seconds=trial.seconds / trial.models * (search + larger * settings.final_models),
        disk=trial.disk
        // trial.models
        * search
        * len(stages(base.epochs))
        * (1 + len(settings.answers)),
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
