"""Augmentation as a defence: how records are changed, and what a step makes smaller."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from divulge.core import Records
from divulge.data.augmentation import AUGMENTATIONS
from divulge.defences import Augmentation, ImageAugmentation
from divulge.defences.training.augmentation import move_images
from divulge.errors import SpecError
from divulge.training.tensors import PoolTensors

from . import trained_table as table

DATA = PoolTensors(torch.tensor(table.POOL.x), torch.tensor(table.POOL.y), channels_last=False)
ROWS = torch.tensor([3, 70, 12, 5, 41])


def loss_of_a_batch(defence: Any, module: Any, data: PoolTensors, rows: torch.Tensor) -> Any:
    return defence.defended_recipe().loss.against(module, data, rows[:0])(0)(rows)


class Watch(nn.Module):
    """Keeps what it is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[np.ndarray] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x.numpy())
        return torch.zeros(len(x), 3)


@pytest.fixture
def module() -> Any:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        yield table.network()


def test_mixed_records_have_mixed_losses(module: Any) -> None:
    found = loss_of_a_batch(Augmentation(table.RECIPE, mixup=0.4), module, DATA, ROWS)
    torch.manual_seed(0)
    table.network()  # takes as many random numbers
    share = torch.distributions.Beta(0.4, 0.4).sample().item()
    order = torch.randperm(5).tolist()
    total = 0.0
    for row, other in zip(ROWS, ROWS[order], strict=True):
        logits = module((share * DATA.x[row] + (1 - share) * DATA.x[other])[None]).detach()
        for weight, y in ((share, DATA.y[row]), (1 - share, DATA.y[other])):
            total += weight * float(cross_entropy(logits, y[None]))
    assert float(found.detach()) == pytest.approx(total / 5, rel=1e-5)
    assert 0.01 < share < 0.99  # so that both count


def test_noise_is_measured_in_the_deviation_of_a_feature() -> None:
    watch = Watch()
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(4000, 3)) * [0.0, 1.0, 50.0] + 7).astype(np.float32)
    data = PoolTensors(torch.tensor(x), torch.zeros(4000, dtype=torch.int64), channels_last=False)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        for _ in range(2):
            defence = Augmentation(table.RECIPE, mixup=0.0, noise=0.3)
            loss_of_a_batch(defence, watch, data, torch.arange(4000))
    noise = watch.seen[0] - x
    # four standard errors of a deviation, and of a correlation, of 4,000 normal numbers
    rtol = 4 / np.sqrt(2 * 4000)
    np.testing.assert_allclose(noise.std(axis=0), 0.3 * x.std(axis=0), rtol=rtol, atol=1e-6)
    assert not noise[:, 0].any()
    again = np.corrcoef(noise[:, 2], (watch.seen[1] - x)[:, 2])[0, 1]
    assert abs(again) < 4 / np.sqrt(4000)  # drawn anew


def test_each_shift_is_drawn_up_to_the_largest_and_none_beyond() -> None:
    watch, x = Watch(), np.zeros((600, 9, 9), np.float32)
    x[:, 4, 4] = 1
    data = PoolTensors(torch.tensor(x), torch.zeros(600, dtype=torch.int64), channels_last=False)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        defence = ImageAugmentation(table.RECIPE, shift=2, flip=False)
        loss_of_a_batch(defence, watch, data, torch.arange(600))
    _, row, column = np.nonzero(watch.seen[0])
    drawn = set(zip((row - 4).tolist(), (column - 4).tolist(), strict=True))
    assert drawn == set(itertools.product(range(-2, 3), repeat=2))


@pytest.mark.parametrize("shape", [(6, 5, 4), (6, 2, 5, 4)])
def test_images_move_as_a_loop_over_pixels_moves_them(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=shape)
    down, right = rng.integers(-3, 4, 6), rng.integers(-3, 4, 6)
    mirrored = np.arange(6) % 2 == 0
    moved = move_images(*map(torch.tensor, (x, down, right, mirrored))).numpy()
    for k in range(6):
        image = x[k][..., ::-1] if mirrored[k] else x[k]
        for row in range(5):
            for column in range(4):
                above, left = row - down[k], column - right[k]
                from_there = image[..., min(max(above, 0), 4), min(max(left, 0), 3)]
                np.testing.assert_array_equal(moved[k][..., row, column], from_there)


@pytest.mark.parametrize(
    ("way", "down", "right", "mirrored"),
    [("mirror", 0, 0, True), ("shift-up", -1, 0, False), ("shift-right", 0, 1, False)],
)
def test_an_attacker_can_ask_for_the_same_images(
    way: str, down: int, right: int, mirrored: bool
) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 4))
    amounts = (torch.full((2,), amount) for amount in (down, right, mirrored))
    moved = move_images(torch.tensor(x), *amounts).numpy()
    np.testing.assert_array_equal(moved, AUGMENTATIONS[way](x))


def test_shifts_are_even_and_half_of_the_images_are_mirrored() -> None:
    watch = Watch()
    columns = np.tile(np.arange(9.0), (6000, 9, 1))
    images = torch.tensor(columns)
    data = PoolTensors(images, torch.zeros(6000, dtype=torch.int64), channels_last=False)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        loss_of_a_batch(ImageAugmentation(table.RECIPE, shift=2), watch, data, torch.arange(6000))
    middle = watch.seen[0][:, 4, 4]  # 4 less the shift, of mirrored images the other way round
    counts = np.array([(middle == 4 + amount).sum() for amount in range(-2, 3)])
    assert counts.sum() == 6000
    np.testing.assert_allclose(counts, 1200, atol=5 * 31)  # five standard deviations
    assert abs((watch.seen[0][:, 4, 6] < middle).sum() - 3000) < 5 * 39


@pytest.mark.parametrize(
    ("defence", "x", "said"),
    [
        (ImageAugmentation(table.RECIPE), table.POOL.x, "expected images of shape"),
        (ImageAugmentation(table.RECIPE), np.zeros((80, 3, 4, 9)), "larger than 4 pixels"),
        (Augmentation(table.RECIPE), np.zeros((80, 12), np.int64), "floating-point features"),
    ],
)
def test_records_that_cannot_be_augmented_are_refused(
    defence: Any, x: np.ndarray, said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        table.trained(defence, Records(x, table.POOL.y))
