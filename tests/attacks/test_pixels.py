"""Manipulated images: what a vision model then sees, within which limits."""

import io
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from divulge.errors import SpecError
from divulge.federation.manipulation.pixels import (
    GradientSign,
    NoManipulation,
    PixelNoise,
    Versions,
)
from divulge.metrics import images as quality
from divulge.targets.features import Extractor
from divulge_papers.batches import map_batches

IMAGES = np.random.default_rng(0).integers(40, 216, (4, 3, 10, 10)).astype(np.uint8)


def extractor() -> Extractor:
    torch.manual_seed(1)
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 3),
    )  # fmt: skip
    return Extractor(module, (0.5,), (0.25,))


def missed(how: PixelNoise, versions: Versions) -> float:
    """Mean squared distance of the features to the noise."""
    wanted = how.targets(len(versions), 8, np.random.default_rng(0))
    seen = [extractor().features(np.ascontiguousarray(v)) for v in versions.swapaxes(0, 1)]
    return float(((np.stack(seen, 1) - wanted) ** 2).mean())


def moved(how: PixelNoise, images: np.ndarray = IMAGES) -> Versions:
    return how(images, extractor(), np.random.default_rng(0))


@pytest.mark.parametrize("optimiser", ["adam", "momentum"])
def test_features_come_near_the_noise_the_longer_the_nearer(optimiser: str) -> None:
    hows = [
        PixelNoise(0.5, steps=steps, lr=0.05, optimiser=optimiser)  # type: ignore[arg-type]
        for steps in (1, 8, 40)
    ]
    left = [missed(how, moved(how)) for how in hows]
    assert left[0] > left[1] > left[2]
    assert left[2] < left[0] / 2


def test_noise_is_cut_off_at_0_and_partitioned_with_the_zeros_first_first() -> None:
    found = PixelNoise(2.0).targets(300, 6, np.random.default_rng(0))
    assert found.shape == (300, 2, 6)
    assert (found >= 0).all()
    assert not found[:, 0, :3].any()
    assert not found[:, 1, 3:].any()
    whole = PixelNoise(2.0, partitions=1).targets(300, 6, np.random.default_rng(0))
    np.testing.assert_array_equal(whole[:, 0], found.sum(axis=1))
    many = PixelNoise(2.0, partitions=1).targets(30_000, 6, np.random.default_rng(0))
    # four standard errors of a share, and of a mean of half normal numbers
    assert (many == 0).mean() == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / many.size))
    error = 2 * np.sqrt((1 - 2 / np.pi) / (many.size / 2))
    assert many[many > 0].mean() == pytest.approx(2 * np.sqrt(2 / np.pi), abs=4 * error)
    with pytest.raises(SpecError, match="1 to 6 partitions"):
        PixelNoise(partitions=7).targets(2, 6, np.random.default_rng(0))


def test_adam_is_pytorchs() -> None:
    how, seen = PixelNoise(0.5, partitions=1, steps=5, lr=0.02), extractor()
    start = torch.from_numpy(IMAGES).float() / 255
    wanted = torch.from_numpy(how.targets(4, 8, np.random.default_rng(0))[:, 0]).float()
    inputs = ((start - 0.5) / 0.25).requires_grad_()
    search = torch.optim.Adam([inputs], lr=0.02)
    for _ in range(5):
        search.zero_grad()
        loss = (seen(inputs * 0.25 + 0.5).features - wanted).square().mean(1).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        search.step()
    levels = ((inputs.detach() * 0.25 + 0.5).clamp(0, 1) * 255).round().numpy()
    assert np.abs(moved(how)[:, 0] - levels).max() <= 1
    assert (moved(how)[:, 0] == levels).mean() > 0.99


def test_no_image_depends_on_what_else_is_in_the_batch() -> None:
    for how in (PixelNoise(0.5, steps=8), PixelNoise(0.5, steps=8, optimiser="momentum")):
        few = moved(how, IMAGES[:2])
        assert np.abs(few.astype(int) - moved(how)[:2]).max() <= 1  # rounding


