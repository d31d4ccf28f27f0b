"""The models that attacks with shadow models are compared on, cheap ones first."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks import data
from divulge.core import Records, Trainer

if TYPE_CHECKING:
    import torch
    from torch import nn

PIXELS = 64
"""Pixels of a side of the images that the pretrained network sees, enlarged from 32."""


class Task(NamedTuple):
    """Records, and how a model of them is trained."""

    name: str
    records: Callable[[], Records]
    trainer: Callable[[], Trainer]
    size: int
    """Records of a pool; each model is trained on a random half of one."""
    reference: int
    """Records in no pool."""
    trained: str
    """The model and its training, in words."""


def _location_30() -> Trainer:
    return _fleet(partial(_perceptron, 446, 128, 30))


def _retail_100() -> Trainer:
    return _fleet(partial(_perceptron, 600, 256, 100), epochs=20, batch_size=100)


def _mnist() -> Trainer:
    return _fleet(partial(_perceptron, 784, 128, 10))


def _fashion_mnist() -> Trainer:
    return _fleet(_small_images, epochs=20, lr=0.05)


def _regularised() -> Trainer:
    return _fleet(_augmented_images, epochs=20, lr=0.05, weight_decay=5e-3, patience=4)


def _cifar_10() -> Trainer:
    return _fleet(partial(_colour_images, 10), epochs=20, lr=0.05)


def _cifar_100() -> Trainer:
    return _fleet(partial(_colour_images, 100), epochs=20, lr=0.05)


def _transfer() -> Trainer:
    return _fleet(partial(_perceptron, 1280, 10), lr=0.01)


def _forest() -> Trainer:
    from sklearn.ensemble import RandomForestClassifier

    from divulge.training.trainers import EstimatorTrainer

    return EstimatorTrainer(RandomForestClassifier(100, min_samples_leaf=5), jobs=1)


def _booster() -> Trainer:
    from sklearn.ensemble import HistGradientBoostingClassifier

    from divulge.training.trainers import EstimatorTrainer

    return EstimatorTrainer(HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=15), jobs=1)


def _fleet(network: "Callable[[], nn.Module]", **changes: Any) -> Trainer:
    """Networks trained in this process, whose CPU seconds are then those of the training."""
    from divulge.training.fleet import Fleet
    from divulge.training.recipe import Recipe

    usual: dict[str, Any] = {
        "lr": 0.1,
        "momentum": 0.9,
        "epochs": 30,
        "batch_size": 64,
        "schedule": "cosine",
    }
    recipe = Recipe(network, **(usual | changes))
    return Fleet(recipe, way="one-by-one", workers=1)


def _perceptron(*sizes: int) -> "nn.Module":
    from torch import nn

    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *layers[:-1])


def _small_images() -> "nn.Module":
    from torch import nn

    first = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    head = [nn.Flatten(), nn.Linear(32 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10)]
    return nn.Sequential(*first, *second, *head)


def _augmented_images() -> "nn.Module":
    """The same network with dropout, which sees each image mirrored and shifted in training."""
    from torch import nn

    class Augment(nn.Module):
        def forward(self, x: "torch.Tensor") -> "torch.Tensor":
            return _mirror_and_shift(x) if self.training else x

    layers = list(_small_images().children())
    return nn.Sequential(Augment(), *layers[:-1], nn.Dropout(0.5), layers[-1])


def _mirror_and_shift(x: "torch.Tensor") -> "torch.Tensor":
    """Mirror half of the images, and move each by up to 4 pixels: the whole batch alike."""
    import torch

    mirrored = torch.rand(len(x), 1, 1, 1, device=x.device) < 0.5
    down, right = torch.randint(-4, 5, (2,)).tolist()
    return torch.roll(torch.where(mirrored, x.flip(-1), x), (down, right), (-2, -1))


def _colour_images(classes: int) -> "nn.Module":
    from torch import nn

    first = [nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.ReLU()]
    second = [nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU()]
    third = [nn.Conv2d(64, 64, 3, stride=2, padding=1), nn.ReLU()]
    head = [nn.Flatten(), nn.Linear(64 * 4 * 4, 128), nn.ReLU(), nn.Linear(128, classes)]
    return nn.Sequential(*first, *second, *third, *head)


def pretrained_features() -> Records:
    """What a network pretrained on ImageNet makes of 7,500 images of CIFAR-10."""
    from divulge_papers.data import load_images
    from divulge_papers.vision import load_efficientnet_lite

    images = load_images("cifar10")
    chosen = images.take(np.random.default_rng(0).permutation(len(images))[:7_500])
    times = PIXELS // chosen.x.shape[-1]
    pixels = np.rint(chosen.x * 255).astype(np.uint8)
    extractor = load_efficientnet_lite()
    x = np.concatenate([
        extractor.features(part.repeat(times, axis=2).repeat(times, axis=3))
        for part in np.array_split(pixels, 30)
    ])  # fmt: skip
    return Records(x.astype(np.float32), chosen.y)


TASKS = {
    task.name: task
    for task in (
        Task(
            "location-30", data.location_30, _location_30, 2_000, 1_000,
            "Location-30; 446-128-30 with ReLU, SGD with momentum 0.9, cosine schedule from 0.1, "
            "30 epochs, batches of 64",
        ),
        Task(
            "mnist", data.mnist, _mnist, 3_000, 1_500,
            "MNIST; 784-128-10, trained as Location-30's",
        ),
        Task(
            "forest", data.location_30, _forest, 2_000, 1_000,
            "Location-30; a random forest of 100 trees with leaves of 5 records by scikit-learn",
        ),
        Task(
            "transfer", pretrained_features, _transfer, 3_000, 1_500,
            "CIFAR-10; one linear layer on 1,280 features of EfficientNet-Lite0, pretrained on "
            "ImageNet and frozen, on images of 64 x 64; trained as Location-30's, from 0.01",
        ),
        Task(
            "retail-100", data.retail_100, _retail_100, 6_000, 3_000,
            "Retail-100; 600-256-100, trained as Location-30's, 20 epochs, batches of 100",
        ),
        Task(
            "cifar-100", data.cifar_100, _cifar_100, 2_000, 1_500,
            "CIFAR-100; convolutions 3-32-64-64, 3x3 in steps of two, each with ReLU, then 128 and "
            "100, trained as Location-30's, from 0.05, 20 epochs",
        ),
        Task(
            "cifar-10", data.cifar_10, _cifar_10, 3_000, 1_500,
            "CIFAR-10; the same network with 10 classes",
        ),
        Task(
            "booster", data.location_30, _booster, 2_000, 1_000,
            "Location-30; gradient boosting on histograms by scikit-learn, 10 trees of 15 leaves "
            "a class",
        ),
        Task(
            "fashion-mnist", data.fashion_mnist, _fashion_mnist, 3_000, 1_500,
            "Fashion-MNIST; convolutions 1-16-32, 3x3, each with ReLU and 2x2 max-pooling, then 64 "
            "and 10, trained as Location-30's, from 0.05, 20 epochs",
        ),
        Task(
            "regularised", data.fashion_mnist, _regularised, 3_000, 1_500,
            "Fashion-MNIST; the same network against overfitting: images mirrored and shifted, "
            "dropout of 0.5, weight decay of 0.005, early stop by a held-out tenth",
        ),
    )
}  # fmt: skip
