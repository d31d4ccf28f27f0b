from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divulge.core import ModelView, Need, Records
from divulge.errors import SpecError
from divulge.metrics import signals
from divulge.metrics.exact_signals import compute_exactly
from divulge.metrics.signals import (
    SMALLEST,
    Labels,
    Probabilities,
    SignalName,
    class_statistics,
    compute_signal,
)
from divulge.targets.outputs import to_probabilities

NAMES: tuple[SignalName, ...] = get_args(SignalName)
LABEL_AWARE: tuple[SignalName, ...] = ("loss", "modified_entropy", "margin", "scaled_logit")
HALF = Fraction(1, 2)


class Twin:
    """One record's signals from their definitions: exact sums, logarithms to 60 digits."""

    def __init__(self, row: list[float], label: int) -> None:
        self.p = [Fraction(value) for value in row]
        self.y = label

    def rest(self, j: int) -> Fraction:
        """1 - p_j: what is stored as nearly one has lost it, the other classes have not."""
        if self.p[j] <= HALF:
            return 1 - self.p[j]
        return sum((p for k, p in enumerate(self.p) if k != j), Fraction(0))

    def log_p(self, j: int) -> Decimal:
        return log(self.p[j] if self.p[j] <= HALF else 1 - self.rest(j))

    def log_rest(self, j: int) -> Decimal:
        return log(self.rest(j))

    def loss(self) -> Decimal:
        return self.log_p(self.y)

    def scaled_logit(self) -> Decimal:
        return self.log_p(self.y) - self.log_rest(self.y)

    def confidence(self) -> Decimal:
        top = self.p.index(max(self.p))
        return self.log_p(top) - self.log_rest(top)

    def margin(self) -> Decimal:
        return self.log_p(self.y) - log(max(p for j, p in enumerate(self.p) if j != self.y))

    def entropy(self) -> Decimal:
        return sum((number(p) * number(p).ln() for p in self.p if p), Decimal(0))

    def modified_entropy(self) -> Decimal:
        true = number(self.rest(self.y)) * self.log_p(self.y)
        wrong = (number(p) * self.log_rest(j) for j, p in enumerate(self.p) if j != self.y)
        return true + sum(wrong, Decimal(0))


