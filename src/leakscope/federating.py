"""From ``federate.toml`` to a transcript."""

from pathlib import Path
from typing import Any

import numpy as np

from leakscope import federate_spec, loading, objects
from leakscope.api import place
from leakscope.core import Records
from leakscope.federate_spec import ClientsSpec, FederationSpec
from leakscope.federation import partition
from leakscope.federation.clients import LocalTrainer
from leakscope.federation.server import accuracy
from leakscope.federation.simulation import Federation, simulate
from leakscope.progress import Track, untracked
from leakscope.training.recipe import Held, Recipe


def federate_file(
    path: str | Path,
    run: str | Path | None = None,
    *,
    resume: bool = False,
    track: Track[Any] = untracked,
) -> Path:
    """Simulate what a ``federate.toml`` describes.

    Args:
        path: the settings; relative paths in them start at its folder.
        run: where the transcript goes; by default the next free ``runs/NAME-001`` beside the
            settings, or the latest one with ``resume``.
        resume: continue the transcript after its last whole round.
        track: shows progress.

    Returns:
        The folder of the transcript.

    Raises:
        LeakscopeError: a setting, the data, the network or the folder cannot be used.
    """
    path = Path(path)
    settings = federate_spec.read(path)
    federation = load(settings, path.parent)
    folder = place(run, path, settings.name, resume=resume)
    simulate(federation, settings.rounds, folder, resume=resume, track=track)
    return folder


def load(settings: FederationSpec, folder: Path) -> Federation:
    """The federation that settings name.

    Args:
        settings: as read.
        folder: where relative paths start: the folder of the settings.

    Raises:
        LeakscopeError: a file, a name in it, or what it holds is not what was expected.
    """
    data, training = settings.data, settings.training
    defence = federate_spec.defence(settings)
    pool = loading.records_of(data.train, data.label, folder)
    test = loading.records_of(data.test, data.label, folder) if data.test else None
    recipe = Recipe(
        objects.named(training.network, folder), **training.model_dump(exclude={"network"})
    )
    trainer = _private(recipe, pool, settings)
    return Federation(
        pool,
        _dealt(pool, settings.clients, settings.seed),
        recipe,
        rule=settings.rule,
        participation=settings.participation,
        defence=defence,
        trainer=trainer,
        evaluate=accuracy(test) if test is not None else None,
        seed=settings.seed,
        name=settings.name,
    )


def _private(recipe: Recipe, pool: Records, settings: FederationSpec) -> LocalTrainer | None:
    """What trains clients where the settings ask for privacy."""
    if settings.privacy is None:
        return None
    from leakscope.defences.dp_sgd import DPSGD

    # a noise that is given does not depend on the rounds, which may then grow
    rounds = settings.rounds if settings.privacy.epsilon is not None else 1
    trainer = DPSGD(recipe, rounds=rounds, **settings.privacy.model_dump())
    trainer.check(pool)  # before a folder is begun
    return trainer


def _dealt(pool: Records, who: ClientsSpec, seed: int) -> tuple[Held, ...]:
    if who.classes:
        return partition.exact(pool, np.array(who.classes), seed)
    sizes = who.sizes or partition.equal_sizes(len(pool), who.count or 1)
    if who.alpha is None:
        return partition.iid(pool, sizes, seed)
    return partition.dirichlet(pool, sizes, who.alpha, seed)
