"""LDIA's shadow clients, features and loss, against slow and obvious versions."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy import stats

from divulge.attacks import catalog
from divulge.attacks.composition.ldia import attack, network, shadow_clients
from divulge.attacks.shared.observed_round import first_rounds
from divulge.errors import NotApplicable, SpecError
from divulge.testing import updates
from divulge.testing.composition import Mixes

torch: Any = pytest.importorskip("torch")


def test_as_many_shadow_clients_hold_one_class_as_two_and_all() -> None:
    counts = shadow_clients.draw_counts([50] * 400, 4, np.random.default_rng(0))
    assert (counts.sum(axis=1) == 50).all()
    assert (counts >= 0).all()
    there = (counts > 0).sum(axis=1)
    for k in range(4):
        assert there[100 * k : 100 * (k + 1)].max() == k + 1
    # each class is as often the only one, in 100 draws from 4
    alone = np.bincount(counts[:100].argmax(axis=1), minlength=4)
    assert stats.chisquare(alone).pvalue > 1e-4


def test_shares_of_shadow_clients_are_cut_at_random() -> None:
    """With two classes the cut is a whole number from 1 to all of the records, each as likely."""
    counts = shadow_clients.draw_counts([5] * 2000, 2, np.random.default_rng(1))[1000:]
    first = np.bincount(counts[:, 0], minlength=6)
    second = np.bincount(counts[:, 1], minlength=6)
    assert first[0] == second[5] == 0
    assert stats.chisquare(first[1:]).pvalue > 1e-4


def test_shadow_clients_hold_records_of_their_classes_and_train_like_victims() -> None:
    game = Mixes().leaky(0)
    stages = first_rounds(game.views, 3)
    counts, rows = shadow_clients.draw_shadow_clients(
        stages, game.views, 24, np.random.default_rng(0)
    )
    label = updates.reference().y
    for held, mine in zip(counts, rows, strict=True):
        np.testing.assert_array_equal(np.bincount(label[mine], minlength=len(held)), held)
        for k, count in enumerate(held):
            uses = np.bincount(mine[label[mine] == k], minlength=len(label))[label == k]
            # a class is repeated as a whole, and so no record is there much more than another
            assert uses.max(initial=0) <= -(-max(held.sum(), 1) // (label == k).sum())
            assert uses.sum() == count
    (stage, _) = stages[0]
    shown = attack._train_shadows(stage, rows[:3], 7)
    again = attack._train_shadows(stage, rows[:3], 7)
    np.testing.assert_array_equal(shown, again)
    name = stage.layer.weight
    victim = game.views[3].victim
    got = stage.round.received[victim].tensors[name]
    np.testing.assert_allclose(
        attack._flatten(stage, victim), (stage.round.sent[name] - got).ravel(), rtol=1e-4, atol=1e-7
    )


def test_the_loss_is_the_sum_of_three_by_hand() -> None:
    rng = np.random.default_rng(2)
    said, held = rng.dirichlet(np.ones(4), 5), rng.dirichlet(np.ones(4), 5)
    held[0] = [1, 0, 0, 0]
    total = 0.0
    for mine, wanted in zip(said, held, strict=True):
        for p, q in zip(mine, wanted, strict=True):
            total += 2 * (q * np.log(q / (p + 1e-7)) if q else 0.0)
            total += 0.5 * (p - q) ** 2  # shares are less than 1 apart
        total += 3 * abs(np.var(wanted, ddof=1) - np.var(mine, ddof=1))
    found = network.loss(torch.tensor(said), torch.tensor(held))
    assert found.item() == pytest.approx(total / 5, rel=1e-9)


def test_rounding_lets_gradients_through() -> None:
    said = torch.tensor([[0.12345, 0.87655]], dtype=torch.float64, requires_grad=True)
    rounded = network.round_shares(said)
    assert rounded.tolist() == [[0.123, 0.877]]
    (rounded * torch.tensor([3.0, 5.0])).sum().backward()
    assert said.grad.tolist() == [[3.0, 5.0]]


def test_the_network_has_the_published_widths_and_learns_a_linear_map() -> None:
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.ones(3), 300)
    seen = (shares @ rng.normal(size=(3, 12))).astype(np.float32)
    trained: Any = network.train_network(seen[:250], shares[:250], 30, 0)
    widths = [layer.out_features for layer in trained if isinstance(layer, torch.nn.Linear)]
    assert widths == [512, 64, 3]
    found = network.read_shares(trained, seen[250:])
    constant = np.abs(shares[250:] - shares[:250].mean(axis=0)).sum(axis=1).mean()
    assert np.abs(found - shares[250:]).sum(axis=1).mean() < constant / 4
    assert (np.round(found, 3) == found).all()


def test_victims_of_other_rounds_are_read_by_a_network_of_their_own() -> None:
    game = Mixes().leaky(0)
    (played,) = game.views[0].rounds
    later = dataclasses.replace(played, number=1)
    views = [
        dataclasses.replace(view, rounds=(played, later) if k else (played,))
        for k, view in enumerate(game.views[:3])
    ]
    attack = catalog.update_attack("ldia", clients=24, epochs=2)
    found = attack.many(views, np.random.default_rng(0))  # type: ignore[attr-defined]
    assert [one.how for one in found] == [
        "24 shadow clients, rounds 0",
        "24 shadow clients, rounds 0, 1",
        "24 shadow clients, rounds 0, 1",
    ]


def test_what_it_cannot_do_is_said() -> None:
    with pytest.raises(SpecError, match="clients from 24"):
        catalog.update_attack("ldia", clients=8)
    view = Mixes().leaky(0).views[0]
    known = updates.reference()
    lacking = dataclasses.replace(view, reference=known.take(known.y != 2))
    with pytest.raises(NotApplicable, match="class 2"):
        catalog.update_attack("ldia", clients=24)(lacking, np.random.default_rng(0))
