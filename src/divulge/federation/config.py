"""Read ``federate.toml``, the settings of a federation to simulate, into frozen objects.

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


class FederatedDataSpec(Section):
    """``[data]``: the records that clients hold, and the test records of the global model."""

    train: str
    """``file.py:name`` (a pair x, y or a function that returns one) or a data file's path."""
    test: str | None = None
    """Test records, named as in ``train``; without them no accuracy is measured."""
    label: str = "label"
    """Column of a data file that holds the class."""


class ClientsSpec(Section):
    """``[clients]``: the clients' records; give one of ``count``, ``sizes`` and ``classes``."""

    count: Count | None = None
    """Number of clients, among whom all records are divided equally."""
    sizes: tuple[Count, ...] = ()
    """Number of records of each client."""
    classes: tuple[tuple[Annotated[int, pydantic.Field(ge=0)], ...], ...] = ()
    """Number of records of each class of each client: one list a client."""
    alpha: Annotated[float, pydantic.Field(gt=0)] | None = None
    """Concentration of the Dirichlet distribution of class mixes; without it clients are IID."""


class LocalTrainingSpec(RecipeSpec):
    """``[training]``: how a client trains."""

    epochs: Count = 1
    """Local epochs: number of passes over a client's records in a round."""
    batch_size: Count = 32


class PrivacySpec(Section):
    """``[privacy]``: clients train with DP-SGD; see `divulge.defences.DPSGD`."""

    delta: float
    epsilon: float | None = None
    """Privacy budget of a client that takes part in every round; the noise follows from it."""
    noise_multiplier: float | None = None
    """Noise over clipping norm, in place of ``epsilon``; the budget follows from it."""
    max_grad_norm: float = 1.0


class RecommenderSpec(Section):
    """``[recommender]``: users who train a recommender on their interactions, by FNCF."""

    log: str
    """``file.py:name``: an ``InteractionLog``, or a function that returns one."""
    truth: str
    """``.csv`` file to write the users' interactions to, which no server sees."""
    users: Count = 100
    """Number of users in each round; each user takes part once."""
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
    """``.csv`` file to write the users' clicks to, which no server sees."""
    users: Count = 100
    """Number of users in each round; each user takes part once."""
    asked: Count = 4
    """Number of queries of each user."""
    hidden: Annotated[int, pydantic.Field(ge=0)] = 0
    habit: Habit = "informational"
    shown: Annotated[int, pydantic.Field(ge=2)] = 10
    lr: float = 0.1
    noise: Annotated[float, pydantic.Field(gt=0)] | None = None
    """Standard deviation of the noise that a malicious server shows in place of features."""


class FederationSpec(Section):
    """A whole ``federate.toml``."""

    name: Annotated[str, pydantic.Field(pattern=r"^[\w][\w .-]{0,99}$")] = "federation"
    seed: Annotated[int, pydantic.Field(ge=0)] = 0
    rounds: Count = 10
    rule: Literal["fedavg", "fedsgd"] = "fedavg"
    participation: Annotated[float, pydantic.Field(gt=0, le=1)] = 1.0
    data: FederatedDataSpec | None = None
    clients: ClientsSpec | None = None
    training: LocalTrainingSpec | None = None
    privacy: PrivacySpec | None = None
    """DP-SGD of the clients; without it they train with no noise."""
    recommender: RecommenderSpec | None = None
    """Users of a recommender, in place of the four sections above."""
    ranker: RankerSpec | None = None
    """Users of a search engine, in place of those four sections."""
    defences: tuple[dict[str, Any], ...] = ()
    """Update defences, in the order in which a client applies them."""


def read(path: Path) -> FederationSpec:
    """The settings in a file.

    Raises:
        SpecError: the file is missing or not TOML, a key is unknown (the nearest valid key is
            named), a value is of the wrong kind, or it is not clear who holds what.
    """
    return parse(toml.read_toml(path), str(path))


def parse(table: dict[str, Any], where: str) -> FederationSpec:
    """The settings in a table.

    Args:
        table: settings as read from TOML.
        where: name of the file, for error messages.

    Raises:
        SpecError: see `read`.
    """
    settings = toml.validate_section(FederationSpec, table, where)
    if settings.recommender or settings.ranker:
        _check_other_sections(table, where)
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


def _check_other_sections(table: dict[str, Any], where: str) -> None:
    """Refuse sections about records beside [recommender] or [ranker], whose users have none."""
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


def build_defence(settings: FederationSpec) -> UpdateDefence:
    """Build the update defence that the settings name.

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
