"""Contact sheets: originals above what was shown."""

import io

import numpy as np
import pytest

from divulge.errors import DataError
from divulge.report.contact_sheet import contact_sheet

IMAGES = np.random.default_rng(0).integers(0, 255, (5, 3, 6, 4)).astype(np.uint8)


@pytest.mark.parametrize("channels", [1, 3])
def test_each_image_stands_above_what_was_shown_instead(channels: int) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    one, other = IMAGES[:, :channels], 255 - IMAGES[:, :channels]
    sheet = np.asarray(image.open(io.BytesIO(contact_sheet(one, other, columns=3))))
    sheet = sheet.reshape(4 * 8, 3 * 6, channels)
    for k in range(5):
        top, left = 16 * (k // 3), 6 * (k % 3)
        above = np.moveaxis(sheet[top : top + 6, left : left + 4], -1, 0)
        below = np.moveaxis(sheet[top + 8 : top + 14, left : left + 4], -1, 0)
        np.testing.assert_array_equal(above, one[k])
        np.testing.assert_array_equal(below, other[k])


def test_what_cannot_be_shown_is_refused() -> None:
    with pytest.raises(DataError, match="as many images"):
        contact_sheet(IMAGES, IMAGES[:2])
    with pytest.raises(DataError, match="channels"):
        contact_sheet(IMAGES[:, :2], IMAGES[:, :2])
    with pytest.raises(DataError, match="got none"):
        contact_sheet(IMAGES[:0], IMAGES[:0])
