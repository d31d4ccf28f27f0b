"""``compare.toml``: which defences to compare, read into frozen settings.

Reading is pure: no data is loaded and no code of the user's is run here.
"""

from pathlib import Path
from typing import Annotated

import pydantic

from divulge._util import toml
from divulge._util.arguments import Count, RunName, Seed
from divulge._util.json import JSON
from divulge._util.toml import Section
from divulge.attacks import catalog, own
from divulge.audits import config_checks
from divulge.audits.data_sections import DataSpec
from divulge.core import MembershipAttack
from divulge.errors import SpecError
from divulge.targets.outputs import Output
from divulge.training.config import RecipeSpec
from divulge.training.recipe import Select

Weight = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]


class TrainingSpec(RecipeSpec):
    """``[training]``: how a model is trained, and which epoch of it is taken."""

    network: str = ""
    """``file.py:name``: a function that makes an untrained module; or ``train``."""
    train: str = ""
    """``file.py:name``: an estimator, or a function (x, y, seed, ...) that trains a model."""
    output: Output | None = None
    """What a model answers that ``train`` returned, as in [``[target]``](settings.md#target)."""
    patience: Count | None = None
    """Stop after so many epochs without a better loss on held-out records."""
    held_out: float = 0.1
    """The share held out, with ``patience`` or ``select``, above 0 and below 1."""
    select: Select | None = None
    """Which [epoch's weights](training.md) are taken: the best on held-out records, by this."""
    stop_after: Count | None = None
    """End training after so many of the ``epochs``, with learning rates as if all were run."""


class CompareSpec(Section):
    """A whole ``compare.toml``."""

    name: RunName = "comparison"
    """Title of the report, and name of the run folder."""
    seed: Seed = 0
    """Fixes every random choice."""
    models: Annotated[Count, pydantic.Field(ge=3)] = 16
    """How many to train with each defence."""
    targets: Annotated[Count, pydantic.Field(ge=2)] = 3
    """How many of them to audit."""
    shadows: Count | None = None
    """How many of the others each is compared with; all, unless given."""
    augment: tuple[str, ...] = ()
    """Further ways to ask about a record, as in [``[shadows]``](settings.md#shadows)."""
    lambdas: tuple[Weight, ...] = (2.0,)
    """Weights of privacy for AOP."""
    data: DataSpec
    """The records."""
    training: TrainingSpec | None = None
    """How the network of named defences is trained."""
    defences: tuple[dict[str, JSON], ...] = ()
    """What to compare."""
    attacks: tuple[dict[str, JSON], ...] = ()
    """As in [audit.toml](settings.md#attacks)."""


def read(path: Path) -> CompareSpec:
    """The settings in a file.

    Raises:
        SpecError: the file is missing or not TOML, a key is unknown (the nearest valid key is
            named), a value is of the wrong kind, or an entry is neither a name nor code.
    """
    return parse(toml.read_toml(path), str(path))


def parse(table: dict[str, JSON], where: str) -> CompareSpec:
    """The settings in a table.

    Args:
        table: as read from TOML.
        where: the file's name, for messages.

    Raises:
        SpecError: see `read`.
    """
    settings = toml.validate_section(CompareSpec, table, where)
    config_checks.check_pool_section(settings.data, where)
    for entry in settings.defences:
        if ("name" in entry) == ("train" in entry):
            raise SpecError(
                f"{where}: expected either name or train in each [[defences]], got {entry}: a name "
                "that `divulge list defences` prints, or code of yours"
            )
        if "name" in entry and settings.training is None:
            raise SpecError(
                f"{where}: expected [training] for the defence {entry['name']!r}, got none: say "
                "which network is trained, and how"
            )
    if settings.training is not None:
        check_training(settings.training, where)
    if settings.training is None and not settings.defences:
        raise SpecError(f"{where}: expected [training] or [[defences]], got neither")
    return settings


def check_training(training: TrainingSpec, where: str) -> None:
    """Refuse a training of both kinds, or of neither.

    Raises:
        SpecError: it is of both or neither, or has settings of networks and ``train``.
    """
    if bool(training.network) == bool(training.train):
        raise SpecError(
            f"{where}: expected either network or train in [training], got "
            f"{'both' if training.train else 'neither'}: a PyTorch network, or what trains a model "
            "of any kind"
        )
    beside = training.model_fields_set - {"train", "output"}
    if training.train and beside:
        raise SpecError(
            f"{where}: expected no {min(beside)} beside train in [training], got it: settings of "
            "networks; set those of your estimator or function where it is made"
        )
    if training.network and training.output is not None:
        raise SpecError(f"{where}: expected no output beside network in [training], got one")


def attacks(settings: CompareSpec, folder: Path) -> tuple[MembershipAttack, ...]:
    """The attacks asked for, or the usual ones.

    Args:
        settings: as read.
        folder: where relative paths start; attacks of the user's own are loaded from there.

    Raises:
        SpecError: an attack or one of its settings does not exist, or an entry has no name.
    """
    make = own.builder("membership", folder)
    return tuple(toml.build_attacks(settings.attacks, make)) or default_attacks()


def default_attacks() -> tuple[MembershipAttack, ...]:
    """What runs when nothing is asked for: by threshold, by label, and by shadows."""
    names = ("threshold", "gap", "calibrated", "lira", "rmia")
    return tuple(catalog.attack(name) for name in names)
