"""Manipulate item features so that updates reveal more (adversarial data manipulation)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from divulge._util.arguments import Seed, check_arguments
from divulge._util.norms import euclidean_norm
from divulge.core import ReceivedUpdate, Round
from divulge.errors import NotApplicable, SpecError

Features = Float[np.ndarray, "items features"]
Noise = TypeVar("Noise", bound=Any)
"""Any dataclass with a field ``scale``."""


@check_arguments
@dataclass(frozen=True, slots=True)
class NoiseInjection:
    """Replaces features by Gaussian noise of mean 0.

    Items differ more from each other in noise than in real features, so that each leaves a trace
    of its own in an update.

    Args:
        scale: standard deviation of the noise.
        share: share of the features that are replaced, chosen once at random; the rest stay.
        budget: largest change of an item, in the L2 norm of its features; larger changes are
            scaled down to it. Infinity is no limit.
        seed: seed of the choice of features.

    Raises:
        SpecError: a setting makes no sense.

    References:
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, sections III-C2 and IV-C.
    """

    scale: float = 0.1
    share: float = 1.0
    budget: float = math.inf
    seed: Seed = 0

    def __post_init__(self) -> None:
        if not (self.scale > 0 and 0 <= self.share <= 1 and self.budget >= 0):
            raise SpecError(
                f"expected a scale above 0, a share from 0 to 1 and a budget from 0, got {self}"
            )

    def __call__(self, x: Features, rng: np.random.Generator) -> Features:
        """Features to show, in place of the real ones."""
        many = x.shape[1]
        order = np.random.default_rng(self.seed).permutation(many)
        chosen = order[: round(self.share * many)]
        shaped = x.copy()
        shaped[:, chosen] = rng.normal(0.0, self.scale, (len(x), len(chosen)))
        if self.budget == math.inf:
            return shaped
        moved = shaped - x
        length = euclidean_norm(moved, axis=1)[:, None]  # does not overflow for large features
        near: Features = x + moved * np.minimum(1.0, self.budget / np.maximum(length, 1e-300))
        return near


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Gives each target user features of its own: all others see 0 there.

    A weight that is in touch with a feature which is 0 for a user gets no update from that user.
    So what secure aggregation sums up holds, in the weights of a target's features, that target's
    update alone. Features that belong to nobody are left to the users who are no targets.

    Args:
        owner: owner of each feature: the number of a target from 0, or -1 for nobody.

    Raises:
        SpecError: a number is below -1, or there is no target.

    References:
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, sections III-C1, VII-B and VII-C.
    """

    owner: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.owner or min(self.owner) < -1 or max(self.owner) < 0:
            raise SpecError("expected an owner from -1 of each feature, and a target, got neither")

    def features(self, target: int | None) -> Bool[np.ndarray, " features"]:
        """Mask of the features that a target sees; for None, of those that everybody else sees."""
        own: Bool[np.ndarray, " features"] = np.equal(self.owner, -1 if target is None else target)
        return own

    def __call__(self, x: Features, target: int | None) -> Features:
        """Features to show to a target; for None, to everybody else."""
        return np.where(self.features(target), x, 0.0)


def divide_features(targets: int, features: int) -> Fingerprint:
    """Divide all features among targets in equal parts; a remainder belongs to nobody.

    Raises:
        SpecError: there are more targets than features.

    Examples:
        >>> divide_features(2, 5).owner
        (0, 0, 1, 1, -1)
    """
    if not 1 <= targets <= features:
        raise SpecError(f"expected 1 to {features} targets, got {targets}: a feature each at least")
    each = features // targets
    owner = [feature // each if feature // each < targets else -1 for feature in range(features)]
    return Fingerprint(tuple(owner))


def isolate_target(
    summed: Round, share: float, fingerprint: Fingerprint, target: int, victim: str
) -> Round:
    """Isolate a target's update from a secure sum, as a round that holds this update alone.

    Tensors whose last axis are the features are in touch with them: there the target's features
    hold its update, and others hold nothing of it. Other tensors mix all users, and are left out,
    unless all features are the target's, so that nobody else has an update at all.

    Args:
        summed: round of which the server has the sum.
        share: weight of the target's update in the sum.
        fingerprint: manipulation of the features that all users were shown.
        target: number of the target in the fingerprint.
        victim: name of the target's client.

    Raises:
        NotApplicable: the round has no sum.
    """
    if summed.masked is None:
        raise NotApplicable("expected a round with a secure sum, got updates: attack those")
    mine = fingerprint.features(target)
    own = {
        name: np.where(mine, total, 0.0) / share
        for name, total in summed.masked.tensors.items()
        if total.ndim == 2 and total.shape[1] == len(mine)
    }
    if mine.all():
        own = {name: total / share for name, total in summed.masked.tensors.items()}
    return replace(summed, received={victim: ReceivedUpdate(own, None)}, masked=None)


def search_scale(scales: Sequence[float], success: Callable[[Noise], float], like: Noise) -> Noise:
    """Find the scale of noise with which simulated attacks on the server's own data do best.

    Args:
        scales: scales to try; the first of equally good ones is taken.
        success: function from a manipulation to the success of attacks on simulated users, such
            as their mean AUC.
        like: manipulation with the other settings: a `NoiseInjection`, or a `pixels.PixelNoise`.

    Raises:
        SpecError: there is nothing to try.

    References:
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, section IV-C.
    """
    if not scales:
        raise SpecError("expected scales to try, got none: give a few, such as 0.01, 0.1 and 1")
    return max((replace(like, scale=scale) for scale in scales), key=success)


def was_retrieved(
    update: Float[np.ndarray, "units features"], feature: int, noise: float = 0.0
) -> bool:
    """Whether a user trained on an item that alone has a value other than 0 in a feature.

    This is how a fingerprint defeats private information retrieval: the server never sees what
    was fetched, but weights in touch with the feature move if and only if the item was.

    Args:
        update: change of the weights next to the features, shape (units, features).
        feature: number of the feature in which all other items are 0.
        noise: standard deviation of noise in the update; the weights must exceed what noise alone
            does in one case of 20.

    References:
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, section VII-C.
    """
    moved = update[:, feature]
    if noise == 0:
        return bool(np.any(moved != 0))
    from scipy.stats import chi2

    return bool((moved**2).sum() > noise**2 * chi2.isf(0.05, len(moved)))
