"""``federate.toml``: a federation to simulate, read into frozen settings.

Reading is pure: no data is loaded and no code of the user's is run here.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from divulge._util import toml
from divulge._util.toml import Count, Section
from divulge.core import UpdateDefence
from divulge.defences import catalog
from divulge.defences.updates.compose import chain
from divulge.errors import SpecError
from divulge.federation.search.click_models import Habit
from divulge.training.config import RecipeSpec


class DataSpec(Section):
    """``[data]``: the records that clients hold, and those that the global model is tested on."""

    train: str
    """``file.py:name`` (a pair x, y or a function that returns one) or a data file's path."""
    test: str | None = None
    """Without it no accuracy is measured."""
    label: str = "label"
    """The column of a table that holds the class."""


class ClientsSpec(Section):
    """``[clients]``: who holds what; either ``count``, ``sizes`` or ``classes``."""

    count: Count | None = None
    """So many clients with equally many records, as many as there are."""
    sizes: tuple[Count, ...] = ()
    """How many records each client gets."""
    classes: tuple[tuple[Annotated[int, pydantic.Field(ge=0)], ...], ...] = ()
    """How many records of each class each client gets: one list a client."""
    alpha: Annotated[float, pydantic.Field(gt=0)] | None = None
    """With it each client draws its class mix from a Dirichlet distribution; without, IID."""


class TrainingSpec(RecipeSpec):
    """``[training]``: how a client trains."""

    epochs: Count = 1
    """Local epochs: how often a client sees each of its records in a round."""
    batch_size: Count = 32


class PrivacySpec(Section):
    """``[privacy]``: clients train with DP-SGD; see `divulge.defences.DPSGD`."""

    delta: float
    epsilon: float | None = None
    """What a client spends that takes part in every round; the noise follows."""
    noise_multiplier: float | None = None
    """Or the noise, and what is spent follows."""
    max_grad_norm: float = 1.0


class RecommenderSpec(Section):
    """``[recommender]``: users who learn from what they acted on, by FNCF."""

    log: str
    """``file.py:name``: an ``InteractionLog``, or a function that returns one."""
    truth: str
    """Where to write what users acted on, which no server sees: a ``.csv`` file."""
    users: Count = 100
    """In each round; each user takes part once."""
    negatives: Count = 4
    width: Count = 64
    hidden: Annotated[tuple[Count, ...], pydantic.Field(min_length=1)] = (128, 64, 32)
    epochs: Count = 20
    lr: float = 0.001
    l1: float = 0.0


class RankerSpec(Section):
    """``[ranker]``: users of a search engine who learn from their clicks, by FPDGD."""

    queries: str
    """``file.py:name``: judged ``Queries``, or a function that returns them."""
    truth: str
    """Where to write what users clicked, which no server sees: a ``.csv`` file."""
    users: Count = 100
    """In each round; each user takes part once."""
    asked: Count = 4
    """Queries of each user."""
    hidden: Annotated[int, pydantic.Field(ge=0)] = 0
    habit: Habit = "informational"
    shown: Annotated[int, pydantic.Field(ge=2)] = 10
    lr: float = 0.1
    noise: Annotated[float, pydantic.Field(gt=0)] | None = None
    """With it the server hands out noise of this standard deviation in place of features."""


class FederationSpec(Section):
    """A whole ``federate.toml``."""

    name: Annotated[str, pydantic.Field(pattern=r"^[\w][\w .-]{0,99}$")] = "federation"
    seed: Annotated[int, pydantic.Field(ge=0)] = 0
    rounds: Count = 10
    rule: Literal["fedavg", "fedsgd"] = "fedavg"
    participation: Annotated[float, pydantic.Field(gt=0, le=1)] = 1.0
    data: DataSpec | None = None
    clients: ClientsSpec | None = None
    training: TrainingSpec | None = None
    privacy: PrivacySpec | None = None
    """Without it clients train with no noise."""
    recommender: RecommenderSpec | None = None
    """In place of all four: users who are handed items."""
    ranker: RankerSpec | None = None
    """Likewise."""
    defences: tuple[dict[str, Any], ...] = ()
    """Update defences in the order in which an update passes them on its client."""


def read(path: Path) -> FederationSpec:
    """The settings in a file.

    Raises:
        SpecError: the file is missing or not TOML, a key is unknown (the nearest valid key is
            named), a value is of the wrong kind, or it is not clear who holds what.
    """
    return parse(toml.table(path), str(path))


def parse(table: dict[str, Any], where: str) -> FederationSpec:
    """The settings in a table.

    Args:
        table: as read from TOML.
        where: the file's name, for messages.

    Raises:
        SpecError: see `read`.
    """
    settings = toml.validated(FederationSpec, table, where)
    if settings.recommender or settings.ranker:
        _check_alone(table, where)
        return settings
    for name in ("data", "clients", "training"):
        if getattr(settings, name) is None:
            raise SpecError(
                f"{where}: expected [{name}], it is missing: add it, or describe users who are "
                "handed items, in [recommender] or [ranker]"
            )
    assert settings.clients is not None
    _check_clients(settings.clients, where)
    return settings


def _check_alone(table: dict[str, Any], where: str) -> None:
    """Users who are handed items have no records, and are drawn in a way of their own."""
    may = {"name", "seed", "rounds", "defences"}
    kind = min({"recommender", "ranker"} & table.keys())
    if strange := table.keys() - may - {kind}:
        raise SpecError(
            f"{where}: expected no other keys than {', '.join(sorted(may))} beside [{kind}], got "
            f"{', '.join(sorted(strange))}: leave out what belongs to another federation"
        )


def _check_clients(who: ClientsSpec, where: str) -> None:
    given = [name for name in ("count", "sizes", "classes") if getattr(who, name)]
    if len(given) != 1 or (who.classes and who.alpha is not None):
        found = [*given, *(["alpha"] if who.alpha is not None else [])]
        raise SpecError(
            f"{where}: expected one of count, sizes and classes in [clients], the last one without "
            f"alpha, got {', '.join(found) or 'none'}: say once who holds what"
        )
    if who.classes and len({len(row) for row in who.classes}) != 1:
        raise SpecError(f"{where}: expected as many classes for each client, got different numbers")


def defence(settings: FederationSpec) -> UpdateDefence:
    """What changes updates on their way.

    Raises:
        SpecError: a defence or one of its settings does not exist, or an entry has no name.
    """
    built = []
    for entry in settings.defences:
        name = entry.get("name")
        if not isinstance(name, str):
            raise SpecError(
                f'expected name = "..." in each [[defences]], got {entry}: '
                "see `divulge list defences`"
            )
        rest = {key: value for key, value in entry.items() if key != "name"}
        built.append(catalog.update_defence(name, **rest))
    return chain(*built)
