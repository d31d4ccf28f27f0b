"""Attacks on what clients acted on, on updates of shuffled clicks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from divulge._util.progress import Track, track_silently
from divulge._util.random import stream
from divulge.core import (
    BlindRun,
    ControlOutcome,
    InteractionAttack,
    InteractionFacts,
    Interactions,
    Reconstruction,
    UpdateView,
)
from divulge.metrics import conditional, interactions
from divulge.metrics.membership import auc
from divulge.metrics.permutation import signs_p
from divulge.metrics.uninformed import interactions as uninformed
from divulge.secrets.base import FederatedSecret
from divulge.secrets.blind import replay
from divulge.secrets.controls import judge_p, not_tested, too_few_clients

FEWEST_ACTING = 16
"""Clients below which no draw of signs is as rare: 2¹³ is less than 10,000, with some room."""


def control_on_interactions(
    views: Sequence[UpdateView],
    secret: FederatedSecret[InteractionFacts, Any],
    attack: InteractionAttack,
    seed: int,
    track: Track[Any] = track_silently,
) -> tuple[BlindRun | None, Float64[np.ndarray, " clients"] | None]:
    """An attack on updates of shuffled clicks, and by client its AUC against the real clicks.

    The AUC is 0.5 where a client has none; without shuffled clicks there are none at all.
    Where updates cannot be made of shuffled clicks, the attack is not tested, with the reason.
    With few clients it cannot fail, but the verdict needs what it achieves there.
    """
    truths = secret.facts.truth
    if truths is None:
        return None, None
    mixed = sum(map(interactions.is_mixed, truths))
    if not mixed:
        why = "no client acted on some of its items and left others alone"
        return not_tested(why), None
    if mixed < uninformed.FEWEST:
        return too_few_clients(mixed), None
    try:
        moved = replay.replay_updates(views, truths, seed)
    except Exception as error:  # the learner is the user's own code
        return not_tested(str(error) or type(error).__name__), None
    finding, guesses, _ = secret.attempt(moved, attack, seed, track)
    if guesses is None:
        return BlindRun(None, None, ControlOutcome.FAILED, finding.reason), None
    aucs = np.array([
        auc(guess.score, truth.acted).value if interactions.is_mixed(truth) else 0.5
        for guess, truth in zip(guesses, truths, strict=True)
    ])  # fmt: skip
    run = judge_clicks(guesses, truths, views, seed)
    return run if mixed >= FEWEST_ACTING else too_few_clients(mixed), aucs


def judge_clicks(
    guesses: Sequence[Reconstruction],
    truths: Sequence[Interactions],
    views: Sequence[UpdateView],
    seed: int,
) -> BlindRun:
    """Guesses on updates of shuffled clicks, held against what each client really acted on.

    A guess may follow features that clicks follow too. So what counts is the correlation that
    these leave. p is the chance that the correlations of all clients sum up as high where
    each is as likely with the other sign: tastes that make the clicks of one client depend on each
    other do not matter, as each client counts as one.
    """
    correlation = correlate_beyond_public(guesses, truths, views, seed)
    p_value = signs_p(correlation, stream(seed, "blind control"))
    telling = int(np.count_nonzero(correlation))
    few = "" if telling >= FEWEST_ACTING else too_few_clients(telling).reason
    measured = interactions.measure(guesses, truths).metrics["auc"]
    return judge_p(measured, p_value, few)


def correlate_beyond_public(
    guesses: Sequence[Reconstruction],
    truths: Sequence[Interactions],
    views: Sequence[UpdateView],
    seed: int,
) -> Float64[np.ndarray, " clients"]:
    """By client, the correlation of guess and clicks that is left by what is no secret.

    Both are regressed on `replay.public_features`, by the slopes of the other clients. Clients who
    acted on all items or on none are left out of that, and have 0.
    """
    correlation = np.zeros(len(truths))
    mixed = [k for k, truth in enumerate(truths) if interactions.is_mixed(truth)]
    if mixed:
        acted = [truths[k] for k in mixed]
        correlation[mixed] = conditional.partial_correlations(
            [guesses[k].score for k in mixed],
            [truth.acted for truth in acted],
            replay.public_features([views[k] for k in mixed], acted, seed),
        )
    return correlation
