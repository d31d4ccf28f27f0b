"""``harden.toml``: the ceilings, the records and the search, read into frozen settings.

Reading is pure: no data is loaded and no code of the user's is run here.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pydantic

from divulge._util import toml
from divulge._util.arguments import Count, RunName, Seed, check_arguments
from divulge._util.json import JSON
from divulge._util.toml import Section
from divulge.attacks import own
from divulge.audits import config_checks
from divulge.audits.data_sections import DataSpec
from divulge.core import MembershipAttack
from divulge.defences.catalog import ANSWER_DEFENCES, TRAINED_DEFENCES, TUNED_DEFENCES
from divulge.errors import SpecError, did_you_mean
from divulge.finished_runs.gate import Gate
from divulge.metrics.measure import FPRS
from divulge.studies.compare.config import TrainingSpec, check_training
from divulge.studies.harden.leaks import Ceilings
from divulge.studies.harden.proposal import UNDEFENDED
from divulge.training.tuning import HYPERPARAMETERS, Space

Share = Annotated[float, pydantic.Field(gt=0, lt=1)]
USUAL = (
    *(UNDEFENDED, "early-stopping", "regularise", "relaxloss", "complementary-distillation"),
    *("augmentation", "image-augmentation", "adversarial-regularisation", "selena", "hamp"),
    *("label-smoothing", "convex-concave", "dp-sgd", "dap"),
)
"""Defences of networks that are tried, the most promising for their work first."""
TUNED = (UNDEFENDED, HYPERPARAMETERS, *TUNED_DEFENCES)
"""Defences of models of other kinds that are tried."""

_METRICS = ("auc", *(f"tpr@{fpr:g}" for fpr in FPRS), "advantage")


FIRST = 3
"""How many models each setting gets at first."""


@check_arguments
@dataclass(frozen=True, slots=True)
class SearchSettings:
    """What is tried, and how much may be spent on it.

    Args:
        defences: the defences to try; ``"none"`` is always among them. Without any, the usual ones
            of such a training: of a network those of the catalogue, else ``"hyperparameters"`` and
            ``"averaging"``.
        answers: defences of the model's answers to try behind each of them. They are no part of the
            model's file: whoever serves the model has to apply them.
        budget: the work that may be spent in all, final audit included, in trainings of an
            undefended model for all its epochs. A training that ends after half of the epochs
            counts a half, and so does one on half of a model's records, as of a teacher. It has
            to pay for three models of one setting besides the undefended one.
        models: the number of models to train with settings that lead, on random halves of the
            records. Each is audited against the others. All settings get three at first.
        fresh: the share of the records that the search never touches, and on which the final model
            is audited.
        shadows: the number of shadow models in the final audit.
        workers: who trains, as for `divulge.ShadowModels`.
        space: by setting of an estimator or a function the values to try, from the mildest to that
            which is expected to leak least; the usual ones of an estimator, unless given.

    Raises:
        SpecError: a defence does not exist or stands there twice, or the budget is too small for
            the undefended model, another setting and the final audit.
    """

    defences: tuple[str, ...] | None = None
    answers: tuple[str, ...] = ()
    budget: Count = 60
    models: Annotated[Count, pydantic.Field(ge=FIRST)] = 6
    fresh: Share = 0.5
    shadows: Count = 16
    workers: str = "local"
    space: Space | None = None

    def __post_init__(self) -> None:
        for given, known in (
            (self.defences or (), (*TUNED, *TRAINED_DEFENCES)),
            (self.answers, tuple(ANSWER_DEFENCES)),
        ):
            for name in given:
                if name not in known:
                    hint = did_you_mean(name, known)
                    raise SpecError(f"expected the name of a defence, got {name!r}: {hint}")
            if repeated := [name for name, times in Counter(given).items() if times > 1]:
                raise SpecError(
                    f"expected each defence once, got {repeated[0]!r} more often: drop one"
                )
        least = FIRST + self.models + self.final_models
        if self.budget < least:
            raise SpecError(
                f"expected a budget of at least {least} trainings, for {FIRST} undefended models, "
                f"{self.models} of one other setting, the final model and its {self.shadows} "
                f"shadow models, got {self.budget}: raise budget, or lower models or shadows"
            )

    @property
    def final_models(self) -> int:
        """How many models the final audit takes, the audited one included."""
        return 1 + self.shadows


def choose_families(defences: tuple[str, ...] | None, *, tuned: bool) -> tuple[str, ...]:
    """The defences to try, the undefended model first.

    Args:
        defences: as asked for.
        tuned: whether it is no network whose training is described by a recipe.

    Raises:
        SpecError: one is not for such a training.
    """
    fitting = TUNED if tuned else (UNDEFENDED, *TRAINED_DEFENCES)
    for name in defences or ():
        if name not in fitting:
            what, other = "an estimator or a function", "a network"
            what, other = (what, other) if tuned else (other, what)
            raise SpecError(
                f"expected defences of {what}, got {name!r}, which is for {other}: choose of "
                f"{', '.join(fitting[1:])}"
            )
    usual = TUNED if tuned else USUAL
    return tuple(dict.fromkeys((UNDEFENDED, *(usual if defences is None else defences))))


class SearchSpec(Section):
    """``[search]``: what is tried, and how much may be spent on it."""

    defences: tuple[str, ...] | None = None
    """The [defences](defences/README.md) to try; the usual ones, unless given."""
    answers: tuple[str, ...] = ()
    """Defences of the model's answers to try behind each of them."""
    budget: Count = 60
    """The work that may be spent in all, final audit included, in undefended trainings."""
    models: Annotated[Count, pydantic.Field(ge=FIRST)] = 6
    """How many models to train with settings that lead."""
    fresh: Share = 0.5
    """The share of the records that the search never touches."""
    shadows: Count = 16
    """How many shadow models the final audit has."""
    space: dict[str, tuple[JSON, ...]] | None = None
    """By setting of what ``train`` names, the values to try, the mildest first."""


