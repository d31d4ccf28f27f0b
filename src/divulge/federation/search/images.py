"""Simulate users who upvote some of the images that they are shown, and train a ranker."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, from_numpy

from divulge._util.arguments import Count, check_arguments
from divulge.core import Game, Interactions, LocalTraining, Round, UpdateDefence, UpdateView
from divulge.errors import DataError, SpecError
from divulge.federation import client_challenge, server
from divulge.federation.search import models
from divulge.federation.search.pointwise import Pointwise

UPVOTE_LEARNER = Pointwise(epochs=5, lr=0.01, loss="cross-entropy")


@check_arguments
def upvote_challenge(
    weights: Mapping[str, Tensor],
    features: Float[np.ndarray, "items features"],
    defence: UpdateDefence,
    rng: np.random.Generator,
    *,
    liked: float = 0.5,
    learner: Pointwise = UPVOTE_LEARNER,
) -> Game[UpdateView, Interactions]:
    """Challenge on one user who upvotes each image with the same probability and trains on all.

    Images that were upvoted are drawn again until there are some, and some that were not.

    Args:
        weights: weights of the ranker.
        features: features of the images as the user got them; the server has the same vision
            model.
        defence: update defence.
        rng: random numbers of upvotes and defence.
        liked: probability of an upvote.
        learner: local training of the user.

    Raises:
        SpecError: there is no second image, or the probability is not between 0 and 1.

    References:
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, section V-C.
    """
    acted, change = _simulate_upvotes(weights, features, rng, liked, learner)
    seed = int(rng.integers(2**31))
    return client_challenge.make_challenge(weights, features, acted, change, learner, defence, seed)


class ImageVersions(NamedTuple):
    """Images that a server shows, with their features."""

    original: UInt8[np.ndarray, "images channels height width"]
    versions: UInt8[np.ndarray, "images versions channels height width"]
    """Manipulated versions of each image."""
    features: Float[np.ndarray, "images versions features"]
    """Features of the versions, as clients extract them."""


@check_arguments
def simulate_upvote_round(
    weights: Mapping[str, Tensor],
    images: ImageVersions,
    users: Count,
    count: Count,
    defence: UpdateDefence,
    rng: np.random.Generator,
) -> tuple[Round, dict[str, Int[np.ndarray, " acted"]]]:
    """Simulate several such users as one round of a transcript, and return it with their upvotes.

    Images are numbered from 0 for each user, in the order in which they were shown.

    Args:
        weights: weights of the ranker.
        images: images of the server.
        users: number of users, who are named by numbers from 0.
        count: number of images that each user is shown.
        defence: update defence.
        rng: random numbers of images, versions, upvotes and defence.

    Raises:
        SpecError: there are not so many images, or only one is shown.
        DataError: the weights are not those of a ranker of these features.
        DivulgeError: the defence refused.
    """
    updates, handed, acted = {}, {}, {}
    for user in range(users):
        at = draw_images(images.features, count, rng)
        x = images.features[at]
        upvoted, change = _simulate_upvotes(weights, x, rng, 0.5, UPVOTE_LEARNER)
        updates[user] = {name: w.numpy() for name, w in change.items()}
        arrays = {"features": x, "image": images.versions[at], "original": images.original[at[0]]}
        handed[str(user)], acted[str(user)] = arrays, np.flatnonzero(upvoted)
    sent = {name: w.numpy() for name, w in weights.items()}
    promised = dict.fromkeys(updates, defence.guarantee())
    sizes, seed = dict.fromkeys(updates, count), int(rng.integers(2**31))
    received, masked = server.exchange_updates(defence, 0, sent, updates, sizes, promised, seed)
    training = LocalTraining("sgd", UPVOTE_LEARNER.lr, epochs=UPVOTE_LEARNER.epochs)
    return Round(0, "update", sent, received, masked, training, handed=handed), acted


def _simulate_upvotes(
    weights: Mapping[str, Tensor],
    features: Float[np.ndarray, "items features"],
    rng: np.random.Generator,
    liked: float,
    learner: Pointwise,
) -> tuple[Bool[np.ndarray, " items"], dict[str, Tensor]]:
    """Draw a user's upvotes, train on them, and return both upvotes and update."""
    if not 0.001 <= liked <= 0.999 or len(features) < 2:  # or draws would never have both
        raise SpecError(
            f"expected two images or more and a probability from 0.001 to 0.999, got "
            f"{len(features)} and {liked}: show more images, or choose another probability"
        )
    layer = weights.get(models.HIDDEN, weights.get(models.OUTPUT))
    if models.OUTPUT not in weights or layer is None or layer.shape[-1:] != features.shape[1:]:
        raise DataError(
            f"expected weights of a ranker of {features.shape[1]} features, got "
            f"{ {name: tuple(weight.shape) for name, weight in weights.items()} }: make them with "
            "divulge.federation.ranker"
        )
    acted = np.zeros(len(features), bool)
    while acted.all() or not acted.any():
        acted = rng.random(len(features)) < liked
    x, clicks = (from_numpy(part).to(layer.dtype) for part in (features, acted))
    change = learner.update(weights, x, clicks)
    return acted, change


def draw_features(
    features: Float[np.ndarray, "images versions features"], count: int, rng: np.random.Generator
) -> Float[np.ndarray, "items features"]:
    """Draw images and a version of each, and return their features.

    Raises:
        SpecError: there are not so many images.
    """
    shown: Float[np.ndarray, "items features"]
    shown = features[draw_images(features, count, rng)]
    return shown


def draw_images(
    features: Float[np.ndarray, "images versions features"], count: int, rng: np.random.Generator
) -> tuple[Int[np.ndarray, " items"], Int[np.ndarray, " items"]]:
    """Draw the numbers of distinct images, and of a version of each.

    Raises:
        SpecError: there are not so many images.
    """
    images, versions = features.shape[:2]
    if not 1 <= count <= images:
        raise SpecError(f"expected 1 to {images} images, got {count}")
    return rng.choice(images, count, replace=False), rng.integers(versions, size=count)
