"""Define vision models of the kinds in RAIFLE's table IV, small enough to train here.

Each sees images of 32 x 32 pixels, has 100 features after a ReLU, and one linear layer behind them.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from divulge_papers.networks import ResidualBlock, convolution_layers

FEATURES, CLASSES = 100, 10


def make_resnet() -> nn.Module:
    """Residual blocks of two convolutions each (He et al. 2016)."""
    return nn.Sequential(
        *convolution_layers(3, 16, 1), nn.ReLU(), ResidualBlock(16, 32, 2),
        ResidualBlock(32, FEATURES, 2), *_head(),
    )  # fmt: skip


def make_regnet() -> nn.Module:
    """Bottlenecks of grouped convolutions, squeezed and excited (Radosavovic et al. 2020)."""
    return nn.Sequential(
        *convolution_layers(3, 16, 2), nn.ReLU(), _GroupedBlock(16, 48, 1),
        _GroupedBlock(48, FEATURES, 2), *_head(),
    )  # fmt: skip


def make_densenet() -> nn.Module:
    """Dense blocks: each convolution sees the outputs of all before it (Huang et al. 2017)."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False), _DenseBlock(16, 12, 4), *_transition(64, 32),
        _DenseBlock(32, 17, 4), nn.BatchNorm2d(FEATURES), nn.ReLU(), *_head(),
    )  # fmt: skip


def make_mnasnet() -> nn.Module:
    """Inverted residuals of depthwise convolutions (Tan et al. 2019)."""
    return nn.Sequential(
        *convolution_layers(3, 16, 2), nn.ReLU(), _InvertedResidual(16, 24, 1),
        _InvertedResidual(24, 40, 2), _InvertedResidual(40, 40, 1),
        *_pointwise(40, FEATURES), nn.ReLU(), *_head(),
    )  # fmt: skip


def make_plain() -> nn.Module:
    """Three convolutions, in the manner of VGG (Simonyan and Zisserman 2015)."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, FEATURES, 3, padding=1), nn.ReLU(), *_head(),
    )  # fmt: skip


def _head() -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(FEATURES, CLASSES)]


def _pointwise(before: int, after: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)]


def _transition(before: int, after: int) -> list[nn.Module]:
    """Between dense blocks: fewer channels, at half the resolution."""
    convolution = nn.Conv2d(before, after, 1, bias=False)
    return [nn.BatchNorm2d(before), nn.ReLU(), convolution, nn.AvgPool2d(2)]


class _GroupedBlock(nn.Module):
    """A bottleneck with four groups, whose channels are weighed by what all of the image holds."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.wide = nn.Sequential(
            *_pointwise(before, after), nn.ReLU(),
            nn.Conv2d(after, after, 3, stride, 1, groups=4, bias=False), nn.BatchNorm2d(after),
            nn.ReLU(),
        )  # fmt: skip
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(after, before // 4, 1), nn.ReLU(),
            nn.Conv2d(before // 4, after, 1), nn.Sigmoid(),
        )  # fmt: skip
        self.narrow = nn.Sequential(*_pointwise(after, after))
        self.short = nn.Sequential(*_pointwise(before, after, stride))

    def forward(
        self, x: Float[Tensor, "images before height width"]
    ) -> Float[Tensor, "images after lower narrower"]:
        wide = self.wide(x)
        return torch.relu(self.narrow(wide * self.weigh(wide)) + self.short(x))


class _DenseBlock(nn.Module):
    """Convolutions that each add channels to those that they see."""

    def __init__(self, before: int, growth: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(channels),
                nn.ReLU(),
                nn.Conv2d(channels, growth, 3, 1, 1, bias=False),
            )
            for channels in range(before, before + layers * growth, growth)
        )

    def forward(
        self, x: Float[Tensor, "images before height width"]
    ) -> Float[Tensor, "images after height width"]:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


class _InvertedResidual(nn.Module):
    """Three times the channels, each convolved by itself, and back; added where sizes agree."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        inner = 3 * before
        self.adds = before == after and stride == 1
        self.layers = nn.Sequential(
            *_pointwise(before, inner), nn.ReLU(),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False),
            nn.BatchNorm2d(inner), nn.ReLU(), *_pointwise(inner, after),
        )  # fmt: skip

    def forward(
        self, x: Float[Tensor, "images before height width"]
    ) -> Float[Tensor, "images after lower narrower"]:
        features: Tensor = self.layers(x)
        return features + x if self.adds else features


NETWORKS = {
    "resnet": make_resnet,
    "regnet": make_regnet,
    "densenet": make_densenet,
    "mnasnet": make_mnasnet,
    "plain": make_plain,
}
"""Networks by the name of their kind."""
