"""How well a ranker does, against the definition."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divulge.data.ranking import ndcg


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=5),
    st.integers(1, 4),
)
def test_ndcg_is_the_mean_over_the_orders_of_a_tie(case: list[tuple[int, int]], k: int) -> None:
    score = np.array([float(s) for s, _ in case])
    relevance = np.array([r for _, r in case])

    def gained(order: tuple[int, ...]) -> Any:
        return sum((2.0 ** relevance[i] - 1) / np.log2(r + 2) for r, i in enumerate(order[:k]))

    every = list(itertools.permutations(range(len(case))))
    best = max(map(gained, every))
    allowed = [gained(o) for o in every if (np.diff(score[list(o)]) <= 0).all()]
    wanted = np.mean(allowed) / best if best else 0.0
    assert ndcg(score, relevance, k) == pytest.approx(wanted)
