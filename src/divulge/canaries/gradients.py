"""How much a direction agrees with the clipped gradient of each canary."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64, Shaped
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy
from torch.nn.modules.batchnorm import _NormBase

from divulge._util.hints import shorten
from divulge.errors import SpecError, TargetError
from divulge.targets.batching import translate_model_errors

Tensors = Mapping[str, torch.Tensor]
Prepare = Callable[[Any], torch.Tensor]
"""From all canaries' features, a tensor or a list of texts, to what the network takes."""

_NUMBERS = 2**24
"""Largest number of entries of the gradients that are kept at a time."""

_REMEDY = "put a canary to the network yourself, in a batch of one; see the argument prepare"


class CanaryGradients:
    """The canaries and a network without weights of its own, in evaluation mode.

    Args:
        network: the untrained network, not wrapped; it is copied.
        x: the canaries' features.
        y: their classes.
        max_grad_norm: what a record's gradient is clipped to.
        prepare: what the training does with features before the network gets them; texts need it.

    Raises:
        SpecError: the canaries are texts, and there is no ``prepare``.
        TargetError: ``prepare`` fails, or gives no tensor with a row a canary.
    """

    def __init__(
        self,
        network: nn.Module,
        x: Shaped[np.ndarray, "canaries *features"],
        y: Int64[np.ndarray, " canaries"],
        max_grad_norm: float,
        prepare: Prepare | None,
    ) -> None:
        if x.dtype.kind not in ("fiub" if prepare is None else "fiubU"):
            raise SpecError(
                "expected prepare for canaries of texts, which turns a list of them into a tensor "
                "of tokens, got none: pass it, or score them by their losses, with score_canaries"
            )
        self.network = copy.deepcopy(network).eval()
        self._clip = max_grad_norm
        like = next((p for p in network.parameters() if p.is_floating_point()), torch.empty(0))
        if prepare is None:
            self._x = torch.from_numpy(np.array(x)).to(like.dtype).to(like.device)
        else:
            features = x.tolist() if x.dtype.kind == "U" else torch.from_numpy(np.array(x))
            self._x = _prepare(prepare, features, len(x)).to(like.device)
        self._y = torch.from_numpy(np.array(y)).to(like.device)
        self.trained = [name for name, p in self.network.named_parameters() if p.requires_grad]
        # further names of weights that stand in several places, such as embedding and output
        every = dict(self.network.named_parameters(remove_duplicate=False))
        self._tied = every.keys() - dict(self.network.named_parameters()).keys()
        self._statistics = {
            f"{prefix}{name}": layer
            for layer, module in self.network.named_modules()
            if isinstance(module, _NormBase)
            for prefix in [f"{layer}." if layer else ""]
            for name in ("running_mean", "running_var")
            if getattr(module, name) is not None
        }

    def products(self, weights: Tensors, direction: Tensors) -> Float64[np.ndarray, " canaries"]:
        """The inner product of a direction with each canary's clipped gradient.

        Args:
            weights: parameters and buffers at which gradients are taken, by name.
            direction: one tensor a trained parameter; those without one count as 0.

        Raises:
            TargetError: the network does not take the canaries.
        """
        trained = {name: weights[name].detach() for name in self.trained}
        fixed = {
            name: value
            for name, value in weights.items()
            if name not in trained and name not in self._tied
        }

        def loss(params: Tensors, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return cross_entropy(
                functional_call(self.network, {**fixed, **params}, x[None]), y[None]
            )

        def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            own: Tensors = grad(loss)(trained, x, y)
            # no square overflows, or becomes 0, and what is not finite adds nothing to a sum
            largest = torch.stack([g.abs().max() for g in own.values() if g.numel()]).max()
            scale = torch.where(largest > 0, largest, 1)
            squares = [((g / scale) ** 2).sum() for g in own.values()]
            norm = torch.stack(squares).sum().sqrt() * scale
            factor = (self._clip / (norm + 1e-6)).clamp(max=1.0)
            along = [
                (own[name] * factor * direction[name]).sum() for name in own if name in direction
            ]
            return torch.where(largest.isfinite(), torch.stack(along).sum(), 0.0)

        chunk = max(1, _NUMBERS // max(1, sum(value.numel() for value in trained.values())))
        with translate_model_errors("the network to be differentiated", _REMEDY):
            products = vmap(product, chunk_size=chunk)(self._x, self._y)
        return products.double().cpu().numpy()

    def sums_to_zero(self, records: int = 16) -> list[str]:
        """Trained parameters whose gradient adds up to zero over the first dimension.

        So does that of a layer that gives the logits: a number that is added to all of a record's
        logits changes no cross-entropy. Found in training mode and at random weights, where nothing
        is zero by chance; the random numbers of the caller are left alone.
        """
        network = copy.deepcopy(self.network).train()
        weights, generator = dict(network.named_parameters()), torch.Generator().manual_seed(0)
        with torch.no_grad():
            for value in weights.values():
                drawn = torch.randn(value.shape, generator=generator)
                size = 0.1 / max(1, (value.numel() // (len(value) if value.ndim else 1))) ** 0.5
                value.add_(drawn.to(value.device, value.dtype), alpha=size)
        some = slice(0, records)
        with (
            torch.random.fork_rng([self._x.device] if self._x.is_cuda else []),
            torch.enable_grad(),
            translate_model_errors("the network to be differentiated", _REMEDY),
        ):
            loss = cross_entropy(network(self._x[some]), self._y[some])
            trained = [weights[name] for name in self.trained]
            own: tuple[torch.Tensor | None, ...] = torch.autograd.grad(
                loss, trained, allow_unused=True
            )
        return [
            name
            for name, g in zip(self.trained, own, strict=True)
            if g is not None and g.ndim and len(g) > 1 and _adds_up_to_zero(g)
        ]

    def statistics(self, weights: Tensors) -> dict[str, torch.Tensor]:
        """Running statistics of normalisation layers, copied: they are computed from records."""
        return {name: weights[name].detach().clone() for name in self._statistics}

    def changed(self, before: Tensors, after: Tensors) -> set[str]:
        """Layers whose running statistics differ."""
        return {
            layer
            for name, layer in self._statistics.items()
            if not torch.equal(before[name], after[name])
        }

    def load(self, weights: Tensors) -> nn.Module:
        """The network, with these weights."""
        self.network.load_state_dict(dict(weights))
        return self.network


def _adds_up_to_zero(gradient: torch.Tensor) -> bool:
    whole, left = float(gradient.norm()), float(gradient.sum(dim=0).norm())
    return whole > 0 and left <= 1e-4 * whole


def _prepare(prepare: Prepare, features: Any, canaries: int) -> torch.Tensor:
    with translate_model_errors("a function that prepares features", _REMEDY):
        made: object = prepare(features)
    if not isinstance(made, torch.Tensor) or made.ndim == 0 or len(made) != canaries:
        raise TargetError(
            f"expected a tensor of {canaries} rows from prepare, got {shorten(made)}: return "
            "all canaries, as the network takes them"
        )
    return made
