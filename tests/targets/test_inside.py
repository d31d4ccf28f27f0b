from typing import Any

import numpy as np
import pytest

from divulge.core import Need
from divulge.errors import TargetError
from divulge.secrets.control_targets.planted import PlantedTarget
from divulge.targets.budget import CountingTarget
from divulge.targets.cache import CachedTarget
from divulge.targets.torch import TorchTarget

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn

X = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
Y = np.array([0, 1, 2, 0, 1, 2, 0])


def module(classes: int = 3) -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, classes))


@pytest.mark.parametrize("output", ["logits", "probabilities"])
def test_gradients_are_those_of_finite_differences(output: Any) -> None:
    body = module().double()
    target = TorchTarget(
        body if output == "logits" else nn.Sequential(body, nn.Softmax(1)), output, batch_size=3
    )
    found, width = target.gradient(X, Y), 1e-6
    for k in range(4):
        aside = np.zeros_like(X, dtype=np.float64)
        aside[:, k] = width
        up, down = (-np.log(target.predict(X + sign * aside)[np.arange(7), Y]) for sign in (1, -1))
        np.testing.assert_allclose(found[:, k], (up - down) / (2 * width), atol=1e-5)


def test_gradients_by_weights_and_the_hessian_are_those_of_autograd() -> None:
    body = module().double().eval()
    weights = list(body.parameters())
    sizes = [one.numel() for one in weights]

    def losses(flat: Any) -> Any:
        named = dict(zip(dict(body.named_parameters()), flat.split(sizes), strict=True))
        shaped = {
            name: part.reshape(one.shape)
            for (name, part), one in zip(named.items(), weights, strict=True)
        }
        answers = torch.func.functional_call(body, shaped, (torch.tensor(X).double(),))
        return nn.functional.cross_entropy(answers, torch.tensor(Y), reduction="none")

    flat = torch.cat([one.detach().reshape(-1) for one in weights])
    gradient = torch.autograd.functional.jacobian(losses, flat).numpy()
    hessian = torch.autograd.functional.hessian(lambda at: losses(at).mean(), flat).numpy()
    vector = np.random.default_rng(1).normal(size=len(flat))
    for target in (
        TorchTarget(body, "logits", batch_size=3),
        TorchTarget(nn.Sequential(body, nn.Softmax(1)), "probabilities"),
    ):
        np.testing.assert_allclose(target.parameter_gradient(X, Y), gradient, atol=1e-12)
        np.testing.assert_allclose(
            target.hessian_product(X, Y, vector), hessian @ vector, atol=1e-12
        )


def test_a_single_logit_stands_for_class_one_of_two() -> None:
    target = TorchTarget(module(classes=1), "logits")
    y = np.arange(7) % 2
    one, two = target.gradient(X, y), target.gradient(X, 1 - y)
    assert (np.sign(one) == -np.sign(two)).all()


def test_the_last_layer_leads_to_the_answers() -> None:
    body = module()
    inside = TorchTarget(body, "logits", batch_size=3).last_layer(X)
    bias = body[3].bias.detach().numpy()
    logits = inside.features @ inside.weights.T + bias
    np.testing.assert_allclose(logits, body.eval()(torch.tensor(X)).detach().numpy(), atol=1e-5)


def test_a_module_without_a_linear_layer_is_refused() -> None:
    with pytest.raises(TargetError, match="linear layer"):
        TorchTarget(nn.Softmax(1), "probabilities").last_layer(X)


def test_looks_inside_count_and_are_handed_on() -> None:
    target = TorchTarget(module(), "logits")
    counting = CountingTarget(CachedTarget(target))
    assert Need.AUTOGRAD in counting.offers
    np.testing.assert_array_equal(counting.gradient(X, Y), target.gradient(X, Y))
    np.testing.assert_array_equal(counting.last_layer(X).features, target.last_layer(X).features)
    np.testing.assert_array_equal(
        counting.parameter_gradient(X, Y), target.parameter_gradient(X, Y)
    )
    vector = np.ones(43)
    np.testing.assert_array_equal(
        counting.hessian_product(X, Y, vector), target.hessian_product(X, Y, vector)
    )
    assert counting.query_count == 28


def test_neither_labels_nor_a_planted_leak_can_be_looked_into() -> None:
    assert Need.AUTOGRAD not in TorchTarget(module(), "labels").offers
    planted = PlantedTarget(TorchTarget(module(), "logits"), X, Y, Y > 0, 0)
    assert Need.AUTOGRAD not in planted.offers
