"""What a training step makes smaller, where it is not the cross-entropy alone."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch
    from torch import nn

    from divulge.training.engine.tensors import Tensors


@runtime_checkable
class Loss(Protocol):
    """A function of answers, labels and the epoch alone: settings, and no memory.

    Differentiable, and in operations of PyTorch without branches on values, which a stack of models
    cannot take: `torch.where` chooses.
    """

    def __call__(self, logits: "torch.Tensor", y: "torch.Tensor", epoch: int) -> "torch.Tensor":
        """The loss of one batch, a single number.

        Args:
            logits: one row a record, one column a class.
            y: labels.
            epoch: from 0.
        """
        ...


BatchLoss = Callable[["torch.Tensor"], "torch.Tensor"]
"""From the rows of a batch, in the pool, to what the step makes smaller."""


@runtime_checkable
class Adversary(Protocol):
    """What a step makes smaller that needs more than answers and labels: the records, or a memory.

    Such as somebody whom the model learns to beat. Settings, from which each model's own is made.
    """

    def against(
        self, module: "nn.Module", data: "Tensors", held_out: "torch.Tensor"
    ) -> Callable[[int], BatchLoss]:
        """The adversary of one model: for each epoch, from 0, the loss of a batch.

        Args:
            module: the model, in whatever mode; left in it.
            data: the pool.
            held_out: rows of it that the model is not trained on.
        """
        ...


class Term(NamedTuple):
    """What is added to the mean cross-entropy of a batch, for the last layer alone."""

    value: "torch.Tensor"
    """A single number."""
    gradient: "torch.Tensor"
    """By the logits: one row a record, one column a class."""


TermOf = Callable[["torch.Tensor", "torch.Tensor"], Term | None]
"""From the logits and labels of a batch; None where nothing is added."""


@runtime_checkable
class LastLayerAdversary(Adversary, Protocol):
    """One that adds to the cross-entropy, and only the last layer hears of it.

    So the step of a dense network needs no graph.
    """

    def terms(
        self, module: "nn.Module", data: "Tensors", held_out: "torch.Tensor"
    ) -> Callable[[int], TermOf]:
        """For each epoch, from 0, what is added; arguments as of `against`."""
        ...
