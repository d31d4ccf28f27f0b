import numpy as np
import pytest

from divulge.core import Records
from divulge.data import known_features
from divulge.data.known_features import KnownFeatures
from divulge.errors import DataError, SpecError

SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("missing", SHARES)
def test_random_features_hide_the_share_of_each_record(missing: float) -> None:
    known = known_features.random_mask((50, 4, 5), missing, rng())
    assert (known.reshape(50, -1).sum(axis=1) == 20 - round(missing * 20)).all()
    if 0 < missing < 1:
        assert len(np.unique(known.reshape(50, -1), axis=0)) > 1


@pytest.mark.parametrize("missing", SHARES)
def test_a_block_is_a_rectangle_of_about_the_share(missing: float) -> None:
    known = known_features.block_mask((20, 1, 16, 16), missing, rng())
    for image in ~known[:, 0]:
        high, wide = image.any(axis=1).sum(), image.any(axis=0).sum()
        assert image.sum() == high * wide
        assert abs(image.mean() - missing) <= 0.05


def test_a_block_of_a_flat_record_is_a_run() -> None:
    hidden = ~known_features.block_mask((20, 10), 0.3, rng())
    assert (hidden.sum(axis=1) == 3).all()
    assert (np.abs(np.diff(hidden.astype(int), axis=1)).sum(axis=1) <= 2).all()


def test_rows_hide_the_last_rows_of_every_image() -> None:
    known = known_features.row_mask((3, 2, 10, 4), 0.4, rng())
    assert known[:, :, :6].all()
    assert not known[:, :, 6:].any()


def test_columns_are_the_same_for_every_record() -> None:
    known = KnownFeatures(columns=("job=*", "age")).mask(
        (3, 4), ("age", "job=a", "zip", "job=b"), rng()
    )
    assert known.tolist() == [[True, True, False, True]] * 3


@pytest.mark.parametrize("pattern", ["random", "pixels", "block", "rows", "columns"])
@pytest.mark.parametrize("share", [0.0, 0.04])
def test_who_knows_nothing_of_a_record_is_refused(
    pattern: known_features.Pattern, share: float
) -> None:
    """All records of a class would be filled in alike, so that no attack could find anything."""
    with pytest.raises(DataError, match=f"got none by share={share} of 10: .* raise share"):
        KnownFeatures(share=share, pattern=pattern).mask((3, 10), (), rng())
    assert KnownFeatures(share=0.1, pattern=pattern).mask((3, 10), (), rng()).any()


def test_an_unknown_column_names_the_nearest() -> None:
    with pytest.raises(DataError, match="did you mean 'age'"):
        KnownFeatures(columns=("agee",)).mask((3, 1), ("age",), rng())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "columns or a share"),
        ({"share": 0.5, "columns": ("a",)}, "columns or a share"),
        ({"share": 1.5}, "from 0 to 1"),
        ({"share": 0.5, "completions": 0}, "completions from 1"),
        ({"share": 0.5, "fill": "mean", "completions": 2}, "knows one way"),
        ({"share": 0.5, "grid": (28,)}, "channels and one to three axes"),
        ({"share": 0.5, "grid": (1, 0, 4)}, "channels and one to three axes"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        KnownFeatures(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", SHARES)
def test_pixels_hide_all_channels_together(missing: float) -> None:
    known = known_features.pixel_mask((30, 3, 4, 5), missing, rng())
    assert (known == known[:, :1]).all()
    assert (known[:, 0].reshape(30, -1).sum(axis=1) == 20 - round(missing * 20)).all()


def test_pixels_of_flat_records_are_features() -> None:
    known = known_features.pixel_mask((30, 10), 0.4, rng())
    assert (known.sum(axis=1) == 6).all()


def test_drawn_columns_are_the_same_for_every_record() -> None:
    known = KnownFeatures(share=0.6, pattern="columns").mask((7, 10), (), rng())
    assert (known == known[0]).all()
    assert known[0].sum() == 6


def test_telling_columns_hide_what_tells_the_class() -> None:
    y = np.arange(60) % 2
    x = rng().normal(size=(60, 5))
    x[:, [1, 3]] += 9 * y[:, None]
    own = Records(x, y)
    known = KnownFeatures(share=0.6, pattern="telling-columns").mask((4, 5), (), rng(), own)
    assert known.tolist() == [[True, False, True, False, True]] * 4
    with pytest.raises(DataError, match="expected reference records for pattern"):
        KnownFeatures(share=0.6, pattern="telling-columns").mask((4, 5), (), rng())


def test_a_grid_lays_out_flat_records() -> None:
    flat = KnownFeatures(share=0.5, pattern="rows", grid=(2, 4, 3)).mask((3, 24), (), rng())
    rows = known_features.row_mask((3, 2, 4, 3), 0.5, rng())
    np.testing.assert_array_equal(flat, rows.reshape(3, 24))
    with pytest.raises(DataError, match="expected a grid of the 25 features"):
        KnownFeatures(share=0.5, grid=(2, 4, 3)).mask((3, 25), (), rng())
