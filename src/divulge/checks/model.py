"""Checks of the model: is it as good as it should be, and do its answers rank records?"""

import numpy as np

from divulge.checks.answers import check_changing_answers
from divulge.checks.question import CheckInputs, SecondPredictions
from divulge.core import Check, Estimate, Verdict
from divulge.metrics import intervals, people

SAME = 1e-3
"""Probabilities of one record that differ by less are the same answer: batches of other sizes are
rounded otherwise. Values are compared in standard deviations of the true ones."""

_MOST_TIED = 0.05
"""Share of the records that may be the surest of all alike, without a warning."""


def check_accuracy(subject: CheckInputs) -> Check:
    """Is the model better on its training records, and do the labels fit it at all?"""
    if subject.records.unlabelled_texts:
        return _check_tokens(subject)
    right = subject.answers.label == subject.records.y
    estimates, person = {}, subject.records.people
    for group, mask in (("members", subject.member), ("non-members", ~subject.member)):
        hits, trials = int(right[mask].sum()), int(mask.sum())
        estimates[group] = (
            Estimate(hits / trials, *intervals.wilson(hits, trials))
            if person is None
            else people.mean_by_record(right[mask].astype(np.float64), person[mask], 0.0, 1.0)
        )
    lost = estimates["members"].high
    assert lost is not None
    if lost < 1 / subject.answers.classes:
        return Check(
            "model accuracy",
            Verdict.WARNING,
            "The model is worse than guessing on its own training records: the labels probably "
            "count the classes in another order than the model does.",
            estimates,
        )
    return Check(
        "model accuracy",
        Verdict.PASS,
        "The model's accuracy on training records and on records it never saw. The attack gap uses "
        "the difference.",
        estimates,
    )


def _check_tokens(subject: CheckInputs) -> Check:
    """Does a language model find texts likelier that it was trained on?"""
    likely = subject.answers.read(np.arange(len(subject.member)))[:, 0]  # of likely, unlikely
    person = subject.records.people
    estimates = {
        group: people.mean_by_record(
            likely[mask], None if person is None else person[mask], 0.0, 1.0
        )
        for group, mask in (("members", subject.member), ("non-members", ~subject.member))
    }
    text = (
        "The probability that the model gives a token, exp of minus the loss, in the mean over "
        "texts that it was trained on and over others. It stands in place of accuracy."
    )
    return Check("model accuracy", Verdict.PASS, text, estimates)


def check_error(subject: CheckInputs) -> Check:
    """Is the model nearer to its training records, and does it answer in the unit of the values?"""
    values = subject.records.y
    error, person = np.abs(values - subject.answers.top), subject.records.people
    estimates = {
        group: people.mean_by_record(error[mask], None if person is None else person[mask], 0.0)
        for group, mask in (("members", subject.member), ("non-members", ~subject.member))
    }
    # what one number for all records would miss them by: no model needs features for that
    constant = float(np.mean(np.abs(values - np.median(values))))
    if estimates["members"].low > constant:
        return Check(
            "model error",
            Verdict.WARNING,
            "The model is further from the true values of its own training records than one number "
            "for all of them would be: the true values are probably in another unit, or on another "
            "scale, than its answers.",
            estimates,
        )
    return Check(
        "model error",
        Verdict.PASS,
        "The mean absolute error on training records and on records it never saw, in the unit of "
        "the true values. Attacks on residuals use the difference.",
        estimates,
    )


def check_repeatability(subject: CheckInputs) -> Check:
    """Does the model give the same answer when it is asked again?"""
    name = "repeatability"
    if subject.again is None:
        text = "The model could not be asked about a record twice."
        return Check(name, Verdict.NOT_APPLICABLE, text)
    rows, answers = subject.again
    apart = np.abs(answers - subject.answers.read(rows)).max(axis=1)
    regression = subject.records.regression
    changed = int((apart > _same(subject)).sum())
    if not changed:
        text = f"The model was asked twice about {len(rows)} records, and gave the same answers."
        return Check(name, Verdict.PASS, text)
    unit = "" if regression else " in a probability"
    return Check(
        name,
        Verdict.WARNING,
        f"The model was asked twice about {len(rows)} records, and changed its answer about "
        f"{changed} of them, by up to {apart.max():.2g}{unit}. Answers that depend on chance, or "
        "on the other records of a batch, blur every figure: switch off dropout and batch "
        "statistics (model.eval() in PyTorch), or fix the seed of the answers.",
    )


def check_chance(subject: CheckInputs, again: SecondPredictions) -> Check | None:
    """Does chance make up most of what answers say of the truth? None if it does not."""
    rows, second = again
    truth = subject.records.y[rows]
    return check_changing_answers(subject.answers.read(rows), second, truth, _same(subject))


def _same(subject: CheckInputs) -> float:
    """The change up to which an answer is the same one."""
    if not subject.records.regression:
        return SAME
    return SAME * (float(np.std(subject.records.y)) or 1.0)


def check_saturation(subject: CheckInputs) -> Check:
    """Are predictions so sure that many are exactly one?"""
    share = float(np.mean(subject.answers.top == 1.0))
    one_hot = share == 1.0
    if share <= _MOST_TIED or one_hot:
        text = (
            "The model gives labels alone."
            if one_hot
            else "Predictions can be ranked by confidence: "
            f"{share:.1%} of them are exactly 1, which is few."
        )
        return Check("saturation", Verdict.NOT_APPLICABLE if one_hot else Verdict.PASS, text)
    return Check(
        "saturation",
        Verdict.WARNING,
        f"{share:.0%} of the predictions are exactly 1 and cannot be ranked, which hides the "
        "most memorised records. An attacker tosses a coin among them, and so do the figures. If "
        'this is a network, let it give logits, and say so with output = "logits".',
    )


def check_ties(subject: CheckInputs) -> Check:
    """Do many records share the highest score, so that nobody can rank them?"""
    name, score = "ties", subject.answers.top
    share = float(np.mean(score == score.max()))
    if share <= _MOST_TIED:
        text = f"{share:.1%} of the records share the highest score; the others can be ranked."
        return Check(name, Verdict.PASS, text)
    return Check(
        name,
        Verdict.WARNING,
        f"{share:.0%} of the records share the highest score and cannot be ranked, which hides the "
        "most memorised ones. An attacker tosses a coin among them, and so do the figures. If they "
        "were rounded, or cut off at 0, compute them in float64 and from logits.",
    )
