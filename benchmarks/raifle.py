"""Interactions from updates: our way beside the published optimisation, in CPU seconds a user."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.timing import Outcome, Timing, environment, verdict
from divulge.core import Game, Interactions, UpdateDefence, UpdateView
from divulge.data import interactions, ranking
from divulge.defences.updates.local_dp import LocalNoise
from divulge.metrics import interactions as metrics

if TYPE_CHECKING:
    from divulge.attacks.interactions.raifle.attack import RAIFLE

SUMMARY = "RAIFLE on recommenders and rankers beside the published optimisation"

UserGame = Game[UpdateView, Interactions]


class Measurement(NamedTuple):
    """What one way found about some users, and what it cost."""

    name: str
    figures: Sequence[metrics.UserMetrics]
    seconds: float
    """CPU seconds a user, of all users together."""

    def line(self) -> str:
        """Mean AUC and F1 with intervals over users, and the cost."""
        auc, f1 = (
            metrics.mean_over_users([getattr(user, name) for user in self.figures])
            for name in ("auc", "f1")
        )
        return (
            f"{self.name:50}{len(self.figures):6d}"
            f"{auc.value:8.3f} ({auc.low:.3f}-{auc.high:.3f})"
            f"{f1.value:8.3f} ({f1.low:.3f}-{f1.high:.3f})"
            f"{self.seconds:14.4f}"
        )


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Print recommenders and rankers; the verdict is that of recommenders.

    Raises:
        MissingData: there is no MovieLens-100K or MQ2008.
    """
    import torch

    torch.set_num_threads(1)
    print(environment(("divulge", "torch", "numpy")))
    print("one thread; CPU seconds a user, of the attack on all of them, on views that are ready")
    heading = f"{'':50}{'users':>6}{'AUC':>22}{'F1':>22}{'CPU s a user':>14}"
    print(f"\nFNCF on MovieLens-100K\n{heading}")
    outcome = _recommender(quick)
    print(f"\nFPDGD on MQ2008, informational clicks\n{heading}")
    _search(quick)
    return outcome


def _recommender(quick: bool) -> Outcome:  # noqa: FBT001
    """All users of one network at once; the published optimisation on a few of them."""
    from divulge.attacks.interactions.raifle.attack import RAIFLE
    from divulge.federation.recommender.model import NeuralCF
    from divulge.federation.recommender.users import Recommending

    log = interactions.movielens_100k(data.file("ml-100k/u.data.xz"))
    world = Recommending(log, NeuralCF(), embeddings_only=True)
    users = np.random.default_rng(0).permutation(log.users)[: 64 if quick else log.users]
    games = list(world.challenges(users.tolist(), UpdateDefence()))
    # by number of items: a quick run takes smaller ones, for whom the ratio is less
    drawn = np.random.default_rng(1).permutation(len(games))[:16].tolist()
    few = [len(games) // 8, len(games) // 4] if quick else drawn
    mine = _measure("embedding", RAIFLE(), games)
    same = mine._replace(name="embedding: of these", figures=[mine.figures[n] for n in few])
    match = RAIFLE("match", rounding="half")
    theirs = _measure("match: of these", match, [games[n] for n in few])
    print(f"{mine.line()}\n{same.line()}")
    outcome = _print_ratio(mine, theirs)
    noisy = list(world.challenges(users.tolist(), LocalNoise(500.0, 1e-8, 0.05)))
    print(_measure("embedding, noise of ε = 500", RAIFLE(), noisy).line(), flush=True)
    return outcome


def _search(quick: bool) -> None:  # noqa: FBT001
    import torch

    from divulge.attacks.interactions.raifle.attack import RAIFLE
    from divulge.federation.manipulation.features import NoiseInjection
    from divulge.federation.search import click_models, models
    from divulge.federation.search.users import Searching, keep_features

    match = RAIFLE("match", rounding="half")
    queries = ranking.read_queries(data.file("letor-mq2008/Fold1-train.txt.xz"))
    model = click_models.published_click_model("informational", 3)
    for hidden in (0, 16):
        for manipulated in (False, True):
            world = Searching(
                queries, model, manipulate=NoiseInjection() if manipulated else keep_features
            )
            for query_count in (4,) if quick else (4, 8, 16):
                games = []
                for seed in range(3 if quick else 10):
                    weights = models.ranker(46, hidden, torch.Generator().manual_seed(seed))
                    rng = np.random.default_rng(seed)
                    games.append(world.challenge(weights, query_count, UpdateDefence(), rng))
                name = f"{hidden or 'no'} hidden, {query_count} queries"
                name += ", noise handed out" if manipulated else ""
                mine = _measure(f"posterior: {name}", RAIFLE(), games)
                print(mine.line(), flush=True)
                outcome = _print_ratio(mine, _measure(f"match: {name}", match, games))
                print(verdict("-".join(["raifle", *name.replace(",", "").split()]), outcome))


def _print_ratio(mine: Measurement, theirs: Measurement) -> Outcome:
    """Print the published way, and how many times our CPU seconds a user it takes."""
    print(f"{theirs.line()}{theirs.seconds / mine.seconds:8.1f} times", flush=True)
    return Outcome(Timing(mine.name, [mine.seconds]), Timing(theirs.name, [theirs.seconds]))


def _measure(name: str, attack: "RAIFLE", games: Sequence[UserGame]) -> Measurement:
    begun = time.process_time()
    guesses = list(attack.many([game.view for game in games], np.random.default_rng(0)))
    seconds = (time.process_time() - begun) / len(games)
    figures = [metrics.measure_user(g, game.truth) for g, game in zip(guesses, games, strict=True)]
    return Measurement(name, figures, seconds)
