"""What recorded rounds say about records, against gradients of one record at a time."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from divulge.attacks import catalog
from divulge.core import LocalTraining, MaskedSum, ReceivedUpdate, Records, Round
from divulge.errors import NotApplicable, TargetError
from divulge.federation import TranscriptUpdates, simulate_federated_models
from divulge.metrics import membership
from divulge.metrics.assignment import pairs
from divulge.training.recipe import Recipe
from tests.golden import golden

RNG = np.random.default_rng(0)
RECORDS = Records(RNG.normal(size=(5, 3)).astype(np.float32), RNG.integers(0, 2, 5))


def network() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(4, 2)
    )


def state(seed: int) -> dict[str, np.ndarray]:
    torch.manual_seed(seed)
    return {name: t.numpy() for name, t in network().state_dict().items()}


def played(kind: Any, lr: float | None = None) -> Round:
    got = {name: ReceivedUpdate(state(k), 5) for k, name in enumerate("ab", 1)}
    if kind != "weights":
        floats = [n for n, a in state(0).items() if a.dtype.kind == "f"]
        got = {
            name: ReceivedUpdate({n: one.tensors[n] - state(0)[n] for n in floats}, 5)
            for name, one in got.items()
        }
    return Round(0, kind, state(0), got, training=LocalTraining(lr=lr))


def loaded(weights: dict[str, np.ndarray]) -> torch.nn.Module:
    module = network()
    module.load_state_dict({name: torch.tensor(a) for name, a in weights.items()})
    return module.eval()


@pytest.mark.parametrize("kind", ["weights", "update"])
def test_one_record_at_a_time(kind: Any) -> None:
    (found,) = TranscriptUpdates((played(kind),), ("a", "absent", "b"), network).signals(RECORDS)
    assert np.isnan(found.loss[:, 1]).all()
    assert np.isnan(found.inner[:, 1]).all()
    module = loaded(state(0))
    for i in range(len(RECORDS)):
        x, y = torch.tensor(RECORDS.x[i : i + 1]), torch.tensor(RECORDS.y[i : i + 1])
        module.zero_grad()
        torch.autograd.backward(cross_entropy(module(x), y))
        gradient = {n: p.grad.numpy() for n, p in module.named_parameters() if p.grad is not None}
        size = np.sqrt(sum((g**2).sum() for g in gradient.values()))
        assert found.gradient_norm[i] == pytest.approx(size, rel=1e-4)
        for column, seed in ((0, 1), (2, 2)):
            step = {n: state(0)[n] - state(seed)[n] for n in gradient}
            inner = sum((gradient[n] * step[n]).sum() for n in gradient)
            assert found.inner[i, column] == pytest.approx(inner, rel=1e-3, abs=1e-5)
            norm = np.sqrt(sum((s**2).sum() for s in step.values()))
            assert found.update_norm[column] == pytest.approx(norm, rel=1e-4)
            loss = cross_entropy(loaded(state(seed))(x), y).item()
            assert found.loss[i, column] == pytest.approx(loss, rel=1e-3, abs=1e-5)


def test_gradients_are_steps_against_them() -> None:
    """A gradient of minus the change, at a rate of one, is the update itself."""
    update = played("update")
    turned = {
        n: ReceivedUpdate({k: -v for k, v in one.tensors.items()}, 5)
        for n, one in update.received.items()
    }
    sent = Round(0, "gradient", update.sent, turned, training=LocalTraining(lr=1.0))
    one, other = (
        TranscriptUpdates((r,), ("a",), network).signals(RECORDS)[0] for r in (update, sent)
    )
    np.testing.assert_allclose(one.inner, other.inner)
    np.testing.assert_allclose(one.loss, other.loss)


def test_a_sum_is_nobodys_own_update() -> None:
    hidden = Round(0, "weights", state(0), {}, MaskedSum(("a", "b"), state(1), 10))
    updates = TranscriptUpdates((hidden,), ("a", "b"), network)
    (found,) = updates.signals(RECORDS)
    assert np.isnan(found.inner).all()
    with pytest.raises(NotApplicable, match="expected an own update of client 'a' in one of 1"):
        updates.models()


def test_models_come_out_of_the_last_round_of_their_own() -> None:
    alone = Round(1, "weights", state(0), {"a": ReceivedUpdate(state(3), 5)})
    models = TranscriptUpdates((played("weights"), alone), ("a", "b"), network).models()
    for model, seed in zip(models, (3, 2), strict=True):
        said = loaded(state(seed))(torch.tensor(RECORDS.x)).softmax(1).detach().numpy()
        np.testing.assert_allclose(model.predict(RECORDS.x), said, atol=1e-5)


def test_a_network_that_does_not_fit_says_so() -> None:
    with pytest.raises(TargetError, match=r"network with the tensor '0\.weight'"):
        TranscriptUpdates((played("weights"),), (), partial(torch.nn.Linear, 2, 2)).signals(RECORDS)


def dense(columns: int = 20) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(columns, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2)
    )


def test_clients_who_train_together_are_told_apart() -> None:
    rng = np.random.default_rng(1)
    pool = Records(rng.normal(size=(700, 20)).astype(np.float32), rng.integers(0, 2, 700))
    recipe = Recipe(dense, "sgd", lr=0.2, epochs=10, batch_size=10)
    game = simulate_federated_models(pool, recipe, (80, 80, 80, 80), 3, rng)
    view, truth = game.challenge.view, game.challenge.truth
    assert [len(one) for one in view.external] == [56] * 4
    guess = catalog.federation_attack("fedmia")(view, rng)
    assert membership.auc(*pairs(guess, truth, view.collusion)).value == golden(0.7802)
