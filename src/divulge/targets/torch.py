"""Query PyTorch modules in evaluation mode, differentiate them, and read their last layer.

A module is left in the mode in which it was found.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import nn
from torch.nn.functional import cross_entropy, nll_loss

from divulge.core import LastLayer, Need
from divulge.errors import TargetError
from divulge.targets.batching import guarded, in_batches
from divulge.targets.outputs import Output, offers, to_probabilities

_SMALLEST = 1e-38  # float32's smallest normal number: log p has a gradient down to it


def gradient(
    module: nn.Module,
    device: str,
    dtype: torch.dtype,
    output: Output,
    x: Shaped[np.ndarray, "records *features"],
    y: Int[np.ndarray, " records"],
) -> Float[np.ndarray, "records *features"]:
    """The gradient of each record's own cross-entropy by its features.

    One pass forth and one back for all records: their losses are added up, and no record's answer
    depends on another one in evaluation mode.
    """
    records = torch.tensor(np.ascontiguousarray(x), device=device, dtype=dtype, requires_grad=True)
    labels = torch.tensor(y, device=device)
    answers = _one_a_class(module(records), output)
    if output == "logits":
        loss = cross_entropy(answers, labels, reduction="sum")
    else:
        loss = nll_loss(answers.clamp_min(_SMALLEST).log(), labels, reduction="sum")
    (found,) = torch.autograd.grad(loss, records)
    return np.asarray(found.double().cpu().numpy())


def last_layer(
    module: nn.Module,
    device: str,
    dtype: torch.dtype,
    x: Shaped[np.ndarray, "records *features"],
) -> LastLayer:
    """What enters the linear layer that stands last in the module, and its weights.

    Raises:
        TargetError: there is no linear layer.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    if not layers:
        raise TargetError(
            f"expected a module with a linear layer, got {type(module).__name__}: use an attack "
            "that reads its answers alone"
        )
    seen: list[torch.Tensor] = []

    def keep(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        seen.append(inputs[0])

    handle = layers[-1].register_forward_pre_hook(keep)
    try:
        with torch.no_grad():
            module(torch.tensor(np.ascontiguousarray(x), device=device, dtype=dtype))
    finally:
        handle.remove()
    features = seen[-1].reshape(len(x), -1).double().cpu().numpy()
    return LastLayer(features, layers[-1].weight.detach().double().cpu().numpy())


def _one_a_class(answers: torch.Tensor, output: Output) -> torch.Tensor:
    """A single column of answers means class 1 of two."""
    if answers.ndim == 2 and answers.shape[1] > 1:
        return answers
    one = answers.reshape(len(answers), 1)
    return torch.cat([torch.zeros_like(one) if output == "logits" else 1 - one, one], dim=1)


_REMEDY = "call it on a few records yourself, and check their shape, type and device"


@dataclass(frozen=True, slots=True)
class TorchTarget:
    """A module that maps a batch of records to one row of answers each.

    There is no default for ``output``: most modules return logits, some probabilities, and nothing
    in a module says which.
    """

    module: "torch.nn.Module"
    output: Output
    batch_size: int = 1024
    device: str | None = None
    """The device that records are sent to; the module's own device unless given."""
    classes: int | None = None
    """How many classes there are; only labels need it."""

    @property
    def offers(self) -> Need:
        """What its answers allow, and a look inside where they are not labels alone."""
        inside = Need.NONE if self.output == "labels" else Need.AUTOGRAD
        return offers(self.output) | inside

    def predict(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Float[np.ndarray, "records classes"]:
        """Probabilities in float64, whatever the precision of the module.

        Raises:
            TargetError: the module failed, or its answers are not what ``output`` says.
        """
        with guarded("the module to answer", _REMEDY), evaluating(self.module):
            raw = in_batches(partial(answer, self.module, *self._place()), x, self.batch_size)
        return to_probabilities(raw, self.output, len(x), self.classes)

    def gradient(
        self, x: Shaped[np.ndarray, "records *features"], y: Int[np.ndarray, " records"]
    ) -> Float[np.ndarray, "records *features"]:
        """The gradient of each record's own cross-entropy by its features, in float64.

        Raises:
            TargetError: the module failed, or its answers cannot be differentiated.
        """
        place = self._place()
        with guarded("the module to be differentiated", _REMEDY), evaluating(self.module):
            parts = [
                gradient(self.module, *place, self.output, x[start:end], y[start:end])
                for start, end in self._batches(len(x))
            ]
        return np.concatenate(parts)

    def last_layer(self, x: Shaped[np.ndarray, "records *features"]) -> LastLayer:
        """What enters the module's last linear layer, and its weights, in float64.

        Raises:
            TargetError: the module failed, or has no linear layer.
        """
        place = self._place()
        with guarded("the module to be looked into", _REMEDY), evaluating(self.module):
            parts = [
                last_layer(self.module, *place, x[start:end])
                for start, end in self._batches(len(x))
            ]
        return LastLayer(np.concatenate([part.features for part in parts]), parts[0].weights)

    def _place(self) -> "tuple[str, torch.dtype]":
        """Where records are sent, and what floating ones become."""
        import torch

        floats = (t for t in chain(self.module.parameters(), self.module.buffers()))
        like = next((t for t in floats if t.is_floating_point()), torch.empty(0))
        return self.device or str(like.device), like.dtype

    def _batches(self, records: int) -> list[tuple[int, int]]:
        if not records:
            raise TargetError("expected at least one record, got none: ask about one or more")
        size = self.batch_size
        return [(start, min(start + size, records)) for start in range(0, records, size)]


def answer(
    module: "torch.nn.Module",
    device: str,
    dtype: "torch.dtype",
    batch: Shaped[np.ndarray, " records *features"],
) -> Shaped[np.ndarray, "..."]:
    """The module's answers to one batch, floating ones in float64.

    Raises:
        TargetError: the module returned something else than a tensor.
    """
    import torch

    # Copied: records are read-only, tensors never are.
    records = torch.tensor(np.ascontiguousarray(batch), device=device)
    if records.is_floating_point():
        records = records.to(dtype)
    with torch.inference_mode():
        answers = module(records)
        if not isinstance(answers, torch.Tensor):
            raise TargetError(
                f"expected a tensor of answers, got {type(answers).__name__}: wrap the module in "
                "one that returns the logits or probabilities alone"
            )
        if answers.is_floating_point():
            answers = answers.double()
        return np.asarray(answers.cpu().numpy())


@contextmanager
def evaluating(module: "torch.nn.Module") -> Iterator[None]:
    """The module in evaluation mode; afterwards it is as it was found."""
    # One flag per submodule: a frozen layer inside a module in training must stay frozen.
    flags = {part: part.training for part in module.modules()}
    try:
        module.eval()
        yield
    finally:
        for part, training in flags.items():
            part.training = training
