from typing import Any

import numpy as np
import pytest

import divulge
from divulge.errors import TargetError
from divulge.targets.torch import TorchTarget

from . import tiny_models as tiny

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn


def _noisy() -> Any:
    """Training and evaluation differ; the second layer is frozen while the rest trains."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    module.train()
    module[1].eval()
    return module


def _flags(module: Any) -> list[bool]:
    return [part.training for part in module.modules()]


def test_dropout_and_batch_norm_are_inactive_and_come_back() -> None:
    module = _noisy()
    flags, state = _flags(module), {k: v.clone() for k, v in module.state_dict().items()}
    target = TorchTarget(module, "logits", batch_size=3)
    np.testing.assert_allclose(target.predict(tiny.X)[:1], target.predict(tiny.X[:1]), atol=1e-7)
    assert _flags(module) == flags
    assert all(torch.equal(value, state[key]) for key, value in module.state_dict().items())


def test_flags_come_back_after_a_failure() -> None:
    module = _noisy()
    flags = _flags(module)
    with pytest.raises(TargetError, match="RuntimeError"):
        TorchTarget(module, "logits").predict(np.zeros((2, 9), dtype=np.float32))
    assert _flags(module) == flags


def test_no_gradients_are_kept() -> None:
    seen = []

    class Watching(nn.Linear):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            answers = super().forward(x)
            seen.append(answers.requires_grad)
            return answers

    TorchTarget(Watching(4, 3), "logits").predict(tiny.X)
    assert seen == [False]


def test_whole_numbers_stay_whole() -> None:
    module = nn.Sequential(nn.Embedding(10, 3), nn.Flatten())
    tokens = np.array([[1], [9], [0]])
    expected = module[0].weight.detach().double().softmax(1).numpy()[tokens[:, 0]]
    np.testing.assert_allclose(TorchTarget(module, "logits").predict(tokens), expected, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_records_follow_the_precision_of_the_module(dtype: str) -> None:
    module = tiny.module().to(getattr(torch, dtype))
    answers = TorchTarget(module, "logits").predict(tiny.X)
    np.testing.assert_allclose(answers, tiny.probabilities(tiny.X), atol=0.02)
    np.testing.assert_allclose(answers.sum(axis=1), 1, rtol=1e-12)


def test_softmax_is_taken_in_float64() -> None:
    module = nn.Linear(1, 2, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[0.0], [-1.0]]))
    # exp(-200) is zero in float32.
    answers = TorchTarget(module, "logits").predict(np.array([[200.0]]))
    np.testing.assert_allclose(answers[0, 1], np.exp(-200), rtol=1e-12)


def test_a_module_without_parameters() -> None:
    answers = TorchTarget(nn.Softmax(1), "probabilities").predict(tiny.X)
    np.testing.assert_allclose(answers.sum(axis=1), 1)


def test_one_column_of_logits_means_two_classes() -> None:
    answers = TorchTarget(nn.Linear(4, 1), "logits").predict(tiny.X)
    assert answers.shape == (7, 2)


class Odd(nn.Module):  # type: ignore[misc]
    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, x: Any) -> Any:
        return self.answer(x)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda x: {"answers": x}, r"expected a tensor of answers, or logits .*, got dict"),
        (lambda x: x[:-1], "one answer for each of 3 records"),
        (lambda x: x.sum(), "one answer for each of 3 records"),
        (lambda x: x.reshape(len(x), 2, 2), "row of numbers per record"),
    ],
)
def test_odd_answers_are_refused(answer: Any, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        TorchTarget(Odd(answer), "logits", batch_size=3).predict(tiny.X)


@pytest.mark.parametrize(
    "make", [lambda: nn.Linear(4, 3, device="meta"), lambda: nn.LazyLinear(3)], ids=["meta", "lazy"]
)
def test_a_module_without_its_weights_is_refused(make: Any) -> None:
    x, y = np.zeros((8, 4), np.float32), np.arange(8) % 3
    with pytest.raises(TargetError, match="expected a module with its weights, got none yet"):
        divulge.audit(
            make(),
            members=(x, y),
            nonmembers=(x + 1, y),
            access=divulge.Access(output="logits"),
        )


def test_records_in_any_memory_order() -> None:
    answers = TorchTarget(tiny.module(), "logits").predict(tiny.X[::-1])
    np.testing.assert_allclose(answers, tiny.probabilities(tiny.X[::-1]), atol=1e-6)
