"""From the arguments of Python users to loaded things, as `divulge.audits.inputs` has them."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

from divulge.audits import checkpoints
from divulge.audits.options import Access, Options, ShadowModels
from divulge.audits.subject import AuditInputs
from divulge.audits.texts import Completion
from divulge.core import Need, Records, Target
from divulge.data import augmentation as augmenting
from divulge.data import groups as grouping
from divulge.data import records
from divulge.data.ids import as_ids
from divulge.errors import SpecError
from divulge.targets import model_facts, wrap
from divulge.targets.fingerprints import fingerprint_model
from divulge.targets.outputs import Output
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.trainers import as_trainer, trainer_identity

OPTIONAL_SETS = ("reference", "pool")
"""Sets of records that an audit can do without."""


class GivenSets(NamedTuple):
    """Records as users give them, with people and strata; see `divulge.audit`."""

    members: Any
    nonmembers: Any
    reference: Any = None
    groups: Any = None
    strata: Any = None

    def by_name(self, pool: Any) -> dict[str, Any]:
        """The sets of records, and the pool of shadow models."""
        names = ("members", "nonmembers", "reference")
        return {name: getattr(self, name) for name in names} | {"pool": pool}


def inputs_from_arguments(
    model: Any, given: GivenSets, access: Access, trained: ShadowModels, options: Options
) -> AuditInputs:
    """A model and records as a subject; arguments as of `divulge.audit`.

    Raises:
        DivulgeError: the model, the data or a setting cannot be used; says what to do.
    """
    target = wrap.as_target(
        model,
        access.output,
        batch_size=access.batch_size,
        device=access.device,
        classes=access.classes,
        output_name=access.output_name,
        time_limit=access.time_limit,
    )
    features, read = model_facts.feature_names(target), _reader_for(target)
    sets, subpopulations = read_sets(given.by_name(trained.pool), given, read, features)
    inside, outside = sets["members"], sets["nonmembers"]
    assert inside is not None and outside is not None  # noqa: PT018 - both were read
    own_name = access.fingerprint
    subject = AuditInputs(
        target=target,
        members=inside,
        nonmembers=outside,
        reference=sets["reference"],
        class_names=tuple(options.class_names),
        fingerprint=fingerprint_model(model) if own_name is None else own_name,
        budget=access.budget,
        batch_size=model_facts.choose_batch_size(target, access.batch_size),
        shadows=_plan_shadows(model, access.output, trained, sets["pool"]),
        thresholds=trained.thresholds,
        augment=tuple(trained.augment),
        guarantee=options.guarantee,
        fitted_on=features,
        ids=None if options.ids is None else as_ids(options.ids, len(inside), "ids"),
        drawn=options.membership or "fixed",
        randomised=options.membership is not None,
        checkpoints=checkpoints.from_models(tuple(access.checkpoints), access),
        person_scores=tuple(options.person_scores),
        subpopulations=subpopulations,
        smallest_stratum=options.smallest_stratum,
        completion=Completion(options.prefix, options.suffix),
    )
    return subject if access.answers is None else subject.behind(access.answers, options.seed)


def _reader_for(target: Target) -> Callable[[Any, str], Records]:
    """What makes the records that this target is asked about, of what users pass."""
    if Need.TOKENS in target.offers:
        return records.as_texts
    return partial(records.as_records, values=Need.VALUES in target.offers)


def read_sets(
    pairs: dict[str, Any],
    given: GivenSets,
    read: Callable[[Any, str], Records],
    features: Collection[str] = (),
) -> tuple[dict[str, Records | None], tuple[str, ...]]:
    """The sets of records that Python users give, with people and subpopulations, and their names.

    Args:
        pairs: by name; None for one of `OPTIONAL_SETS` that there is not.
        given: the same with people and strata.
        read: makes records of a set.
        features: the columns that the model knows, if it knows any.

    Raises:
        DivulgeError: they do not fit.
    """
    beside: list[dict[str, Any] | None] = []
    for what, column in (("groups", given.groups), ("strata", given.strata)):
        if not isinstance(column, str):
            beside.append(None if column is None else grouping.by_set(column, pairs, what))
            continue
        bare, values = grouping.take_column(pairs, column, what)
        beside.append(values)
        # a model that knows the column needs it
        pairs = pairs if what == "strata" and column in features else bare
    sets = {
        name: None if pair is None and name in OPTIONAL_SETS else read(pair, name)
        for name, pair in pairs.items()
    }
    return grouping.attach(sets, beside[0], beside[1])


def _plan_shadows(
    model: Any, output: Output | None, wanted: ShadowModels, pool: Records | None
) -> ShadowPlan | None:
    if wanted.models == 0:
        others = {
            "augment": bool(wanted.augment),
            "cascade": wanted.cascade > 0,
            "thresholds": wanted.thresholds,
            "pool": wanted.pool is not None,
        }
        if given := ", ".join(name for name, value in others.items() if value):
            raise SpecError(f"expected shadows beside {given}, got none: pass shadows=16")
        return None
    if wanted.train is None and not hasattr(model, "get_params"):
        raise SpecError(
            "expected to be told how a shadow model is trained, got no train: pass a scikit-learn "
            "estimator, or a function (x, y, seed) that returns a trained model, as "
            "divulge.ShadowModels(16, train)"
        )
    how = model if wanted.train is None else wanted.train
    return ShadowPlan(
        as_trainer(how, output),
        wanted.models,
        pool,
        () if pool is None else augmenting.augment(pool, tuple(wanted.augment)),
        trainer_identity(how),
        cascade=wanted.cascade,
    )
