"""Image quality: closed forms, a naive twin, and scikit-image."""

import numpy as np
import pytest
import torch

from divulge.errors import DataError
from divulge.federation.manipulation import pixels
from divulge.metrics import images

RNG = np.random.default_rng(0)
ONE = RNG.integers(0, 256, (3, 2, 12, 15)).astype(np.uint8)
NOISY = np.clip(ONE + RNG.normal(0, 20, ONE.shape), 0, 255).astype(np.uint8)


def naive(one: np.ndarray, other: np.ndarray) -> float:
    """SSIM of one channel, window by window."""
    found = []
    for top in range(one.shape[0] - 6):
        for left in range(one.shape[1] - 6):
            a, b = (x[top : top + 7, left : left + 7].ravel() / 255 for x in (one, other))
            (va, vab), (_, vb) = np.cov(a, b)
            light = (2 * a.mean() * b.mean() + 1e-4) / (a.mean() ** 2 + b.mean() ** 2 + 1e-4)
            found.append(light * (2 * vab + 9e-4) / (va + vb + 9e-4))
    return float(np.mean(found))


def test_ssim_is_that_of_each_window() -> None:
    pairs = zip(ONE, NOISY, strict=True)
    slow = [np.mean([naive(a, b) for a, b in zip(x, y, strict=True)]) for x, y in pairs]
    np.testing.assert_allclose(images.ssim(ONE, NOISY), slow, rtol=1e-9)
    np.testing.assert_allclose(images.ssim(ONE, ONE), 1.0)
    one, other = (torch.from_numpy(x).double() / 255 for x in (ONE, NOISY))
    np.testing.assert_allclose(pixels.differentiable_ssim(one, other), slow, rtol=1e-9)


def test_psnr_of_a_constant_error() -> None:
    grey = np.full((2, 1, 8, 8), 100, np.uint8)
    np.testing.assert_allclose(images.psnr(grey, grey + np.uint8(51)), 20 * np.log10(5))
    assert np.isinf(images.psnr(grey, grey)).all()


def test_scikit_image_agrees() -> None:
    measured = pytest.importorskip("skimage.metrics", reason="needs scikit-image")
    for one, other, ssim, psnr in zip(
        ONE, NOISY, images.ssim(ONE, NOISY), images.psnr(ONE, NOISY), strict=True
    ):
        theirs = measured.structural_similarity(one, other, channel_axis=0, data_range=255)
        assert ssim == pytest.approx(theirs, rel=1e-6)
        assert psnr == pytest.approx(measured.peak_signal_noise_ratio(one, other), rel=1e-6)


def test_images_smaller_than_a_window_are_refused() -> None:
    with pytest.raises(DataError, match="7 x 7"):
        images.ssim(ONE[:, :, :6], NOISY[:, :, :6])
