"""Train with each defence, audit its models in turn, and put together what was found."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from divulge._util import atomic
from divulge._util.arguments import FilePath, check_arguments
from divulge._util.folders import choose_run_folder
from divulge._util.progress import Progress, Track, as_track, with_title
from divulge.audits.options import Options, Rotation, RunPath
from divulge.audits.runner import RunHeading
from divulge.core import MembershipAttack, NoiseKind
from divulge.finished_runs.run_json import continue_head, store_head
from divulge.studies.compare import config, training_cost
from divulge.studies.compare import defences as compare_defences
from divulge.studies.compare.defences import Variant
from divulge.studies.compare.design import ComparisonDesign, design_comparison, design_from_config
from divulge.studies.compare.export import export as write_export
from divulge.studies.compare.result import Comparison
from divulge.studies.compare.variant import VariantAudits
from divulge.studies.leave_one_out import run as in_turn
from divulge.studies.leave_one_out.design import pool_from
from divulge.training.shadows import workers as working
from divulge.training.shadows import workers_by_name

Export = tuple[str, FilePath]
"""The name of a defence, and a folder."""

TARGETS = 3
"""Models that are audited with each defence, unless another number is given."""


@check_arguments
def compare(
    defences: Mapping[str, Any],
    *,
    records: Any,
    reference: Any = None,
    groups: Any = None,
    attacks: Iterable[MembershipAttack] | None = None,
    rotation: Rotation = Rotation(),
    lambdas: Iterable[float] = (2.0,),
    run: RunPath = None,
    export: Export | None = None,
    export_noise: NoiseKind = "secure",
    options: Options = Options(),
) -> Comparison:
    """Train with each defence on the same records, and audit all in the same way.

    Each defence is a fleet of models on random halves of the records, the same halves for all.
    Several are audited, each against the others of its fleet: attacks with shadows are adaptive,
    as shadows are trained, and answer, through the defence.

    Args:
        defences: by name, how to train: a trainer, a scikit-learn estimator, or a function
            (x, y, seed) that returns a trained model; or a pair of that and an answer defence. The
            first is what the others are compared with.
        records: a pair (x, y) or ``divulge.Records``; half of them are members of each target.
            Of records with the same features only the first is used.
        reference: further records, on which no model is trained; rmia needs them.
        groups: whose record each is, where people have several, as of `divulge.leave_one_out`: each
            model is then trained on a random half of the people, and people are counted.
        attacks: default: threshold, gap, calibrated, lira and rmia.
        rotation: how many models are trained with each defence, how many of them are audited (3,
            unless said), and against how many.
        lambdas: weights of privacy for which AOP is given.
        run: write a run folder as the work goes on, with the audits of each defence in it.
        export: the name of a defence, and a new folder for its model and model card.
        export_noise: noise in the training of the exported model, if any. ``secure`` noise is for
            publication, and makes one more model of the kind that was audited; with ``seeded``
            noise it is an audited one, and its promise does not hold for whoever knows the seed.
        options: seed, title, class names and the like; resumed with more or other defences, too.

    Returns:
        For each defence accuracy, what the strongest attack reaches, AOP, the guarantee and what
        training costs; intervals are Student's over targets, see `divulge.leave_one_out`.

    Raises:
        DivulgeError: the records, a defence or a setting cannot be used; says what to do.

    Examples:
        >>> import numpy as np
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from divulge import attack
        >>> x, y = np.random.default_rng(0).normal(size=(200, 5)), np.arange(200) % 2
        >>> found = compare(
        ...     {"deep": DecisionTreeClassifier(), "stump": DecisionTreeClassifier(max_depth=1)},
        ...     records=(x, y), attacks=[attack("gap")], rotation=Rotation(3, targets=2))
        >>> [row.strongest["auc"].estimate.value > 0.6 for row in found.rows]
        [True, False]
    """
    workers = workers_by_name(rotation.workers)
    options = options.of_several_models("compare")
    wanted = design_comparison(
        compare_defences.variants_from_python(defences, rotation.models),
        pool_from(records, reference, options.ids, groups=groups),
        replace(rotation, targets=TARGETS if rotation.targets is None else rotation.targets),
        tuple(config.default_attacks() if attacks is None else attacks),
        RunHeading(options.name or "comparison", options.seed, {}),
        class_names=tuple(options.class_names),
        lambdas=tuple(lambdas),
        delta=options.delta,
        person_scores=tuple(options.person_scores),
    )
    exported = export and (*export, export_noise)
    if run is None:
        return _run_and_export(wanted, None, exported, options.track, workers)
    with in_turn.take_folder(Path(run), resume=options.resume):
        return _run_and_export(wanted, Path(run), exported, options.track, workers)


@check_arguments
def compare_file(
    path: FilePath,
    run: FilePath | None = None,
    *,
    resume: bool = False,
    export: Export | None = None,
    export_noise: NoiseKind = "secure",
    progress: Progress = False,
    workers: str = "local",
) -> Comparison:
    """Compare what a ``compare.toml`` describes.

    Args:
        path: the settings; relative paths in them start at its folder.
        run: the run folder, as for `divulge.audit_file`.
        resume: continue the run folder.
        export: as for `compare`.
        export_noise: as for `compare`.
        progress: True shows how far the work is; see `divulge.Options`.
        workers: who trains.

    Raises:
        DivulgeError: see `compare`.
    """
    workers_object = workers_by_name(workers)
    path = Path(path)
    settings = config.read(path)
    folder, track = choose_run_folder(run, path, settings.name, resume=resume), as_track(progress)
    exported = export and (*export, export_noise)
    with in_turn.take_folder(folder, resume=resume):
        with track.step("Loading trainers and data"):
            wanted = design_from_config(settings, path.parent)
        return _run_and_export(wanted, folder, exported, track, workers_object)


def _run_and_export(
    wanted: ComparisonDesign,
    folder: Path | None,
    export: tuple[str, str | Path, NoiseKind] | None,
    track: Track[Any],
    workers: working.Workers,
) -> Comparison:
    """The comparison, and what is exported."""
    if export is not None:
        wanted.question(export[0])  # before anything long starts
    comparison = _audit_variants(wanted, folder, track, workers)
    if export is not None:
        name, to, noise = export
        write_export(wanted, comparison, name, Path(to), noise)
    return comparison


def _audit_variants(
    wanted: ComparisonDesign, path: Path | None, track: Track[Any], workers: working.Workers
) -> Comparison:
    """Train and audit; what the folder holds already is not computed again.

    Ways that differ in their answer defence alone have the same models, which are trained once.
    """
    head, variants = wanted.head, []
    if path is not None:
        # folders of defences are named after all that their audits depend on: those of defences
        # that were changed or left out stay where they are, and count no longer
        head = continue_head(path, head, "kind of run")
        store_head(path, head)
    entries = head.facts.defences
    with ExitStack() as stack:
        base = path or Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
        places = [_make_folder(base / entered.run) for entered in entries]
        for group in _same_models(wanted):
            if len(group) > 1:
                names = ", ".join(entries[k].name for k in group)
                in_turn.train_once(
                    [wanted.questions[k][1] for k in group],
                    [places[k] for k in group],
                    with_title(track, names),
                    workers,
                )
        for number, (entered, (_, question), place) in enumerate(
            zip(entries, wanted.questions, places, strict=True), start=1
        ):
            so_far = f"{entered.name} ({number} of {len(entries)})"
            audits = in_turn.audit_each(question, place, with_title(track, so_far), workers)
            cost = training_cost.measure_training_cost(question, place)
            if path is None:
                audits = replace(audits, path=None)
            variants.append(VariantAudits(entered, audits, cost))
        comparison = Comparison(head, tuple(variants), path)
        if path is not None:
            head = store_head(path, head, comparison.parts_of_folder())
            comparison = replace(comparison, head=head)
            comparison.report()
    return comparison


def _same_models(wanted: ComparisonDesign) -> list[list[int]]:
    """Positions of the ways to train, those together whose models are the same."""
    groups: list[list[int]] = []
    for k, (variant, _) in enumerate(wanted.questions):
        for group in groups:
            if _train_alike(variant, wanted.questions[group[0]][0]):
                group.append(k)
                break
        else:
            groups.append([k])
    return groups


def _train_alike(variant: Variant, other: Variant) -> bool:
    """Whether both train the same models for certain.

    Functions of one source may differ by what encloses them: equal fingerprints are too little.
    """
    return variant.plan.fingerprint == other.plan.fingerprint and (
        variant.plan.trainer == other.plan.trainer
        or bool(variant.network and variant.network == other.network)
    )


def _make_folder(path: Path) -> Path:
    with atomic.translate_os_errors(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
