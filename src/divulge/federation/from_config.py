"""Simulate the federation that a ``federate.toml`` describes."""

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from divulge._util import imports
from divulge._util.arguments import FilePath, check_arguments
from divulge._util.folders import choose_run_folder, take_folder
from divulge._util.progress import Progress, as_track
from divulge.core import NOBODY, Assignment, Records
from divulge.data import interactions, records
from divulge.data.encoding import refuse_encoded
from divulge.data.interactions import InteractionLog
from divulge.data.ranking import Queries
from divulge.errors import SpecError
from divulge.federation import config, partition, prediction_tables
from divulge.federation.canaries import CanaryClients
from divulge.federation.clients import LocalTrainer
from divulge.federation.config import ClientsSpec, FederationSpec, RankerSpec, RecommenderSpec
from divulge.federation.fedavg import Federation
from divulge.federation.manipulation.features import NoiseInjection
from divulge.federation.search import click_models
from divulge.federation.server import accuracy
from divulge.federation.simulation import SimulatedFederation, simulate
from divulge.federation.transcript.layout import HEADER
from divulge.training.recipe import RaggedRows, Recipe

if TYPE_CHECKING:
    from divulge.federation.item_federation import (
        ItemFederation,
        RecommenderUsers,
        SearchUsers,
        UserPopulation,
    )

T = TypeVar("T")

LOADING = "Loading networks and data"


@check_arguments
def federate_file(
    path: FilePath,
    run: FilePath | None = None,
    *,
    resume: bool = False,
    progress: Progress = False,
    workers: str = "local",
) -> Path:
    """Simulate the federation that a ``federate.toml`` describes, and write its transcript.

    Args:
        path: file of settings; relative paths in it start at its folder.
        run: folder for the transcript; by default the next free ``runs/NAME-001`` beside the
            settings, or the latest one with ``resume``.
        resume: whether to continue the transcript after its last whole round.
        progress: True shows how far the work is; see `divulge.Options`.
        workers: who trains the clients, as for `divulge.ShadowModels`.

    Returns:
        The folder of the transcript.

    Raises:
        DivulgeError: a setting, the data, the network or the folder cannot be used.
    """
    path = Path(path)
    settings = config.read(path)
    crowd = settings.recommender or settings.ranker
    if crowd is not None and workers != "local":
        raise SpecError(
            f"expected local workers for [recommender] and [ranker], got {workers!r}: their users "
            "train in this process"
        )
    folder, track = choose_run_folder(run, path, settings.name, resume=resume), as_track(progress)
    with take_folder(folder, (HEADER,)):
        with track.step(LOADING):
            federation = load_simulation(settings, path.parent, workers)
        if settings.clients is not None and settings.clients.truth is not None:
            assert isinstance(federation, Federation)
            # before minutes of work, which a path that cannot be written would end
            _write_owners(path.parent / settings.clients.truth, federation)
        played = simulate(federation, settings.rounds, folder, resume=resume, progress=track)
        if crowd is not None:
            from divulge.federation.item_federation import ItemFederation

            assert isinstance(federation, ItemFederation)
            acted = federation.interactions_in(played)
            interactions.write_interactions(path.parent / crowd.truth, acted)
        return folder


def _write_owners(path: Path, federation: Federation) -> None:
    """Write which client holds each record of the pool; clients have their names in rounds."""
    owner = np.full(len(federation.pool), NOBODY)
    for k, rows in enumerate(federation.clients):
        owner[rows] = k
    names = [str(k) for k in range(len(federation.clients))]
    prediction_tables.write_owners(path, Assignment(owner), names)


def load_simulation(
    settings: FederationSpec, folder: Path, workers: str = "local"
) -> SimulatedFederation:
    """The federation of either kind that settings name.

    Args:
        settings: settings as read from a file.
        folder: folder of the settings, where relative paths start.
        workers: who trains clients that hold records.

    Raises:
        DivulgeError: a file, a name in it, or what it holds is not what was expected.
    """
    if settings.recommender or settings.ranker:
        return load_item_federation(settings, folder)
    return load_federation(settings, folder, workers)