def number(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def log(value: Fraction) -> Decimal:
    return number(max(value, Fraction(SMALLEST))).ln()


def expected(signal: SignalName, p: Probabilities, y: Labels) -> list[float]:
    with localcontext(prec=60):
        rows = zip(p.tolist(), y.tolist(), strict=True)
        return [float(getattr(Twin(row, label), signal)()) for row, label in rows]


def check(signal: SignalName, p: Probabilities, y: Labels) -> None:
    # The first three are sums of terms of one sign, so small values are as exact as large ones; a
    # difference of logarithms may come close to zero. A share of 40 bits is off by 2^-40 of itself:
    # log odds of a half by twice that, and so is the product of a small share and its logarithm.
    summed = signal in ("loss", "entropy", "modified_entropy")
    np.testing.assert_allclose(
        compute_signal(signal, p, y),
        expected(signal, p, y),
        rtol=2**-39 + 1e-13,
        atol=0 if summed else 2**-39 + 1e-13,
    )


def random_answers(seed: int, records: int, classes: int) -> tuple[Probabilities, Labels]:
    rng = np.random.default_rng(seed)
    weights = np.exp(rng.normal(scale=rng.uniform(0, 8, (records, 1)), size=(records, classes)))
    return weights / weights.sum(axis=1, keepdims=True), rng.integers(0, classes, records)


def saturated(records: int = 7, classes: int = 5) -> tuple[Probabilities, Labels]:
    """p_y = 1 - 1e-15 to the last bit, while the others shrink by a tenth of a percent a record."""
    p = np.full((records, classes), 1e-15 / (classes - 1))
    p *= 0.999 ** np.arange(records)[:, None]
    y = np.arange(records) % classes
    p[np.arange(records), y] = 1 - 1e-15
    return p, y


@pytest.mark.parametrize("signal", NAMES)
@pytest.mark.parametrize(("records", "classes"), [(40, 2), (37, 3), (23, 11), (1, 6), (5, 130)])
def test_random_answers_match_the_slow_twin(signal: SignalName, records: int, classes: int) -> None:
    check(signal, *random_answers(records, records, classes))


@pytest.mark.parametrize("signal", NAMES)
@pytest.mark.parametrize("classes", [2, 4])
def test_one_hot_answers_match_the_slow_twin(signal: SignalName, classes: int) -> None:
    right_and_wrong = np.repeat(np.arange(classes), classes), np.tile(np.arange(classes), classes)
    check(signal, np.eye(classes)[right_and_wrong[0]], right_and_wrong[1])


def test_nothing_is_smaller_than_what_float32_can_say() -> None:
    (score,) = compute_signal("scaled_logit", np.array([[1.0, 0.0]]), np.array([0]))
    assert score == pytest.approx(149 * np.log(2), rel=1e-3)


@pytest.mark.parametrize("signal", NAMES)
@pytest.mark.parametrize("classes", [2, 3, 64])
def test_uniform_answers_match_the_slow_twin(signal: SignalName, classes: int) -> None:
    check(signal, np.full((3, classes), 1 / classes), np.array([0, classes - 1, 1]))


@pytest.mark.parametrize("signal", NAMES)
def test_memorised_records_are_told_apart(signal: SignalName) -> None:
    p, y = saturated()
    check(signal, p, y)
    score = compute_signal(signal, p, y)
    assert (np.diff(score) > 0).all()
    assert np.isfinite(score).all()


@pytest.mark.parametrize("signal", LABEL_AWARE)
def test_confident_wrong_answers_match_the_slow_twin(signal: SignalName) -> None:
    p, y = saturated()
    check(signal, p, (y + 1) % p.shape[1])


@pytest.mark.parametrize("signal", NAMES)
def test_probabilities_below_float32_match_the_slow_twin(signal: SignalName) -> None:
    p = np.array([[1.0, 1e-44, 1e-200], [1e-200, 1.0, 0.0], [0.5, 0.5, 5e-324]])
    check(signal, p, np.zeros(3, np.int64))


@pytest.mark.parametrize("signal", NAMES)
def test_a_confident_right_answer_scores_higher_than_an_unsure_one(signal: SignalName) -> None:
    p = np.array([[0.98, 0.01, 0.01], [0.4, 0.3, 0.3], [0.01, 0.98, 0.01]])
    right, unsure, wrong = compute_signal(signal, p, np.zeros(3, np.int64))
    assert right > unsure
    if signal in LABEL_AWARE:
        assert unsure > wrong
    else:
        assert wrong == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize("signal", NAMES)
def test_no_records_no_signals(signal: SignalName) -> None:
    score = compute_signal(signal, np.empty((0, 4)), np.empty(0, np.int64))
    assert score.shape == (0,)
    assert score.dtype == np.float64


@pytest.mark.parametrize("signal", NAMES)
def test_the_answers_are_not_changed(signal: SignalName) -> None:
    p, y = random_answers(0, 20, 4)
    before = p.copy()
    p.flags.writeable = y.flags.writeable = False
    compute_signal(signal, p, y)
    np.testing.assert_array_equal(p, before)


@pytest.mark.parametrize("signal", NAMES)
@pytest.mark.parametrize("block", [1, 12, 20, 77, 84])
def test_working_in_blocks_changes_nothing(
    signal: SignalName, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    p, y = random_answers(1, 21, 4)
    whole = compute_signal(signal, p, y)
    monkeypatch.setattr(signals, "BLOCK", block)
    # Vector instructions and what is left over for scalar ones may differ in the last bit.
    np.testing.assert_allclose(compute_signal(signal, p, y), whole, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("signal", NAMES)
def test_memory_order_does_not_matter(signal: SignalName) -> None:
    p, y = random_answers(2, 30, 6)
    wide = np.zeros((30, 12))
    wide[:, ::2] = p
    for other in (np.asfortranarray(p), wide[:, ::2]):
        np.testing.assert_array_equal(
            compute_signal(signal, other, y), compute_signal(signal, p, y)
        )


@given(
    weights=st.lists(
        st.lists(st.floats(0, 1e6), min_size=5, max_size=5).filter(lambda row: sum(row) > 1e-6),
        min_size=1,
        max_size=6,
    ),
    order=st.permutations(range(5)),
    label=st.integers(0, 4),
)
def test_the_names_of_the_classes_do_not_matter(
    weights: list[list[float]], order: list[int], label: int
) -> None:
    p = np.array(weights)
    p /= p.sum(axis=1, keepdims=True)
    y = np.full(len(p), label)
    renamed = np.full(len(p), order.index(label))
    for signal in NAMES:
        np.testing.assert_allclose(
            compute_signal(signal, p[:, order], renamed),
            compute_signal(signal, p, y),
            rtol=1e-9,
            atol=1e-12,
        )


def test_an_unknown_signal_is_refused_with_the_known_ones() -> None:
    signals.check_name("loss")
    with pytest.raises(SpecError, match=r"expected signal to be one of loss, .*, got 'lost'"):
        signals.check_name("lost")


def test_of_records_asks_the_target_of_the_view() -> None:
    p, y = random_answers(3, 8, 3)

    class Held:
        offers = Need.PROBABILITIES

        def predict(self, x: Probabilities) -> Probabilities:
            return p[x[:, 0].astype(np.int64)]

    records = Records(np.arange(8.0)[::-1, None], y[::-1])
    score = signals.compute_for_records("margin", ModelView(Held(), records), records)
    np.testing.assert_array_equal(score, compute_signal("margin", p, y)[::-1])


def test_small_classes_are_shrunk_towards_all_records() -> None:
    signal = np.array([1.0] * 30 + [7.0] * 10)
    labels = np.array([0] * 30 + [2] * 10)
    pooled = signal.mean()
    looked_up = class_statistics(np.mean, signal, labels, of=np.array([2, 0, 2]))
    # weights 10 / (10 + 10) and 30 / (30 + 10)
    np.testing.assert_allclose(
        looked_up, [(7 + pooled) / 2, (3 + pooled) / 4, (7 + pooled) / 2], rtol=1e-15
    )


def test_a_single_record_hardly_moves_its_class() -> None:
    signal = np.append(np.zeros(99), 100.0)
    labels = np.append(np.zeros(99, np.int64), 1)
    (own,) = class_statistics(np.median, signal, labels, of=np.array([1]))
    assert own == pytest.approx(100 / 11)


def test_an_absent_class_gets_the_statistic_of_all() -> None:
    signal = np.array([1.0, 2.0, 6.0])
    looked_up = class_statistics(np.median, signal, np.array([0, 0, 3]), of=np.array([1, 9]))
    np.testing.assert_array_equal(looked_up, [2.0, 2.0])


def test_nobody_to_look_up() -> None:
    looked_up = class_statistics(np.mean, np.array([1.0]), np.array([0]), of=np.empty(0, np.int64))
    assert looked_up.shape == (0,)


def test_saturated_signals_are_tamed_in_order_and_others_left_alone() -> None:
    p = np.array([[0.5, 0.5], [0.9, 0.1], [1.0, 0.0], [0.0, 1.0]])
    phi = signals.compute_signal("scaled_logit", p, np.zeros(4, np.int64))
    mine, other = signals.tame(phi, np.array([[3.0], [-200.0]]))
    np.testing.assert_array_equal(mine[:2], phi[:2])
    assert mine[2] == -mine[3] == 3.0 + np.log(2)
    np.testing.assert_allclose(other, [[3.0], [-3.0 - np.log(2)]])
    assert (np.argsort(mine) == np.argsort(phi)).all()
    (alone,) = signals.tame(np.full(3, 500.0))
    assert np.isfinite(alone).all()


# Ties: whatever the signal, records tie just where they do in exact arithmetic.

LEAST = Fraction(SMALLEST)


def decide(signal: SignalName, p: list[Fraction], y: int) -> Any:
    """What decides a signal, in exact arithmetic; for an ordered one, in its order."""
    if signal == "confidence":
        return max(p)
    if signal == "margin":  # a zero stands for the smallest number that a model says
        return max(p[y], LEAST) / max(*p[:y], *p[y + 1 :], LEAST)
    if signal == "entropy":
        return tuple(sorted(p))
    return (p[y], tuple(sorted(p))) if signal == "modified_entropy" else p[y]


@st.composite
def rational_answers(draw: st.DrawFn) -> tuple[list[list[Fraction]], list[int]]:
    """Answers in whole parts of one denominator, each in several orders of classes."""
    whole = draw(st.sampled_from([2, 3, 7, 10, 12, 40, 50, 99, 100, 300, 1000, 10**4, 10**6]))
    classes = draw(st.integers(2, 6))
    rows: list[list[Fraction]] = []
    for _ in range(draw(st.integers(1, 8))):
        cuts = sorted(
            draw(st.lists(st.integers(0, whole), min_size=classes - 1, max_size=classes - 1))
        )
        parts = [b - a for a, b in zip([0, *cuts], [*cuts, whole], strict=True)]
        orders = draw(st.lists(st.permutations(parts), min_size=2, max_size=4))
        rows += [[Fraction(part, whole) for part in order] for order in orders]
    labels = [draw(st.integers(0, classes - 1)) for _ in rows]
    return rows, labels


def check_ties(
    signal: SignalName, rows: list[list[Fraction]], labels: list[int], dtype: str
) -> None:
    raw = np.array([[float(p) for p in row] for row in rows]).astype(dtype)
    p = to_probabilities(raw, "probabilities", len(rows))
    scores = compute_exactly(signal, p, np.array(labels)).tolist()
    keys = [decide(signal, row, y) for row, y in zip(rows, labels, strict=True)]
    for (one, score), (other, second) in combinations(zip(keys, scores, strict=True), 2):
        if one == other:
            assert score == second
        elif signal in ("loss", "scaled_logit", "confidence", "margin"):
            assert (one < other) == (score < second)


@pytest.mark.parametrize("signal", NAMES)
@given(answers=rational_answers())
def test_records_tie_where_they_do_in_exact_arithmetic(
    signal: SignalName, answers: tuple[list[list[Fraction]], list[int]]
) -> None:
    check_ties(signal, *answers, "float64")


@pytest.mark.parametrize("signal", NAMES)
@pytest.mark.parametrize(("dtype", "decimals"), [("float32", 4), ("float16", 2)])
def test_ties_of_decimals_hold_in_any_precision(
    signal: SignalName, dtype: str, decimals: int
) -> None:
    rng = np.random.default_rng(0)
    parts = rng.multinomial(10**decimals, np.ones(3) / 3, 60)
    rows = [
        [Fraction(int(part), 10**decimals) for part in rng.permutation(row)]
        for row in parts[rng.integers(0, 60, 200)]
    ]
    check_ties(signal, rows, rng.integers(0, 3, 200).tolist(), dtype)
