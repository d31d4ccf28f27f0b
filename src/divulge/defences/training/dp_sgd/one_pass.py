"""The gradients of all records of a batch by one pass forwards and one backwards.

A record's gradient by a layer's weights is a product of what the layer got and of the gradient by
what it gave. Both are known after one pass: norms and the clipped sum follow from them, without a
second pass, and without keeping the gradient of every record where it is large.

References:
    Goodfellow (2015), Efficient per-example gradient computations; Li, Tramèr, Liang and Hashimoto
    (2022), Large language models can be strong differentially private learners, section 4; Bu et
    al. (2023), Differentially private optimization on large model at small cost, section 3: which
    of two ways a layer's norms are computed in, and the sum without a second pass.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from divulge.defences.training.dp_sgd.clipping import BatchGradients, Factors, UnknownUseError
from divulge.defences.training.dp_sgd.layer_gradients import (
    LAYER_GRADIENTS,
    LayerGradients,
    is_known,
    trained_weights,
)


class OnePassGradients:
    """Gradients of a network of layers that are known here.

    Whatever the network does with its weights elsewhere: what is summed is, for each record, the
    product of a row of what each layer got and one of the gradient by what it gave, and its norm is
    that of this product. `divulge.defences.training.dp_sgd.clipping_way` says whether that is the
    gradient.

    Args:
        module: the network; each of its layers treats each record of a batch by itself.

    Raises:
        UnknownUseError: a weight belongs to no layer that is known here, or to several, or a layer
            is frozen in part.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._names = {layer: name for name, layer in module.named_modules()}
        self._layers = [layer for layer in module.modules() if trained_weights(layer)]
        owners: dict[int, int] = {}
        for layer in self._layers:
            for p in trained_weights(layer):
                owners[id(p)] = owners.get(id(p), 0) + 1
        for name, p in module.named_parameters():
            if p.requires_grad and owners[id(p)] > 1:
                raise UnknownUseError(f"weight {name!r} belongs to several layers")
        for name, layer in module.named_modules():
            if trained_weights(layer) and not is_known(layer):
                kind = type(layer).__name__
                weight = next(n for n, p in layer.named_parameters(name) if p.requires_grad)
                raise UnknownUseError(f"weight {weight!r} is of a layer of another kind ({kind})")
        self.params = [p for layer in self._layers for p in trained_weights(layer)]
        self.alone = False
        self.records_at_a_time: int | None = None

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> BatchGradients:
        """The gradients of a batch; see `divulge.defences.training.dp_sgd.clipping`.

        Raises:
            UnknownUseError: a layer is used in a way that its gradients cannot be computed for.
        """
        with self._noting() as notes:
            losses = cross_entropy(self._module(x), y, reduction="none")
        for note in notes:
            # overwritten since, or with another axis in front: what is known is not of this layer
            if note.given._version != note.version:
                raise UnknownUseError(f"what layer {note.name!r} gives is overwritten")
            if len(note.got) != len(x) or len(note.given) != len(x):
                raise UnknownUseError(f"layer {note.name!r} has another axis than that of records")
        by_given = torch.autograd.grad(losses.sum(), [note.given for note in notes])
        pairs = [(note.got, given) for note, given in zip(notes, by_given, strict=True)]
        with torch.no_grad():
            layers = self._layer_gradients(pairs)
        squares = torch.stack([layer.squares for layer in layers]).sum(0)

        def weigh(factors: Factors) -> list[torch.Tensor]:
            with torch.no_grad():
                left_out = factors == 0
                finite = layers
                if left_out.any():  # 0 times what is not finite is not 0
                    finite = self._layer_gradients(
                        [(_zero(got, left_out), _zero(given, left_out)) for got, given in pairs]
                    )
                return [grad for layer in finite for grad in layer.weigh(factors)]

        return BatchGradients(losses.detach(), squares, weigh)

    def _layer_gradients(
        self, pairs: list[tuple[torch.Tensor, torch.Tensor]]
    ) -> list[LayerGradients]:
        return [
            LAYER_GRADIENTS[type(layer)](layer, got, by_given)
            for layer, (got, by_given) in zip(self._layers, pairs, strict=True)
        ]

    @contextmanager
    def _noting(self) -> Iterator[list["_Note"]]:
        """Within it, what each layer got and gave is noted; afterwards, in the order of layers."""
        notes: dict[nn.Module, _Note] = {}
        ordered: list[_Note] = []
        names = self._names

        def note(layer: nn.Module, got: tuple[torch.Tensor, ...], given: torch.Tensor) -> None:
            if layer in notes:
                raise UnknownUseError(f"layer {names[layer]!r} is called several times")
            if len(got) != 1:
                raise UnknownUseError(f"layer {names[layer]!r} gets {len(got)} arguments")
            notes[layer] = _Note(names[layer], got[0].detach(), given, given._version)

        hooks = [layer.register_forward_hook(note) for layer in self._layers]
        try:
            yield ordered
            for layer in self._layers:
                if layer not in notes:
                    raise UnknownUseError(f"layer {names[layer]!r} is not called")
            ordered += [notes[layer] for layer in self._layers]
        finally:
            for hook in hooks:
                hook.remove()


class _Note(NamedTuple):
    """What a layer got and gave."""

    name: str
    got: torch.Tensor
    given: torch.Tensor
    version: int
    """How often what it gave had been overwritten."""


def _zero(t: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """A copy with zeros in these rows."""
    return t.masked_fill(rows.view(-1, *(1,) * (t.dim() - 1)), 0)
