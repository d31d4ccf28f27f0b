import numpy as np
import pytest

from divulge.metrics.max_test import max_test
from divulge.metrics.questions import leak_by_questions

RNG = np.random.default_rng(0)
MEMBER = RNG.permutation(np.arange(1000) < 400)


def test_a_leak_shows_with_more_questions() -> None:
    rows = leak_by_questions(np.stack([RNG.normal(size=1000) + 0.8 * MEMBER]), MEMBER)
    assert [row.candidates for row in rows] == [30, 100, 300, 1000]
    assert [row.parts for row in rows] == [20, 10, 3, 1]
    assert rows[0].found.value < rows[1].found.value <= rows[2].found.value == 1
    assert rows[0].auc < rows[1].auc < rows[3].auc
    assert rows[3].found.low is not None
    assert rows[3].found.low < 0.3  # one part says little


@pytest.mark.slow
def test_no_leak_is_found_about_as_often_as_promised() -> None:
    """Over 25 audits of noise, 250 parts of 30: 5 % and at most three standard errors."""
    hits = trials = 0
    for seed in range(25):
        scores = np.random.default_rng(seed).normal(size=(2, 300))
        row = leak_by_questions(scores, np.arange(300) < 150)[0]
        hits, trials = hits + round(row.found.value * row.parts), trials + row.parts
    assert hits / trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)
    assert hits > 0


def test_all_candidates_are_the_whole_audit() -> None:
    scores = np.stack([RNG.normal(size=1000) + 0.1 * MEMBER])
    found = leak_by_questions(scores, MEMBER)[-1].found.value
    assert found == (max_test(scores, MEMBER).p_value <= 0.05)
