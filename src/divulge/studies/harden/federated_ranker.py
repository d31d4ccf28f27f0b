"""Search for the best ranker whose server learns no more than allowed of its users' clicks.

The search sees one half of the queries that users ask. The setting that it chooses is then run with
the others, under another seed, and attacked afresh.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from divulge._util.arguments import Count, CountFromZero, Seed, Title, check_arguments
from divulge._util.digest import digest
from divulge._util.folders import numbered_folder
from divulge._util.hints import shorten
from divulge._util.progress import Progress, as_track
from divulge._util.random import stream
from divulge.attacks import catalog as attacks
from divulge.audits.options import RunPath
from divulge.core import Estimate, Head, Measurements, Reconstruction, Status
from divulge.data.ranking import Queries, ndcg
from divulge.errors import DataError, SpecError
from divulge.federation import from_config
from divulge.federation.config import FederationSearchSpec, FederationSpec
from divulge.finished_runs.run_json import new_head
from divulge.metrics import interactions, intervals
from divulge.secrets import attempt
from divulge.studies.harden.federated_bench import FederationBench, choose_families
from divulge.studies.harden.federated_limits import (
    FederationLimits,
    FederationTrial,
    FederationVariant,
)
from divulge.studies.harden.federated_result import FederationSearchFacts, HardenedFederation
from divulge.studies.harden.search import run_search
from divulge.training.trainers import trainer_identity

if TYPE_CHECKING:
    from divulge.federation.search.users import Searching

USUAL = ("none", "top-k", "sign", "local-noise", "dp-fedavg")
"""Update defences that are tried."""
_VICTIMS = 30
"""Users who are attacked in each simulation."""


@dataclass(frozen=True, slots=True)
class RankerDesign:
    """How each setting is simulated, attacked and judged."""

    world: "Searching"
    limits: FederationLimits
    test: Queries
    hidden: int
    asked: int
    users: int

    def run(self, setting: FederationVariant, seed: int) -> FederationTrial:
        """Train the ranker by one pass over the queries, and attack some users of its first round.

        Raises:
            DivulgeError: it cannot be simulated, or the attack cannot be run.
        """
        import torch

        from divulge.federation.search import models

        generator = torch.Generator().manual_seed(int(stream(seed, "ranker").integers(2**62)))
        features = self.world.queries.x.shape[1]
        weights = models.ranker(features, self.hidden, generator)
        defence = setting.build()
        trained = self.world.train(weights, defence, stream(seed, "training"), self.users)
        score = models.score(trained, torch.from_numpy(self.test.x)).numpy()
        each = [ndcg(score[part], self.test.relevance[part]) for part in self.test.of_each()]
        games = [
            self.world.challenge(weights, self.asked, defence, stream(seed, "user", k))
            for k in range(_VICTIMS)
        ]

        def measure(guesses: Sequence[Reconstruction]) -> Measurements:
            estimates = [
                interactions.measure_user(guess, game.truth).auc
                for guess, game in zip(guesses, games, strict=True)
                if 0 < game.truth.acted.sum() < len(game.truth.acted)
            ]
            return Measurements({"auc": _mean(estimates)}, {})

        done = attempt.run_on_clients(
            [game.view for game in games], measure, attacks.interaction_attack("raifle"), seed
        ).finding
        if done.status is not Status.DONE:
            raise DataError(f"expected {done.label} to end, it did not: {done.reason}")
        return FederationTrial(setting, _mean(each), {"interactions": done.metrics["auc"]})


def _mean(values: Sequence[float]) -> Estimate:
    """With an interval over users, or over queries."""
    return Estimate(float(np.mean(values)), *intervals.bounded_mean(values))


@check_arguments
def harden_ranker(
    world: "Searching",
    test: Queries,
    *,
    limits: FederationLimits,
    name: Title = "ranker",
    seed: Seed = 0,
    hidden: CountFromZero = 0,
    asked: Count = 4,
    users: Count = 100,
    budget: Count = 20,
    defences: Sequence[str] = USUAL,
    run: RunPath = None,
    resume: bool = False,
    progress: Progress = False,
) -> HardenedFederation:
    """Search for the best ranker within a limit on what its server learns of users' clicks.

    Update defences and their settings are tried. Each ranker is trained by one pass over the
    queries, and RAIFLE reconstructs the clicks of 30 users of a first round.

    Args:
        world: the queries, and how users click and train.
        test: judged queries of nobody, for NDCG@10.
        limits: on ``interactions`` alone.
        name: of the run.
        seed: fixes every random choice.
        hidden: hidden units of the ranker; 0 is a linear ranker.
        asked: queries of each user who is attacked.
        users: users whose updates are averaged in a round.
        budget: how many rankers are simulated at most, the last one included.
        defences: the update defences to try; ``"none"`` is always among them.
        run: the run folder, written as the work goes on; a new one in ``runs/`` unless given.
        resume: continue the run folder; it ends as if it had never stopped.
        progress: True shows how far the work is; see `divulge.Options`.

    Returns:
        All that was tried, and the chosen setting with queries that the search never saw.

    Raises:
        MissingExtra: Optuna or PyTorch is not installed.
        SpecError: a defence does not exist, there are other limits, or too few queries.
        StoreError: the run folder is in use, or belongs to another search.
        DivulgeError: the undefended ranker cannot be simulated or attacked.
    """
    every = RankerDesign(world, limits, test, hidden, asked, users)
    bench, head = _design(every, name, seed, budget, defences)
    path = numbered_folder(Path("runs") / "ranker") if run is None else Path(run)
    return run_search(bench, head, path, as_track(progress), resume=resume)


def ranker_from_config(
    settings: FederationSpec, search: FederationSearchSpec, limits: FederationLimits, path: Path
) -> tuple[FederationBench, Head[FederationSearchFacts]]:
    """What ``[harden]`` of a ``federate.toml`` with ``[ranker]`` asks for.

    Raises:
        SpecError: it names no test queries.
        DivulgeError: a file, a name in it, or what it holds is not what was expected.
    """
    if search.test is None:
        raise SpecError(
            "expected test in [harden] beside [ranker], it is missing: judged queries of nobody, "
            "for NDCG@10"
        )
    from divulge.federation.item_federation import SearchUsers

    crowd = from_config.load_item_federation(settings, path.parent).crowd
    assert isinstance(crowd, SearchUsers)
    assert settings.ranker is not None
    ranker = settings.ranker
    test = from_config.load_named(search.test, Queries, path.parent)
    return _design(
        RankerDesign(crowd.world, limits, test, ranker.hidden, ranker.asked, ranker.users),
        settings.name,
        settings.seed,
        search.budget,
        USUAL if search.defences is None else search.defences,
    )


def _design(
    every: RankerDesign, name: str, seed: int, budget: int, defences: Sequence[str]
) -> tuple[FederationBench, Head[FederationSearchFacts]]:
    """What is asked for of all queries: where it is searched, and the head of its run."""
    world, test = every.world, every.test
    _check(world, test, every.limits)
    families = choose_families(defences, USUAL, budget, "rankers")
    order = stream(seed, "fresh queries").permutation(world.queries.count)
    middle = len(order) // 2
    searched, fresh = (
        replace(every, world=replace(world, queries=world.queries.take(np.sort(part))))
        for part in (order[:middle], order[middle:])
    )
    sizes = {"hidden": every.hidden, "asked": every.asked, "users": every.users}
    # a function by its source: its address is another in each process
    how = (world.clicks, world.shown, world.lr, trainer_identity(world.manipulate), sizes)
    head = new_head(
        "hardened-federation",
        name,
        seed,
        {**sizes, "defences": list(families)},
        challenge=digest(
            f"{how}\0{every.limits}\0{(budget, families, seed)}",
            *(a for part in (world.queries, test) for a in (part.x, part.relevance, part.query)),
        ),
        facts=FederationSearchFacts(
            limits=every.limits,
            rounds=1,
            budget=budget,
            searched=searched.world.queries.count,
            fresh=fresh.world.queries.count,
        ),
    )
    return FederationBench(searched, fresh, families, None, budget, seed), head


def _check(world: "Searching", test: Queries, limits: FederationLimits) -> None:
    from divulge.federation.search.users import Searching

    if not isinstance(world, Searching):
        raise SpecError(
            f"expected world of harden_ranker to be a Searching, got {shorten(world)}: pass "
            "Searching(queries, clicks) of divulge.federation"
        )
    queries = world.queries
    if set(limits.given) != {"interactions"}:
        raise SpecError(
            f"expected a limit on interactions alone, got {', '.join(limits.given)}: users of a "
            "ranker have no other secret here"
        )
    if queries.count < 2 or test.x.shape[1] != queries.x.shape[1]:
        raise SpecError(
            f"expected two queries or more, and test queries with {queries.x.shape[1]} features, "
            f"got {queries.count} and {test.x.shape[1]}: half of the queries are kept for the end"
        )
