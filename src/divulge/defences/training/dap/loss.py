"""Compute DAP's loss: the cross-entropy and what a frozen discriminator adds, by its gradient.

The discriminator's part changes the last layer alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from divulge.defences.training.dap.discriminator import (
    Discriminator,
    Samples,
)
from divulge.defences.training.dap.folded_discriminator import DiscriminatorLoss
from divulge.errors import TargetError
from divulge.training.losses import BatchLoss, LastLayerTerm, TermFunction
from divulge.training.tensors import PoolTensors


@dataclass(frozen=True, slots=True)
class DiscriminatorAdversary:
    """DAP's loss: the cross-entropy, and for the last layer the discriminator's loss besides."""

    discriminator: Discriminator
    r: float
    samples: Samples

    def against(
        self, module: nn.Module, data: PoolTensors, held_out: torch.Tensor
    ) -> Callable[[int], BatchLoss]:
        """A game of its own: the discriminator stays, the balance β is found in each epoch.

        Raises:
            TargetError: the model does not end in a linear layer.
        """
        last = _LastLinear(module)
        last.check(data, held_out)
        terms = self.terms(module, data, held_out)

        def epoch_loss(epoch: int) -> BatchLoss:
            term = terms(epoch)

            def loss(rows: torch.Tensor) -> torch.Tensor:
                x, y = data.batch(rows)
                logits, features = last.answers(x)
                total = cross_entropy(logits, y)
                extra = term(logits.detach(), y)
                if extra:  # its value, and its gradient for the last layer alone
                    # the value cancels, and the gradient reaches the last layer alone
                    again = (last.layer(features.detach()) * extra.gradient).sum()
                    total = total + extra.value + again - again.detach()
                return total

            return loss

        return epoch_loss

    def terms(
        self, module: nn.Module, data: PoolTensors, held_out: torch.Tensor
    ) -> Callable[[int], TermFunction]:
        """What the game adds to the cross-entropy."""
        suspicion = DiscriminatorLoss(self.discriminator, data.x.device)
        beta = 1.0

        def balance_losses() -> float:
            """The balance β of eq. 3."""
            with _inference_mode(module):
                x, y = data.batch(held_out)
                logits = module(x)
                shown = shown_records(logits, y, self.samples)
                if not len(shown):
                    return beta
                its = suspicion.losses(logits[shown], y[shown]).mean()
                ours = cross_entropy(logits, y)
                # eq. 3 on the records held out, the second mean over those classified wrongly
                return self.r * float(ours) / max(float(its), 1e-6)

        def epoch_term(epoch: int) -> TermFunction:
            nonlocal beta
            # eq. 3: β is 1 at t = 0, whatever r is
            beta = balance_losses() if epoch else 1.0

            def term(logits: torch.Tensor, y: torch.Tensor) -> LastLayerTerm | None:
                shown = shown_records(logits, y, self.samples)
                if not beta or not len(shown):
                    return None
                losses, gradient = suspicion.with_gradients(logits[shown], y[shown])
                everyone = torch.zeros_like(logits)
                everyone.index_copy_(0, shown, gradient.mul_(beta / len(shown)))
                return LastLayerTerm(beta * losses.mean(), everyone)

            return term

        return epoch_term


def shown_records(logits: torch.Tensor, y: torch.Tensor, samples: Samples) -> torch.Tensor:
    """Positions of the records that the discriminator is shown."""
    if samples == "all":
        return torch.arange(len(y), device=y.device)
    # section 3: the discriminator is shown misclassified records
    return (logits.argmax(dim=1) != y).nonzero().squeeze(1)


class _LastLinear:
    """The last linear layer of a module, and what enters it."""

    def __init__(self, module: nn.Module) -> None:
        layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
        if not layers:
            raise _last_layer_error(module)
        self.layer, self._module = layers[-1], module

    def answers(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of a batch, and the features that the layer made them from."""
        captured: list[torch.Tensor] = []

        def keep(_layer: nn.Module, inputs: tuple[Any, ...]) -> None:
            captured.append(inputs[0])

        handle = self.layer.register_forward_pre_hook(keep)
        try:
            logits = self._module(x)
        finally:
            handle.remove()
        return logits, captured[-1]

    def check(self, data: PoolTensors, rows: torch.Tensor) -> None:
        """Refuse a module whose logits are not what this layer makes.

        Raises:
            TargetError: they are not.
        """
        with _inference_mode(self._module):
            logits, features = self.answers(data.batch(rows[:2])[0])
            again = self.layer(features)
        if again.shape != logits.shape or not torch.allclose(again, logits, rtol=1e-3, atol=1e-5):
            raise _last_layer_error(self._module)


@contextmanager
def _inference_mode(module: nn.Module) -> Iterator[None]:
    """The module in evaluation mode, without gradients; afterwards as before."""
    mode = module.training
    try:
        with torch.no_grad():
            module.eval()
            yield
    finally:
        module.train(mode)


def _last_layer_error(module: nn.Module) -> TargetError:
    return TargetError(
        f"expected a network whose logits come from its last linear layer, got "
        f"{type(module).__name__}: DAP changes that layer for privacy, and no other"
    )
