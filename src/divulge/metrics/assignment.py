"""These metrics say how well a guess assigns records to the clients that trained on them.

Accuracy alone rewards saying "nobody": where most candidates are non-members, that answer is hard
to beat. So it is shown with the best constant answer, and the recall of members and the specificity
on non-members say where it comes from.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from scipy import special

from divulge.core import NOBODY, Assignment, Collusion, Estimate, Measurements
from divulge.errors import DataError
from divulge.metrics import membership
from divulge.metrics.intervals import CONFIDENCE, wilson
from divulge.metrics.membership import Unmeasurable
from divulge.metrics.permutation import permutation_p_value

FPRS = (0.01, 0.03)
"""False-positive rates at which the TPR is reported: 1 %, 3 %."""

METRICS = ("accuracy", "recall", "specificity", *(f"tpr@{fpr:g}" for fpr in FPRS))
"""The names of all metrics of an attack on a federation's clients."""

KnownMask = Bool[np.ndarray, " records"]


class ZTest(NamedTuple):
    """A difference of two proportions in standard errors, and its two-sided p-value."""

    z: float
    p: float


class Pairs(NamedTuple):
    """A score for each of several pairs of record and client, and whether the record is its."""

    score: Float64[np.ndarray, " pairs"]
    member: Bool[np.ndarray, " pairs"]


def measure(
    guess: Assignment, truth: Assignment, known: Collusion, confidence: float = CONFIDENCE
) -> Measurements:
    """Every metric that these records support; names are `METRICS`.

    Args:
        guess: the client of each record, perhaps with a score for each.
        truth: the client of each record; scores are not used.
        known: what the colluding client knows.
        confidence: the coverage of the intervals.

    Raises:
        DataError: guess and truth differ in length.
    """
    metrics = {"accuracy": accuracy(guess, truth, confidence)}
    unmeasured: dict[str, str] = {}
    ways: dict[str, Callable[[], Estimate]] = {
        "recall": partial(recall, guess, truth, confidence),
        "specificity": partial(specificity, guess, truth, confidence),
        **{
            f"tpr@{fpr:g}": partial(_tpr_of_pairs, guess, truth, known, fpr, confidence)
            for fpr in FPRS
        },
    }
    for name, way in ways.items():
        try:
            metrics[name] = way()
        except DataError as error:
            unmeasured[name] = str(error)
    for fpr in FPRS:
        if f"tpr@{fpr:g}" in metrics:
            others = int((~pairs(guess, truth, known).member).sum())
            missing = membership.missing_lower_limit(others, fpr, confidence)
            unmeasured |= {f"tpr@{fpr:g}": missing} if missing else {}
    return Measurements(metrics, unmeasured)


def _tpr_of_pairs(
    guess: Assignment, truth: Assignment, known: Collusion, fpr: float, confidence: float
) -> Estimate:
    return membership.tpr_at_fpr(*pairs(guess, truth, known), fpr, confidence)


def accuracy(guess: Assignment, truth: Assignment, confidence: float = CONFIDENCE) -> Estimate:
    """The share of records assigned to the right client, or rightly to nobody; Wilson's interval.

    Examples:
        >>> truth = Assignment(np.array([0, 1, -1, -1]))
        >>> accuracy(Assignment(np.array([0, -1, -1, -1])), truth).value
        0.75

    Raises:
        DataError: guess and truth differ in length.
        Unmeasurable: there are no records.
    """
    return _estimate_share(_correct_guesses(guess, truth), "records", confidence)


def recall(guess: Assignment, truth: Assignment, confidence: float = CONFIDENCE) -> Estimate:
    """The share of the records that some client trained on which are assigned to that client.

    Raises:
        DataError: guess and truth differ in length.
        Unmeasurable: no client trained on any.
    """
    members = truth.client != NOBODY
    return _estimate_share(_correct_guesses(guess, truth)[members], "members", confidence)


def specificity(guess: Assignment, truth: Assignment, confidence: float = CONFIDENCE) -> Estimate:
    """The share of the records that no client trained on which are assigned to nobody.

    Raises:
        DataError: guess and truth differ in length.
        Unmeasurable: every record is some client's.
    """
    nonmembers = truth.client == NOBODY
    return _estimate_share(_correct_guesses(guess, truth)[nonmembers], "non-members", confidence)


