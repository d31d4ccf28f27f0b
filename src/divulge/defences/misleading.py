"""What DAP makes smaller: the cross-entropy, and for the last layer what a discriminator tells."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from divulge.defences.discriminator import Discriminator, Samples
from divulge.defences.suspicion import Suspicion
from divulge.errors import TargetError
from divulge.training.objective import BatchLoss, Term, TermOf
from divulge.training.pool import Tensors


@dataclass(frozen=True, slots=True)
class Misleading:
    """Cross-entropy, and for the last layer what the discriminator tells besides."""

    discriminator: Discriminator
    r: float
    samples: Samples

    def against(
        self, module: nn.Module, data: Tensors, held_out: torch.Tensor
    ) -> Callable[[int], BatchLoss]:
        """A game of its own: the discriminator stays, the balance β is found in each epoch.

        Raises:
            TargetError: the model does not end in a linear layer.
        """
        last = _Last(module)
        last.check(data, held_out)
        terms = self.terms(module, data, held_out)

        def epoch_loss(epoch: int) -> BatchLoss:
            term = terms(epoch)

            def loss(rows: torch.Tensor) -> torch.Tensor:
                x, y = data.batch(rows)
                logits, features = last.answers(x)
                total = cross_entropy(logits, y)
                found = term(logits.detach(), y)
                if found:  # its value, and its gradient for the last layer alone
                    again = (last.layer(features.detach()) * found.gradient).sum()
                    total = total + found.value + again - again.detach()
                return total

            return loss

        return epoch_loss

    def terms(
        self, module: nn.Module, data: Tensors, held_out: torch.Tensor
    ) -> Callable[[int], TermOf]:
        """What the game adds to the cross-entropy."""
        suspicion = Suspicion(self.discriminator, data.x.device)
        beta = 1.0

        def balanced() -> float:
            """Eq. 3."""
            with _asked(module):
                x, y = data.batch(held_out)
                logits = module(x)
                kept = self._kept(logits, y)
                if not kept.any():
                    return beta
                ours, its = cross_entropy(logits, y), suspicion.value(logits[kept], y[kept])
                return self.r * float(ours) / max(float(its), 1e-6)

        def epoch_term(epoch: int) -> TermOf:
            nonlocal beta
            beta = balanced() if epoch else 1.0

            def term(logits: torch.Tensor, y: torch.Tensor) -> Term | None:
                kept = self._kept(logits, y)
                if not beta or not kept.any():
                    return None
                value, gradient = suspicion.with_gradient(logits[kept], y[kept])
                everyone = torch.zeros_like(logits)
                everyone[kept] = gradient * beta
                return Term(beta * value, everyone)

            return term

        return epoch_term

    def _kept(self, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Which records the discriminator is shown."""
        return (logits.argmax(dim=1) != y) | (self.samples == "all")


class _Last:
    """The last linear layer of a module, and what enters it."""

    def __init__(self, module: nn.Module) -> None:
        layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
        if not layers:
            raise _no_last_layer(module)
        self.layer, self._module = layers[-1], module

    def answers(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of a batch, and the features that the layer made them from."""
        seen: list[torch.Tensor] = []

        def keep(_layer: nn.Module, inputs: tuple[Any, ...]) -> None:
            seen.append(inputs[0])

        handle = self.layer.register_forward_pre_hook(keep)
        try:
            logits = self._module(x)
        finally:
            handle.remove()
        return logits, seen[-1]

    def check(self, data: Tensors, rows: torch.Tensor) -> None:
        """Refuse a module whose logits are not what this layer makes.

        Raises:
            TargetError: they are not.
        """
        with _asked(self._module):
            logits, features = self.answers(data.batch(rows[:2])[0])
            again = self.layer(features)
        if again.shape != logits.shape or not torch.allclose(again, logits, rtol=1e-3, atol=1e-5):
            raise _no_last_layer(self._module)


@contextmanager
def _asked(module: nn.Module) -> Iterator[None]:
    """The module in evaluation mode, without gradients; afterwards as before."""
    mode = module.training
    try:
        with torch.no_grad():
            module.eval()
            yield
    finally:
        module.train(mode)


def _no_last_layer(module: nn.Module) -> TargetError:
    return TargetError(
        f"expected a network whose logits come from its last linear layer, got "
        f"{type(module).__name__}: DAP changes that layer for privacy, and no other"
    )
