"""These sentences say what an audit of few records can and cannot show."""

from collections.abc import Iterator

from divulge.metrics.assignment import two_proportion_test
from divulge.metrics.intervals import clopper_pearson, lower_limit
from divulge.report import words

FEW = 300
"""Largest number of candidates for which the sentences are given."""

_ERROR = 0.05


def small_sample_sentences(
    members: int, nonmembers: int, candidates: int, constant: int
) -> Iterator[str]:
    """Yield what an audit of these sizes can conclude; nothing if the sizes are large.

    Args:
        members: number of candidates of clients under attack.
        nonmembers: number of candidates of nobody.
        candidates: number of all candidates.
        constant: number of candidates that the best single answer is right about.
    """
    if candidates > FEW or not members or not nonmembers:
        return
    yield _accuracy_sentence(candidates, constant)
    yield _member_sentence(members)
    yield _nonmember_sentence(nonmembers)


def _accuracy_sentence(candidates: int, constant: int) -> str:
    """How many right answers distinguish an attack from the best single answer."""
    trials = (candidates, candidates)
    significant = (
        hits
        for hits in range(constant, candidates + 1)
        if two_proportion_test((hits, constant), trials).p <= _ERROR
    )
    least = next(significant, None)
    if least is None:
        return (
            f"Not even an attack with right answers for all {candidates} candidates could be told "
            "from the best single one."
        )
    return (
        f"With {words.format_count(candidates, 'candidate')}, an attack has to give {least} right "
        f"answers to be told from the best single one, which is right for {constant}."
    )


def _member_sentence(members: int) -> str:
    half = members // 2
    low, high = clopper_pearson(half, members)
    return (
        f"With {words.format_count(members, 'member')} of other clients, {half} of them found "
        f"would leave the true share anywhere from {100 * low:.0f} % to {100 * high:.0f} %: two "
        "attacks can hardly be ranked by how many members they find."
    )


def _nonmember_sentence(nonmembers: int) -> str:
    """What false-positive rates so many non-members can show."""
    most = 1 - lower_limit(nonmembers, nonmembers, _ERROR)
    return (
        f"With {words.format_count(nonmembers, 'non-member')}, one false positive is already "
        f"{words.format_percent(1 / nonmembers)}. Even without one, the false-positive rate "
        f"could be up to {100 * most:.1f} % (95 % confidence), so lower rates cannot be claimed."
    )
