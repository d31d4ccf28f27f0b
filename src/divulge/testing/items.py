"""Small worlds of items handed out, of which it is known what users acted on."""

import dataclasses
from functools import cache

import numpy as np
import torch

from divulge.core import Game, Interactions, UpdateDefence, UpdateView
from divulge.data import interactions, ranking
from divulge.federation import client_challenge
from divulge.federation.recommender.model import NeuralCF
from divulge.federation.recommender.users import Recommending
from divulge.federation.search import click_models, models
from divulge.federation.search.pointwise import Pointwise
from divulge.federation.search.users import Searching

UserGame = Game[UpdateView, Interactions]
NONE = UpdateDefence()
DEEP = NeuralCF(width=16, hidden=(32, 16))


def pointwise(
    items: int,
    features: int,
    hidden: int,
    seed: int,
    epochs: int = 1,
    defence: UpdateDefence = NONE,
) -> UserGame:
    """A user who scores items with a ranker of their own."""
    rng = np.random.default_rng(seed)
    weights = models.ranker(features, hidden, torch.Generator().manual_seed(seed))
    x, acted = rng.normal(size=(items, features)), rng.permutation(np.arange(items) < items // 2)
    learner = Pointwise(epochs, lr=0.01)
    change = learner.update(weights, torch.from_numpy(x), torch.from_numpy(acted).double())
    return client_challenge.make_challenge(weights, x, acted, change, learner, defence, seed)


@cache
def recommended(
    l1: float = 0.0,
    users: int = 8,
    learner: NeuralCF = DEEP,
    seed: int = 0,
) -> tuple[UserGame, ...]:
    """Users of a recommender."""
    log = interactions.synthetic_interactions(users, 60, np.random.default_rng(seed), mean=6.0)
    world = Recommending(log, dataclasses.replace(learner, l1=l1), seed=seed)
    return tuple(world.challenges(range(users), NONE))


def searched(queries: int, hidden: int, seed: int, defence: UpdateDefence = NONE) -> UserGame:
    """A user of a search engine that hands out noise."""
    world = Searching(
        ranking.synthetic_queries(30, 20, np.random.default_rng(0)),
        click_models.published_click_model("informational", 3),
        manipulate=lambda x, rng: rng.normal(0, 0.1, x.shape),
    )
    weights = models.ranker(20, hidden, torch.Generator().manual_seed(seed))
    return world.challenge(weights, queries, defence, np.random.default_rng(seed))
