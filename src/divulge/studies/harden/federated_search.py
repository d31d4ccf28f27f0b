"""Try settings of a federation one after another, and keep what each came to."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from divulge._util.progress import Track
from divulge._util.random import stream
from divulge.defences import catalog
from divulge.errors import DataError, DivulgeError
from divulge.studies.harden import optimiser
from divulge.studies.harden.federated_limits import (
    FederationLimits,
    FederationTrial,
    FederationVariant,
)
from divulge.studies.harden.federated_result import (
    FRESH,
    TRIALS,
    FederationSearchManifest,
    HardenedFederation,
    StoredTrial,
    read_trial,
    store_trial,
)

if TYPE_CHECKING:
    import optuna

_MISSES = 20
"""After so many proposals in a row that were tried before, the search ends."""
_BY_CHANCE = 5
"""After so many of them, settings are drawn by chance."""


@runtime_checkable
class Simulator(Protocol):
    """Simulates and attacks settings of one kind of federation."""

    @property
    def limits(self) -> FederationLimits:
        """What its server may learn."""
        ...

    def run(self, setting: FederationVariant, seed: int) -> FederationTrial:
        """Simulate a setting, and attack it.

        Raises:
            DivulgeError: it cannot be simulated, or no attack on a limited secret can be run.
        """
        ...


def search(
    simulator: Simulator,
    families: Sequence[str],
    epochs: int | None,
    budget: int,
    seed: int,
    path: Path,
    track: Track[int],
) -> list[StoredTrial]:
    """Each setting once, in order; what the folder has is not simulated again.

    Args:
        simulator: of the federation of the search.
        families: update defences, by name, the undefended one first.
        epochs: the most local epochs that are tried; None where clients have none.
        budget: how many federations are simulated, one that comes later included.
        seed: fixes what is proposed, and each simulation.
        path: the run folder.
        track: shows progress.

    Raises:
        DivulgeError: the undefended federation cannot be simulated or attacked.
    """
    study, firsts = optimiser.new_study(), _firsts(families, epochs)
    tried: dict[str, StoredTrial] = {}
    for number in track(range(budget - 1), "Simulating federations"):
        for miss in range(_MISSES):
            own = int(stream(seed, "federation", number, miss).integers(2**31))
            given = firsts[number] if number < len(firsts) and not miss else None
            # where one family leads that has hardly any settings, all it proposes is known
            asking = optimiser.ask(study, own, given, by_chance=miss >= _BY_CHANCE)
            setting = _propose(asking, families, epochs)
            new = setting.label not in tried
            if new:
                name = f"{TRIALS}/{number + 1:03d}.json"
                tried[setting.label] = run_stored(simulator, setting, seed, path, name)
            one = tried[setting.label].found
            if new and one is not None:
                excess = one.excess(simulator.limits)
                optimiser.show(study, asking, one.accuracy.value, max(excess, 0.0), excess)
            optimiser.end(study, asking)
            if new:
                break
        else:
            break  # there is hardly anything left to try
    return list(tried.values())


def run_stored(
    simulator: Simulator, setting: FederationVariant, seed: int, path: Path, name: str
) -> StoredTrial:
    """What a setting comes to, from the folder or, once computed, stored there.

    Raises:
        DivulgeError: it has no defence, and cannot be simulated or attacked.
    """
    there = read_trial(path, name, setting)
    if there is not None:
        return there
    try:
        one = StoredTrial(setting, simulator.run(setting, seed), "")
    except DivulgeError as error:
        if setting.defence == "none":
            raise
        one = StoredTrial(setting, None, str(error))
    store_trial(path, name, one)
    return one


def finish(
    plan: FederationSearchManifest,
    stored: Sequence[StoredTrial],
    fresh: Simulator,
    seed: int,
    path: Path,
) -> HardenedFederation:
    """Run the chosen setting with clients that the search never saw, and write the report.

    Raises:
        DataError: it cannot be simulated or attacked.
    """
    trials = tuple(one.found for one in stored if one.found is not None)
    chosen = fresh.limits.choose(trials)
    last = run_stored(fresh, chosen.setting, seed, path, FRESH)
    if last.found is None:
        raise DataError(f"{chosen.setting.label} with fresh clients: {last.refused}")
    refused = {one.setting.label: one.refused for one in stored if one.found is None}
    found = HardenedFederation(plan, trials, refused, last.found, path)
    found.report()
    return found


def _firsts(families: Sequence[str], epochs: int | None) -> list[dict[str, Any]]:
    """Each defence with its defaults, as far as it has some that are searched."""
    found = []
    for name in families:
        cls = catalog.update_defence_class(name)
        defaults = {field.name: field.default for field in fields(cls)}
        own = {
            f"{name}.{setting}": defaults[setting]
            for setting, values in cls.search.items()
            if optimiser.holds(values, defaults[setting])
        }
        found.append({"defence": name, **({} if epochs is None else {"epochs": epochs}), **own})
    return found


def _propose(
    trial: "optuna.Trial", families: Sequence[str], epochs: int | None
) -> FederationVariant:
    name = trial.suggest_categorical("defence", families)
    settings = {
        setting: optimiser.suggest(trial, f"{name}.{setting}", values)
        for setting, values in catalog.update_defence_class(name).search.items()
    }
    chosen = None if epochs is None else trial.suggest_int("epochs", 1, epochs)
    return FederationVariant(name, settings, chosen)