class HardenSpec(Section):
    """A whole ``harden.toml``."""

    name: RunName = "hardening"
    """Title of the report, and name of the run folder."""
    seed: Seed = 0
    """Fixes every random choice."""
    ceiling: dict[str, float]
    """By metric, the highest admissible value, as in ``{"tpr@0.01" = 0.05}``."""
    data: DataSpec
    """All records, in ``records``; ``reference`` as elsewhere."""
    training: TrainingSpec
    """How an undefended model is trained."""
    search: SearchSpec = SearchSpec()
    """What is tried."""
    attacks: tuple[dict[str, JSON], ...] = ()
    """As in [audit.toml](settings.md#attacks)."""


def read(path: Path) -> HardenSpec:
    """The settings in a file.

    Raises:
        SpecError: the file is missing or not TOML, a key is unknown (the nearest valid key is
            named), a value is of the wrong kind, or there is no such metric or defence.
    """
    return parse(toml.read_toml(path), str(path))


def parse(table: dict[str, JSON], where: str) -> HardenSpec:
    """The settings in a table.

    Args:
        table: as read from TOML.
        where: the file's name, for messages.

    Raises:
        SpecError: see `read`.
    """
    settings = toml.validate_section(HardenSpec, table, where)
    config_checks.check_pool_section(settings.data, where)
    check_ceilings(settings.ceiling)
    check_training(settings.training, where)
    SearchSettings(**settings.search.model_dump())
    choose_families(settings.search.defences, tuned=bool(settings.training.train))
    if settings.search.space is not None and not settings.training.train:
        raise SpecError(f"{where}: expected no search.space beside network, got one: name train")
    return settings


def attacks(settings: HardenSpec, folder: Path) -> tuple[MembershipAttack, ...] | None:
    """The attacks asked for; None for the usual ones.

    Args:
        settings: as read.
        folder: where relative paths start; attacks of the user's own are loaded from there.

    Raises:
        SpecError: an attack or one of its settings does not exist, or an entry has no name.
    """
    make = own.builder("membership", folder)
    return tuple(toml.build_attacks(settings.attacks, make)) or None


def check_ceilings(ceilings: Ceilings) -> None:
    """Refuse ceilings that no model can be held under.

    Raises:
        SpecError: there is none, a metric is unknown or has no upper limit, or a value lies outside
            its range.
    """
    if not ceilings:
        raise SpecError('expected a ceiling, got none: such as {"tpr@0.01": 0.05}')
    for name in ceilings:
        if name not in _METRICS:
            hint = did_you_mean(name, _METRICS)
            raise SpecError(
                f"expected a metric with an upper limit as a ceiling's name, got {name!r}: {hint}"
            )
    Gate(ceiling=ceilings)  # refuses values that guessing reaches, or outside the metric's range
