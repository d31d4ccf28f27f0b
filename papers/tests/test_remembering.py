"""Trainings that are remembered are those of FNCF, and made once."""

import gc
import weakref

import pytest

torch = pytest.importorskip("torch")

from divulge.federation.recommender.model import ITEMS, NeuralCF  # noqa: E402
from divulge_papers.papers.raifle.cache import CachingNeuralCF, _trained_items  # noqa: E402


def test_it_trains_as_fncf_and_once() -> None:
    generator = torch.Generator().manual_seed(0)
    plain, learner = NeuralCF(3, (4,), 2), CachingNeuralCF(3, (4,), 2)
    sent = plain.network(generator)
    other = plain.network(generator)
    items = torch.randn(5, 3, generator=generator).expand(2, -1, -1)
    own, label = torch.randn(2, 3, generator=generator), torch.eye(5)[:2]
    _trained_items.cache_clear()
    for given in ((sent, items, label, own), (other, items, label, own), (sent, items, label, -own),
                  (sent, items, 1 - label, own), (sent, 2 * items, label, own)):  # fmt: skip
        wanted = plain.update(*given)[ITEMS]
        for _ in range(2):
            copies = [tensor.clone() for tensor in given[1:]]
            torch.testing.assert_close(learner.update(given[0], *copies)[ITEMS], wanted)
    assert _trained_items.cache_info()[:2] == (5, 5)


def test_users_who_train_themselves_get_all_that_it_changes() -> None:
    generator = torch.Generator().manual_seed(0)
    learner = CachingNeuralCF(3, (4,), 2)
    sent = learner.network(generator)
    items = torch.randn(2, 5, 3, generator=generator)
    real = torch.ones(2, 5, dtype=torch.bool)
    label = torch.full((2, 5), 0.5, requires_grad=True)
    _trained_items.cache_clear()
    change = learner.update(sent, items, label, torch.ones(2, 3), real)
    assert set(change) == {ITEMS, *sent}
    (slope,) = torch.autograd.grad(change[ITEMS].square().sum(), label)
    assert slope.abs().sum() > 0
    assert set(learner.update(sent, items, label, torch.ones(2, 3))) == {ITEMS, *sent}
    assert set(learner.update(sent, items[0], label[0], torch.ones(3))) == {ITEMS, *sent}
    assert _trained_items.cache_info().currsize == 0


def test_what_users_were_sent_is_not_kept() -> None:
    generator = torch.Generator().manual_seed(0)
    learner = CachingNeuralCF(3, (4,), 2)
    sent = learner.network(generator) | {ITEMS: torch.zeros(50, 3)}
    items = torch.randn(5, 3, generator=generator).expand(2, -1, -1)
    _trained_items.cache_clear()
    learner.update(sent, items, torch.eye(5)[:2], torch.randn(2, 3, generator=generator))
    kept = [weakref.ref(tensor) for tensor in (*sent.values(), items)]
    del sent, items
    gc.collect()
    assert [one() for one in kept] == [None] * len(kept)
    assert _trained_items.cache_info().currsize == 1
