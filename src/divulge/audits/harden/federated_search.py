"""Try settings of a federation one after another, and keep what each came to."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divulge._util.progress import Track
from divulge._util.random import stream
from divulge.audits.harden import optimiser
from divulge.audits.harden.federated_limits import FederationVariant
from divulge.audits.harden.federated_result import TRIALS, StoredTrial, read_trial, store_trial
from divulge.audits.harden.federated_trial import TrialDesign
from divulge.defences import catalog
from divulge.errors import DivulgeError
from divulge.federation.fedavg import Federation

if TYPE_CHECKING:
    import optuna

_MISSES = 20
"""After so many proposals in a row that were tried before, the search ends."""


def search(
    federation: Federation,
    families: Sequence[str],
    design: TrialDesign,
    budget: int,
    path: Path,
    track: Track[int],
) -> list[StoredTrial]:
    """Each setting once, in order; what the folder has is not simulated again."""
    most = federation.recipe.epochs if federation.rule == "fedavg" else 1
    study, firsts = optimiser.new_study(), _firsts(families, most)
    tried: dict[str, StoredTrial] = {}
    for number in track(range(budget - 1), "Simulating federations"):
        for miss in range(_MISSES):
            own = int(stream(federation.seed, "federation", number, miss).integers(2**31))
            given = firsts[number] if number < len(firsts) and not miss else None
            asking = optimiser.ask(study, own, given)
            setting = _propose(asking, families, most)
            new = setting.label not in tried
            if new:
                name = f"{TRIALS}/{number + 1:03d}.json"
                tried[setting.label] = run_stored(
                    design, federation, setting, federation.seed, path, name
                )
            one = tried[setting.label].found
            if new and one is not None:
                excess = one.excess(design.limits)
                optimiser.show(study, asking, one.accuracy.value, max(excess, 0.0), excess)
            optimiser.end(study, asking)
            if new:
                break
        else:
            break  # there is hardly anything left to try
    return list(tried.values())


def run_stored(
    design: TrialDesign,
    federation: Federation,
    setting: FederationVariant,
    seed: int,
    path: Path,
    name: str,
) -> StoredTrial:
    """What a setting comes to, from the folder or, once computed, stored there.

    Raises:
        DivulgeError: it has no defence, and cannot be simulated or attacked.
    """
    there = read_trial(path, name, setting)
    if there is not None:
        return there
    try:
        one = StoredTrial(setting, design.run(federation, setting, seed), "")
    except DivulgeError as error:
        if setting.defence == "none":
            raise
        one = StoredTrial(setting, None, str(error))
    store_trial(path, name, one)
    return one


def _firsts(families: Sequence[str], epochs: int) -> list[dict[str, Any]]:
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
        found.append({"defence": name, "epochs": epochs, **own})
    return found


def _propose(trial: "optuna.Trial", families: Sequence[str], epochs: int) -> FederationVariant:
    name = trial.suggest_categorical("defence", families)
    settings = {
        setting: optimiser.suggest(trial, f"{name}.{setting}", values)
        for setting, values in catalog.update_defence_class(name).search.items()
    }
    return FederationVariant(name, settings, trial.suggest_int("epochs", 1, epochs))