def best_constant(truth: Assignment, known: KnownMask, confidence: float = CONFIDENCE) -> Estimate:
    """The accuracy of the best single answer for all records but those known to the attacker.

    Which answer is best is read off the truth: no attack is given that much.

    Args:
        truth: who trained on each record.
        known: records that the colluding client trained on; counted as right.
        confidence: the coverage of the interval.

    Raises:
        Unmeasurable: there are no records.
    """
    _, counts = np.unique(truth.client[~known], return_counts=True)
    best = int(known.sum()) + int(counts.max(initial=0))
    return _estimate_share(np.arange(len(known)) < best, "records", confidence)


def chance_accuracy(known: Collusion, clients: int) -> float:
    """The expected accuracy of random answers: nobody, or any client but the colluding one.

    Args:
        known: what the colluding client knows; its own records are counted as right.
        clients: the number of clients, including the colluding one.

    Raises:
        Unmeasurable: there are no records.
    """
    own = known.records
    if not len(own):
        raise Unmeasurable("expected records, got none: there is nothing to assign")
    # nobody in place of the colluder: of the records not its own it knows that they are not
    answers = clients + (known.client is None)
    # its own records are known; elsewhere each answer left is as likely as any
    return float(own.mean() + (~own).mean() / answers)


def two_proportion_test(hits: tuple[int, int], trials: tuple[int, int]) -> ZTest:
    """The pooled z-test of two independent proportions, as the paper compares two leader boards.

    It takes the two guesses for independent although they are about the same records.

    References:
        nist-stacking (arXiv 2604.12737), section 5, its comparison of accuracies.

    Examples:
        >>> round(two_proportion_test((39, 22), (73, 73)).z, 2)
        2.85
    """
    first, second = hits[0] / trials[0], hits[1] / trials[1]
    # under the null hypothesis both have one rate, so both give the error
    pooled = sum(hits) / sum(trials)
    error = math.sqrt(pooled * (1 - pooled) * (1 / trials[0] + 1 / trials[1]))
    if error == 0:
        return ZTest(0.0, 1.0)
    z = (first - second) / error
    return ZTest(z, float(2 * special.ndtr(-abs(z))))


def permutation_p_of_accuracy(
    guess: Assignment,
    truth: Assignment,
    known: KnownMask,
    rng: np.random.Generator,
    times: int = 999,
) -> float:
    """The chance of so high an accuracy where the guess knows nothing of the truth.

    Owners are permuted among the records that the attacker does not know. No attack sees them, so
    its guess stays what it was, and the test is of the whole of it. See
    `divulge.metrics.permutation.permutation_p_value`.

    Raises:
        DataError: guess and truth differ in length.
    """
    _correct_guesses(guess, truth)
    guessed, owner = guess.client[~known], truth.client[~known]
    everywhere = np.zeros(len(owner), np.int64)
    return permutation_p_value(
        lambda other: float((guessed == other).sum()), owner, everywhere, rng, times
    )


def pairs(guess: Assignment, truth: Assignment, known: Collusion) -> Pairs:
    """All pairs of a candidate that the attacker does not know and a client under attack.

    On these pairs scores can be judged at a false-positive rate, whatever the decision was.

    Raises:
        DataError: guess and truth differ in length, or the guess has no scores.
    """
    _correct_guesses(guess, truth)
    if guess.score is None:
        raise DataError("expected a score of each record and client, got none")
    everybody = np.arange(guess.score.shape[1])
    clients = everybody[everybody != known.client]
    score = guess.score[~known.records][:, clients]
    return Pairs(score.ravel(), (truth.client[~known.records, None] == clients).ravel())


def _correct_guesses(guess: Assignment, truth: Assignment) -> Bool[np.ndarray, " records"]:
    if len(guess.client) != len(truth.client):
        raise DataError(
            f"expected an answer for each of {len(truth.client)} records, got {len(guess.client)}"
        )
    right: Bool[np.ndarray, " records"] = guess.client == truth.client
    return right


def _estimate_share(right: Bool[np.ndarray, " records"], what: str, confidence: float) -> Estimate:
    if not len(right):
        raise Unmeasurable(f"expected {what}, got none: there is no share to speak of")
    hits = int(right.sum())
    return Estimate(hits / len(right), *wilson(hits, len(right), confidence))
