"""Numbers and names are formatted here for readers, every measured value with its interval."""

import math
import re
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from divulge._util import showable
from divulge.core import Estimate

_SHARE = r"(\d+(?:\.\d+)?(?:e-?\d+)?)"
_PARAMETER = re.compile(rf"(tpr|precision)@{_SHARE}(?::{_SHARE})?")
_TITLES = {
    "auc": "AUC",
    "record_auc": "AUC by record",
    "epsilon": "Epsilon bound",
}
_DASH = "\u2013"
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def shorten_names(names: Sequence[str], limit: int) -> list[str]:
    """Shorten names to one line of at most about ``limit`` characters, all still different.

    Examples:
        >>> shorten_names(["abcdef", "abcxyz", "abc"], 4)
        ['abc…', 'abc… (2)', 'abc']
    """
    uses: dict[str, int] = {}
    short = []
    for name in names:
        line = " ".join(showable.make_showable(name).split()) or "(no name)"
        line = line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
        uses[line] = uses.get(line, 0) + 1
        short.append(line if uses[line] == 1 else f"{line} ({uses[line]})")
    return short


def format_percent(share: float) -> str:
    """Format a rate that was chosen and not measured: ``0.1 %``."""
    return f"{100 * share:.3g} %"


def per_hundred(estimate: Estimate) -> tuple[str, str, str]:
    """Value, low and high per hundred, with the digits that the interval's width supports.

    Examples:
        >>> per_hundred(Estimate(0.343, 0.281, 0.409))
        ('34', '28', '41')
        >>> per_hundred(Estimate(0.004, 0.001, 0.015))
        ('0.4', '0.1', '1.5')
        >>> per_hundred(Estimate(0.2, 0.18, 0.22))
        ('20.0', '18.0', '22.0')
    """
    high = estimate.value if estimate.high is None else estimate.high
    width = high - estimate.low
    digits = 0 if width >= 0.05 else 1 if width >= 0.005 else 2 if width >= 0.0005 else 3
    if abs(estimate.value) < 0.05 or 0 < abs(estimate.low) < 0.01:  # next to a chance of 1 %
        digits = max(digits, 1)
    # adding zero turns the minus zero of a rounded small negative into zero
    shown = [
        f"{round(100 * part, digits) + 0.0:.{digits}f}"
        for part in (estimate.value, estimate.low, high)
    ]
    return shown[0], shown[1], shown[2]


def format_rate(estimate: Estimate) -> str:
    """Format a share with its interval.

    Examples:
        >>> format_rate(Estimate(0.343, 0.281, 0.409))
        '34 % (28–41)'
    """  # noqa: RUF002 - a dash, not a minus
    value, low, high = per_hundred(estimate)
    if estimate.high is None:
        return f"≥ {low} %"
    # a dash between two minus signs cannot be read
    return (
        f"{value} % ({low} to {high})" if "-" in low + high else f"{value} % ({low}{_DASH}{high})"
    )


def format_rate_up_to(estimate: Estimate) -> str:
    """Format a share without a lower limit, for which there were too few records.

    Examples:
        >>> format_rate_up_to(Estimate(0.343, 0.0, 0.409))
        '34 % (up to 41)'
    """
    value, _, high = per_hundred(estimate)
    return f"{value} % (up to {high})"


def format_auc(estimate: Estimate) -> str:
    """Format an AUC with its interval.

    Examples:
        >>> format_auc(Estimate(0.7123, 0.69, 0.7342))
        '0.712 (0.690–0.734)'
    """  # noqa: RUF002 - a dash, not a minus
    if estimate.high is None:
        return f"≥ {estimate.low:.3f}"
    to = " to " if estimate.low < 0 else _DASH
    return f"{estimate.value:.3f} ({estimate.low:.3f}{to}{estimate.high:.3f})"


def format_difference(estimate: Estimate) -> str:
    """A difference of two rates with its interval.

    Examples:
        >>> format_difference(Estimate(0.12, 0.081, 0.159))
        '+0.120 (+0.081 to +0.159)'
    """
    high = estimate.value if estimate.high is None else estimate.high
    return f"{estimate.value:+.3f} ({estimate.low:+.3f} to {high:+.3f})"


def format_epsilon(estimate: Estimate) -> str:
    """Format a lower bound on ε, which is an interval by itself.

    Examples:
        >>> format_epsilon(Estimate(1.234, 1.234, None))
        '≥ 1.2'
    """
    # rounded down: a rounded-up bound would claim more than was shown
    return f"≥ {math.floor(10 * estimate.low + 1e-9) / 10:.1f}"


def format_lower_bound(bound: float) -> str:
    """Format a lower bound with three digits, rounded down to claim no more than was shown.

    Examples:
        >>> format_lower_bound(1.23999), format_lower_bound(0.00456789), format_lower_bound(0.0)
        ('1.23', '0.00456', '0')
    """
    if bound <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(bound)) - 2)
    return f"{math.floor(bound / unit) * unit:.3g}"


