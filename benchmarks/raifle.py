"""Interactions from updates: our way beside the published optimisation, in CPU seconds a user."""

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.timing import Outcome, Timing, environment
from divulge.core import Game, Interactions, UpdateDefence, UpdateView
from divulge.data import interactions, ranking
from divulge.metrics import interactions as metrics

if TYPE_CHECKING:
    from divulge.attacks.interactions.raifle.attack import RAIFLE

SUMMARY = "RAIFLE on recommenders and rankers beside the published optimisation"

UserGame = Game[UpdateView, Interactions]


class Measured(NamedTuple):
    """What one way found about some users, and what it cost."""

    name: str
    figures: Sequence[metrics.UserMetrics]
    seconds: Sequence[float]
    """CPU seconds of each user."""

    def line(self) -> str:
        """Mean AUC and F1 with intervals over users, and the cost."""
        auc, f1 = (
            metrics.mean_over_users([getattr(one, name) for one in self.figures])
            for name in ("auc", "f1")
        )
        return (
            f"{self.name:44}{len(self.figures):6d}"
            f"{auc.value:8.3f} ({auc.low:.3f}-{auc.high:.3f})"
            f"{f1.value:8.3f} ({f1.low:.3f}-{f1.high:.3f})"
            f"{np.mean(self.seconds):12.4f}"
        )


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Print recommenders and rankers; the verdict is that of recommenders.

    Raises:
        MissingData: there is no MovieLens-100K or MQ2008.
    """
    import torch

    torch.set_num_threads(1)
    print(environment(("divulge", "torch", "numpy")))
    print("one thread; CPU seconds a user, of the attack alone, on views that are ready")
    heading = f"{'':44}{'users':>6}{'AUC':>22}{'F1':>22}{'CPU s a user':>12}"
    print(f"\nFNCF on MovieLens-100K\n{heading}")
    outcome = _recommender(quick)
    print(f"\nFPDGD on MQ2008, informational clicks\n{heading}")
    _search(quick)
    return outcome


def _recommender(quick: bool) -> Outcome:  # noqa: FBT001
    from divulge.attacks.interactions.raifle.attack import RAIFLE
    from divulge.federation.recommender.model import NeuralCF
    from divulge.federation.recommender.users import Recommending

    log = interactions.movielens_100k(data.file("ml-100k/u.data.xz"))
    world = Recommending(log, NeuralCF(), embeddings_only=True)
    users = np.random.default_rng(0).permutation(log.users)
    everybody = range(log.users) if not quick else users[:10].tolist()
    ours = _measured("embedding", RAIFLE(), world.challenges(everybody, UpdateDefence()))
    print(ours.line(), flush=True)
    # the published way costs minutes a user: one, the same for both
    games = list(world.challenges(users[:1].tolist(), UpdateDefence()))
    same = _measured("embedding, the user below", RAIFLE(), games)
    steps = 5 if quick else 1000
    published = RAIFLE("match", steps=steps, rounding="half")
    theirs = _measured(f"match, L-BFGS, {steps} steps at most", published, games)
    print(f"{same.line()}\n{theirs.line()}", flush=True)
    print("ours: the embedding's direction; theirs: the published optimisation, same user")
    return Outcome(
        Timing(same.name, [float(np.mean(same.seconds))]),
        Timing(theirs.name, [float(np.mean(theirs.seconds))]),
    )


def _search(quick: bool) -> None:  # noqa: FBT001
    import torch

    from divulge.attacks.interactions.raifle.attack import RAIFLE
    from divulge.federation.manipulation.features import NoiseInjection
    from divulge.federation.search import click_models, models
    from divulge.federation.search.users import Searching, keep_features

    queries = ranking.read_queries(data.file("letor-mq2008/Fold1-train.txt.xz"))
    model = click_models.published_click_model("informational", 3)
    for hidden in (0, 16):
        for manipulated in (False, True):
            world = Searching(
                queries, model, manipulate=NoiseInjection() if manipulated else keep_features
            )
            for asked in (4,) if quick else (4, 8, 16):
                games = []
                for seed in range(2 if quick else 10):
                    weights = models.ranker(46, hidden, torch.Generator().manual_seed(seed))
                    rng = np.random.default_rng(seed)
                    games.append(world.challenge(weights, asked, UpdateDefence(), rng))
                name = f"{hidden or 'no'} hidden, {asked} queries"
                name += ", noise handed out" if manipulated else ""
                ours = _measured(f"posterior: {name}", RAIFLE(), games)
                few = games[:1]
                same = _measured("", RAIFLE(), few)
                steps = 20 if quick else 1000
                published = RAIFLE("match", steps=steps, rounding="half")
                theirs = _measured(f"match: {name}", published, few)
                ratio = np.mean(theirs.seconds) / np.mean(same.seconds)
                print(f"{ours.line()}\n{theirs.line()}{ratio:8.0f} times", flush=True)


def _measured(name: str, attack: "RAIFLE", games: Iterable[UserGame]) -> Measured:
    figures, seconds = [], []
    for number, game in enumerate(games):
        rng = np.random.default_rng(number)
        begun = time.process_time()
        guess = attack(game.view, rng)
        seconds.append(time.process_time() - begun)
        figures.append(metrics.measure_user(guess, game.truth))
    return Measured(name, figures, seconds)
