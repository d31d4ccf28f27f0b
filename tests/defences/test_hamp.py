"""HAMP: what its labels are, and what a step makes smaller."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from divulge.defences import HAMP, RankOrder
from divulge.defences.training.hamp import true_class_probability

from . import trained_table as table

LOGITS = torch.tensor([[2.0, 0.5, -1.0], [0.1, 0.2, 0.3], [-1.0, 3.0, 0.0], [0.0, 0.0, 1.0]])
Y = torch.tensor([0, 1, 1, 2])


def entropy(p: list[float]) -> float:
    return -sum(q * math.log(q) for q in p if q > 0)


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.95])
def test_a_label_has_its_share_of_the_highest_entropy(share: float, classes: int) -> None:
    own = true_class_probability(share, classes)
    label = [own] + [(1 - own) / (classes - 1)] * (classes - 1)
    assert own > label[1]
    assert entropy(label) == pytest.approx(share * math.log(classes), abs=1e-9)


@pytest.mark.parametrize(("entropy_", "weight"), [(0.0, 0.0), (0.6, 0.0), (0.6, 0.3)])
def test_the_loss_is_what_a_loop_over_records_computes(entropy_: float, weight: float) -> None:
    own = true_class_probability(entropy_, 3)
    total = 0.0
    for z, y in zip(LOGITS, Y, strict=True):
        p = z.softmax(0).tolist()
        label = [own if c == y else (1 - own) / 2 for c in range(3)]
        total += sum(q * math.log(q / r) for q, r in zip(label, p, strict=True) if q > 0)
        total -= weight * entropy(p)
    loss = HAMP(table.RECIPE, entropy=entropy_, weight=weight).defended_recipe().loss
    assert loss is not None
    assert float(loss(LOGITS, Y, 0)) == pytest.approx(total / 4, abs=1e-6)  # type: ignore[operator]


def test_without_the_reward_it_is_label_smoothing_of_another_name() -> None:
    """The gradients are those of the amount with which the labels are the same."""
    own = true_class_probability(0.6, 3)
    amount = (1 - own) * 3 / 2
    loss = HAMP(table.RECIPE, entropy=0.6, weight=0.0).defended_recipe().loss
    found = []
    for compute in (loss, lambda z, y, _: cross_entropy(z, y, label_smoothing=amount)):
        logits = LOGITS.clone().requires_grad_()
        torch.autograd.backward(compute(logits, Y, 0))  # type: ignore[misc, operator]
        assert logits.grad is not None
        found.append(logits.grad)
    torch.testing.assert_close(*found)


def test_only_the_order_of_the_classes_is_left_of_an_answer() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    before = rng.dirichlet(np.ones(6), size=200)
    after = RankOrder().change(before, x, 1)
    np.testing.assert_array_equal(np.argsort(after, axis=1), np.argsort(before, axis=1))
    sharper = before**3 / (before**3).sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(RankOrder().change(sharper, x, 1), after)
    assert (RankOrder().change(before, x, 2) != after).all()
    assert (RankOrder("secure").change(before, x, 1) != after).all()