def format_p_value(p: float) -> str:
    """Format a p-value with two digits, and with four decimals if it is below 0.001.

    Examples:
        >>> format_p_value(0.0315), format_p_value(0.00049)
        ('0.032', '0.0005')
    """
    return f"{p:.4f}".rstrip("0") if p < 0.001 else f"{p:.2g}"


def format_metric(name: str, estimate: Estimate, unmeasured: Collection[str] = ()) -> str:
    """Format a metric's value with its interval, in the manner of that metric.

    Args:
        name: the name of the metric.
        estimate: its value and interval.
        unmeasured: metrics that the sizes cannot support; this one then lacks its lower limit.
    """
    style = {"auc": format_auc, "record_auc": format_auc, "epsilon": format_epsilon}.get(
        name, format_rate
    )
    return format_rate_up_to(estimate) if name in unmeasured else style(estimate)


def metric_title(name: str) -> str:
    """A metric's name as a column heading.

    Examples:
        >>> tuple(map(metric_title, ("tpr@0.01", "precision@0.01:0.1", "balanced_accuracy")))
        ('TPR at 1 % FPR', 'Precision at 1 % FPR, 10 % members', 'Balanced accuracy')
    """
    match = _PARAMETER.fullmatch(name)
    if match is None:
        return _TITLES.get(name, name.replace("_", " ").capitalize())
    kind, fpr, prior = match.groups()
    heading = f"{'TPR' if kind == 'tpr' else 'Precision'} at {format_percent(float(fpr))} FPR"
    return heading if prior is None else f"{heading}, {format_percent(float(prior))} members"


def format_count(number: int, thing: str) -> str:
    """Format a number and its noun, in the singular or plural.

    Examples:
        >>> format_count(1, "attack"), format_count(12000, "record")
        ('1 attack', '12,000 records')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def parse_moment(created: str) -> datetime | None:
    """The moment of a time stamp in ISO 8601, in UTC; None if the text is none."""
    try:
        when = datetime.fromisoformat(created)
        return when.astimezone(UTC) if when.tzinfo else when
    except (ValueError, OverflowError):
        return None


def format_moment(created: str) -> str:
    """Format a time stamp for readers; a text that is none stays as it is.

    Examples:
        >>> format_moment("2026-11-29T16:40:54+00:00"), format_moment("")
        ('29 November 2026, 16:40 UTC', '')
    """
    when = parse_moment(created)
    if when is None:
        return showable.make_showable(created)
    return f"{when.day} {_MONTHS[when.month - 1]} {when.year}, {when:%H:%M} UTC"


def describe_knowledge(settings: Any) -> str:
    """Say what an attacker knows of each record, by a run's settings; empty if it knows all.

    Examples:
        >>> tuple(map(describe_knowledge, ({"columns": ["age", "zip"]}, {"share": 0.4}, None)))
        ('the columns age and zip', '40 % of the features', '')
    """
    if not isinstance(settings, dict):
        return ""
    named, share = settings.get("columns"), settings.get("share")
    columns = [str(column) for column in named] if isinstance(named, list | tuple) else []
    if not columns:
        known = share if isinstance(share, int | float) else 0
        return f"{100 * known:g} % of the features"
    *first, last = columns
    listed = f"{', '.join(first)} and {last}" if first else last
    return f"the column{'s' if first else ''} {listed}"


def describe_given(settings: Any) -> str:
    """Name the number by which a table is audited, by a run's settings; empty for answers.

    Examples:
        >>> tuple(map(describe_given, ({"loss": "nll"}, {"score": "lira"}, {}, None)))
        ("the loss in column 'nll'", "the score in column 'lira'", '', '')
    """
    given = settings if isinstance(settings, dict) else {}
    named = ((kind, given.get(kind)) for kind in ("loss", "score"))
    return next((f"the {kind} in column {name!r}" for kind, name in named if name is not None), "")


def class_name(label: int, names: Sequence[str]) -> str:
    """The user's name of a class, or its number.

    Examples:
        >>> class_name(1, ("cat", "dog")), class_name(2, ("cat", "dog"))
        ('dog', 'class 2')
    """
    return names[label] if 0 <= label < len(names) else f"class {label}"


def interval_words(estimate: Estimate) -> str:
    """Format a share with its limits, for a sentence.

    Examples:
        >>> interval_words(Estimate(0.84, 0.75, 0.91))
        '84 % (95 % interval 75 to 91)'
    """
    value, low, high = per_hundred(estimate)
    return f"{value} % (95 % interval {low} to {high})"


def percent_words(share: float, rounded: Callable[[float], int] = round) -> str:
    """Format a share without decimals; limits are rounded up or down so as not to understate.

    Examples:
        >>> import math
        >>> percent_words(0.474), percent_words(0.474, math.ceil), percent_words(-0.2)
        ('47 %', '48 %', '0 %')
    """
    return f"{rounded(100 * min(1.0, max(0.0, share)))} %"


def p_words(p: float) -> str:
    """Format a p-value for a sentence.

    Examples:
        >>> p_words(0.001), p_words(0.32), p_words(1e-4)
        ('p = 0.001', 'p = 0.32', 'p < 0.001')
    """
    if p < 0.001 - 1e-9:
        return "p < 0.001"
    return f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"
