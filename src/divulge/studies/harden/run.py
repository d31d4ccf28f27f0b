"""Search, train the final model, and audit it on records that the search never touched."""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from divulge._util import atomic, imports
from divulge._util.arguments import FilePath, check_arguments
from divulge._util.digest import digest
from divulge._util.folders import choose_run_folder, numbered_folder
from divulge._util.progress import Progress, Track, as_track
from divulge._util.showable import make_showable
from divulge.attacks import catalog
from divulge.audits.options import Options, RunPath
from divulge.audits.run_folder import describe_environment
from divulge.audits.runner import RunHeading
from divulge.core import MembershipAttack
from divulge.core.runs import BEFORE_NAMING
from divulge.errors import SpecError
from divulge.report import markdown
from divulge.report.markdown import make_inert
from divulge.report.model_card import put_section
from divulge.studies.compare.config import default_attacks
from divulge.studies.compare.export import CARD
from divulge.studies.harden import config, final, result
from divulge.studies.harden.config import Ceilings, SearchSettings
from divulge.studies.harden.looks import Bench
from divulge.studies.harden.result import HardenedModel, HardeningManifest
from divulge.studies.harden.search import search
from divulge.studies.leave_one_out.design import RecordPool, pool_from, read_pool, set_copies_aside
from divulge.studies.leave_one_out.run import take_folder
from divulge.training.recipe import Recipe
from divulge.training.shadows import workers_by_name
from divulge.training.shadows.workers import Workers
from divulge.training.trainers import trainer_identity


@dataclass(frozen=True, slots=True)
class HardenDesign:
    """What is asked for, with its records loaded."""

    bench: Bench
    """Of the search; its folder is that of the run."""
    asked: SearchSettings
    class_names: tuple[str, ...]
    records: final.FreshRecords
    final_attacks: tuple[MembershipAttack, ...]
    plan: HardeningManifest


@check_arguments
def harden(
    recipe: Recipe,
    *,
    records: Any,
    ceiling: Mapping[str, float],
    reference: Any = None,
    attacks: Iterable[MembershipAttack] | None = None,
    search: SearchSettings = SearchSettings(),
    run: RunPath = None,
    options: Options = Options(),
) -> HardenedModel:
    """Search for the most accurate model under a ceiling on leakage, and audit it afresh.

    Defences, their settings, and how long and how strictly a model is trained are searched on one
    part of the records, by adaptive attacks: shadow models are trained through the defence. The
    model of the best setting is then trained on these records and on a random half of the others,
    which the search never touched, and a whole audit on the others decides.

    Args:
        recipe: how an undefended model is trained.
        records: a pair (x, y) or ``divulge.Records``. Of records with the same features only the
            first is used.
        ceiling: by metric, the highest admissible value, as in ``{"tpr@0.01": 0.05}``: ``auc``,
            ``tpr@0.1``, ``tpr@0.01``, ``tpr@0.001`` or ``advantage``. The upper limit has to be
            under it.
        reference: further records, on which no model is trained; rmia needs them.
        attacks: default: in the search threshold, gap, calibrated, lira and rmia, in the final
            audit every attack that divulge has.
        search: what is tried, and how much may be spent on it.
        run: the run folder, written as the work goes on; a new one in ``runs/`` unless given.
        options: seed, title, class names and the like.

    Returns:
        The model's file, its audit, and all that was tried. Its ``outcome`` says whether the model
        is under the ceiling.

    Raises:
        MissingExtra: Optuna or PyTorch is not installed.
        DivulgeError: the records, the recipe or a setting cannot be used; says what to do.
    """
    who = workers_by_name(search.workers)
    options = options.of_several_models("harden")
    config.check_ceilings(ceiling)
    chosen = None if attacks is None else tuple(attacks)
    if chosen == ():
        raise SpecError("expected an attack, got none: leave attacks out to run the usual ones")
    wanted = _design(
        recipe,
        pool_from(records, reference, options.ids),
        ceiling,
        chosen,
        search,
        RunHeading(options.name or "hardening", options.seed, {"recipe": repr(recipe)}),
        tuple(options.class_names),
    )
    path = numbered_folder(Path("runs") / "hardening") if run is None else Path(run)
    with take_folder(path, resume=options.resume):
        return _harden(wanted, path, options.track, who)


@check_arguments
def harden_file(
    path: FilePath,
    run: FilePath | None = None,
    *,
    resume: bool = False,
    progress: Progress = False,
    workers: str = "local",
) -> HardenedModel:
    """Search as a ``harden.toml`` describes.

    Args:
        path: the settings; relative paths in them start at its folder.
        run: the run folder, as for `divulge.audit_file`.
        resume: continue the run folder.
        progress: True shows how far the work is; see `divulge.Options`.
        workers: who trains.

    Raises:
        DivulgeError: see `harden`.
    """
    who = workers_by_name(workers)
    path = Path(path)
    settings = config.read(path)
    folder, track = choose_run_folder(run, path, settings.name, resume=resume), as_track(progress)
    with take_folder(folder, resume=resume):
        (wanted,) = (
            design_from_config(settings, path.parent) for _ in track([path], "Loading the data")
        )
        return _harden(wanted, folder, track, who)


