"""The key under which results are kept: told apart by all that matters, and the same tomorrow."""

import numpy as np
import pytest

from divulge._util.digest import digest

A = np.arange(6.0).reshape(2, 3)


def test_finished_work_is_found_again_by_the_next_release() -> None:
    assert digest("text", A, np.array([True])) == "5cb041428656cc516008874a417c0bda"


def test_the_order_in_memory_does_not_count() -> None:
    assert digest("", np.asfortranarray(A)) == digest("", A)
    assert digest("", A[:, ::2]) == digest("", A[:, ::2].copy())


@pytest.mark.parametrize(
    "other",
    [
        digest("u", A),
        digest("t"),
        digest("t", A, A),
        digest("t", A.ravel()),
        digest("t", A.astype(np.float32)),
        digest("t", A.view(np.int64)),
        digest("t", A + 1),
        digest("t", A[:1], A[1:]),
    ],
)
def test_another_text_type_shape_or_number_counts(other: str) -> None:
    assert digest("t", A) != other
