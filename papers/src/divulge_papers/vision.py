"""Load vision models and photographs for experiments from the folder in ``DIVULGE_DATA``."""

import functools
import io
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad, relu6

from divulge._util import atomic
from divulge._util.extras import name_missing_extra
from divulge.core import Records
from divulge.errors import DataError
from divulge.targets.features import Extractor, Images
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe
from divulge.training.weights import as_arrays, restore
from divulge_papers.data import data_file, load_images


class EfficientNetLite(nn.Module):
    """EfficientNet-Lite0, pretrained on ImageNet: convolutions with normalisation folded in.

    A row of its table is a convolution: kernel, stride, groups, whether ReLU6 follows, whether its
    input is kept, and whether what was kept is added to its output.

    References:
        Tan and Le (2019), EfficientNet: rethinking model scaling for convolutional networks.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        with np.load(path, allow_pickle=False) as arrays:
            self.table: list[list[int]] = arrays["table"].tolist()
            rows = range(len(self.table))
            self.weights = nn.ParameterList(_freeze(arrays[f"w{row}"]) for row in rows)
            self.biases = nn.ParameterList(_freeze(arrays[f"b{row}"]) for row in rows)
            classes, features = arrays["fc_w"].shape
            self.classifier = nn.Linear(features, classes)
            restore(
                self.classifier,
                {"weight": _freeze(arrays["fc_w"]), "bias": _freeze(arrays["fc_b"])},
            )

    def forward(
        self, x: Float[Tensor, "load_images 3 height width"]
    ) -> Float[Tensor, "load_images classes"]:
        """Logits of images whose pixels were centred at 127 and divided by 128 levels."""
        before = x
        for row, weight, bias in zip(self.table, self.weights, self.biases, strict=True):
            kernel, stride, groups, rectified, keeps, adds = row
            before = x if keeps else before
            x, edge = _pad_same(x, kernel, stride)
            x = conv2d(x, weight, bias, stride, edge, 1, groups)
            # in place, PyTorch would copy the input first where a gradient is asked for
            x = relu6(x, inplace=not x.requires_grad) if rectified else x
            x = x + before if adds else x
        logits: Tensor = self.classifier(x.mean((2, 3)))
        return logits


def load_efficientnet_lite(features: int | None = None) -> Extractor:
    """Load EfficientNet-Lite0 with all its 1,280 features, or with the first ``features`` of them.

    Raises:
        DataError: its weights are not there.
    """
    module = EfficientNetLite(data_file("vision-extractor/efficientnet_lite0_fp16.npz"))
    return Extractor(module, (127 / 255,), (128 / 255,), kept=features)


def load_photographs(count: int, side: int = 224) -> Images:
    """Load the first photographs of ImageNet's classes, one a class, in colour.

    Args:
        count: number of photographs.
        side: number of pixels of a side, a divisor of 224; smaller images are means over squares.

    Raises:
        DataError: they are not there, or not so many, or cannot be made that small.
    """
    with name_missing_extra():
        from PIL import Image
    with np.load(data_file("vision-extractor/images224.npz"), allow_pickle=False) as arrays:
        packed, edges = arrays["jpeg"], arrays["offset"]
    if not 1 <= count < len(edges) or 224 % side:
        raise DataError(
            f"expected 1 to {len(edges) - 1} photographs with a side that divides 224, got {count} "
            f"of {side} pixels"
        )
    raw = [packed[start:end].tobytes() for start, end in itertools.pairwise(edges[: count + 1])]
    large = np.stack([np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB")) for jpeg in raw])
    part = 224 // side
    small = large.reshape(count, side, part, side, part, 3).mean(axis=(2, 4))
    return np.ascontiguousarray(np.rint(np.moveaxis(small, -1, 1)).astype(np.uint8))


_TRAINING_IMAGES = 10_000
_MEAN, _DEVIATION = 0.5, 0.25


def load_cifar_images(count: int) -> Images:
    """Load images of CIFAR-10 that `load_cifar_network` was not trained on.

    Raises:
        DataError: they are not there, or not so many.
    """
    x = _load_cifar().x[_TRAINING_IMAGES:]
    if not 1 <= count <= len(x):
        raise DataError(f"expected 1 to {len(x)} images, got {count}")
    levels: Images = np.rint(x[:count] * 255).astype(np.uint8)
    return levels


def load_cifar_network(
    name: str, make: Callable[[], nn.Module], folder: Path, features: int | None = None
) -> Extractor:
    """Load or train a network on 10,000 images of CIFAR-10.

    Args:
        name: name of the network, and of its file.
        make: makes the network, whose last layer is linear.
        folder: folder of the trained weights, which are stored there.
        features: number of features used, from the first; all of them unless given.

    Raises:
        DataError: the images are not there.
        StoreError: the folder cannot be used.
    """
    path = folder / f"{name}.npz"
    if not path.exists():
        data = _load_cifar()
        pool = Records((data.x[:_TRAINING_IMAGES] - _MEAN) / _DEVIATION, data.y[:_TRAINING_IMAGES])
        recipe = Recipe(make, "adam", lr=2e-3, epochs=5, batch_size=100)
        every = np.ones((1, len(pool)), bool)
        (trained,) = Fleet(recipe, way="one-by-one").networks(pool, every, [0])
        with atomic.translate_os_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        arrays = as_arrays(trained.state_dict())
        atomic.write_arrays(path, {key: w.ravel() for key, w in arrays.items()})
    weights = atomic.read_arrays(path)
    module = make()
    state = {
        n: torch.from_numpy(weights[n]).reshape(w.shape) for n, w in module.state_dict().items()
    }
    return Extractor(restore(module, state), (_MEAN,), (_DEVIATION,), kept=features)


@functools.cache
def _load_cifar() -> Records:
    """CIFAR-10 in an order drawn once."""
    data = load_images("cifar10")
    order = np.random.default_rng(0).permutation(len(data))
    return Records(data.x[order], data.y[order])


def _freeze(array: UInt8[np.ndarray, "..."] | Float[np.ndarray, "..."]) -> nn.Parameter:
    return nn.Parameter(torch.from_numpy(array.astype(np.float32)), requires_grad=False)


def _pad_same(
    x: Float[Tensor, "load_images channels height width"], kernel: int, stride: int
) -> tuple[Float[Tensor, "load_images channels taller wider"], tuple[int, int]]:
    """Pad as TensorFlow does for one output a stride: an odd pixel goes to the end.

    Where no pixel is odd, that is left to the convolution, which does it without a copy.
    """
    sides = x.shape[2:]
    more = [max((-(-size // stride) - 1) * stride + kernel - size, 0) for size in sides]
    if not any(pixels % 2 for pixels in more):
        return x, (more[0] // 2, more[1] // 2)
    edges = [edge for pixels in reversed(more) for edge in (pixels // 2, pixels - pixels // 2)]
    return pad(x, edges), (0, 0)
