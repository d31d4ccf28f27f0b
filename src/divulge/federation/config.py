"""Read ``federate.toml``, the settings of a federation to simulate, into frozen objects.

Reading is pure: no data is loaded and no code of the user's is run here.
"""

from pathlib import Path
from typing import Annotated, Literal

import pydantic

from divulge._util import toml
from divulge._util.arguments import Count, CountFromZero, PathText, RunName, Seed
from divulge._util.json import JSON
from divulge._util.toml import Section
from divulge.core import UpdateDefence
from divulge.defences import catalog
from divulge.defences.updates.compose import chain
from divulge.errors import SpecError
from divulge.federation.search.click_models import Habit
from divulge.training.config import RecipeSpec


class FederatedDataSpec(Section):
    """``[data]``: the records that clients hold, and the test records of the global model."""

    train: str
    """The records that clients hold, together."""
    test: str | None = None
    """Records on which the accuracy of the global model is measured after each round."""
    label: str = "label"
    """The column of a table that holds the class."""


class ClientsSpec(Section):
    """``[clients]``: the clients' records; give one of ``count``, ``sizes`` and ``classes``."""

    count: Count | None = None
    """The number of clients, with equally many records each, as many as there are."""
    sizes: tuple[Count, ...] = ()
    """The number of records of each client."""
    classes: tuple[tuple[CountFromZero, ...], ...] = ()
    """For each client its number of records of each class, exactly."""
    alpha: Annotated[float, pydantic.Field(gt=0)] | None = None
    """With ``count`` or ``sizes``: each client draws its class mix from a Dirichlet distribution
    around that of all records (Hsu, Qi and Brown 2019); 100 is nearly IID, 0.1 uneven."""
    truth: PathText | None = None
    """A ``.csv`` file to be written: the client of each record of ``train``, or ``nobody``, as an
    audit of ``[assignment]`` wants it; the transcript has nothing of it."""


class LocalTrainingSpec(RecipeSpec):
    """``[training]``: how a client trains."""

    epochs: Count = 1
    """Local epochs: how often a client sees each of its records in one round."""
    batch_size: Count = 32
    """Records a step; a last batch of one record joins the batch before."""


class PrivacySpec(Section):
    """``[privacy]``: clients train with DP-SGD; see `divulge.defences.DPSGD`."""

    delta: float
    """The δ of every promise, above 0 and below 1: well below one over the number of records of a
    client."""
    epsilon: float | None = None
    """What a client spends that takes part in **all** ``rounds``, above 0; the noise follows, for
    each client's own number of records."""
    noise_multiplier: float | None = None
    """In place of ``epsilon``, the noise itself, as a multiple of ``max_grad_norm``, above 0; what
    is spent follows."""
    max_grad_norm: float = 1.0
    """The length that a record's gradient is cut to, above 0."""


class CanariesSpec(Section):
    """``[canaries]``: canary clients that take part, to test what a mechanism states."""

    folder: PathText
    """Folder that ``divulge canary clients`` made; its sealed coins are not read."""
    norm: Annotated[float, pydantic.Field(gt=0)]
    """Euclidean norm of the update of a canary client: a few times what updates are clipped to."""


class FederationSearchSpec(Section):
    """``[harden]``: limits on what the server learns, for ``divulge harden``."""

    reference: str | None = None
    """Further records of nobody, which the attacker has; required of a federation of records."""
    class_shares: float | None = None
    """Smallest admissible L1 distance, from 0 to 2, of the best guess of a client's class shares;
    this or ``which_client`` is required of a federation of records."""
    which_client: float | None = None
    """Largest admissible AUC, from 0 to 1, of the best attack on which client held a record."""
    test: str | None = None
    """Beside ``[ranker]``: ``file.py:name`` of judged queries of nobody, for NDCG@10."""
    interactions: float | None = None
    """Beside ``[ranker]``: largest admissible AUC, from 0 to 1, of the attack on what users
    clicked, the mean over users."""
    budget: Count = 20
    """How many federations are simulated at most, the last one included."""
    defences: tuple[str, ...] | None = None
    """The update defences to try; ``top-k``, ``sign``, ``own-last-layer``, ``local-noise`` and
    ``dp-fedavg`` unless given. ``secure-sum`` can be named, too."""
    candidates: Count = 200
    """About so many of the clients' records are assigned to clients by attacks."""


