"""Do members and non-members have one mix of classes, or one distribution of true values?"""

import numpy as np
from jaxtyping import Real

from divulge._util.extras import stats
from divulge.checks.question import CheckInputs, Mask
from divulge.core import Check, Records, Verdict
from divulge.core.check_names import CLASSES, VALUES
from divulge.metrics import people


def check_class_shares(subject: CheckInputs) -> Check:
    """Do members and non-members have the same share of each class?"""
    labels, member = subject.records.y, subject.member
    if (person := subject.records.people) is not None:  # each person counts once, by most records
        member = people.first_of_each(member, person)
        labels = people.most_frequent(labels, person)
    table = np.stack(
        [np.bincount(labels[m], minlength=labels.max() + 1) for m in (member, ~member)]
    )
    table = table[:, table.sum(axis=0) > 0]
    p_value = float(stats.chi2_contingency(table).pvalue) if table.shape[1] > 1 else 1.0
    if p_value >= 0.001:
        return Check(
            CLASSES,
            Verdict.PASS,
            f"Members and non-members share one mix of classes (chi-squared p = {p_value:.2g}).",
        )
    return Check(
        CLASSES,
        Verdict.WARNING,
        f"Members and non-members differ in their mix of classes (chi-squared p = {p_value:.2g}): "
        "part of any AUC is that difference. Draw both sets from one population.",
    )


def check_true_values(subject: CheckInputs) -> Check:
    """Do members and non-members have the same distribution of true values?"""
    return compare_values(VALUES, "true values", subject.records, subject.records.y, subject.member)


def compare_values(
    name: str, what: str, records: Records, values: Real[np.ndarray, " records"], member: Mask
) -> Check:
    """Do members and non-members have the same distribution of what nobody asked the model about?

    Args:
        name: of the check.
        what: the values are, in words.
        records: all candidates; of a person the mean value counts.
        values: one a record.
        member: who was trained on.
    """
    if (person := records.people) is not None:
        member = people.first_of_each(member, person)
        values = people.combine(np.asarray(values, np.float64), person, "mean")
    p_value = float(stats.ks_2samp(values[member], values[~member], method="asymp").pvalue)
    shown = f"(Kolmogorov-Smirnov p = {p_value:.2g})"
    if p_value >= 0.001:
        text = f"Members and non-members share one distribution of {what} {shown}."
        return Check(name, Verdict.PASS, text)
    return Check(
        name,
        Verdict.WARNING,
        f"Members and non-members differ in their {what} {shown}: part of any AUC is that "
        "difference. Draw both sets from one population.",
    )