def load_federation(settings: FederationSpec, folder: Path, workers: str = "local") -> Federation:
    """Load the federation that settings name.

    Args:
        settings: settings as read from a file.
        folder: folder of the settings, where relative paths start.
        workers: who trains the clients.

    Raises:
        DivulgeError: a file, a name in it, or what it holds is not what was expected.
    """
    data, training, division = settings.data, settings.training, settings.clients
    canaries = settings.canaries
    assert data is not None
    assert training is not None
    assert division is not None
    defence = config.build_defence(settings)
    pool, test = records.make_alike(
        records.load_records(data.train, data.label, folder),
        records.load_records(data.test, data.label, folder) if data.test else None,
    )
    refuse_encoded(pool, "a federation")
    recipe = Recipe(
        imports.load_object(training.network, folder), **training.model_dump(exclude={"network"})
    )
    trainer = _private_trainer(recipe, pool, settings)
    return Federation(
        pool,
        _deal_records(pool, division, settings.seed),
        recipe,
        rule=settings.rule,
        participation=settings.participation,
        defence=defence,
        trainer=trainer,
        evaluate=accuracy(test) if test is not None else None,
        canaries=None
        if canaries is None
        else CanaryClients(folder / canaries.folder, canaries.norm),
        seed=settings.seed,
        name=settings.name,
        workers=workers,
    )


def load_item_federation(settings: FederationSpec, folder: Path) -> "ItemFederation":
    """Load the federation of recommender or search users that settings name.

    Args:
        settings: settings as read from a file, with ``[recommender]`` or ``[ranker]``.
        folder: folder of the settings, where relative paths start.

    Raises:
        DivulgeError: a name, or what it stands for, is not what was expected.
    """
    from divulge.federation.item_federation import ItemFederation

    section = settings.recommender or settings.ranker
    crowd: UserPopulation
    if isinstance(section, RecommenderSpec):
        crowd = _recommender_users(section, settings, folder)
    else:
        assert section is not None
        crowd = _search_users(section, settings, folder)
    how = section.model_dump(mode="json", exclude={"truth"})
    how |= {"defences": list(settings.defences), "seed": settings.seed}
    return ItemFederation(settings.name, crowd, how)


def _recommender_users(
    users: RecommenderSpec, settings: FederationSpec, folder: Path
) -> "RecommenderUsers":
    from divulge.federation.item_federation import RecommenderUsers
    from divulge.federation.recommender.model import NeuralCF
    from divulge.federation.recommender.users import Recommending

    log = load_named(users.log, InteractionLog, folder)
    learner = NeuralCF(users.width, users.hidden, users.epochs, users.lr, users.l1)
    world = Recommending(log, learner, users.negatives, seed=settings.seed)
    return RecommenderUsers(world, users.users, config.build_defence(settings))


def _search_users(users: RankerSpec, settings: FederationSpec, folder: Path) -> "SearchUsers":
    from divulge.federation.item_federation import SearchUsers
    from divulge.federation.search.users import Searching, keep_features

    queries = load_named(users.queries, Queries, folder)
    model = click_models.published_click_model(users.habit, 3 if queries.relevance.max() < 3 else 5)
    shaped = keep_features if users.noise is None else NoiseInjection(users.noise)
    world = Searching(queries, model, users.shown, users.lr, shaped)
    defence = config.build_defence(settings)
    return SearchUsers(world, users.users, users.asked, users.hidden, defence, settings.seed)


def load_named(name: str, kind: type[T], folder: Path) -> T:
    """Load the object that a name stands for, or that a function of that name returns."""
    value = imports.load_object(name, folder)
    if callable(value):
        value = imports.call_user_code(value, name)
    if not isinstance(value, kind):
        raise SpecError(
            f"expected {kind.__name__} from {name!r}, got {type(value).__name__}: see "
            "docs/settings.md"
        )
    return value


def _private_trainer(
    recipe: Recipe, pool: Records, settings: FederationSpec
) -> LocalTrainer | None:
    """DP-SGD trainer of the clients, where the settings ask for privacy."""
    if settings.privacy is None:
        return None
    from divulge.defences.training.dp_sgd.trainer import DPSGD

    # a noise that is given does not depend on the rounds, which may then grow
    rounds = settings.rounds if settings.privacy.epsilon is not None else 1
    trainer = DPSGD(recipe, rounds=rounds, **settings.privacy.model_dump())
    trainer.check(pool)  # before a folder is begun
    return trainer


def _deal_records(pool: Records, clients: ClientsSpec, seed: int) -> tuple[RaggedRows, ...]:
    if clients.classes:
        return partition.exact(pool, np.array(clients.classes), seed)
    sizes = clients.sizes or partition.equal_sizes(len(pool), clients.count or 1)
    if clients.alpha is None:
        return partition.iid(pool, sizes, seed)
    return partition.dirichlet(pool, sizes, clients.alpha, seed)
