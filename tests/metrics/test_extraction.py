"""Extraction against the definition, at its limits, with ties to people and too few texts."""

import math
from typing import Any

import numpy as np
import pytest

from divulge.core.tokens import Tokens
from divulge.metrics.extraction import is_extracted, measure_completions
from divulge.metrics.intervals import clopper_pearson, clustered_proportion


def texts(*logprobs: list[float], top: list[bool] | None = None) -> Tokens:
    count = [len(one) for one in logprobs]
    flat = np.concatenate([np.array(one, np.float64) for one in logprobs])
    return Tokens(
        np.concatenate([[0], np.cumsum(count)]), flat, np.zeros((0, len(flat))),
        top=None if top is None else np.array(top),
    )  # fmt: skip


def test_the_chance_itself_is_enough() -> None:
    """1 - (1 - q)^n >= p where q = 1 - (1 - p)^(1 / n): equal but for rounding."""
    for tries in (1, 7, 100, 10_000):
        edge = -math.expm1(math.log(0.5) / tries)
        assert is_extracted(np.log([edge, edge * (1 - 1e-6)]), tries).tolist() == [True, False]
    assert is_extracted(np.array([0.0, 1e-9]), 1).tolist() == [True, True]  # by rounding above 1


def test_what_is_completed_are_the_tokens_behind_the_prefix() -> None:
    """0.5 and 0.5 behind two tokens: 0.25, which takes log(0.5) / log(0.75) = 2.4 tries."""
    half, never = math.log(0.5), -30.0
    tokens = texts([never, never, half, half, never], [0.0, 0.0, half, never], [half] * 4)
    (one, hundred, many), counts = measure_completions(tokens, np.array([True, True, False]), 2, 2)
    assert counts == (2, 1)
    assert [way.tries for way in (one, hundred, many)] == [1, 100, 10_000]
    assert [way.members.value for way in (one, hundred, many)] == [0.0, 0.5, 0.5]
    assert [way.nonmembers.value for way in (one, hundred, many)] == [0.0, 1.0, 1.0]
    assert hundred.excess.value == -0.5
    assert (hundred.members.low, hundred.members.high) == clopper_pearson(1, 2)


def test_a_text_that_is_just_long_enough_counts_and_a_shorter_one_does_not() -> None:
    tokens = texts([-1.0] * 4, [-1.0] * 3, [-1.0] * 4, [-1.0] * 9)
    member = np.array([True, True, False, False])
    assert measure_completions(tokens, member, 2, 2)[1] == (1, 2)
    ways, counts = measure_completions(tokens, member, 3, 2)
    assert (ways, counts) == ((), (0, 1))


def test_greedy_completions_need_every_token_of_the_rest_to_be_first() -> None:
    top = np.array([[0, 1, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]], bool)
    tokens = texts(*[[-1.0] * 3] * 4, top=top.ravel().tolist())
    (greedy, *_), _ = measure_completions(tokens, np.array([True, True, False, False]), 1, 2)
    assert greedy.tries is None
    assert (greedy.members.value, greedy.nonmembers.value) == (0.5, 0.5)


def test_people_are_what_was_drawn() -> None:
    tokens = texts(*[[-1.0, 0.0]] * 2, *[[-1.0, -30.0]] * 3, *[[-1.0, 0.0]] * 2)
    person = np.array([4, 4, 4, 7, 7, 1, 1])
    member = np.arange(7) < 5
    (one, *_), _ = measure_completions(tokens, member, 1, 1, person)
    assert one.members.value == pytest.approx(0.4)
    limits: Any = clustered_proportion(np.array([2.0, 0.0]), np.array([3, 2]))
    assert (one.members.low, one.members.high) == pytest.approx(limits)
    # one person says nothing of others
    assert (one.nonmembers.value, one.nonmembers.low, one.nonmembers.high) == (1.0, 0.0, 1.0)
