"""Trainings that are remembered are those of FNCF, and made once."""

import pytest

torch = pytest.importorskip("torch")

from divulge.federation.recommender.model import ITEMS, NeuralCF  # noqa: E402
from divulge.reproduce.papers.raifle.cache import CachingNeuralCF, _train_items  # noqa: E402


def test_it_trains_as_fncf_and_once() -> None:
    generator = torch.Generator().manual_seed(0)
    plain, learner = NeuralCF(3, (4,), 2), CachingNeuralCF(3, (4,), 2)
    sent = plain.network(generator)
    other = plain.network(generator)
    items, own = torch.randn(5, 3, generator=generator), torch.randn(3, generator=generator)
    label = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0])
    _train_items.cache_clear()
    for given in ((sent, items, label, own), (other, items, label, own), (sent, items, label, -own),
                  (sent, items, 1 - label, own), (sent, 2 * items, label, own)):  # fmt: skip
        wanted = plain.update(*given)[ITEMS]
        for _ in range(2):
            copies = [tensor.clone() for tensor in given[1:]]
            torch.testing.assert_close(learner.update(given[0], *copies)[ITEMS], wanted)
    assert _train_items.cache_info()[:2] == (5, 5)


def test_several_users_get_all_that_training_changes() -> None:
    generator = torch.Generator().manual_seed(0)
    learner = CachingNeuralCF(3, (4,), 2)
    sent = learner.network(generator)
    users = torch.randn(2, 5, 3, generator=generator), torch.ones(2, 5), torch.ones(2, 3)
    assert set(learner.update(sent, *users)) == {ITEMS, *sent}


def test_a_training_that_is_differentiated_is_not_remembered() -> None:
    generator = torch.Generator().manual_seed(0)
    learner = CachingNeuralCF(3, (4,), 2)
    sent = learner.network(generator)
    items, own = torch.randn(5, 3, generator=generator), torch.randn(3, generator=generator)
    label = torch.full((5,), 0.5, requires_grad=True)
    _train_items.cache_clear()
    moved = learner.update(sent, items, label, own)[ITEMS].square().sum()
    (slope,) = torch.autograd.grad(moved, label)
    assert slope.abs().sum() > 0
    assert _train_items.cache_info().currsize == 0
