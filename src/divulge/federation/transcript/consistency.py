"""Hold what clients sent against the weights that the server had before and afterwards.

Updates with the other sign, weights in place of updates and updates in place of weights are all
finite numbers of the right shape. Attacks read nothing from them, and no leak would be found.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from divulge.core import Round, Rounds, Tensors
from divulge.errors import DataError

_SAME_WAY, _ALONG = 0.5, 0.9
"""Cosine from which two changes go the same way, and from which one explains the other."""

_EXACT, _SCALE = 0.999, 0.1
"""Cosine from which a server averaged alone, and by how much its step may then be longer."""

_SHORT = 0.5
"""Share of the length of weights below which others are no later weights of the same network."""


class _Sums(NamedTuple):
    """Inner products of what clients sent on average, less the weights sent or not, and others."""

    sent: float
    mean: float
    mean_sent: float
    step: float
    mean_step: float
    change: float
    change_step: float


def refuse_misread_updates(rounds: Rounds, rule: str = "") -> None:
    """Refuse what clients sent where it contradicts the kind that the transcript declares.

    Whatever a server makes of updates, its weights move with their mean and not against it; a
    server that only averages moves by the mean itself. The first round that fits ends the search.
    Without later weights, weights are told from updates by how near they are to those sent.

    Args:
        rounds: all rounds of a federation.
        rule: the server's aggregation rule, as the transcript names it.

    Raises:
        DataError: in every round that tells, what clients sent goes along the server's step under
            another kind or sign, and not under the declared one; or the server averages, and its
            steps are of another length than the mean update.
    """
    reason, contradictory = "", 0
    for position, played in enumerate(rounds):
        following = played.aggregated
        if following is None and position + 1 < len(rounds):
            following = rounds[position + 1].sent
        explained = explain_misread(played, following)
        if explained is None:
            continue
        if not explained:
            _check_length(played, following, rule)
            return
        reason, contradictory = explained, contradictory + 1
    if reason:
        raise DataError(
            f"expected from clients what leads from the weights that they were sent to later ones, "
            f"got the contrary in {contradictory} of {len(rounds)} rounds, and in no round the "
            f"right: {reason}"
        )


def explain_misread(played: Round, following: Tensors | None) -> str | None:
    """Why what clients sent is of another kind; empty where it is not, None if nothing tells.

    Args:
        played: a round.
        following: the weights after it; None if they are not known.
    """
    sums = _sum_up(played, following)
    if sums is None:
        return None
    update = _cosine(sums.mean_step, sums.mean, sums.step)
    weights = _cosine(sums.change_step, sums.change, sums.step)
    declared = {"update": update, "weights": weights, "gradient": -update}[played.kind]
    if declared >= _SAME_WAY:
        return ""
    near = _cosine(sums.mean_sent, sums.mean, sums.sent)
    if sums.step == 0:  # no later weights are known, or the server took nothing
        short = math.sqrt(sums.mean) < _SHORT * math.sqrt(sums.sent)
        update, weights = float(short and near < _SAME_WAY), float(not short and near > _ALONG)
    elif near < _SAME_WAY or sums.change > sums.step / _SHORT**2:
        weights = 0.0  # a server that shrinks its weights goes along less than these, too
    if played.kind != "weights" and weights > _ALONG:
        return 'they look like whole weights, so declare them as kind "weights"'
    if played.kind == "weights" and update > _ALONG:
        return 'they look like differences, so declare them as kind "update"'
    if declared < -_ALONG:
        return (
            'they look like new weights less those sent, so declare them as kind "update"'
            if played.kind == "gradient"
            else "they have the other sign, so write new weights less those sent, or declare "
            'gradients as kind "gradient"'
        )
    return None


def _check_length(played: Round, following: Tensors | None, rule: str) -> None:
    """Refuse updates that a server cannot have averaged, since its step has another length."""
    sums = _sum_up(played, following)
    if sums is None or rule.lower() != "fedavg" or played.kind == "gradient":
        return
    mean, product = (
        (sums.mean, sums.mean_step) if played.kind == "update" else (sums.change, sums.change_step)
    )
    times = math.sqrt(mean / sums.step)
    if _cosine(product, mean, sums.step) > _EXACT and abs(math.log(times)) > math.log1p(_SCALE):
        raise DataError(
            f"expected updates whose mean is the step of the server, which averages them ({rule}), "
            f"got a mean {times:.3g} times as long in round {played.number}: write new weights "
            "less those sent, not multiplied, or name the rule by which the server scales its steps"
        )


def _sum_up(played: Round, following: Tensors | None) -> _Sums | None:
    """The inner products over all tensors; None if no own update arrived, or one is not finite."""
    total = np.zeros(len(_Sums._fields))
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is said elsewhere
        for sent, mean, after in _means(played, following):
            step, change = after - sent, mean - sent
            pairs = [(sent, sent), (mean, mean), (mean, sent), (step, step), (mean, step)]
            pairs += [(change, change), (change, step)]
            total += [np.dot(a.ravel(), b.ravel()) for a, b in pairs]
    return _Sums(*total.tolist()) if total.any() and np.isfinite(total).all() else None


def _means(
    played: Round, following: Tensors | None
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Each tensor as sent, its mean over clients, and afterwards; as sent if nothing is known."""
    got = list(played.received.values())
    claims = [update.records or 0 for update in got]
    shares = claims if min(claims, default=0) > 0 else [1] * len(got)
    for name in got[0].tensors if got else ():
        if played.sent[name].dtype.kind != "f":
            continue
        sent = played.sent[name].astype(np.float64)
        mean = np.zeros_like(sent)
        for update, share in zip(got, shares, strict=True):
            mean += share / sum(shares) * update.tensors[name]
        known = following is not None and name in following
        yield sent, mean, following[name].astype(np.float64) if known and following else sent


def _cosine(product: float, square: float, other: float) -> float:
    """The cosine of two arrays, by their product and squares; 0 where one of them is zero."""
    return product / math.sqrt(square * other) if square > 0 and other > 0 else 0.0
