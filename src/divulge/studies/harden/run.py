"""Search, train the final model, and audit it on records that the search never touched."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from divulge._util import extras
from divulge._util.arguments import FilePath, check_arguments
from divulge._util.digest import digest
from divulge._util.folders import choose_run_folder, numbered_folder
from divulge._util.json import JSON
from divulge._util.progress import Progress, as_track
from divulge.attacks import catalog
from divulge.audits.options import Options, RunPath
from divulge.audits.runner import RunHeading
from divulge.core import Head, MembershipAttack, Records
from divulge.errors import SpecError
from divulge.finished_runs.run_json import new_head
from divulge.metrics.people import Rule
from divulge.secrets.wrapped import attack_people
from divulge.studies.compare.config import default_attacks
from divulge.studies.compare.defences import training_from_config
from divulge.studies.harden import config, final
from divulge.studies.harden.config import SearchSettings, choose_families
from divulge.studies.harden.final import HardenDesign
from divulge.studies.harden.leaks import Ceilings
from divulge.studies.harden.looks import SearchedModels
from divulge.studies.harden.model_bench import ModelBench
from divulge.studies.harden.proposal import UNDEFENDED
from divulge.studies.harden.result import HardenedModel, HardeningFacts
from divulge.studies.harden.search import run_search
from divulge.studies.leave_one_out.design import (
    RecordPool,
    pool_from,
    read_pool,
    set_copies_aside,
)
from divulge.targets.model_parts import versions_of
from divulge.training.recipe import Recipe
from divulge.training.shadows import workers_by_name
from divulge.training.trainers import trainer_identity
from divulge.training.tuning import HYPERPARAMETERS, Tunable, make_tunable


@check_arguments
def harden(
    how: Any,
    *,
    records: Any,
    ceiling: Mapping[str, float],
    reference: Any = None,
    groups: Any = None,
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
        how: how an undefended model is trained: a ``divulge.training.Recipe`` of a network, a
            scikit-learn estimator, or a function (x, y, seed, **settings) that returns a trained
            model. The settings to try of the last two are ``space`` of ``search``.
        records: a pair (x, y) or ``divulge.Records``. Of records with the same features only the
            first is used.
        ceiling: by metric, the highest admissible value, as in ``{"tpr@0.01": 0.05}``: ``auc``,
            ``tpr@0.1``, ``tpr@0.01``, ``tpr@0.001`` or ``advantage``. The upper limit has to be
            under it.
        reference: further records, on which no model is trained; rmia needs them.
        groups: whose record each is, where people have several, as of `divulge.leave_one_out`: the
            records of the search, of each model and of the final audit are then those of whole
            people, and people are counted.
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
    workers = workers_by_name(search.workers)
    options = options.of_several_models("harden")
    config.check_ceilings(ceiling)
    base = _make_base(how, search)
    extras.require("optuna")
    chosen = None if attacks is None else tuple(attacks)
    if chosen == ():
        raise SpecError("expected an attack, got none: leave attacks out to run the usual ones")
    wanted, head = _design(
        base,
        pool_from(records, reference, options.ids, groups=groups),
        ceiling,
        chosen,
        search,
        RunHeading(options.name or "hardening", options.seed, _describe(base)),
        tuple(options.class_names),
        tuple(options.person_scores),
    )
    path = numbered_folder(Path("runs") / "hardening") if run is None else Path(run)
    bench = ModelBench(wanted, workers)
    return run_search(bench, head, path, options.track, resume=options.resume)


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
    workers_object = workers_by_name(workers)
    path = Path(path)
    settings = config.read(path)
    extras.require("optuna")
    folder, track = choose_run_folder(run, path, settings.name, resume=resume), as_track(progress)
    with track.step("Loading the data"):
        wanted, head = design_from_config(settings, path.parent)
    return run_search(ModelBench(wanted, workers_object), head, folder, track, resume=resume)


def design_from_config(
    settings: config.HardenSpec, folder: Path
) -> tuple[HardenDesign, Head[HardeningFacts]]:
    """What settings ask, with their records loaded, and the head of the run.

    Raises:
        DivulgeError: a file, a name in it, or what it holds is not what was expected.
    """
    search = SearchSettings(**settings.search.model_dump())
    return _design(
        _make_base(training_from_config(settings.training, folder), search),
        read_pool(settings.data, folder),
        settings.ceiling,
        config.attacks(settings, folder),
        search,
        RunHeading(
            settings.name,
            settings.seed,
            settings.model_dump(mode="json", exclude_defaults=True),
        ),
        settings.data.class_names,
        settings.data.person_scores,
    )


def _make_base(how: Any, search: SearchSettings) -> Recipe | Tunable:
    """How an undefended model is trained.

    Raises:
        SpecError: it is no way to train, or a defence or the space is not for it.
    """
    if not isinstance(how, Recipe):
        base = make_tunable(how, search.space)
        families = choose_families(search.defences, tuned=True)
        if not base.space and set(families) == {UNDEFENDED, HYPERPARAMETERS}:
            raise SpecError(
                "expected settings of the training to try, got none: name their values in space, "
                'such as SearchSettings(space={"max_depth": (8, 4, 2)}), the mildest first'
            )
        return base
    choose_families(search.defences, tuned=False)
    if search.space is not None:
        raise SpecError(
            "expected no space beside a Recipe, got one: its settings are searched as they are"
        )
    return how


def _describe(base: Recipe | Tunable) -> dict[str, JSON]:
    """What the report shows of how an undefended model is trained."""
    if isinstance(base, Recipe):
        return {"recipe": repr(base)}
    trainer: Any = base.trainer
    how = getattr(trainer, "estimator", None)
    function = getattr(trainer, "function", None)
    return {
        "train": getattr(function, "__qualname__", type(function).__name__)
        if how is None
        else " ".join(repr(how).split()),
        "space": {name: list(values) for name, values in base.space.items()},
    }


def _design(
    base: Recipe | Tunable,
    pool: RecordPool,
    ceilings: Ceilings,
    attacks: tuple[MembershipAttack, ...] | None,
    search: SearchSettings,
    heading: RunHeading,
    class_names: tuple[str, ...],
    person_scores: tuple[Rule, ...],
) -> tuple[HardenDesign, Head[HardeningFacts]]:
    distinct = set_copies_aside(pool)
    searched, fresh = final.split_records(distinct.records, search.fresh, heading.seed)
    of_search, untouched = distinct.records.take(searched), distinct.records.take(fresh)
    member = final.draw_members(untouched, heading.seed)
    whole = tuple(catalog.default_attacks(shadows=True)) if attacks is None else attacks
    of_search_attacks = default_attacks() if attacks is None else attacks
    final_attacks, by_person = len(whole), distinct.records.people
    if by_person is not None:
        of_search_attacks = attack_people(of_search_attacks, person_scores)
        final_attacks *= len(person_scores)
    records = final.FreshRecords(of_search, untouched, member, distinct.reference, person_scores)
    design = HardenDesign(
        SearchedModels(
            base=base,
            pool=RecordPool(of_search, distinct.reference, None),
            ceilings=ceilings,
            answers=search.answers,
            attacks=of_search_attacks,
            final_attacks=final_attacks,
            seed=heading.seed,
            folder=Path(),
        ),
        search,
        class_names,
        records,
        whole,
    )
    head = new_head(
        "hardening",
        *heading,
        challenge=_challenge_digest(base, records, ceilings, attacks, search, heading.seed),
        facts=HardeningFacts(
            ceilings=dict(ceilings),
            budget=search.budget,
            searched=len(of_search),
            fresh=len(untouched),
        ),
        libraries=versions_of(base, distinct.records),
    )
    return design, head


def _challenge_digest(
    base: Recipe | Tunable,
    records: final.FreshRecords,
    ceilings: Ceilings,
    attacks: tuple[MembershipAttack, ...] | None,
    search: SearchSettings,
    seed: int,
) -> str:
    """What all figures of a search depend on."""
    search = replace(search, workers="local")  # who trains changes nothing
    sets: tuple[Records, ...] = (records.searched, records.fresh)
    sets += () if records.reference is None else (records.reference,)
    settings = f"{trainer_identity(base)}\0{dict(ceilings)}\0{search}\0{attacks}\0{seed}"
    people = [person for each in sets if (person := each.people) is not None]
    if people:
        settings += f"\0{records.person_scores}"
    return digest(settings, *(array for each in sets for array in (each.x, each.y)), *people)
