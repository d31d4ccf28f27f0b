"""Compression: exactly what is kept, ties and all."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from divulge.core import Update
from divulge.defences.updates.compression import Sign, TopK

from . import rounds

CONTEXT = rounds.begin(TopK())[0]


def naive_top(update: Update, share: float) -> dict[str, np.ndarray]:
    """Sort all entries by magnitude, earlier ones first among equals, and keep the first."""
    places = [(name, at) for name in sorted(update) for at in np.ndindex(update[name].shape)]
    places.sort(key=lambda place: -abs(update[place[0]][place[1]]))  # stable
    kept = {name: np.zeros_like(value) for name, value in update.items()}
    for name, at in places[: math.ceil(share * len(places))]:
        kept[name][at] = update[name][at]
    return kept


few_values = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0])


@given(
    st_numpy.arrays(np.float32, (2, 3), elements=few_values),
    st_numpy.arrays(np.float64, 4, elements=few_values),
    st.sampled_from([0.001, 0.1, 0.25, 0.5, 0.9, 1.0]),
)
def test_top_k_is_its_naive_twin(b: np.ndarray, a: np.ndarray, share: float) -> None:
    update = {"b": b, "a": a}
    kept = TopK(share).on_client(update, CONTEXT)
    for name, value in naive_top(update, share).items():
        np.testing.assert_array_equal(kept[name], value)


def test_top_k_looks_at_the_whole_update() -> None:
    kept = TopK(0.5).on_client({"a": np.array([5.0, -6.0]), "b": np.array([1.0, 2.0])}, CONTEXT)
    assert kept["a"].tolist() == [5, -6]
    assert kept["b"].tolist() == [0, 0]


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_sign_keeps_the_mean_magnitude_of_each_tensor(scale: float) -> None:
    sent = Sign(scale).on_client(
        {"a": np.array([3.0, -1.0, 0.0, 4.0]), "b": np.array([[-0.5]]), "c": np.zeros(2)}, CONTEXT
    )
    np.testing.assert_array_equal(sent["a"], np.array([2, -2, 0, 2]) * scale)
    np.testing.assert_array_equal(sent["b"], [[-0.5 * scale]])
    np.testing.assert_array_equal(sent["c"], [0, 0])
