"""Search for the most accurate federation that gives away no more than allowed about its clients.

The search sees one half of the clients. The setting that it chooses is then run with the others,
under another seed, and attacked afresh.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from divulge._util.arguments import Count, FilePath, check_arguments
from divulge._util.digest import digest
from divulge._util.folders import choose_run_folder, numbered_folder
from divulge._util.progress import Progress, as_track
from divulge._util.random import stream
from divulge.audits.options import RunPath
from divulge.core import Head, Records
from divulge.data import records
from divulge.data.encoding import share_encoding
from divulge.data.labels import share_classes
from divulge.errors import SpecError
from divulge.federation import config
from divulge.federation.config import FederationSearchSpec, FederationSpec
from divulge.federation.fedavg import Federation
from divulge.federation.from_config import LOADING, load_federation
from divulge.finished_runs.run_json import new_head
from divulge.studies.harden.federated_bench import FederationBench, choose_families
from divulge.studies.harden.federated_limits import LIMITED, FederationLimits
from divulge.studies.harden.federated_ranker import ranker_from_config
from divulge.studies.harden.federated_result import FederationSearchFacts, HardenedFederation
from divulge.studies.harden.federated_trial import NamedAttacks, TrialDesign
from divulge.studies.harden.search import run_search

USUAL = ("none", "top-k", "sign", "own-last-layer", "local-noise", "dp-fedavg")
"""Update defences that are tried."""
SEARCHED = (*USUAL, "secure-sum")
"""Update defences that can be tried; a secure sum needs clients that exchange keys."""

QUICK: NamedAttacks = (
    ("decaf", {"level": "bias"}),
    ("label-counts", {"method": "rlu"}),
    ("decaf", {"clients": 48, "rounds": 2, "budget": 20.0}),
)
"""Attacks on class shares in the search: two that train nothing, and Decaf with a few clients that
it invents, who send through the defence, as far as 20 seconds of one core allow."""
LAST: NamedAttacks = (*QUICK[:2], ("decaf", {"budget": 60.0}))
"""Attacks on class shares in the last simulation: Decaf with more invented clients, as far as a
minute of one core allows."""
_MOST_ROUNDS = 1000
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
    run: RunPath = None,
    resume: bool = False,
    progress: Progress = False,
) -> HardenedFederation:
    """Search for the most accurate federation within limits on what its server learns.

    Update defences, their settings and the number of local epochs are tried, each in a simulation
    that is attacked as a server would that knows the defence. A secure sum is tried where
    ``defences`` names it.

    Args:
        federation: undefended, as it would be run; its recipe has the most local epochs tried, and
            its seed fixes every random choice.
        limits: what its server may learn.
        test: records of nobody, for the accuracy of the global model, or of each client's own
            where clients keep layers, in the class mixes of the clients.
        reference: further records of nobody, which the attacker has.
        rounds: of each simulation, at most 1,000.
        budget: how many federations are simulated at most, the last one included.
        defences: the update defences to try; ``"none"`` is always among them.
        candidates: about so many of the clients' records are assigned to clients by attacks.
        run: the run folder, written as the work goes on; a new one in ``runs/`` unless given.
        resume: continue the run folder; it ends as if it had never stopped.
        progress: True shows how far the work is; see `divulge.Options`.

    Returns:
        All that was tried, and the chosen setting with clients that the search never saw. Its
        ``outcome`` says whether that run is within the limits.

    Raises:
        MissingExtra: Optuna or PyTorch is not installed.
        SpecError: a defence does not exist, or there are too few clients or too small a budget.
        StoreError: the run folder is in use, or belongs to another search.
        DivulgeError: the undefended federation cannot be simulated or attacked.
    """
    every = TrialDesign(federation, limits, test, reference, rounds, candidates, QUICK)
    bench, head = _design(every, budget, defences)
    path = numbered_folder(Path("runs") / "federation") if run is None else Path(run)
    return run_search(bench, head, path, as_track(progress), resume=resume)


@check_arguments
def harden_federation_file(
    path: FilePath,
    run: FilePath | None = None,
    *,
    resume: bool = False,
    progress: Progress = False,
) -> HardenedFederation:
    """Search as ``[harden]`` of a ``federate.toml`` says, for clients or for users of a ranker.

    Args:
        path: the settings; relative paths in them start at its folder.
        run: the run folder, as for `divulge.federate_file`.
        resume: continue the run folder.
        progress: True shows how far the work is; see `divulge.Options`.

    Raises:
        SpecError: the settings lack ``[harden]``, or test records.
        DivulgeError: see `harden_federation`.
    """
    path = Path(path)
    settings = config.read(path)
    search = settings.harden
    if search is None:
        raise SpecError(
            f"expected [harden] in {path}, it is missing: name reference and class_shares or "
            "which_client there"
        )
    # all that are given: those that do not fit the federation are refused by name
    limits = FederationLimits(**{name: getattr(search, name) for name in LIMITED})
    folder, track = choose_run_folder(run, path, settings.name, resume=resume), as_track(progress)
    load = _federation_from_config if settings.ranker is None else ranker_from_config
    with track.step(LOADING):
        bench, head = load(settings, search, limits, path)
    return run_search(bench, head, folder, track, resume=resume)


def _federation_from_config(
    settings: FederationSpec, search: FederationSearchSpec, limits: FederationLimits, path: Path
) -> tuple[FederationBench, Head[FederationSearchFacts]]:
    """What ``[harden]`` of a ``federate.toml`` asks for.

    Raises:
        SpecError: it lacks test or reference records.
        DivulgeError: a file, a name in it, or what it holds is not what was expected.
    """
    data = settings.data
    assert data is not None
    if search.reference is None:
        raise SpecError(
            f"expected reference in [harden] of {path}, it is missing: records of nobody, which "
            "the attacker has"
        )
    if data.test is None:
        raise SpecError(
            f"expected test in [data] of {path}, it is missing: the search compares the accuracy "
            "of federations on records of nobody"
        )
    federation = load_federation(settings, path.parent)
    further = records.load_record_sets((data.test, search.reference), data.label, path.parent)
    pool, test, reference = share_classes(share_encoding([federation.pool, *further]))
    every = TrialDesign(
        federation=replace(federation, pool=pool, evaluate=None),
        limits=limits,
        test=test,
        reference=reference,
        rounds=settings.rounds,
        candidates=search.candidates,
        attacks=QUICK,
    )
    return _design(every, search.budget, USUAL if search.defences is None else search.defences)


def _design(
    every: TrialDesign, budget: int, defences: Sequence[str]
) -> tuple[FederationBench, Head[FederationSearchFacts]]:
    """What is asked for of all clients: where it is searched, and the head of its run."""
    federation = every.federation
    _check(federation, every.limits, every.rounds)
    families = choose_families(defences, SEARCHED, budget, "federations")
    searched, fresh = _halve(federation)
    head = new_head(
        "hardened-federation",
        federation.name,
        federation.seed,
        {"recipe": repr(federation.recipe), "defences": list(families)},
        challenge=digest(
            f"{federation.header}\0{every.limits}\0"
            f"{(every.rounds, budget, every.candidates, families)}",
            *(array for part in (every.test, every.reference) for array in (part.x, part.y)),
        ),
        facts=FederationSearchFacts(
            limits=every.limits,
            rounds=every.rounds,
            budget=budget,
            searched=len(searched.clients),
            fresh=len(fresh.clients),
        ),
    )
    bench = FederationBench(
        searched=replace(every, federation=searched),
        fresh=replace(every, federation=fresh, attacks=LAST),
        families=families,
        epochs=federation.recipe.epochs if federation.rule == "fedavg" else 1,
        budget=budget,
        seed=federation.seed,
    )
    return bench, head


def _check(federation: Federation, limits: FederationLimits, rounds: int) -> None:
    if limits.interactions is not None:
        raise SpecError(
            "expected limits on class_shares or which_client, got one on interactions: clients "
            "who train on records have none; divulge.harden_ranker searches for rankers"
        )
    if federation.defence.name != "none":
        raise SpecError(
            f"expected a federation without a defence, got {federation.defence!r}: name it in "
            "defences instead"
        )
    if federation.trainer is not None or federation.canaries is not None:
        raise SpecError(
            "expected a federation without a trainer of its own and without canaries, got one: "
            "its clients are trained by the recipe, with the local epochs that are tried"
        )
    if len(federation.clients) < _FEWEST_CLIENTS:
        raise SpecError(
            f"expected {_FEWEST_CLIENTS} clients or more, got {len(federation.clients)}: half of "
            "them are kept for the last simulation, and intervals are over clients"
        )
    if rounds > _MOST_ROUNDS:
        raise SpecError(
            f"expected at most {_MOST_ROUNDS} rounds, got {rounds}: each simulation is held in "
            "memory whole"
        )


def _halve(federation: Federation) -> tuple[Federation, Federation]:
    """The federation of the search, and that of the fresh clients."""
    order = stream(federation.seed, "fresh clients").permutation(len(federation.clients))
    middle = len(order) // 2
    searched, fresh = (
        replace(federation, clients=[federation.clients[k] for k in sorted(part)])
        for part in (order[:middle], order[middle:])
    )
    return searched, fresh
