"""Define small networks for experiments: perceptrons, residual networks, a vision transformer.

Each function returns a function without arguments that makes the network, as `Recipe` expects.
"""

import functools
import itertools
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

NetworkFactory = Callable[[], nn.Module]


def perceptron(*widths: int) -> NetworkFactory:
    """Dense layers between these widths, with ReLU between them."""
    return functools.partial(_perceptron, widths)


def _perceptron(widths: tuple[int, ...]) -> nn.Module:
    pairs = itertools.pairwise(widths)
    layers = [layer for pair in pairs for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *layers[:-1])


def resnet(channels: tuple[int, ...], classes: int) -> NetworkFactory:
    """A residual network: one block a width, each after the first at half the resolution."""
    return functools.partial(_resnet, channels, classes)


def resnet18(classes: int) -> NetworkFactory:
    """ResNet18 for small images (He et al. 2016): no stride and no pooling before its blocks."""
    return functools.partial(_resnet18, classes)


def _resnet18(classes: int) -> nn.Module:
    widths = (64, 64, 64, 128, 128, 256, 256, 512, 512)
    blocks = [
        ResidualBlock(before, after, 1 + (before != after), normalised=True)
        for before, after in itertools.pairwise(widths)
    ]
    return nn.Sequential(
        *convolution_layers(3, widths[0], 1), nn.ReLU(), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes),
    )  # fmt: skip


def _resnet(channels: tuple[int, ...], classes: int) -> nn.Module:
    first, *_ = channels
    pairs = itertools.pairwise((first, *channels))
    blocks = [ResidualBlock(before, after, 1 + (before != after)) for before, after in pairs]
    return nn.Sequential(
        *convolution_layers(3, first, 1), nn.ReLU(), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], classes),
    )  # fmt: skip


class ResidualBlock(nn.Module):
    """Two convolutions beside a short cut (He et al. 2016, figure 2).

    Args:
        before: number of input channels.
        after: number of output channels.
        stride: stride of the first convolution, and of the short cut.
        normalised: whether a short cut that is a convolution ends in a batch normalisation.
    """

    def __init__(self, before: int, after: int, stride: int, *, normalised: bool = False) -> None:
        super().__init__()
        self.long = nn.Sequential(
            *convolution_layers(before, after, stride),
            nn.ReLU(),
            *convolution_layers(after, after, 1),
        )
        short: list[nn.Module] = []
        if before != after or stride != 1:
            short.append(nn.Conv2d(before, after, 1, stride, bias=not normalised))
            short += [nn.BatchNorm2d(after)] * normalised
        self.short = nn.Sequential(*short)

    def forward(
        self, x: Float[Tensor, "images before height width"]
    ) -> Float[Tensor, "images after lower narrower"]:
        """ReLU of the sum of both paths."""
        return torch.relu(self.long(x) + self.short(x))


def convolution_layers(before: int, after: int, stride: int) -> list[nn.Module]:
    """A convolution of 3 x 3 pixels, and a batch normalisation in place of its biases."""
    return [nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)]


def vit(side: int, patch: int, width: int, depth: int, classes: int) -> NetworkFactory:
    """A vision transformer without a class token: the mean of all patches is classified."""
    return functools.partial(_ViT, side, patch, width, depth, classes)


class _ViT(nn.Module):
    """Patches, learned positions, encoder layers with the norm first (Dosovitskiy et al. 2021)."""

    def __init__(self, side: int, patch: int, width: int, depth: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.positions = nn.Parameter(0.02 * torch.randn((side // patch) ** 2, width))
        self.layers = nn.Sequential(*(
            nn.TransformerEncoderLayer(
                width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(depth)
        ))  # fmt: skip
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Float[Tensor, "images 3 side side"]) -> Float[Tensor, "images classes"]:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        logits: Tensor = self.head(self.norm(self.layers(tokens)).mean(dim=1))
        return logits
