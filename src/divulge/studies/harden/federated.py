"""Search for the most accurate federation that gives away no more than allowed about its clients.

The search sees one half of the clients. The setting that it chooses is then run with the others,
under another seed, and attacked afresh.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from divulge._util.arguments import Count, FilePath, check_arguments
from divulge._util.digest import digest
from divulge._util.folders import choose_run_folder, numbered_folder
from divulge._util.progress import Progress, as_track
from divulge._util.random import stream
from divulge.audits.options import RunPath
from divulge.audits.run_folder import describe_environment
from divulge.core import Records
from divulge.data import records
from divulge.data.encoding import share_encoding
from divulge.data.labels import share_classes
from divulge.errors import SpecError, did_you_mean
from divulge.federation import config
from divulge.federation.fedavg import Federation
from divulge.federation.from_config import LOADING, load_federation
from divulge.studies.harden.federated_limits import FederationLimits
from divulge.studies.harden.federated_ranker import USUAL as RANKER_USUAL
from divulge.studies.harden.federated_ranker import harden_ranker, load_ranker
from divulge.studies.harden.federated_result import (
    FederationSearchManifest,
    HardenedFederation,
    begin,
)
from divulge.studies.harden.federated_search import finish, search
from divulge.studies.harden.federated_trial import NamedAttacks, TrialDesign
from divulge.studies.leave_one_out.run import take_folder

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
    _check(federation, limits, defences, budget)
    if rounds > _MOST_ROUNDS:
        raise SpecError(
            f"expected at most {_MOST_ROUNDS} rounds, got {rounds}: each simulation is held in "
            "memory whole"
        )
    families = tuple(dict.fromkeys(("none", *defences)))
    path = numbered_folder(Path("runs") / "federation") if run is None else Path(run)
    halves = _halve(federation)
    plan = FederationSearchManifest(
        name=federation.name,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        challenge=digest(
            f"{federation.header}\0{limits}\0{(rounds, budget, candidates, families)}",
            *(array for one in (test, reference) for array in (one.x, one.y)),
        ),
        seed=federation.seed,
        limits=limits,
        rounds=rounds,
        budget=budget,
        searched=len(halves[0].clients),
        fresh=len(halves[1].clients),
        settings={"recipe": repr(federation.recipe), "defences": list(families)},
        environment=describe_environment(),
        divulge=version("divulge"),
    )
    design = TrialDesign(halves[0], limits, test, reference, rounds, candidates, QUICK)
    epochs = federation.recipe.epochs if federation.rule == "fedavg" else 1
    with take_folder(path, resume=resume):
        plan = begin(path, plan)
        track, seed = as_track(progress), federation.seed
        stored = search(design, families, epochs, budget, seed, path, track)
        last = replace(design, federation=halves[1], attacks=LAST)
        return finish(plan, stored, last, int(stream(seed, "fresh").integers(2**31)), path)


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
    asked, data = settings.harden, settings.data
    if asked is None:
        raise SpecError(
            f"expected [harden] in {path}, it is missing: name reference and class_shares or "
            "which_client there"
        )
    # all that are given: those that do not fit the federation are refused by name
    limits = FederationLimits(asked.class_shares, asked.which_client, asked.interactions)
    if settings.ranker is not None:
        folder = choose_run_folder(run, path, settings.name, resume=resume)
        (world,) = (load_ranker(settings, path.parent) for _ in as_track(progress)([path], LOADING))
        return harden_ranker(
            *world,
            limits=limits,
            name=settings.name,
            seed=settings.seed,
            hidden=settings.ranker.hidden,
            asked=settings.ranker.asked,
            users=settings.ranker.users,
            budget=asked.budget,
            defences=RANKER_USUAL if asked.defences is None else asked.defences,
            run=folder,
            resume=resume,
            progress=progress,
        )
    assert data is not None
    if asked.reference is None:
        raise SpecError(
            f"expected reference in [harden] of {path}, it is missing: records of nobody, which "
            "the attacker has"
        )
    if data.test is None:
        raise SpecError(
            f"expected test in [data] of {path}, it is missing: the search compares the accuracy "
            "of federations on records of nobody"
        )
    folder, track = choose_run_folder(run, path, settings.name, resume=resume), as_track(progress)
    (federation,) = (load_federation(settings, path.parent) for _ in track([path], LOADING))
    further = records.load_record_sets((data.test, asked.reference), data.label, path.parent)
    pool, test, reference = share_classes(share_encoding([federation.pool, *further]))
    return harden_federation(
        replace(federation, pool=pool, evaluate=None),
        limits=limits,
        test=test,
        reference=reference,
        rounds=settings.rounds,
        budget=asked.budget,
        defences=USUAL if asked.defences is None else asked.defences,
        candidates=asked.candidates,
        run=folder,
        resume=resume,
        progress=progress,
    )


def _check(
    federation: Federation, limits: FederationLimits, defences: Sequence[str], budget: int
) -> None:
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
    for name in defences:
        if name not in SEARCHED:
            hint = did_you_mean(name, SEARCHED)
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


def _halve(federation: Federation) -> tuple[Federation, Federation]:
    """The federation of the search, and that of the fresh clients."""
    order = stream(federation.seed, "fresh clients").permutation(len(federation.clients))
    middle = len(order) // 2
    searched, fresh = (
        replace(federation, clients=[federation.clients[k] for k in sorted(part)])
        for part in (order[:middle], order[middle:])
    )
    return searched, fresh
