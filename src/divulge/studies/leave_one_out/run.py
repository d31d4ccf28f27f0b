"""Train the models, audit each in turn, and put together what was found."""

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from divulge._util import atomic
from divulge._util.arguments import check_arguments
from divulge._util.folders import create_folder
from divulge._util.json import JSON
from divulge._util.progress import Track
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.audits import runner
from divulge.audits.challenges import asking, facts
from divulge.audits.challenges.model import MembershipChallenge
from divulge.audits.heads import continue_head, has_head, store_head
from divulge.audits.options import Access, Options, Rotation, RunPath
from divulge.audits.result import Audit
from divulge.audits.run_folder import Run, take_run_folder
from divulge.audits.runner import RunHeading
from divulge.core import Candidates, Game, Membership, MembershipAttack, ModelView
from divulge.metrics.joint_test import Drawn
from divulge.studies.leave_one_out import joint, result
from divulge.studies.leave_one_out.design import LeaveOneOutDesign, design_leave_one_out, pool_from
from divulge.studies.leave_one_out.result import LeaveOneOut
from divulge.targets.outputs import Output, access_of
from divulge.targets.recorded import RecordedTarget
from divulge.training.shadows import strategy, workers_by_name
from divulge.training.shadows import train as training
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.store import RowFile
from divulge.training.shadows.workers import Workers
from divulge.training.trainers import as_trainer, trainer_identity, trains_regression

ANSWERS = "answers.npy"

Subsets = Bool[np.ndarray, "models records"]


