import numpy as np
import pytest

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
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        KnownFeatures(**settings)  # type: ignore[arg-type]
