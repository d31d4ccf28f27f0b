"""Search for the most accurate federation that gives away no more than allowed about its clients.

The search sees one half of the clients. The setting that it chooses is then run with the others,
under another seed, and attacked afresh.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from divulge._util.arguments import Count, Seed, check_arguments
from divulge._util.progress import Progress, as_track
from divulge._util.random import stream
from divulge.audits.harden import optimiser
from divulge.audits.harden.federated_result import (
    FederationLimits,
    FederationTrial,
    HardenedFederation,
)
from divulge.audits.harden.federated_trial import NamedAttacks, TrialDesign
from divulge.core import Records, UpdateDefence
from divulge.defences import catalog
from divulge.errors import DivulgeError, SpecError, did_you_mean
from divulge.federation.fedavg import Federation

if TYPE_CHECKING:
    import optuna

USUAL = ("none", "top-k", "sign", "local-noise", "dp-fedavg")
"""Update defences that are tried."""

QUICK: NamedAttacks = (("decaf", {"level": "bias"}), ("label-counts", {"method": "rlu"}))
"""Attacks on class shares that train nothing: those of the search."""
LAST: NamedAttacks = (*QUICK, ("decaf", {"budget": 60.0}))
"""Attacks on class shares in the last simulation: also Decaf with clients that it invents, as
far as a minute of one core allows."""
_FEWEST_CLIENTS = 6
"""The fewest clients: a half has three then, for intervals over clients."""


@check_arguments
def harden_federation(
    federation: Federation,
    *,
    limits: FederationLimits,
    test: Records,
    reference: Records,
    rounds: Count,
    budget: Count = 20,
    defences: Sequence[str] = USUAL,
    candidates: Count = 200,
    seed: Seed = 0,
    progress: Progress = False,
) -> HardenedFederation:
    """Search for the most accurate federation within limits on what its server learns.

    Update defences, their settings and the number of local epochs are tried, each in a simulation
    that is attacked as a server would. A secure sum is not among them: it costs no accuracy, and
    these attacks need the updates of single clients.

    Args:
        federation: undefended, as it would be run; its recipe has the most local epochs tried.
        limits: what its server may learn.
        test: records of nobody, for the accuracy of the global model.
        reference: further records of nobody, which the attacker has.
        rounds: of each simulation.
        budget: how many federations are simulated in all, the last one included.
        defences: the update defences to try.
        candidates: about so many of the clients' records are assigned to clients by attacks.
        seed: fixes every random choice.
        progress: True shows how far the work is; see `divulge.Options`.

    Raises:
        MissingExtra: Optuna or PyTorch is not installed.
        SpecError: a defence does not exist, or there are too few clients or too small a budget.
        DivulgeError: the undefended federation cannot be simulated or attacked.
    """
    _check(federation, defences, budget)
    halves = _halve(federation, seed)
    attacked = TrialDesign(limits, test, reference, rounds, candidates, QUICK)
    families = tuple(dict.fromkeys(("none", *defences)))
    study = optimiser.new_study(_firsts(families, federation.recipe.epochs))
    trials: list[FederationTrial] = []
    refused: dict[str, str] = {}
    for number in as_track(progress)(range(budget - 1), "Simulating federations"):
        study.sampler = optimiser.seeded_sampler(
            int(stream(seed, "federation", number).integers(2**31)), len(families)
        )
        asking = study.ask()
        defence, epochs = _propose(asking, families, federation.recipe.epochs)
        try:
            found = attacked.run(halves[0], defence, epochs, seed)
        except DivulgeError as error:
            if defence.name == "none":
                raise
            refused[f"{defence!r}, epochs={epochs}"] = str(error)
            study.tell(asking, state=optimiser.failed())
            continue
        trials.append(found)
        study.tell(asking, [found.accuracy.value, found.excess(limits)])
    chosen = limits.choose(trials)
    last = int(stream(seed, "fresh").integers(2**31))
    fresh = replace(attacked, attacks=LAST).run(halves[1], chosen.defence, chosen.epochs, last)
    return HardenedFederation(limits, tuple(trials), refused, chosen, fresh)


def _check(federation: Federation, defences: Sequence[str], budget: int) -> None:
    if federation.defence.name != "none":
        raise SpecError(
            f"expected a federation without a defence, got {federation.defence!r}: name it in "
            "defences instead"
        )
    for name in defences:
        if name not in USUAL:
            hint = did_you_mean(name, USUAL)
            raise SpecError(f"expected an update defence that is searched, got {name!r}: {hint}")
    if len(federation.clients) < _FEWEST_CLIENTS:
        raise SpecError(
            f"expected {_FEWEST_CLIENTS} clients or more, got {len(federation.clients)}: half of "
            "them are kept for the last simulation, and intervals are over clients"
        )
    if budget < 2:
        raise SpecError(
            f"expected a budget of 2 federations or more, got {budget}: the last is one"
        )


def _halve(federation: Federation, seed: int) -> tuple[Federation, Federation]:
    """The federation of the search, and that of the fresh clients."""
    order = stream(seed, "fresh clients").permutation(len(federation.clients))
    middle = len(order) // 2
    searched, fresh = (
        replace(federation, clients=[federation.clients[k] for k in sorted(part)])
        for part in (order[:middle], order[middle:])
    )
    return searched, fresh


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


def _propose(
    trial: "optuna.Trial", families: Sequence[str], epochs: int
) -> tuple[UpdateDefence, int]:
    name = trial.suggest_categorical("defence", families)
    settings = {
        setting: optimiser.suggest(trial, f"{name}.{setting}", values)
        for setting, values in catalog.update_defence_class(name).search.items()
    }
    return catalog.update_defence(name, **settings), trial.suggest_int("epochs", 1, epochs)
