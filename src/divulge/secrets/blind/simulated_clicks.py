"""Attack updates of clients who click at random, to learn how good guesses of clicks are."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from divulge._util.progress import Track, track_silently
from divulge._util.random import stream
from divulge.attacks.catalog import UNINFORMED
from divulge.core import InteractionAttack, InteractionFacts, Reconstruction, UpdateView
from divulge.metrics.membership import auc
from divulge.metrics.uninformed.interactions import SimulatedClicks
from divulge.secrets.base import FederatedSecret
from divulge.secrets.blind import replay


def attack_simulated_clicks(
    views: Sequence[UpdateView],
    secret: FederatedSecret[InteractionFacts, Any],
    attack: InteractionAttack,
    guess: Sequence[Reconstruction],
    seed: int,
    track: Track[Any] = track_silently,
) -> SimulatedClicks | None:
    """How an attack does on a simulated twin of each client; None where there are none.

    A twin is shown the same items and clicks as many of them, drawn at random: an attack that
    follows what is popular, and not the update, is right about half of the pairs. It trains as the
    learner says. Without a learner nobody knows how, and there are no twins.

    Args:
        views: one a client.
        secret: runs the attack.
        attack: on the clients.
        guess: of the attack; how many items each client clicked is taken from it.
        seed: of the audit.
        track: shows progress.

    Raises:
        Exception: of the learner, which is the user's own code.
    """
    if attack.name in UNINFORMED or any(view.learner is None for view in views):
        return None
    twins, clicks = [], []
    for view, interactions in zip(views, guess, strict=True):
        rng, items = stream(seed, "simulated clicks", view.victim), len(interactions.decided)
        if items < 2 or view.victim not in view.rounds[0].received:
            return None
        # one click and one item left alone at least, or there is no pair to tell apart
        many = int(np.clip(interactions.decided.sum(), 1, items - 1))
        clicks.append(rng.permutation(np.arange(items) < many))
        twins.append(replay.train_with(view, clicks[-1], rng))
    guesses = secret.attempt(twins, attack, seed, track).guess
    if guesses is None:
        return None
    aucs = [
        auc(interactions.score, real).value
        for interactions, real in zip(guesses, clicks, strict=True)
    ]
    pairs = zip(views, twins, strict=True)
    longer = [np.log(_length(view) / _length(twin)) for view, twin in pairs]
    return SimulatedClicks(np.array(aucs), np.array(longer))


def _length(view: UpdateView) -> float:
    change = view.rounds[0].change(view.victim)
    squares = sum(float((value.astype(np.float64) ** 2).sum()) for value in change.values())
    # an update of zeros is shorter than any other
    return max(float(np.sqrt(squares)), 1e-300)