def test_a_budget_limits_every_pixel_and_a_regulariser_helps_the_looks() -> None:
    free = PixelNoise(2.0, steps=15, lr=0.05)
    near = moved(PixelNoise(2.0, steps=15, lr=0.05, budget=6.9))
    assert np.abs(near.astype(int) - IMAGES[:, None]).max() == 6
    careful = PixelNoise(2.0, steps=15, lr=0.05, similarity=10.0)
    looks = [quality.ssim(IMAGES, moved(how)[:, 0]).mean() for how in (free, careful)]
    assert looks[1] > looks[0]
    assert missed(careful, moved(careful)) > missed(free, moved(free))


def test_what_comes_back_is_what_a_png_file_holds() -> None:
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    for one in moved(PixelNoise(steps=3))[:, 0]:
        file = io.BytesIO()
        image.fromarray(np.moveaxis(one, 0, -1)).save(file, "png")
        np.testing.assert_array_equal(np.moveaxis(np.asarray(image.open(file)), -1, 0), one)


def test_fgsm_steps_away_from_the_models_answer() -> None:
    seen = extractor()
    (found,) = GradientSign(0.1)(IMAGES, seen, np.random.default_rng(0)).swapaxes(0, 1)
    assert set(np.unique(np.abs(found.astype(int) - IMAGES))) <= {0, 25, 26}
    answers = [seen(torch.from_numpy(x).float() / 255).answers.softmax(1) for x in (IMAGES, found)]
    top = answers[0].argmax(1, keepdim=True)
    assert (answers[1].gather(1, top) < answers[0].gather(1, top)).all()
    same = NoManipulation()(IMAGES, seen, np.random.default_rng(0))
    np.testing.assert_array_equal(same[:, 0], IMAGES)


def test_what_makes_no_sense_is_refused() -> None:
    for make in (
        partial(PixelNoise, scale=0.0),
        partial(PixelNoise, steps=0),
        partial(PixelNoise, partitions=0),
        partial(PixelNoise, lr=float("nan")),
        partial(PixelNoise, budget=0.0),
        partial(PixelNoise, similarity=-1.0),
        partial(GradientSign, size=0.0),
    ):
        with pytest.raises(SpecError):
            make()


PROGRAM = """
import os, signal, sys
from pathlib import Path
from divulge.federation.manipulation.pixels import PixelNoise
from divulge.errors import SpecError
from divulge.federation.search.pointwise import Pointwise
from tests.attacks.test_pixels import manipulated
for wrong in (lambda: PixelNoise(optimiser="adma"), lambda: Pointwise(loss="entropy")):
    try:
        wrong()
    except SpecError as error:
        print(error, flush=True)
def killed(start):
    if start == 2:
        os.kill(os.getpid(), signal.SIGKILL)
manipulated(Path(sys.argv[1]), killed)
"""


def manipulated(folder: Path, before: Callable[[int], None]) -> Versions:
    """Images in batches of 2, with something that happens between work and file."""

    def work(batch: np.ndarray, start: int) -> Versions:
        made = PixelNoise(0.5, steps=4)(batch, extractor(), np.random.default_rng(start))
        before(start)
        return made

    return map_batches(folder, "0.5, 4 steps", IMAGES, 2, work)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Where a process of its own was killed -9 in the middle, and what it said before."""
    folder = tmp_path_factory.mktemp("images") / "killed"
    run = [sys.executable, "-c", PROGRAM, str(folder)]
    done = subprocess.run(run, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return folder, done.stdout.splitlines()


def test_a_kill_in_the_middle_costs_one_batch_and_changes_no_bit(
    killed: tuple[Path, list[str]], tmp_path: Path
) -> None:
    made: list[int] = []
    resumed = manipulated(killed[0], made.append)
    assert made == [2]
    np.testing.assert_array_equal(resumed, manipulated(tmp_path / "whole", made.append))
    assert made == [2, 0, 2]


def test_unknown_words_are_refused_with_the_nearest_known_one(
    killed: tuple[Path, list[str]],
) -> None:
    # said in a process of its own: here the tests' type checker would refuse them first
    assert killed[1] == [
        "expected optimiser of PixelNoise to be one of 'adam', 'momentum', got 'adma': "
        "did you mean 'adam'?",
        "expected loss of Pointwise to be one of 'squared', 'cross-entropy', got 'entropy': "
        "did you mean 'cross-entropy'?",
    ]
