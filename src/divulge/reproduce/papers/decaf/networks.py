"""Define the networks of Decaf's tables: small ones, and ResNet18 and VGG16 with fewer channels."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from divulge.reproduce.networks import ResidualBlock, convolution_layers

NetworkKind = Literal["plain", "resnet18", "vgg16"]

_VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
"""Numbers of channels of VGG16's convolutions; 0 is a pooling."""


@dataclass(frozen=True, slots=True)
class DecafNetwork:
    """Makes an untrained network.

    Args:
        shape: shape of an image, channels first.
        classes: number of classes.
        kind: ``plain`` is two convolutions and a pooling, or ``modules``; then two dense layers.
        modules: number of modules of ``plain``, each a convolution and a pooling.
        part: divisor of the published numbers of channels of ResNet18 and VGG16, and of units of
            the latter.
        small: whether ``plain`` has fewer channels, and a stride of 2 in its first convolution.
        width: number of inputs of the last layer of ``plain``.
        dropout: rate of dropout before that layer.
    """

    shape: tuple[int, ...]
    classes: int
    kind: NetworkKind = "plain"
    modules: int = 0
    part: int = 16
    small: bool = True
    width: int | None = None
    dropout: float = 0.0

    def __call__(self) -> nn.Module:
        """Make a network, initialised by the current random numbers of PyTorch."""
        if self.kind == "plain":
            return self._plain()
        body = self._resnet18() if self.kind == "resnet18" else self._vgg16()
        for layer in body.modules():
            if isinstance(layer, nn.Conv2d):  # deep ones without a residual learn nothing else
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        return body

    def _plain(self) -> nn.Sequential:
        wide = (8, 16, 64) if self.small else (32, 64, 128)
        channels, layers = self.shape[0], list[nn.Module]()
        for k in range(self.modules or 2):
            more, stride = wide[min(k, 1)], 2 if self.small and k == 0 else 1
            layers += [nn.Conv2d(channels, more, 3, stride, 1 if self.modules else 0), nn.ReLU()]
            layers += [nn.MaxPool2d(2)] if self.modules or k == 1 else []
            channels = more
        body = nn.Sequential(*layers, nn.Flatten())
        width = self.width or wide[2]
        dropped = [nn.Dropout(self.dropout)] if self.dropout else []
        inputs = body(torch.zeros(1, *self.shape)).shape[1]
        head = [nn.Linear(inputs, width), nn.ReLU(), *dropped, nn.Linear(width, self.classes)]
        return nn.Sequential(*body, *head)

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
