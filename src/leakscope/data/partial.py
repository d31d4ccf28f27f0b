"""An audit's records as somebody sees them who knows only some features of each."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from leakscope.core import Records
from leakscope.data import impute
from leakscope.data.masks import Known
from leakscope.randomness import stream


@dataclass(frozen=True, slots=True)
class Seen:
    """Candidates with filled-in values, and the attacker's own records treated likewise."""

    known: Bool[np.ndarray, "records *features"]
    candidates: tuple[Records, ...]
    """In one or several ways, in the candidates' order; no hidden value is in them."""
    reference: Records | None
    """These were whole: without their own missing features they are comparable."""
    pool: tuple[Records, ...]
    """The pool of offline shadows, in as many ways as the candidates; empty without one."""
    pool_known: Bool[np.ndarray, "pool *features"] | None
    """Which of its features were left."""


def seen(
    candidates: Records,
    reference: Records | None,
    pool: Records | None,
    known: Known,
    names: tuple[str, ...],
    seed: int,
) -> Seen:
    """Hide what is not known, and fill it in.

    Args:
        candidates: whole.
        reference: the attacker's own records, which everything is filled in from.
        pool: what offline shadows are trained on.
        known: what is known, and how the rest is filled in.
        names: of the columns.
        seed: of masks and draws.

    Raises:
        DataError: there is no such column, or there are too few reference records.
    """
    shape = candidates.x.shape
    names = names or tuple(map(str, range(int(np.prod(shape[1:])))))
    masks, draws = stream(seed, "known features"), stream(seed, "filled-in features")
    mask = known.mask(shape, names, masks)
    count, groups = known.completions, known.groups(names)
    # hidden first: what fills in never gets hold of the rest
    hidden = impute.hide(candidates, mask)
    ways = impute.complete(hidden, mask, reference, known.fill, draws, count=count, one_hot=groups)
    treated: list[tuple[Records, ...]] = []
    theirs = None
    for own in (reference, pool):
        if own is None:
            treated.append(())
            continue
        theirs = known.mask(own.x.shape, names, masks)
        treated.append(
            impute.complete_each_other(own, theirs, known.fill, draws, count=count, one_hot=groups)
        )
    first = treated[0][0] if treated[0] else None
    return Seen(mask, ways, first, treated[1], None if pool is None else theirs)
