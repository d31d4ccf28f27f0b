"""Log-probabilities beyond what double precision holds keep their order, from answer to score."""

from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from divulge.attacks.membership.threshold import Threshold
from divulge.core import ModelView, Need, Records
from divulge.metrics import signals
from divulge.metrics.exact_signals import compute_exactly
from divulge.metrics.tiny_probabilities import keep_order, log_probabilities
from divulge.targets.outputs import to_probabilities
from divulge.targets.recorded import TableTarget

RECORDS = 3000
SATURATING: tuple[signals.SignalName, ...] = ("loss", "scaled_logit", "confidence", "margin")


def _exact(name: str, logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A signal from logits alone; of the loss its order, which is that of the log odds."""
    rows = np.arange(len(y))
    of = logits.argmax(axis=1) if name == "confidence" else y
    others = logits.copy()
    others[rows, of] = -np.inf
    rest = others.max(axis=1) if name == "margin" else logsumexp(others, axis=1)
    return np.asarray(logits[rows, of] - rest)


def _pairs_in_another_order(one: np.ndarray, other: np.ndarray) -> int:
    order = other.argsort()
    return int((np.diff(one[order]) < 0).sum())


@pytest.mark.parametrize("name", SATURATING)
@pytest.mark.parametrize("scale", [1.0, 50.0, 238.0, 1000.0, 1e6, 1e12])
@pytest.mark.parametrize("classes", [1, 3])
def test_signals_of_logits_of_any_size_are_in_their_order(
    name: signals.SignalName, scale: float, classes: int
) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(RECORDS, classes)) * scale
    y = rng.integers(0, max(2, classes), RECORDS)
    two = np.hstack([np.zeros_like(logits), logits]) if classes == 1 else logits
    answers = to_probabilities(logits, "logits", RECORDS)
    np.testing.assert_allclose(answers.sum(axis=1), 1, rtol=1e-12)
    exact = _exact(name, two, y)
    score = compute_exactly(name, answers, y)
    assert np.isfinite(score).all()
    # neighbours closer than rounding may change places
    close = np.diff(np.sort(exact)) <= 1e-9 * np.abs(np.sort(exact)[1:]) + 1e-12
    assert _pairs_in_another_order(score, exact) <= close.sum()
    if name != "loss":
        np.testing.assert_allclose(score, exact, rtol=1e-6, atol=1e-9)


def test_the_attack_ranks_by_it() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(RECORDS, 3)) * 1000
    y = rng.integers(0, 3, RECORDS)
    target = TableTarget(
        to_probabilities(logits, "logits", RECORDS), Need.PROBABILITIES | Need.HARD_LABELS
    )
    view = ModelView(target, Records(np.arange(RECORDS), y), None)
    score = Threshold()(view, rng).score
    assert _pairs_in_another_order(score, _exact("loss", logits, y)) == 0
    assert len(np.unique(score)) == RECORDS


@pytest.mark.parametrize("smallest", [1e-60, 1e-200, 1e-300, 1e-310, 1e-320])
def test_probabilities_as_small_as_they_can_be_written_are_in_their_order(smallest: float) -> None:
    true = smallest * np.arange(1, 40)
    answers = to_probabilities(np.stack([true, 1 - true], axis=1), "probabilities", len(true))
    for y, turn in ((0, 1), (1, -1)):
        score = compute_exactly("scaled_logit", answers, np.full(len(true), y))
        assert (turn * np.diff(score) > 0).all()


def test_zero_is_less_than_all_others_and_one_more() -> None:
    answers = to_probabilities(
        np.array([[-np.inf, 0.0], [-1e15, 0.0], [-1000.0, 0.0], [0.0, -1000.0], [0.0, -np.inf]]),
        "logits",
        5,
    )
    for name in SATURATING[:2] + SATURATING[3:]:
        score = compute_exactly(name, answers, np.zeros(5, np.int64))
        assert np.isfinite(score).all()
        assert (np.diff(score) > 0).all()


@pytest.mark.parametrize("name", ["loss", "confidence", "entropy", "modified_entropy", "margin",
                                  "scaled_logit"])  # fmt: skip
def test_signals_of_usual_answers_are_the_same_bit_for_bit(name: signals.SignalName) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, RECORDS)
    votes = rng.multinomial(20, np.full(5, 0.2), RECORDS) / 20  # of a forest: many zeros
    soft = to_probabilities(rng.normal(size=(RECORDS, 5)) * 5, "logits", RECORDS)
    for answers in (votes, soft, np.eye(5)[y]):
        plain = signals.compute_signal(name, answers, y)
        assert compute_exactly(name, answers, y).tobytes() == plain.tobytes()


def test_tiny_probabilities_stay_tiny_and_others_stay_as_they_are() -> None:
    exact = np.array([0.0, -1.0, -699.9, -700.1, -745.0, -1e3, -1e6, -1e15, -1e19])
    kept = keep_order(np.exp(exact), lambda: exact)
    np.testing.assert_array_equal(kept[:3], np.exp(exact[:3]))
    assert (np.diff(kept) < 0).all()
    assert kept[3] < 1e-304
    assert kept[-1] > 0
    # the last is two steps of the smallest number above 0: what is kept is within half a step of it
    np.testing.assert_allclose(log_probabilities(kept), exact, rtol=0.003)
    np.testing.assert_allclose(log_probabilities(kept[:7]), exact[:7], rtol=1e-9)


def test_logarithms_are_not_computed_where_nothing_is_tiny() -> None:
    def fail() -> Any:
        raise AssertionError

    given = np.array([0.1, 0.9])
    assert keep_order(given, fail) is given