def design_from_config(settings: config.HardenSpec, folder: Path) -> HardenDesign:
    """What settings ask, with their records loaded.

    Raises:
        DivulgeError: a file, a name in it, or what it holds is not what was expected.
    """
    training = settings.training.model_dump(exclude={"network"})
    recipe = Recipe(imports.load_object(settings.training.network, folder), **training)
    return _design(
        recipe,
        read_pool(settings.data, folder),
        settings.ceiling,
        config.attacks(settings, folder),
        SearchSettings(**settings.search.model_dump()),
        RunHeading(
            settings.name,
            settings.seed,
            settings.model_dump(mode="json", exclude_defaults=True),
        ),
        settings.data.class_names,
    )


def _design(
    recipe: Recipe,
    pool: RecordPool,
    ceilings: Ceilings,
    attacks: tuple[MembershipAttack, ...] | None,
    asked: SearchSettings,
    heading: RunHeading,
    class_names: tuple[str, ...],
) -> HardenDesign:
    distinct = set_copies_aside(pool)
    searched, fresh = final.split_records(distinct.records, asked.fresh, heading.seed)
    member = final.draw_members(len(fresh), heading.seed)
    of_search, untouched = distinct.records.take(searched), distinct.records.take(fresh)
    whole = tuple(catalog.default_attacks(shadows=True)) if attacks is None else attacks
    told = replace(asked, workers="local")  # who trains changes nothing
    challenge = digest(
        f"{trainer_identity(recipe)}\0{dict(ceilings)}\0{told}\0{attacks}\0{heading.seed}",
        *(array for one in (of_search, untouched) for array in (one.x, one.y)),
        *(() if distinct.reference is None else (distinct.reference.x, distinct.reference.y)),
    )
    return HardenDesign(
        Bench(
            recipe=recipe,
            pool=RecordPool(of_search, distinct.reference, None),
            ceilings=ceilings,
            answers=asked.answers,
            attacks=default_attacks() if attacks is None else attacks,
            final_attacks=len(whole),
            seed=heading.seed,
            folder=Path(),
        ),
        asked,
        class_names,
        final.FreshRecords(of_search, untouched, member, distinct.reference),
        whole,
        HardeningManifest(
            name=heading.name,
            created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            challenge=challenge,
            seed=heading.seed,
            ceilings=dict(ceilings),
            budget=asked.budget,
            searched=len(of_search),
            fresh=len(untouched),
            settings=heading.settings,
            environment=describe_environment(),
            divulge=version("divulge"),
        ),
    )


def _harden(wanted: HardenDesign, path: Path, track: Track[Any], who: Workers) -> HardenedModel:
    """All steps; what the folder holds already is not computed again."""
    plan, bench = result.begin(path, wanted.plan), replace(wanted.bench, folder=path)
    log = result.read_trials(path) or search(bench, wanted.asked, track, who)
    result.store_trials(path, log)
    variant = log.find_chosen(plan.ceilings).proposal.as_variant(
        bench.recipe, wanted.asked.final_models
    )
    (place,) = (
        final.train_final(variant, wanted.records, path, plan.seed)
        for _ in track([variant], "Training the final model")
    )
    audit = final.audit_final(
        variant,
        wanted.records,
        place,
        path,
        wanted.final_attacks,
        RunHeading(f"{plan.name}, final model", plan.seed, {"trained with": variant.name}),
        wanted.asked.shadows,
        wanted.class_names,
        track,
        who,
    )
    found = HardenedModel(plan, log, audit, path)
    found.report()
    _write_card(found, len(wanted.records.searched) + int(wanted.records.member.sum()))
    return found


def _write_card(found: HardenedModel, records: int) -> None:
    """A model card: how the model was trained, whether it is under the ceilings, and its audit."""
    told = found.story
    claim, promised = found.audit.facts.claim, "Guarantee: none."
    if claim is not None:
        epsilon, delta = claim.guarantee.epsilon, claim.guarantee.delta
        promised = (
            f"Guarantee: ({epsilon:.3g}, {delta:g})-differentially private for adding or removing "
            "one training record. It covers one training, and not the choice of settings."
        )
    lines = [
        f"# {make_inert(told.name)}",
        f"Trained with {make_inert(found.chosen.label)} on {records:,} records.",
        promised,
        *map(make_inert, told.sentences),
        make_inert(f"{told.headline}. {told.next_step}"),
    ]
    head = found.audit.contents.manifest
    report = make_showable(markdown.render(found.audit.summary))
    made = make_showable(head.created), make_showable(head.divulge or BEFORE_NAMING)
    card = put_section("\n\n".join(lines) + "\n", report, *made)
    atomic.write(found.path / final.MODEL / CARD, card.encode())
