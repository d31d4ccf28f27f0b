"""Users who upvote images, and what their updates tell."""

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from divulge.attacks.interactions.raifle.attack import RAIFLE
from divulge.core import UpdateDefence
from divulge.errors import SpecError
from divulge.federation.search import images, models
from divulge.federation.search.pointwise import Pointwise
from divulge.metrics import interactions as metrics

FEATURES = np.random.default_rng(0).normal(size=(40, 2, 12)).clip(min=0)


@pytest.mark.parametrize("hidden", [0, 3])
def test_an_update_is_that_of_gradient_descent_on_the_cross_entropy(hidden: int) -> None:
    weights = models.ranker(12, hidden, torch.Generator().manual_seed(0))
    x, acted = torch.from_numpy(FEATURES[:, 0]), (torch.arange(40) % 3 == 0).double()
    trained = {name: w.clone().requires_grad_() for name, w in weights.items()}
    for _ in range(5):
        loss = binary_cross_entropy_with_logits(models.score(trained, x), acted)
        slopes = torch.autograd.grad(loss, list(trained.values()))
        with torch.no_grad():
            for w, slope in zip(trained.values(), slopes, strict=True):
                w -= 0.01 * slope
    change = images.UPVOTE_LEARNER.update(weights, x, acted)
    for name, w in weights.items():
        torch.testing.assert_close(change[name], trained[name].detach() - w)


@pytest.mark.parametrize("hidden", [0, 3])
def test_along_its_own_way_an_update_is_its_linearisation(hidden: int) -> None:
    weights = models.ranker(12, hidden, torch.Generator().manual_seed(0))
    x, acted = torch.from_numpy(FEATURES[:, 0]), (torch.arange(40) % 2).double()
    for learner in (Pointwise(3, 0.01, "squared"), Pointwise(3, 0.01, "cross-entropy")):
        affine = learner.linearise(weights, x, acted)
        change = learner.update(weights, x, acted)
        flat = np.concatenate([change[name].ravel() for name in sorted(change)])
        np.testing.assert_allclose(affine.constant + affine.matrix @ acted.numpy(), flat, atol=1e-9)


def test_upvotes_come_back_where_there_are_as_many_features_as_images() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        weights = models.ranker(12, 0, torch.Generator().manual_seed(seed))
        x = images.draw_features(FEATURES, 12, rng)
        game = images.upvote_challenge(weights, x, UpdateDefence(), rng)
        assert metrics.measure_user(RAIFLE()(game.view, rng), game.truth).auc == 1.0


def test_images_are_shown_once_each_in_a_version_drawn_for_the_user() -> None:
    found = images.draw_features(FEATURES, 40, np.random.default_rng(0))
    where = np.array([[(one == row).all(axis=1) for row in FEATURES] for one in found])
    assert (where.sum(axis=(0, 2)) == 1).all()  # each image, whatever its version
    assert 8 < where[:, :, 0].sum() < 32
    with pytest.raises(SpecError, match="1 to 40 images"):
        images.draw_features(FEATURES, 41, np.random.default_rng(0))
    weights = models.ranker(12, 0, torch.Generator().manual_seed(0))
    for x, liked in ((found[:1], 0.5), (found, 1.0)):
        with pytest.raises(SpecError, match="two images or more"):
            images.upvote_challenge(
                weights, x, UpdateDefence(), np.random.default_rng(0), liked=liked
            )
