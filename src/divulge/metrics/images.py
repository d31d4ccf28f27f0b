"""PSNR and SSIM measure how much a manipulated image looks like the original."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, UInt8
from scipy.ndimage import uniform_filter

from divulge.errors import DataError

Images = UInt8[np.ndarray, "images channels height width"]

T = TypeVar("T", bound=Any)

WINDOW = 7
"""Side of the windows in which structure is compared, in pixels."""
_BRIGHTNESS, _CONTRAST = 0.01**2, 0.03**2
"""The constants of SSIM that keep its quotients finite, for pixels from 0 to 1."""


def psnr(original: Images, shown: Images) -> Float[np.ndarray, " images"]:
    """Peak signal-to-noise ratio of each image, in decibels; infinite where nothing changed.

    Examples:
        >>> black = np.zeros((1, 1, 8, 8), np.uint8)
        >>> psnr(black, black + np.uint8(255))
        array([0.])
    """
    error = ((original / 255 - shown / 255) ** 2).mean(axis=(1, 2, 3))
    with np.errstate(divide="ignore"):
        return np.asarray(10 * np.log10(1 / error))


def ssim(original: Images, shown: Images) -> Float[np.ndarray, " images"]:
    """Structural similarity of each image, 1 where nothing changed; a mean over channels.

    Uniform windows of 7 x 7 pixels, sample variances, windows inside the image only.

    Raises:
        DataError: images are smaller than a window.

    References:
        Wang et al. (2004), Image quality assessment: from error visibility to structural
        similarity, equation 13.
    """
    if min(original.shape[2:]) < WINDOW:
        raise DataError(
            f"expected images of {WINDOW} x {WINDOW} pixels or more, got "
            f"{original.shape[2]} x {original.shape[3]}"
        )
    edge = WINDOW // 2

    def mean(x: Float[np.ndarray, "images channels height width"]) -> np.ndarray:
        filtered = uniform_filter(x, (0, 0, WINDOW, WINDOW))
        return np.asarray(filtered[:, :, edge:-edge, edge:-edge])

    return np.asarray(windowed_ssim(mean, original / 255, shown / 255).mean(axis=(1, 2, 3)))


def windowed_ssim(mean: Callable[[T], T], image: T, changed: T) -> T:
    """SSIM of each window, for pixels from 0 to 1.

    Args:
        mean: takes the mean over each window.
        image: images, as an array or a tensor.
        changed: images of the same shape and type.
    """
    # sample variances: the mean of a window took one degree of freedom
    sample = WINDOW**2 / (WINDOW**2 - 1)
    here, there = mean(image), mean(changed)
    own = sample * (mean(image * image) - here**2 + mean(changed * changed) - there**2)
    common = sample * (mean(image * changed) - here * there)
    light = (2 * here * there + _BRIGHTNESS) / (here**2 + there**2 + _BRIGHTNESS)
    # eq. 13: luminance times contrast and structure, the latter two merged
    similarity: T = light * (2 * common + _CONTRAST) / (own + _CONTRAST)
    return similarity
