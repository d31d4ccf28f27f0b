"""Train the models, audit each in turn, and put together what was found."""

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from divulge._util import atomic
from divulge._util.arguments import check_arguments
from divulge._util.folders import create_folder
from divulge._util.progress import Track
from divulge.attacks import catalog
from divulge.audits.options import Access, Options, Rotation, RunPath
from divulge.audits.runner import RunHeading
from divulge.core import MembershipAttack
from divulge.finished_runs.run_folder import take_run_folder
from divulge.finished_runs.run_json import continue_head, has_head, store_head
from divulge.metrics.joint_test import Drawn
from divulge.studies.leave_one_out import joint, result, target
from divulge.studies.leave_one_out.design import LeaveOneOutDesign, design_leave_one_out, pool_from
from divulge.studies.leave_one_out.result import LeaveOneOut
from divulge.training.shadows import strategy, workers_by_name
from divulge.training.shadows import train as training
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.workers import Workers
from divulge.training.trainers import as_trainer, trainer_identity, trains_regression


@check_arguments
def leave_one_out(
    train: Any,
    *,
    records: Any,
    reference: Any = None,
    groups: Any = None,
    attacks: Iterable[MembershipAttack] | None = None,
    access: Access = Access(),
    rotation: Rotation = Rotation(),
    run: RunPath = None,
    options: Options = Options(),
) -> LeaveOneOut:
    """Train models on random halves of the records, and audit each against the others.

    One fleet of N models gives N targets for the price of one audit with N - 1 shadows, and shows
    how much a leak differs from one training run to the next.

    Args:
        train: how to train one: a trainer, a scikit-learn estimator, or a function (x, y, seed)
            that returns a trained model. Models must give probabilities, logits or values.
        records: a pair (x, y) or ``divulge.Records``; half of them are members of each target.
            Of records with the same features only the first is used.
        reference: further records, on which no model is trained; copies of records are left out.
        groups: whose record each is, where people have several: each model is then trained on all
            records of a random half of the **people**, and people are tested and counted. The name
            of a column of the data frames, which is then no feature; or an array of names, one a
            record, with a reference one for each in turn, or by name. Nothing made of a name is
            stored.
        attacks: default: every attack that divulge has.
        access: what a model answers that a function returned, and what changes its predictions;
            other fields do not apply.
        rotation: how many models are trained, how many are audited, and against how many.
        run: write a run folder as the work goes on, with one of each target in it.
        options: seed, title, class names and the like; resumed with more models or targets, too.

    Returns:
        An audit of each target, and the mean over targets with its 95 % interval for each attack
        and metric. That interval (Student's) is of the variation over targets, and allows for
        targets that are each other's shadows.

    Raises:
        DivulgeError: the records, the trainer or a setting cannot be used; says what to do.

    Examples:
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> x, y = np.random.default_rng(0).normal(size=(200, 5)), np.arange(200) % 2
        >>> attacks = [catalog.attack("calibrated")]
        >>> found = leave_one_out(
        ...     DecisionTreeClassifier(), records=(x, y), attacks=attacks, rotation=Rotation(4))
        >>> len(found.targets), found.across["calibrated"]["auc"].low > 0.6
        (4, True)
    """
    workers = workers_by_name(rotation.workers)
    access = access.only_output_and_answers("leave_one_out")
    options = options.of_several_models("leave_one_out")
    output, answers = access.output, access.answers
    trainer = as_trainer(train, output)
    regression = trains_regression(trainer)
    if attacks is None:
        attacks = catalog.default_attacks(shadows=True, regression=regression)
    design = design_leave_one_out(
        pool_from(records, reference, options.ids, groups=groups, values=regression),
        ShadowPlan(
            trainer,
            rotation.models,
            fingerprint=f"{trainer_identity(train)} {output}",
            answers=answers,
        ),
        rotation,
        tuple(attacks),
        RunHeading(
            options.name or "leave-one-out",
            options.seed,
            {"output": output, "answers": None if answers is None else repr(answers)},
        ),
        class_names=tuple(options.class_names),
        delta=options.delta,
        person_scores=tuple(options.person_scores),
    )
    if run is None:
        return audit_each(design, None, options.track, workers)
    with take_folder(Path(run), resume=options.resume):
        return audit_each(design, Path(run), options.track, workers)


