"""Stacking's neural network has one branch for logits and one for the true class.

Its gradients are written by hand, since for so few records a graph costs more than the sums.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor, nn

from divulge.training.engine.loop import temporary_seed
from divulge.training.optimisers import without_compiler

EPOCHS, BATCH, RATE = 100, 100, 0.03
"""Epochs, batch size and learning rate of the training; the attack library's own rate is 0.0001."""

Logits = Float64[np.ndarray, "records classes"]
Labels = Int[np.ndarray, " records"]
Chances = Float64[np.ndarray, " records"]


def train_network(
    answers: Logits, y: Labels, suspect: Bool[np.ndarray, " records"], seed: int
) -> Callable[[Logits, Labels], Chances]:
    """Train a network with Adam; it gives each record's probability of being a suspect.

    Args:
        answers: standardised logits.
        y: the true class of each record.
        suspect: true for suspects.
        seed: seeds the first weights and the batches.
    """
    with temporary_seed(seed, torch.device("cpu")), torch.no_grad():
        network = _TwoBranchNetwork(answers.shape[1])
        x, labels = torch.tensor(answers, dtype=torch.float32), torch.from_numpy(y)
        wanted = torch.tensor(suspect, dtype=torch.float32)
        adam = without_compiler(torch.optim.Adam)(network.weights, lr=RATE, fused=True)
        for _ in range(EPOCHS):
            for rows in torch.split(torch.randperm(len(wanted)), BATCH):
                network.differentiate(x[rows], labels[rows], wanted[rows])
                adam.step()

    def score(logits: Logits, classes: Labels) -> Chances:
        with torch.no_grad():
            log_odds = network(torch.tensor(logits, dtype=torch.float32), torch.from_numpy(classes))
        return np.asarray(log_odds.sigmoid().numpy(), dtype=np.float64)

    return score


class _TwoBranchNetwork:
    """Two branches, for logits and for labels, under one output layer."""

    def __init__(self, classes: int) -> None:
        self._logit_branch = _Branch(classes, 512, 100, 64)
        self._label_branch = _Branch(classes, 256, 64)
        self._head = _Linear.fresh(128, 1)
        self._labels = torch.eye(classes)

    @property
    def weights(self) -> list[Tensor]:
        """All tensors that are trained."""
        layers = (*self._logit_branch.layers, *self._label_branch.layers, self._head)
        return [weight for layer in layers for weight in layer]

    def __call__(
        self, x: Float[Tensor, "batch classes"], y: Int[Tensor, " batch"]
    ) -> Float[Tensor, " batch"]:
        """Log odds of being a suspect."""
        return self._head(self._both(x, y))[:, 0]

    def differentiate(
        self,
        x: Float[Tensor, "batch classes"],
        y: Int[Tensor, " batch"],
        wanted: Float[Tensor, " batch"],
    ) -> None:
        """Set the gradients of the mean cross-entropy."""
        both = self._both(x, y)
        # derivative of the mean cross-entropy by the log odds
        wrong = (self._head(both)[:, 0].sigmoid() - wanted).div_(len(wanted))[:, None]
        self._head.differentiate(wrong, both)
        of_said, of_true = torch.mm(wrong, self._head.weight).tensor_split(2, dim=1)
        self._logit_branch.differentiate(of_said)
        by_label = torch.zeros(len(self._labels), of_true.shape[1])
        self._label_branch.differentiate(by_label.index_put_((y,), of_true, accumulate=True))

    def _both(self, x: Tensor, y: Tensor) -> Tensor:
        # of labels there are few: each goes through its branch once, whatever the records
        return torch.cat([self._logit_branch(x), self._label_branch(self._labels)[y]], dim=1)


class _Linear(NamedTuple):
    """One layer."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def fresh(cls, inputs: int, outputs: int) -> "_Linear":
        """With PyTorch's first weights, and gradients to be overwritten."""
        made = nn.Linear(inputs, outputs)
        for p in made.parameters():
            p.grad = torch.zeros_like(p)
        return cls(made.weight, made.bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Its output."""
        return torch.addmm(self.bias, x, self.weight.t())

    def differentiate(self, gradient: Tensor, x: Tensor) -> None:
        """Set the gradients of this layer, from the gradient with respect to its output."""
        torch.mm(gradient.t(), x, out=self.weight.grad)
        torch.sum(gradient, 0, out=self.bias.grad)


class _Branch:
    """Linear layers, and a ReLU after each."""

    def __init__(self, *widths: int) -> None:
        self.layers = [_Linear.fresh(*pair) for pair in itertools.pairwise(widths)]
        self._inputs: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:
        """The last layer's output; what each layer got is kept."""
        self._inputs = [x]
        for layer in self.layers:
            self._inputs.append(layer(self._inputs[-1]).relu_())
        return self._inputs[-1]

    def differentiate(self, gradient: Tensor) -> None:
        """Set the gradients of all layers, from the gradient with respect to the output."""
        outputs = self._inputs[1:]
        steps = zip(self.layers, self._inputs, outputs, strict=False)
        for k, (layer, x, out) in reversed(list(enumerate(steps))):
            gradient = torch.ops.aten.threshold_backward(gradient, out, 0)
            layer.differentiate(gradient, x)
            if k:  # never for the data
                gradient = torch.mm(gradient, layer.weight)
