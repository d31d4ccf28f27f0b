"""Users who upvote some of the images that they are shown, and learn a ranker from that."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Shaped
from torch import Tensor, from_numpy

from leakscope.core import Challenge, Interactions, UpdateDefence, UpdateView
from leakscope.errors import SpecError
from leakscope.federation import handing_out
from leakscope.federation.ranking import Pointwise

LEARNER = Pointwise(epochs=5, lr=0.01, loss="cross-entropy")


def challenge(
    weights: Mapping[str, Tensor],
    features: Float[np.ndarray, "items features"],
    defence: UpdateDefence,
    rng: np.random.Generator,
    *,
    liked: float = 0.5,
    learner: Pointwise = LEARNER,
) -> Challenge[UpdateView, Interactions]:
    """One user who upvotes each image with the same probability, and trains on all of them.

    Images that were upvoted are drawn again until there are some, and some that were not.

    Args:
        weights: of the ranker.
        features: of the images as the user got them; the server has the same vision model.
        defence: what the update goes through.
        rng: of upvotes and defence.
        liked: the probability.
        learner: how the user trains.

    Raises:
        SpecError: there is no second image, or the probability is not between 0 and 1.

    References:
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, section V-C.
    """
    if not 0 < liked < 1 or len(features) < 2:
        raise SpecError(
            f"expected two images or more and a probability between 0 and 1, got {len(features)} "
            f"and {liked}"
        )
    acted = np.zeros(len(features), bool)
    while acted.all() or not acted.any():
        acted = rng.random(len(features)) < liked
    change = learner.update(weights, from_numpy(features), from_numpy(acted.astype(np.float64)))
    seed = int(rng.integers(2**31))
    return handing_out.challenge(weights, features, acted, change, learner, defence, seed)


def shown(
    features: Float[np.ndarray, "images versions features"], count: int, rng: np.random.Generator
) -> Float[np.ndarray, "items features"]:
    """Features of so many images, each in a version drawn for this user.

    Raises:
        SpecError: there are not so many images.
    """
    images, versions = features.shape[:2]
    if not 1 <= count <= images:
        raise SpecError(f"expected 1 to {images} images, got {count}")
    chosen: Shaped[np.ndarray, " items"] = rng.choice(images, count, replace=False)
    drawn: Float[np.ndarray, "items features"]
    drawn = features[chosen, rng.integers(versions, size=count)]
    return drawn