class RecommenderSpec(Section):
    """``[recommender]``: users who train a recommender on their interactions, by FNCF."""

    log: str
    """``file.py:name``: an ``InteractionLog``, or a function without parameters that returns
    one."""
    truth: str
    """A ``.csv`` file to be written: what users acted on, as an audit wants it; the transcript has
    nothing of it."""
    users: Count = 100
    """Users a round."""
    negatives: Count = 4
    """For each item acted on, how many others are handed out."""
    width: Count = 64
    """Width of user and item embeddings."""
    hidden: Annotated[tuple[Count, ...], pydantic.Field(min_length=1)] = (128, 64, 32)
    """Units of the hidden layers."""
    epochs: Count = 20
    """Steps of Adam on all of a user's items."""
    lr: float = 0.001
    """Learning rate of Adam, above 0."""
    l1: float = 0.0
    """Weight, from 0, of the distance of item embeddings to those that were sent, a defence
    against RAIFLE."""


class RankerSpec(Section):
    """``[ranker]``: users of a search engine who learn from their clicks, by FPDGD."""

    queries: str
    """``file.py:name``: judged ``Queries``, such as ``divulge.data.ranking.read_queries`` makes of
    a file, or a function that returns them; grades from 0 to 2 or to 4."""
    truth: str
    """A ``.csv`` file to be written: what users clicked."""
    users: Count = 100
    """Users a round."""
    asked: Count = 4
    """Queries of each user."""
    hidden: CountFromZero = 0
    """Hidden units; 0 is a linear ranker."""
    habit: Habit = "informational"
    """How users click."""
    shown: Annotated[Count, pydantic.Field(ge=2)] = 10
    """Documents a query at most, drawn by their scores."""
    lr: float = 0.1
    """Learning rate of a step, above 0."""
    noise: Annotated[float, pydantic.Field(gt=0)] | None = None
    """The server hands out noise of this standard deviation in place of features."""


class FederationSpec(Section):
    """A whole ``federate.toml``."""

    name: RunName = "federation"
    """Name of the run folder: any text on one line, at most 100 characters."""
    seed: Seed = 0
    """Fixes every random choice."""
    rounds: Count = 10
    """Rounds in all."""
    rule: Literal["fedavg", "fedsgd"] = "fedavg"
    """``fedavg``: clients send their weights after local training, and the server averages them by
    numbers of records; ``fedsgd``: clients send one gradient over all their records, and the server
    takes one step of ``lr``."""
    participation: Annotated[float, pydantic.Field(gt=0, le=1)] = 1.0
    """Share of the clients that each round draws at random; at least one client."""
    data: FederatedDataSpec | None = None
    """The records; required without ``recommender`` and ``ranker``."""
    clients: ClientsSpec | None = None
    """Who holds which of them; required without ``recommender`` and ``ranker``."""
    training: LocalTrainingSpec | None = None
    """How a client trains; required without ``recommender`` and ``ranker``."""
    privacy: PrivacySpec | None = None
    """Clients train with DP-SGD."""
    canaries: CanariesSpec | None = None
    """Canary clients take part, beside the others."""
    harden: FederationSearchSpec | None = None
    """What ``divulge harden`` holds the federation under; ``divulge federate`` leaves it unread."""
    recommender: RecommenderSpec | None = None
    """In place of the four above: users who act on items that a server hands out."""
    ranker: RankerSpec | None = None
    """In place of those four: users who click on what a search engine shows them."""
    defences: tuple[dict[str, JSON], ...] = ()
    """What changes updates on their way."""


def read(path: Path) -> FederationSpec:
    """The settings in a file.

    Raises:
        SpecError: the file is missing or not TOML, a key is unknown (the nearest valid key is
            named), a value is of the wrong kind, or it is not clear who holds what.
    """
    return parse(toml.read_toml(path), str(path))


def parse(table: dict[str, JSON], where: str) -> FederationSpec:
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


def _check_other_sections(table: dict[str, JSON], where: str) -> None:
    """Refuse sections about records beside [recommender] or [ranker], whose users have none."""
    kind = min({"recommender", "ranker"} & table.keys())
    may = {"name", "seed", "rounds", "defences"} | ({"harden"} if kind == "ranker" else set())
    if strange := table.keys() - may - {kind}:
        raise SpecError(
            f"{where}: expected no other keys than {', '.join(sorted(may))} beside [{kind}], got "
            f"{', '.join(sorted(strange))}: leave out what belongs to another federation"
        )


def _check_clients(division: ClientsSpec, where: str) -> None:
    given = [name for name in ("count", "sizes", "classes") if getattr(division, name)]
    if len(given) != 1 or (division.classes and division.alpha is not None):
        ways = [*given, *(["alpha"] if division.alpha is not None else [])]
        raise SpecError(
            f"{where}: expected one of count, sizes and classes in [clients], the last one without "
            f"alpha, got {', '.join(ways) or 'none'}: say once who holds what"
        )
    if division.classes and len({len(row) for row in division.classes}) != 1:
        raise SpecError(f"{where}: expected as many classes for each client, got different numbers")


def is_federation(table: dict[str, JSON]) -> bool:
    """Whether settings as read from TOML are those of a federation to simulate."""
    return bool(table.keys() & {"clients", "recommender", "ranker"})


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
