"""Quality: interactions of a recommender's users by comparing their models with each other."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks import data
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.core import Game, Interactions, UpdateDefence, UpdateView
from divulge.data import interactions
from divulge.metrics import interactions as metrics
from divulge.metrics import intervals
from divulge.secrets import attempt

SUMMARY = "interactions by comparing users' models, and who likes the same items"

UserGame = Game[UpdateView, Interactions]

LOGS = {
    "ml-100k": (interactions.movielens_100k, "ml-100k/u.data.xz"),
    "steam-200k": (interactions.steam_200k, "steam-200k/steam-200k.csv.xz"),
}

FEDERATIONS: dict[str, tuple[dict[str, Any], bool]] = {
    "no defence": ({}, False),
    "shares less": ({}, True),
    "L1 defence": ({"l1": 1.0}, False),
}
"""Settings of the clients' training, and whether they send item embeddings alone."""

COMMUNITIES: tuple[dict[str, Any], ...] = ({}, {"relevance": "logit", "users": 16})

ATTACKS: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("community-inference", settings) for settings in COMMUNITIES),
    ("random-interactions", {}),
    ("raifle", {}),
)
"""The last one, which has tables of its own under defences, runs without one alone."""


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (like every benchmark)
    """Print means over federations of 20 users, with Student's intervals.

    Raises:
        MissingData: the interactions are not there.
    """
    import torch

    torch.set_num_threads(1)
    seeds = range(2 if quick else 5)
    for kind in FEDERATIONS:
        games = [_users(name, kind, seed, 10 if quick else 20) for seed in seeds]
        print(f"\n{name}, {kind}: {len(games)} federations of {len(games[0])} users")
        print("| attack | AUC | F1 |\n| --- | --- | --- |")
        for attack, settings in ATTACKS[: 3 if FEDERATIONS[kind] != ({}, False) else None]:
            auc, f1 = _items(games, attack, settings)
            label = " ".join((attack, *map(str, settings.values())))
            print(f"| {label} | {_mean(auc)} | {_mean(f1)} |", flush=True)
        for settings in COMMUNITIES:
            right = [find_communities(game, settings, k) for k, game in enumerate(games)]
            print(f"five nearest users, {settings}: {_mean(right)}", flush=True)
        print(f"five nearest users, at random: {5 / (len(games[0]) - 1):.3f}")


def _mean(figures: Sequence[float]) -> str:
    low, high = intervals.student_mean(figures)
    return f"{np.mean(figures):.3f} ({low:.3f} to {high:.3f})"


def _users(name: str, kind: str, seed: int, many: int) -> list[UserGame]:
    from divulge.federation.recommender.model import NeuralCF
    from divulge.federation.recommender.users import Recommending

    read, file = LOGS[name]
    log = read(data.file(file))
    settings, less = FEDERATIONS[kind]
    world = Recommending(log, NeuralCF(**settings), embeddings_only=less, seed=seed)
    users = stream(seed, "communities", name).permutation(log.users)[:many]
    return list(world.challenges(users.tolist(), UpdateDefence()))


def _items(
    games: Sequence[Sequence[UserGame]], name: str, settings: dict[str, Any]
) -> tuple[list[float], list[float]]:
    """AUC and F1 of each federation, means over its users."""
    auc, f1 = [], []
    for seed, users in enumerate(games):
        attack = catalog.interaction_attack(name, **settings)
        measure = partial(metrics.measure, truths=[game.truth for game in users])
        views = [game.view for game in users]
        finding = attempt.run_on_clients(views, measure, attack, seed).finding
        auc.append(finding.metrics["auc"].value)
        f1.append(finding.metrics["f1"].value)
    return auc, f1


def find_communities(
    users: Sequence[UserGame], settings: dict[str, Any], seed: int, size: int = 5
) -> float:
    """Share of the users with the most alike interactions that are found by what one acted on.

    Likeness is the Jaccard index. The user whose interactions are looked for is no answer.
    """
    from divulge.attacks import CommunityInference

    attack = CommunityInference(**settings)
    relevance, shown = attack.compare([g.view for g in users], np.random.default_rng(seed))
    acted = [
        set(items[game.truth.acted].tolist())
        for items, game in zip(shown.of_each, users, strict=True)
    ]
    right = []
    for u, wanted in enumerate(acted):
        mean_relevance = relevance[:, sorted(wanted)].mean(axis=1)
        alike = np.array([len(wanted & other) / len(wanted | other) for other in acted])
        mean_relevance[u] = alike[u] = -1
        nearest = (
            set(np.argsort(-score, kind="stable")[:size]) for score in (mean_relevance, alike)
        )
        right.append(len(set.intersection(*nearest)) / size)
    return float(np.mean(right))
