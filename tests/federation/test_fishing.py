"""A malicious server that fishes for labels reads them off a secure sum, as far as it says."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import nn

from divulge.core import Records, Tensors
from divulge.defences import SecureSum
from divulge.defences.updates import vectors
from divulge.errors import NotApplicable, SpecError, TargetError
from divulge.federation import count_fished_labels, craft_fishing_weights
from divulge.federation.manipulation.fishing import FishingWeights
from divulge.training import ClientWorkers, Recipe

CLASSES, LR = 4, 0.05
SIZES = (30, 12, 7)


class Around(nn.Module):
    """A network in which records also reach the last layer beside the normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.last = nn.BatchNorm1d(6), nn.Linear(6, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(x + self.norm(x))  # type: ignore[no-any-return]


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, CLASSES),
    )  # fmt: skip


def state() -> Tensors:
    torch.manual_seed(0)
    return {name: tensor.numpy() for name, tensor in images().state_dict().items()}


def held() -> list[Records]:
    rng = np.random.default_rng(1)
    return [
        Records(rng.normal(size=(n, 1, 6, 6)).astype(np.float32), rng.integers(0, CLASSES, n))
        for n in SIZES
    ]


def changes(
    fishing: Sequence[FishingWeights], clients: Sequence[Records], epochs: int = 1
) -> Sequence[Tensors]:
    """What training on all of its records adds to each client's weights, by its own start."""
    found = []
    for one, own in zip(fishing, clients, strict=True):
        recipe = Recipe(images, lr=LR, epochs=epochs, batch_size=len(own))
        (after,) = ClientWorkers(recipe, own, 1).states(one.sent, [np.arange(len(own))], [0])
        floats = [n for n, a in one.sent.items() if a.dtype.kind == "f"]
        found.append({n: after[n] - one.sent[n] for n in floats})
    return found


def secure_sum(updates: Sequence[Tensors], sizes: Sequence[int]) -> Tensors:
    """The sum as fixed-point numbers modulo 2^64 give it; masks would cancel in it."""
    defence = SecureSum()
    encoded = [
        defence.encode(dict(update), n / sum(sizes))
        for update, n in zip(updates, sizes, strict=True)
    ]
    total = np.sum(encoded, axis=0, dtype=np.uint64).view(np.int64)
    numbers = np.ldexp(total.astype(float), -defence.fraction_bits)
    return vectors.split_vector(numbers, {n: a.shape for n, a in updates[0].items()})


def counts_of(clients: Sequence[Records]) -> np.ndarray:
    return np.array([np.bincount(own.y, minlength=CLASSES) for own in clients])


def test_a_secure_sum_of_single_steps_gives_every_label_away() -> None:
    clients, rng = held(), np.random.default_rng(2)
    fishing = craft_fishing_weights(images, state(), clients[0].x[:2], 3, rng)
    total = secure_sum(changes(fishing, clients), SIZES)
    found = count_fished_labels(total, fishing, SIZES, LR)
    np.testing.assert_allclose(found, counts_of(clients), atol=0.01)


def test_the_gradient_of_the_crafted_weights_is_the_outer_product_that_is_solved_for() -> None:
    own, rng = held()[1], np.random.default_rng(3)
    (one,) = craft_fishing_weights(images, state(), own.x[:2], 1, rng)
    module = images().train()
    assert isinstance(module, nn.Sequential)
    module.load_state_dict({n: torch.tensor(a) for n, a in one.sent.items()}, strict=False)
    x, y = torch.tensor(own.x), torch.tensor(own.y)
    loss = nn.functional.cross_entropy(module(x), y)
    loss.backward()  # type: ignore[no-untyped-call]
    p = np.exp(one.logits) / np.exp(one.logits).sum()
    share = np.bincount(own.y, minlength=CLASSES) / len(own.y)
    last = module[-1]
    assert isinstance(last, nn.Linear)
    assert last.weight.grad is not None
    np.testing.assert_allclose(
        last.weight.grad.numpy(), np.outer(p - share, one.embedding), rtol=1e-3, atol=1e-6
    )


def test_only_one_normalisation_differs_from_the_global_weights() -> None:
    sent = state()
    one, other = craft_fishing_weights(
        images, sent, held()[0].x[:2], 2, np.random.default_rng(4), "1"
    )
    changed = [n for n in sent if not np.array_equal(one.sent[n], sent[n])]
    assert changed == ["1.weight", "1.bias"]
    assert not one.sent["1.weight"].any()
    assert not np.allclose(one.sent["1.bias"], other.sent["1.bias"])


def test_after_several_steps_numbers_are_estimates_alone() -> None:
    clients, rng = held(), np.random.default_rng(2)
    fishing = craft_fishing_weights(images, state(), clients[0].x[:2], 3, rng)
    total = secure_sum(changes(fishing, clients, epochs=5), SIZES)
    found = count_fished_labels(total, fishing, SIZES, LR)
    assert np.abs(found - counts_of(clients)).max() > 0.5


def test_what_cannot_be_fished_is_said() -> None:
    x, rng = held()[0].x[:2], np.random.default_rng(5)
    with pytest.raises(NotApplicable, match=r"got 9 for [1-8] dimensions"):
        craft_fishing_weights(images, state(), x, 9, rng)
    with pytest.raises(NotApplicable, match="normalisation 2, got 1"):
        craft_fishing_weights(images, state(), x, 2, rng, "2")
    around = {name: tensor.numpy() for name, tensor in Around().state_dict().items()}
    with pytest.raises(NotApplicable, match="without a way around"):
        craft_fishing_weights(Around, around, rng.normal(size=(2, 6)), 2, rng)
    with pytest.raises(SpecError, match="2 records or more, got 1"):
        craft_fishing_weights(images, state(), x[:1], 2, rng)
    with pytest.raises(TargetError, match="records that clients train on"):
        craft_fishing_weights(images, state(), x[:, 0, 0], 2, rng)
    fishing = craft_fishing_weights(images, state(), x, 2, rng)
    with pytest.raises(SpecError, match="each of 2 clients"):
        count_fished_labels(state(), fishing, [3], LR)
