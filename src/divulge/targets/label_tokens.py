"""Read probabilities of labels from log-probabilities of tokens."""

import math
from typing import Any

from divulge.errors import TargetError


def label_probabilities(tokens: Any, labels: tuple[str, ...]) -> list[float]:
    """Probabilities of labels from the log-probabilities of the likeliest first tokens.

    A token counts for a label if it is, white space aside, the label or the beginning of this label
    alone: of ``positive`` and ``negative``, ``" pos"`` is the first. Probabilities of a label's
    tokens are added up. The endpoint names its likeliest tokens only: a label without one of them
    gets the highest probability that it can have, which is the lowest one named, or what is left
    of 1 where that is less. The labels' probabilities are then divided by their sum, since the
    other tokens are no answer.

    Args:
        tokens: log-probabilities by token.
        labels: the labels.

    Raises:
        TargetError: these are no log-probabilities, or none is of a label.

    Examples:
        >>> tokens = {" yes": math.log(0.6), "no": math.log(0.2), "Well": math.log(0.1)}
        >>> [round(p, 9) for p in label_probabilities(tokens, ("yes", "no"))]
        [0.75, 0.25]
    """
    if not isinstance(tokens, dict) or not all(map(_is_log_probability, tokens.values())):
        raise TargetError("expected log-probabilities by token, got something else")
    named = {token: math.exp(min(value, 0.0)) for token, value in tokens.items()}
    sums = dict.fromkeys(labels, 0.0)
    for token, probability in named.items():
        if (label := label_of(token, labels)) is not None:
            sums[label] += probability
    if not any(sums.values()):
        listed = ", ".join(map(repr, list(named)[:5])) or "none"
        raise TargetError(
            f"expected a label among the likeliest tokens, got {listed}: ask for one of the labels "
            "in the prompt, and check labels"
        )
    # what is not named is at most as likely as the least that is, and as what is left of 1
    most = min(min(named.values()), max(0.0, 1 - math.fsum(named.values())))
    raised = [probability or most for probability in sums.values()]
    return [probability / math.fsum(raised) for probability in raised]


def _is_log_probability(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and bool(value < 1e-3)  # never of NaN; what rounding leaves above zero


def label_of(token: str, labels: tuple[str, ...]) -> str | None:
    """The label that a token is, or is the beginning of alone; None if there is none."""
    word = token.strip(" \n\t\u2581\u0120")  # tokenisers also write a space as U+2581 or U+0120
    if word in labels:
        return word
    begun = [label for label in labels if word and label.startswith(word)]
    return begun[0] if len(begun) == 1 else None
