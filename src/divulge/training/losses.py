"""Interfaces of the losses that a training step minimises instead of the cross-entropy alone."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch
    from torch import nn

    from divulge.training.tensors import PoolTensors


@runtime_checkable
class Loss(Protocol):
    """A function of answers, labels and the epoch alone: settings, and no memory.

    Differentiable, and in operations of PyTorch without branches on values, which a stack of models
    cannot take: `torch.where` chooses.
    """

    def __call__(self, logits: "torch.Tensor", y: "torch.Tensor", epoch: int) -> "torch.Tensor":
        """The loss of one batch, a single number.

        Args:
            logits: the model's logits, shape (records, classes).
            y: the class of each record, shape (records,).
            epoch: the number of the epoch, from 0.
        """
        ...


BatchLoss = Callable[["torch.Tensor"], "torch.Tensor"]
"""A function from a batch, as row numbers of the pool, to the loss that the step minimises."""


@runtime_checkable
class Adversary(Protocol):
    """A loss that needs more than logits and labels: the records themselves, or a memory.

    An attacker that learns beside the model is one. An object of this type holds settings alone;
    each model gets a loss of its own from them.
    """

    def against(
        self, module: "nn.Module", data: "PoolTensors", held_out: "torch.Tensor"
    ) -> Callable[[int], BatchLoss]:
        """The adversary of one model: for each epoch, from 0, the loss of a batch.

        Args:
            module: the model, in training or evaluation mode; it is left in that mode.
            data: the pool of records.
            held_out: row numbers of the pool that the model is not trained on.
        """
        ...


class LastLayerTerm(NamedTuple):
    """A term of the loss of a batch, beside the cross-entropy, that only the last layer learns."""

    value: "torch.Tensor"
    """The term itself, a single number."""
    gradient: "torch.Tensor"
    """The gradient of the term by the logits, shape (records, classes)."""


TermFunction = Callable[["torch.Tensor", "torch.Tensor"], LastLayerTerm | None]
"""A function from the logits and labels of a batch to the term; None where nothing is added."""


@runtime_checkable
class LastLayerAdversary(Adversary, Protocol):
    """An adversary whose term beside the cross-entropy changes the last layer alone.

    So the step of a dense network needs no graph of gradients.
    """

    def terms(
        self, module: "nn.Module", data: "PoolTensors", held_out: "torch.Tensor"
    ) -> Callable[[int], TermFunction]:
        """A function from the epoch, from 0, to the term of a batch.

        Args:
            module: the model, see `against`.
            data: the pool of records.
            held_out: row numbers of the pool that the model is not trained on.
        """
        ...
