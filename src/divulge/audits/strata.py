"""Which subpopulations a run may name: a report must not tell who belongs to a small one.

A stratum is shown if it has the smallest allowed number of members, and of non-members. All others
are merged into one, without their names, before anything is stored. How many candidates there are
is known, so the size of what is merged follows by subtraction. That must not be the size of a small
stratum: if any is merged, at least two are, and together they have as many people as a stratum that
is shown. The smallest ones shown are merged as well until this holds.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Int

from divulge.core import Candidates
from divulge.core.people import StrataFacts
from divulge.errors import DataError


def merge_small_strata(
    candidates: Candidates, names: tuple[str, ...], smallest: int
) -> tuple[Candidates, StrataFacts | None]:
    """The candidates with one number for all small strata, and the names of the others.

    Args:
        candidates: with a subpopulation each.
        names: of the subpopulations, by their numbers.
        smallest: the fewest members, and non-members, of a stratum that is shown.

    Returns:
        The candidates without subpopulations, and None, where none have names.

    Raises:
        DataError: only some of the candidates have a subpopulation.
    """
    stratum = candidates.subpopulation
    if not names:  # numbers alone are not merged: they are not kept
        return replace(candidates, subpopulation=None), None
    if stratum is None:
        raise DataError(
            "expected strata for members and nonmembers, got them for one of these or for other "
            "records alone: say for both which stratum each record is of, or leave strata out"
        )
    member = candidates.member
    sizes = np.stack(
        [np.bincount(stratum[group], minlength=len(names)) for group in (member, ~member)]
    )
    shown = _choose_shown(sizes, smallest)
    number = np.full(len(names), len(shown))
    number[shown] = np.arange(len(shown))
    present = int(np.sum(sizes.sum(axis=0) > 0))
    facts = StrataFacts(tuple(names[each] for each in shown), present - len(shown), smallest)
    return replace(candidates, subpopulation=number[stratum]), facts


def _choose_shown(sizes: Int[np.ndarray, "2 strata"], smallest: int) -> list[int]:
    """The numbers of the strata that may be shown, rising.

    Args:
        sizes: the members of each, and the non-members.
        smallest: the fewest of both.
    """
    total = sizes.sum(axis=0)
    by_size = np.lexsort((np.arange(len(total)), -total)).tolist()
    shown = [each for each in by_size if sizes[:, each].min() >= smallest]
    merged = [each for each in by_size if total[each] and each not in shown]
    while merged and shown and (len(merged) < 2 or sizes[:, merged].sum(axis=1).min() < smallest):
        merged.append(shown.pop())
    return sorted(shown)