@check_arguments
def leave_one_out(
    train: Any,
    *,
    records: Any,
    reference: Any = None,
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
    who = workers_by_name(rotation.workers)
    access = access.only_output_and_answers("leave_one_out")
    options = options.of_several_models("leave_one_out")
    output, answers = access.output, access.answers
    trainer = as_trainer(train, output)
    regression = trains_regression(trainer)
    if attacks is None:
        attacks = catalog.default_attacks(shadows=True, regression=regression)
    asked = design_leave_one_out(
        pool_from(records, reference, options.ids, values=regression),
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
    )
    if run is None:
        return audit_each(asked, None, options.track, who)
    with take_folder(Path(run), resume=options.resume):
        return audit_each(asked, Path(run), options.track, who)


def audit_each(
    asked: LeaveOneOutDesign, run: Path | None, track: Track[Any], who: Workers
) -> LeaveOneOut:
    """Train and audit; what the folder holds already is not computed again.

    Args:
        asked: who is trained, and compared with whom.
        run: an empty folder, or one that was begun with the same question.
        track: shows progress.
        who: trains.
    """
    head, targets = asked.head, asked.head.facts.targets
    with ExitStack() as stack:
        path = run or Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
        if run:
            head = continue_head(run, head, "records, trainer and seed")
            store_head(run, head)
            joint.store(run, None)  # what stands there may be of fewer targets
        work = training.prepare_workload(asked.shadows, asked.queries, head.seed, targets)
        places = [result.target_folder(path, k) / ANSWERS for k in range(targets)]
        matrix = training.load_or_train_rows(
            path / training.FOLDER,
            head.challenge,
            work,
            track,
            who,
            keep=lambda trained: _keep_predictions(path, trained.model, trained.answers),
            again=[k for k, place in enumerate(places) if not place.exists()],
        )
        audits = tuple(
            _audit_target(asked, k, matrix, work.subsets, path, run is not None)
            for k in track(range(targets), "Auditing models")
        )
        found = LeaveOneOut(head, audits, run)
        drawn = _permute_together(asked, found, matrix, work.subsets, path, track)
    found = replace(found, drawn=drawn)
    if run:
        joint.store(run, drawn)
        found.report()
    return found


def _permute_together(
    asked: LeaveOneOutDesign,
    found: LeaveOneOut,
    matrix: training.RowMatrix,
    subsets: Subsets,
    path: Path,
    track: Track[Any],
) -> Drawn | None:
    """What the test of all targets holds their scores against."""
    targets = range(asked.head.facts.targets)
    return joint.permute_together(
        asked.attacks,
        [found.scores(label) for label in asked.head.attacks],
        [_view_target(asked, k, _answers_of(asked, k, path), matrix, subsets) for k in targets],
        [asked.others(k) for k in targets],
        subsets,
        asked.head.seed,
        track,
    )


def train_once(
    asked: Sequence[LeaveOneOutDesign],
    paths: Sequence[Path],
    track: Track[Any],
    who: Workers,
) -> None:
    """Train the models of designs that differ in their answer defence alone, once for all.

    Their predictions are then in each folder, where `audit_each` finds them: of the same models,
    bit for bit. What the folders hold already is not trained again.

    Args:
        asked: the designs.
        paths: the folder of each.
        track: shows progress.
        who: trains.
    """
    first = asked[0]
    work = replace(
        training.prepare_workload(
            first.shadows, first.queries, first.head.seed, first.head.facts.targets
        ),
        also=tuple(one.shadows.answers for one in asked[1:]),
    )
    width = sum(map(len, work.queries))
    files = [
        RowFile(path / training.FOLDER, one.head.challenge, len(work.seeds), width)
        for one, path in zip(asked, paths, strict=True)
    ]
    missing = {k for file in files for k in file.missing}
    for path, one in zip(paths, asked, strict=True):
        for k in range(one.head.facts.targets):
            missing |= set() if (result.target_folder(path, k) / ANSWERS).exists() else {k}
    models = sorted(missing)
    for file in files:  # whichever is continued alone later goes on in the same way
        work, models = strategy.resolve_trainer(
            work, models, file.folder / f"{file.key}.way.json", who
        )
    with closing(who.train(work, models)) as fresh:
        for _ in track(models, training.training_text(work), len(work.seeds) - len(models)):
            trained = next(fresh)
            seen = [(trained.row, trained.answers), *trained.also]
            for path, file, (row, answers) in zip(paths, files, seen, strict=True):
                _keep_predictions(path, trained.model, answers)
                file.put(trained.model, row)


def _keep_predictions(path: Path, model: int, answers: np.ndarray | None) -> None:
    """A target's answers, for the attacks that read more than φ; other models' are let go."""
    if answers is None:
        return
    place = result.target_folder(path, model) / ANSWERS
    file = io.BytesIO()
    # float64: float32 would round the surest answers to one, and lose their order
    np.save(file, np.asarray(answers, np.float64), allow_pickle=False)
    atomic.write_within(path, str(place.relative_to(path)), file.getvalue())


def _audit_target(
    asked: LeaveOneOutDesign,
    k: int,
    matrix: training.RowMatrix,
    subsets: Subsets,
    path: Path,
    stored: bool,  # noqa: FBT001
) -> Audit:
    """An ordinary audit of one model against others."""
    head, records, others = asked.head, asked.queries[0], asked.others(k)
    answers = _answers_of(asked, k, path)
    asking.check_classes(records, answers[: len(records)], asked.class_names)
    view = _view_target(asked, k, answers, matrix, subsets)
    game = Game(view, Membership(subsets[k], "coins"))
    known = facts.AuditorKnowledge(
        answers[: len(records)],
        asked.shadows,
        class_names=asked.class_names,
        claim=facts.promised_claim(asked.shadows, records, int(subsets[k].sum())),
        copies=head.facts.copies,
    )
    seed = int(stream(head.seed, "target", k).integers(2**31))
    challenge = MembershipChallenge(
        game,
        facts.describe_facts(game, known, seed, asked.delta),
        Candidates(subsets[k], records.stratum, asked.index, asked.ids),
        digest=f"{head.challenge}-{k}-{asked.delta!r}",
        compared=repr(others),
    )
    name = f"{head.name}, target {k} of {head.facts.targets}"
    settings: dict[str, JSON] = {"leave_one_out": {"target": k, "shadows": others}}
    run = _open_target(result.target_folder(path, k)) if stored else None
    found = runner.run_audit(challenge, asked.attacks, RunHeading(name, seed, settings), run)
    assert isinstance(found, Audit)
    return found


def _answers_of(
    asked: LeaveOneOutDesign, k: int, path: Path
) -> Float64[np.ndarray, "queries classes"]:
    place = result.target_folder(path, k) / ANSWERS
    return _read_predictions(place, sum(map(len, asked.queries)))


def _view_target(
    asked: LeaveOneOutDesign,
    k: int,
    answers: Float64[np.ndarray, "queries classes"],
    matrix: training.RowMatrix,
    subsets: Subsets,
) -> ModelView:
    """The attacker's view on one target, with the others as its shadows."""
    records, others = asked.queries[0], asked.others(k)
    further = asked.queries[1 : len(asked.queries) - asked.reference]
    reference = asked.queries[-1] if asked.reference else None
    output: Output = "values" if records.regression else "probabilities"
    defence, allowed = asked.shadows.answers, access_of(output)
    recorded = RecordedTarget(
        asked.queries, answers, allowed if defence is None else defence.offers(allowed)
    )
    view = ModelView(recorded, records, reference, augmented=further)
    shadows = training.as_shadows(view, asked.shadows, matrix[others], subsets[others])
    return ModelView(view.target, records, reference, shadows, further)


def _open_target(path: Path) -> Run:
    with atomic.translate_os_errors(path):
        (path / "findings").mkdir(mode=0o700, exist_ok=True)
    return Run.open(path)


def _read_predictions(place: Path, size: int) -> Float64[np.ndarray, "queries classes"]:
    answers = atomic.map_array(place)
    if answers.ndim != 2 or len(answers) != size or answers.dtype != np.float64:
        raise atomic.damaged_file_error(
            place, ValueError(f"{answers.dtype} of shape {answers.shape}")
        )
    return np.asarray(answers)


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
