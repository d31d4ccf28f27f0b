"""Recognise the form of answers that are not what was declared, and say what to do about them.

Nothing is converted here. Whoever follows an advice literally gets the right figures.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from jaxtyping import Bool, Float

from divulge.errors import TargetError

Answers = Float[np.ndarray, "records columns"]

NEGATIVE_TOLERANCE: Final = 1e-6
"""What rounding in float32 leaves below zero."""

_SUM_TOLERANCE = 1e-3  # what rounding in float16 leaves around a sum of one
_MOST_DECIMALS = 6  # so rounded, the sum of 2,000 classes stays within that
_ENOUGH = 30
"""So many numbers in one column do not look like another form by chance."""
_ENOUGH_ROWS = 8
"""So many rows of several columns do not."""
_ONE_LOGARITHM = (
    "these are logarithms of the probabilities of class 1, so raise their base (e unless you chose "
    'another) to the power of each, and pass output="probabilities"'
)
_SURE_LOGIT = 50.0
"""No model that answers logits is surer throughout than exp(-50)."""
_UNSURE = 0.9
"""Below this highest probability the others show in the sum of a row."""
_NEAR_WHOLE = 0.01, 0.05
"""By how much sums of powers, and of whole numbers, are off one whole through rounding, at most."""


def are_probabilities(answers: Answers) -> bool:
    """Whether the rows are probabilities of classes, or one column of probabilities.

    Rounding to d decimals changes each number by half of 10^-d at most, and lowers the numbers that
    are zero afterwards: sums of rows may be as far from one as that explains.

    Args:
        answers: finite numbers.
    """
    if answers.min(initial=0.0) < -NEGATIVE_TOLERANCE:
        return False
    if answers.shape[1] == 1:
        return bool(answers.max(initial=0.0) <= 1 + NEGATIVE_TOLERANCE)
    sums = answers.sum(axis=1)
    exact = np.abs(sums - 1) <= _SUM_TOLERANCE
    if exact.all():
        return True
    half = _half_steps(answers)
    nonzero = np.count_nonzero(answers, axis=1)
    rounded = (sums - 1 <= half * nonzero) & (1 - sums <= half * answers.shape[1])
    return bool((exact | rounded).all())


def are_percentages(answers: Answers) -> bool:
    """Whether the rows are percentages of classes, or one column of percentages."""
    if answers.shape[1] == 1 and answers.max(initial=0.0) <= 1:
        return False
    return are_probabilities(scale_percentages(answers))


def scale_percentages(answers: Answers) -> Answers:
    """Percentages as probabilities: those with few decimals as the nearest doubles."""
    rounded, decimals = _find_rounded(answers)
    nearest = np.round(answers * 10.0**decimals) / 10.0 ** (decimals + 2)
    return np.where(rounded[:, np.newaxis], nearest, answers / 100)


def are_one_hot(answers: Answers) -> bool:
    """Whether each row has a one in the column of its class, and zeros elsewhere."""
    return bool(np.isin(answers, (0, 1)).all() and (answers.sum(axis=1) == 1).all())


def describe_rounding(parts: Iterable[Answers], output: str) -> str:
    """A sentence on rows that rounding took from their sum; empty where there are none.

    Args:
        parts: probabilities or percentages as a table holds them, one column a class.
        output: which of them.
    """
    whole = {"probabilities": 1, "percentages": 100}.get(output)
    if whole is None:
        return ""
    sums = (answers.sum(axis=1) for answers in parts if answers.shape[1] > 1)
    ends = np.array([(part.min(), part.max()) for part in sums] or [(whole, whole)])
    low, high = ends[:, 0].min(), ends[:, 1].max()
    if (np.abs(ends / whole - 1) <= _SUM_TOLERANCE).all():
        return ""
    return (
        f"The {output} are rounded: rows sum to {low:.6g} to {high:.6g}, and each is divided by "
        "its sum."
    )


def explain_refusal(answers: Answers, names: Sequence[str] = ()) -> str:
    """What answers seem to be that are no probabilities, and what to do, in half a sentence.

    Args:
        answers: finite numbers, one column a class.
        names: of the columns of a table; none of a model.
    """
    if answers.shape[1] == 1:
        return _explain_column(answers, names)
    if are_percentages(answers):
        return 'these are percentages, so pass output="percentages"'
    if (answers <= NEGATIVE_TOLERANCE).all() and are_probabilities(np.exp(answers)):
        return 'these are logarithms of probabilities, so pass output="logits", which fits them too'
    stray = [at for at in range(answers.shape[1]) if _is_stray(answers, at)]
    if len(stray) == 1:
        return _explain_stray(stray[0], names)
    if scale := _explain_scale(answers):
        return scale
    if answers.min() >= -NEGATIVE_TOLERANCE and answers.max() <= 1 + NEGATIVE_TOLERANCE:
        if (answers.sum(axis=1) <= 1 + _SUM_TOLERANCE).all():
            return "a class has no column, so add the column of its probabilities"
        return (
            "each column seems to be a label of its own, of which a record may have several, so "
            "audit each label by itself: its column of probabilities, and 1 or 0 as the true class"
        )
    return 'if these are logits, pass output="logits"'


def refuse_other_forms(answers: Answers, names: Sequence[str] = ()) -> None:
    """Refuse probabilities, percentages and labels that were declared as logits.

    Few answers, which may lie anywhere, pass.

    Args:
        answers: finite numbers or minus infinity, one column a class.
        names: of the columns of a table; none of a model.

    Raises:
        TargetError: they are certainly no logits.
    """
    if answers.shape[1] == 1:
        reason = _explain_no_logits(answers, names)
    elif len(answers) < _ENOUGH_ROWS:
        return
    elif len(stray := np.flatnonzero(_are_counts(answers))):
        reason = _explain_stray(int(stray[0]), names)
    elif answers.min() < -NEGATIVE_TOLERANCE:
        reason = _explain_scale(answers)
    elif are_probabilities(answers):
        reason = 'these are probabilities, so pass output="probabilities"'
    elif are_percentages(answers):
        reason = 'these are percentages, so pass output="percentages"'
    else:
        reason = _explain_scale(answers)
    if reason:
        raise TargetError(f"expected logits, got {_range_of(answers)}: {reason}")


def are_labels(answers: Answers) -> bool:
    """Whether one column holds 0 and 1 alone, so often that these are no probabilities."""
    enough = answers.shape[1] == 1 and len(answers) >= _ENOUGH
    return enough and bool(np.isin(answers, (0, 1)).all())


def are_shares(answers: Answers) -> bool:
    """Whether one column has nothing above 1, so often that these are no percentages."""
    enough = answers.shape[1] == 1 and len(answers) >= _ENOUGH
    return enough and bool(answers.max() <= 1 and answers.min() >= -NEGATIVE_TOLERANCE)


def advise_labels(answers: Answers, names: Sequence[str] = ()) -> str:
    """What to do about a column of class numbers."""
    if names:
        return 'pass output="labels"'
    return f'pass output="labels" and classes={max(2, int(answers.max()) + 1)}'


def _explain_column(answers: Answers, names: Sequence[str]) -> str:
    whole = bool((answers == np.rint(answers)).all())
    if whole and answers.min() >= -1:
        labels = f"if these are classes, {advise_labels(answers, names)}"
        many = answers.min() >= 0 and len(np.unique(answers)) > 2 and answers.max() <= 100
        return labels + ('; if they are percentages, output="percentages"' if many else "")
    if _are_logarithms(answers):
        return _ONE_LOGARITHM
    further = "; if they are losses or scores, name the column as loss= or score=" if names else ""
    if are_percentages(answers):
        return f'if these are percentages, pass output="percentages"{further}'
    return f'if these are logits of class 1, pass output="logits"{further}'


def _explain_no_logits(answers: Answers, names: Sequence[str]) -> str:
    """Why one column holds no logits; nothing where it may."""
    if len(answers) < _ENOUGH:
        return ""
    if answers.min() < -NEGATIVE_TOLERANCE:
        return _ONE_LOGARITHM if _are_logarithms(answers) else ""
    if (answers == np.rint(answers)).all() and len(np.unique(answers)) > 1:
        return _explain_column(answers, names)
    # from one end to the other: logits of one record seen in many ways would be alike
    if answers.max() <= 1 + NEGATIVE_TOLERANCE and answers.min() < 0.2 and answers.max() > 0.8:
        return 'these are probabilities, so pass output="probabilities"'
    if _SURE_LOGIT < answers.max() <= 100:
        return 'these are percentages, so pass output="percentages"'
    return ""


def _are_logarithms(answers: Answers) -> bool:
    """Whether one column holds logarithms of probabilities, which end at zero.

    Were it logits, as many of those next to zero would be above it as below.
    """
    below = (answers < 0) & (answers > -0.1)
    return bool(np.count_nonzero(below) >= _ENOUGH and answers.max() <= 0 and answers.min() < -1)


def _explain_scale(answers: Answers) -> str:
    """What to do about rows that all have one sum, or powers of one sum; nothing elsewhere."""
    if len(answers) < _ENOUGH_ROWS:
        return ""
    powers, counts = _NEAR_WHOLE
    if answers.max() <= NEGATIVE_TOLERANCE:
        for base in (2, 10):
            shares = np.power(float(base), answers)
            unsure = np.count_nonzero(shares.max(axis=1) < _UNSURE)
            if unsure >= _ENOUGH_ROWS and (np.abs(shares.sum(axis=1) - 1) <= powers).all():
                return (
                    f"these are logarithms of probabilities to base {base}, so multiply each by "
                    f'{np.log(base):.7f}, which makes them natural ones, and pass output="logits"'
                )
    sums = answers.sum(axis=1)
    whole = float(np.median(sums))
    if answers.min() < 0 or whole <= 0:
        return ""
    off = _SUM_TOLERANCE * whole
    if (answers == np.rint(answers)).all():
        off = max(off, min(0.5 * answers.shape[1], counts * whole))
    if (np.abs(sums - whole) > off).any():
        return ""
    return (
        f"rows sum to about {whole:.6g}, so divide each number by the sum of its row and pass "
        'output="probabilities"'
    )


def _explain_stray(at: int, names: Sequence[str]) -> str:
    if not names:
        return f"column {at} is no class, so leave it out"
    if not names[at]:
        return (
            "a column without a name is no class, so pass probabilities= as the others are called"
        )
    return (
        f"{names[at]!r} is no class, so pass ids={names[at]!r}, which leaves it out, or rename it"
    )


def _is_stray(answers: Answers, at: int) -> bool:
    """Whether all columns but this one are probabilities, and this one is none."""
    single, others = answers[:, [at]], np.delete(answers, at, axis=1)
    if len(answers) < _ENOUGH_ROWS:
        return False
    if others.shape[1] > 1:
        return are_probabilities(others)
    whole = bool((single == np.rint(single)).all())
    return whole and not are_probabilities(single) and are_probabilities(others)


def _are_counts(answers: Answers) -> Bool[np.ndarray, " columns"]:
    """Which columns hold whole numbers that differ, beside others with fractions; or count rows."""
    with np.errstate(invalid="ignore"):  # of classes that minus infinity rules out
        running = (np.diff(answers, axis=0) == 1).all(axis=0)
    finite = np.isfinite(answers)
    whole = (answers == np.rint(answers)).all(axis=0)
    # a class that the others are compared with has a logit of zero throughout
    differ = answers.max(axis=0) > np.where(finite, answers, np.inf).min(axis=0)
    counts: Bool[np.ndarray, " columns"] = running | (whole & differ & ~whole.all())
    return counts


def _half_steps(answers: Answers) -> Float[np.ndarray, " records"]:
    """By how much rounding changed a row's numbers at most; 0 where nothing was rounded.

    Members may come from another program than non-members, which rounds otherwise. Whole numbers
    are no rounded probabilities: of 0 and 1 each row would have to be exact.
    """
    rounded, decimals = _find_rounded(answers)
    return np.where(rounded, 0.5 * 10.0**-decimals if decimals else 0.0, 0.0)


def _find_rounded(answers: Answers) -> tuple[Bool[np.ndarray, " records"], int]:
    """Which rows have as few decimals as rounded ones, and how many they have."""
    rounded = (np.round(answers, _MOST_DECIMALS) == answers).all(axis=1)
    some = answers[rounded]
    decimals = range(_MOST_DECIMALS)
    fewest = (places for places in decimals if (np.round(some, places) == some).all())
    return rounded, next(fewest, _MOST_DECIMALS)


def _range_of(answers: Answers) -> str:
    return f"numbers from {answers.min():.6g} to {answers.max():.6g}"
