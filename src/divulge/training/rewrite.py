"""The same network, computed with less work."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)


@contextmanager
def pooled_first(module: nn.Module) -> Iterator[None]:
    """Within it, max-pooling comes before the ReLU that it follows, which then has less to do.

    ``max(relu(x))`` is ``relu(max(x))``, and its gradient is the same: where the largest value of a
    window is above nought, both give it to the first place that has this value; elsewhere the
    ReLU passes none on.
    """
    pairs = [
        (layers, k)
        for layers in module.modules()
        if type(layers) is nn.Sequential
        for k in range(len(layers) - 1)
        if type(layers[k]) is nn.ReLU and _pools(layers[k + 1]) and not hooked(layers[k])
    ]
    _exchange(pairs)
    try:
        yield
    finally:
        _exchange(pairs)


def hooked(layer: nn.Module) -> bool:
    """Whether somebody else looks at what the layer gets or gives."""
    return any(found for name, found in vars(layer).items() if name.endswith("_hooks"))


def _pools(layer: nn.Module) -> bool:
    return type(layer) in _POOLS and not layer.return_indices and not hooked(layer)


def _exchange(pairs: list[tuple[nn.Sequential, int]]) -> None:
    for layers, k in pairs:
        layers[k], layers[k + 1] = layers[k + 1], layers[k]
