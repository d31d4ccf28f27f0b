"""The relations, of any way to have a model audited."""

from collections.abc import Callable, Mapping

from divulge.audits.result import SecretAudit
from divulge.core import Estimate
from divulge.testing.properties import PropertyError, require
from divulge.testing.relations.figures import Difference, differences
from divulge.testing.relations.subjects import SAME, Change, Subject, change_all

Way = Callable[[Subject], SecretAudit]
"""Has a subject audited."""

TURNED = 1e-12
"""An AUC and that of exchanged sets are counts of the same pairs, and sum to 1 but for rounding."""


def require_same_figures(
    way: Way,
    subject: Subject,
    before: SecretAudit,
    changes: Mapping[str, Change] = SAME,
    differ: Difference = differences,
) -> None:
    """The same information in another form gives the same figures, and the same verdict.

    All changes are made at once; where figures differ, each alone, so that the message names it.

    Args:
        way: how it is audited.
        subject: which model, and about whom.
        before: the audit of the subject in its own form.
        changes: what changes the form.
        differ: what two audits are compared by.

    Raises:
        PropertyError: figures differ; names the change of form and a figure.
    """
    together = differ(before, way(change_all(subject, changes)))
    if not together:
        return
    alone = {name: differ(before, way(change(subject))) for name, change in changes.items()}
    causes = [f"{describe(changes[name])} ({lines[0]})" for name, lines in alone.items() if lines]
    named = "; ".join(causes) or f"all changes at once ({together[0]})"
    raise PropertyError(f"figures change with {named}")


def require_turned_figures(before: SecretAudit, exchanged: SecretAudit) -> None:
    """Where members are called non-members and the reverse, every AUC turns over.

    Args:
        before: the audit of a model that leaks.
        exchanged: that of the same with the two sets exchanged.

    Raises:
        PropertyError: an AUC does not turn over; names it.
    """
    for first, second in zip(before.findings, exchanged.findings, strict=True):
        pair = first.metrics["auc"].value, second.metrics["auc"].value
        message = f"AUCs of {first.label} are {pair[0]:.3f} and, with exchanged sets, {pair[1]:.3f}"
        require(abs(sum(pair) - 1) <= TURNED, f"{message}: they have to sum to 1")


def require_narrower_figures(few: SecretAudit, many: SecretAudit) -> None:
    """Several times as many records of the same model narrow the interval of every AUC.

    Args:
        few: the audit of some of the records.
        many: that of all.

    Raises:
        PropertyError: an interval is as wide or wider; names it.
    """
    for first, second in zip(few.findings, many.findings, strict=True):
        pair = _width(first.metrics["auc"]), _width(second.metrics["auc"])
        message = f"the interval of the AUC of {first.label} is {pair[0]:.3f} wide"
        require(pair[1] < pair[0], f"{message}, and {pair[1]:.3f} with more records")


def describe(change: Callable[..., object]) -> str:
    """What a change is, in a few words: the first line of its docstring."""
    sentence = (change.__doc__ or change.__name__).splitlines()[0].rstrip(".")
    return sentence[0].lower() + sentence[1:]


def _width(estimate: Estimate) -> float:
    high = estimate.high
    return float("inf") if high is None else high - estimate.low
