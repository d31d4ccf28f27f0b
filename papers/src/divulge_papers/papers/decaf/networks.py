"""Define the networks of Decaf's tables: those of the paper, small ones, and three of ours."""

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from divulge_papers.networks import ResidualBlock, convolution_layers, perceptron

NetworkKind = Literal["plain", "resnet18", "vgg16", "perceptron", "groupnorm", "batchnorm"]

_VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
"""Numbers of channels of VGG16's convolutions; 0 is a pooling."""


@dataclass(frozen=True, slots=True)
class DecafNetwork:
    """Makes an untrained network.

    Args:
        shape: shape of an image, channels first.
        classes: number of classes.
        kind: ``plain`` is two convolutions and a pooling, or ``modules``; then two dense layers.
            ``perceptron`` is two dense layers, ``groupnorm`` two convolutions with group
            normalisation and two dense layers, ``batchnorm`` three residual blocks with batch
            normalisation and one dense layer.
        modules: number of modules of ``plain``, each a convolution and a pooling.
        part: divisor of the published numbers of channels of ResNet18 and VGG16, and of units of
            the latter.
        small: whether ``plain``, ``groupnorm`` and ``batchnorm`` have fewer channels, and a stride
            of 2 in their first convolution.
        width: number of inputs of the last layer of ``plain``.
        dropout: rate of dropout before that layer.
        leaky: whether the activations of ``plain`` are LeakyReLU instead of ReLU.
    """

    shape: tuple[int, ...]
    classes: int
    kind: NetworkKind = "plain"
    modules: int = 0
    part: int = 16
    small: bool = True
    width: int | None = None
    dropout: float = 0.0
    leaky: bool = False

    def __call__(self) -> nn.Module:
        """Make a network, initialised by the current random numbers of PyTorch."""
        if self.kind not in ("resnet18", "vgg16"):
            return {
                "plain": self._plain,
                "perceptron": perceptron(math.prod(self.shape), 64, self.classes),
                "groupnorm": self._groupnorm,
                "batchnorm": self._batchnorm,
            }[self.kind]()
        body = self._resnet18() if self.kind == "resnet18" else self._vgg16()
        for layer in body.modules():
            if isinstance(layer, nn.Conv2d):  # deep ones without a residual learn nothing else
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        return body

    def _plain(self) -> nn.Sequential:
        wide = (8, 16, 64) if self.small else (32, 64, 128)
        channels, layers = self.shape[0], list[nn.Module]()
        for k in range(self.modules or 2):
            more, stride = wide[min(k, 1)], self._first_stride if k == 0 else 1
            layers += [nn.Conv2d(channels, more, 3, stride, 1 if self.modules else 0)]
            layers += [self._activation()]
            layers += [nn.MaxPool2d(2)] if self.modules or k == 1 else []
            channels = more
        body = nn.Sequential(*layers, nn.Flatten())
        width = self.width or wide[2]
        dropped = [nn.Dropout(self.dropout)] if self.dropout else []
        inputs = body(torch.zeros(1, *self.shape)).shape[1]
        first = [nn.Linear(inputs, width), self._activation(), *dropped]
        return nn.Sequential(*body, *first, nn.Linear(width, self.classes))

    def _activation(self) -> nn.Module:
        return nn.LeakyReLU() if self.leaky else nn.ReLU()

    def _groupnorm(self) -> nn.Sequential:
        channels, stride, layers = self.shape[0], self._first_stride, list[nn.Module]()
        for more in (8, 16) if self.small else (16, 32):
            layers += [nn.Conv2d(channels, more, 3, stride, 1), nn.GroupNorm(4, more), nn.ReLU()]
            layers += [nn.MaxPool2d(2)] if stride == 1 else []
            channels, stride = more, 1
        body = nn.Sequential(*layers, nn.Flatten())
        inputs = body(torch.zeros(1, *self.shape)).shape[1]
        return nn.Sequential(*body, nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, self.classes))

    def _batchnorm(self) -> nn.Sequential:
        wide = (4, 4, 8, 16) if self.small else (8, 8, 16, 32)
        layers = [*convolution_layers(self.shape[0], wide[0], self._first_stride), nn.ReLU()]
        for channels, more in itertools.pairwise(wide):
            layers.append(ResidualBlock(channels, more, 1 + (channels != more)))
        pooled = (nn.AdaptiveAvgPool2d(1), nn.Flatten())
        return nn.Sequential(*layers, *pooled, nn.Linear(wide[-1], self.classes))

    @property
    def _first_stride(self) -> int:
        """Stride of the first convolution."""
        return 2 if self.small else 1

    def _resnet18(self) -> nn.Sequential:
        """ResNet18 for small images: its first convolution has neither stride nor pooling."""
        wide = [64 // self.part * times for times in (1, 2, 4, 8)]
        layers: list[nn.Module] = [*convolution_layers(self.shape[0], wide[0], 1), nn.ReLU()]
        channels = wide[0]
        for more in wide:
            stride = 1 if more == channels else 2
            layers.append(ResidualBlock(channels, more, stride, normalised=True))
            layers.append(ResidualBlock(more, more, 1))
            channels = more
        pooled = (nn.AdaptiveAvgPool2d(1), nn.Flatten())
        return nn.Sequential(*layers, *pooled, nn.Linear(channels, self.classes))

    def _vgg16(self) -> nn.Sequential:
        """VGG16 for small images: its poolings stop where one pixel is left."""
        layers, channels, side = list[nn.Module](), self.shape[0], self.shape[1]
        for full in _VGG16:
            if full:
                layers += [nn.Conv2d(channels, full // self.part, 3, padding=1), nn.ReLU()]
                channels = full // self.part
            elif side > 1:
                layers.append(nn.MaxPool2d(2))
                side //= 2
        units = 4096 // self.part
        inputs = channels * side**2
        first = (nn.Flatten(), nn.Linear(inputs, units), nn.ReLU(), nn.Dropout())
        second = (nn.Linear(units, units), nn.ReLU(), nn.Dropout())
        return nn.Sequential(*layers, *first, *second, nn.Linear(units, self.classes))