def audit_each(
    design: LeaveOneOutDesign, run: Path | None, track: Track[Any], workers: Workers
) -> LeaveOneOut:
    """Train and audit; what the folder holds already is not computed again.

    Args:
        design: who is trained, and compared with whom.
        run: an empty folder, or one that was begun with the same question.
        track: shows progress.
        workers: trains.
    """
    head, targets = design.head, design.head.facts.targets
    with ExitStack() as stack:
        path = run or Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
        if run:
            head = continue_head(run, head, "records, trainer and seed")
            store_head(run, head)
            joint.store(run, None)  # what stands there may be of fewer targets
        work = training.prepare_workload(design.shadows, design.queries, head.seed, targets)
        places = [result.target_folder(path, k) / target.ANSWERS for k in range(targets)]
        matrix = training.load_or_train_rows(
            path / training.FOLDER,
            head.challenge,
            work,
            track,
            workers,
            keep=lambda trained: _keep_predictions(path, trained.model, trained.answers),
            again=[k for k, place in enumerate(places) if not place.exists()],
        )
        audits = tuple(
            target.audit_target(design, k, matrix, work.subsets, path, run is not None)
            for k in track(range(targets), "Auditing models")
        )
        rotation = LeaveOneOut(head, audits, run)
        drawn = _permute_together(design, rotation, matrix, work.subsets, path, track)
    rotation = replace(rotation, drawn=drawn)
    if run:
        joint.store(run, drawn)
        rotation = replace(rotation, head=store_head(run, head, rotation.parts_of_folder()))
        rotation.report()
    return rotation


def _permute_together(
    design: LeaveOneOutDesign,
    rotation: LeaveOneOut,
    matrix: training.RowMatrix,
    subsets: target.Subsets,
    path: Path,
    track: Track[Any],
) -> Drawn | None:
    """What the test of all targets holds their scores against."""
    targets = range(design.head.facts.targets)
    return joint.permute_together(
        design.attacks,
        [rotation.scores(label) for label in design.head.attacks],
        [
            target.view_target(design, k, target.answers_of(design, k, path), matrix, subsets)
            for k in targets
        ],
        [design.others(k) for k in targets],
        subsets,
        design.head.seed,
        design.queries[0].people,
        track,
    )


def train_once(
    designs: Sequence[LeaveOneOutDesign],
    paths: Sequence[Path],
    track: Track[Any],
    workers: Workers,
) -> None:
    """Train the models of designs that differ in their answer defence alone, once for all.

    Their predictions are then in each folder, where `audit_each` finds them: of the same models,
    bit for bit. What the folders hold already is not trained again.

    Args:
        designs: the designs.
        paths: the folder of each.
        track: shows progress.
        workers: trains.
    """
    first = designs[0]
    work = replace(
        training.prepare_workload(
            first.shadows, first.queries, first.head.seed, first.head.facts.targets
        ),
        also=tuple(design.shadows.answers for design in designs[1:]),
    )
    files = [
        training.open_rows(path / training.FOLDER, design.head.challenge, work)
        for design, path in zip(designs, paths, strict=True)
    ]
    missing = {k for file in files for k in file.missing}
    for path, design in zip(paths, designs, strict=True):
        for k in range(design.head.facts.targets):
            missing |= set() if (result.target_folder(path, k) / target.ANSWERS).exists() else {k}
    models = sorted(missing)
    for file in files:  # whichever is continued alone later goes on in the same way
        work, models = strategy.resolve_trainer(
            work, models, file.folder / f"{file.key}.way.json", workers
        )
    with closing(workers.train(work, models)) as fresh:
        for _ in track(models, training.training_text(work), len(work.seeds) - len(models)):
            trained = next(fresh)
            rows = [(trained.row, trained.answers), *trained.also]
            for path, file, (row, answers) in zip(paths, files, rows, strict=True):
                _keep_predictions(path, trained.model, answers)
                file.put(trained.model, row)


def _keep_predictions(path: Path, model: int, answers: np.ndarray | None) -> None:
    """A target's answers, for the attacks that read more than φ; other models' are let go."""
    if answers is None:
        return
    place = result.target_folder(path, model) / target.ANSWERS
    file = io.BytesIO()
    # float64: float32 would round the surest answers to one, and lose their order
    np.save(file, np.asarray(answers, np.float64), allow_pickle=False)
    atomic.write_within(path, str(place.relative_to(path)), file.getvalue())


@contextmanager
def take_folder(path: Path, *, resume: bool) -> Iterator[None]:
    """A new folder for audits in turn or a comparison, or one to be continued, for this process.

    Raises:
        StoreError: it exists with something in it, another process works in it, or it cannot be
            made.
    """
    with take_run_folder(path):
        if not (resume and has_head(path)):
            create_folder(path, resumes=True)
        yield
