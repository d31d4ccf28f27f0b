"""``federate.toml``: a federation to simulate, read into frozen settings.

Reading is pure: no data is loaded and no code of the user's is run here.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from leakscope import catalog, spec
from leakscope.core import UpdateDefence
from leakscope.defences.compose import chain
from leakscope.errors import SpecError
from leakscope.sections import Count, RecipeSpec, Section


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
    """``[privacy]``: clients train with DP-SGD; see `leakscope.defences.dp_sgd.DPSGD`."""

    delta: float
    epsilon: float | None = None
    """What a client spends that takes part in every round; the noise follows."""
    noise_multiplier: float | None = None
    """Or the noise, and what is spent follows."""
    max_grad_norm: float = 1.0


class FederationSpec(Section):
    """A whole ``federate.toml``."""

    name: Annotated[str, pydantic.Field(pattern=r"^[\w][\w .-]{0,99}$")] = "federation"
    seed: Annotated[int, pydantic.Field(ge=0)] = 0
    rounds: Count = 10
    rule: Literal["fedavg", "fedsgd"] = "fedavg"
    participation: Annotated[float, pydantic.Field(gt=0, le=1)] = 1.0
    data: DataSpec
    clients: ClientsSpec
    training: TrainingSpec
    privacy: PrivacySpec | None = None
    """Without it clients train with no noise."""
    defences: tuple[dict[str, Any], ...] = ()
    """Update defences in the order in which an update passes them on its client."""


def read(path: Path) -> FederationSpec:
    """The settings in a file.

    Raises:
        SpecError: the file is missing or not TOML, a key is unknown (the nearest valid key is
            named), a value is of the wrong kind, or it is not clear who holds what.
    """
    return parse(spec.table(path), str(path))


def parse(table: dict[str, Any], where: str) -> FederationSpec:
    """The settings in a table.

    Args:
        table: as read from TOML.
        where: the file's name, for messages.

    Raises:
        SpecError: see `read`.
    """
    settings = spec.validated(FederationSpec, table, where)
    who = settings.clients
    given = [name for name in ("count", "sizes", "classes") if getattr(who, name)]
    if len(given) != 1 or (who.classes and who.alpha is not None):
        found = [*given, *(["alpha"] if who.alpha is not None else [])]
        raise SpecError(
            f"{where}: expected one of count, sizes and classes in [clients], the last one without "
            f"alpha, got {', '.join(found) or 'none'}: say once who holds what"
        )
    if who.classes and len({len(row) for row in who.classes}) != 1:
        raise SpecError(f"{where}: expected as many classes for each client, got different numbers")
    return settings


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
                "see `leakscope list defences`"
            )
        rest = {key: value for key, value in entry.items() if key != "name"}
        built.append(catalog.update_defence(name, **rest))
    return chain(*built)
