"""Train a dense network with every r of DAP as one computation.

A step of a small network is mostly overhead, and the discriminator works fastest on many records.
"""

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from divulge.defences.training.dap.folded_discriminator import DiscriminatorLoss
from divulge.defences.training.dap.loss import DiscriminatorAdversary, shown_records
from divulge.training.engine.dense import dense_layers
from divulge.training.engine.loop import (
    Job,
    build_network_unseeded,
    flush_subnormals,
    step_optimiser,
    temporary_seed,
)
from divulge.training.engine.selection import BestEpoch
from divulge.training.recipe import Recipe
from divulge.training.tensors import PoolTensors
from divulge.training.weights import restore


def train_grid(
    recipe: Recipe, losses: Sequence[DiscriminatorAdversary], data: PoolTensors, job: Job
) -> list[nn.Module]:
    """One model a loss, each as the engine trains it alone, to rounding.

    Args:
        recipe: how each is trained; it holds records out.
        losses: of all models; they differ in r alone.
        data: the pool of records.
        job: rows and seed of all models.
    """
    fit, held_out = recipe.split_rows(job.rows, job.seed)
    with temporary_seed(job.seed, data.x.device), flush_subnormals():
        module = build_network_unseeded(recipe, job).to(data.x.device)
    stack = _DAPStack(recipe, module, losses, data)
    best = [BestEpoch(recipe, data, fit, held_out) for _ in losses]
    going = list(range(len(losses)))
    with flush_subnormals():
        for number, epoch in enumerate(recipe.plan(fit, job.seed)):
            if number:
                stack.balance(torch.from_numpy(held_out).to(data.x.device))
            for rate, rows in epoch:
                stack.step(rows.to(data.x.device), rate)
            going = [k for k in going if best[k].should_continue(stack.load_into(module, k))]
            if not going:
                break
    return [restore(deepcopy(module), epoch.state) for epoch in best]


class _DAPStack:
    """The weights of several models, each tensor with one more axis in front."""

    def __init__(
        self,
        recipe: Recipe,
        module: nn.Module,
        losses: Sequence[DiscriminatorAdversary],
        data: PoolTensors,
    ) -> None:
        layers = dense_layers(module, data)
        assert layers is not None
        self._layers, self._data, self._samples = layers, data, losses[0].samples
        self._names = [name for name, _ in module.named_parameters()]
        device = data.x.device
        self._weights = {
            id(p): p.detach().expand(len(losses), *p.shape).clone().requires_grad_()
            for p in module.parameters()
        }
        self._optimiser = recipe.make_optimiser(list(self._weights.values()))
        self._suspicion = DiscriminatorLoss(losses[0].discriminator, device)
        self._r = torch.tensor([loss.r for loss in losses], device=device)
        self._beta = torch.ones(len(losses), device=device)

    def load_into(self, module: nn.Module, k: int) -> nn.Module:
        """The module with the weights of one model."""
        tensors = zip(self._names, self._weights.values(), strict=True)
        return restore(module, {name: tensor[k].detach() for name, tensor in tensors})

    @torch.no_grad()
    def balance(self, held_out: torch.Tensor) -> None:
        """Find the balance β of eq. 3 of each model; see `DiscriminatorAdversary.terms`."""
        x, y = self._data.batch(held_out)
        logits, labels = self._logits(self._last_inputs(x)).flatten(0, 1), y.repeat(len(self._r))
        shown, whose, counts = self._shown(logits, labels, len(y))
        suspicion = self._suspicion.losses(logits[shown], labels[shown])
        its = torch.zeros_like(self._r).index_add_(0, whose, suspicion.to(self._r.dtype)) / counts
        ours = cross_entropy(logits, labels, reduction="none").view(-1, len(y)).mean(dim=1)
        # eq. 3: r times the ratio of both losses on held-out records
        balanced = self._r * ours.to(self._r.dtype) / its.clamp(min=1e-6)
        self._beta = torch.where(counts > 0, balanced, self._beta)

    def step(self, rows: torch.Tensor, rate: float) -> None:
        """One step of all models on the same batch."""
        x, y = self._data.batch(rows)
        self._optimiser.zero_grad()
        features = self._last_inputs(x)
        logits, labels = self._logits(features), y.repeat(len(self._r))
        flat = logits.flatten(0, 1)
        total = cross_entropy(flat, labels, reduction="sum") / len(y)
        shown, whose, counts = self._shown(flat.detach(), labels, len(y))
        if len(shown):
            _, gradient = self._suspicion.with_gradients(flat.detach()[shown], labels[shown])
            share = (self._beta / counts)[whose].to(gradient.dtype)
            everyone = torch.zeros_like(flat).index_copy_(0, shown, gradient * share[:, None])
            again = self._logits(features.detach())  # changes the last layer alone
            # eq. 2's second term: β / count for each record shown, and for the last layer alone
            total = total + (again * everyone.view_as(again)).sum()
        torch.autograd.backward(total)
        step_optimiser(self._optimiser, rate)

    def _shown(
        self, logits: torch.Tensor, labels: torch.Tensor, records: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What the discriminator is shown, whose answers these are, and how many each model has."""
        shown = shown_records(logits, labels, self._samples)
        whose = shown // records
        return shown, whose, torch.bincount(whose, minlength=len(self._r))

    def _last_inputs(self, x: torch.Tensor) -> torch.Tensor:
        """What enters the last layer, shape (models, records, features)."""
        x = x.flatten(1).expand(len(self._r), -1, -1)
        for layer in self._layers[:-1]:
            x = self._linear(layer, x) if isinstance(layer, nn.Linear) else layer(x)
        return x

    def _logits(self, features: torch.Tensor) -> torch.Tensor:
        last = self._layers[-1]
        assert isinstance(last, nn.Linear)
        return self._linear(last, features)

    def _linear(self, layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        out = x @ self._weights[id(layer.weight)].transpose(1, 2)
        for bias in (p for name, p in layer.named_parameters() if name == "bias"):
            out = out + self._weights[id(bias)][:, None]
        return out
