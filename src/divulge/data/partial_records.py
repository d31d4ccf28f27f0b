"""An audit's records as somebody sees them who knows only some features of each."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from divulge._util.random import stream
from divulge.core import Records
from divulge.data import imputation
from divulge.data.known_features import Known


class _Treated(NamedTuple):
    """Whole records, as they look with features missing."""

    reference: tuple[Records, ...]
    pool: tuple[Records, ...]
    pool_known: Bool[np.ndarray, "pool *features"] | None


@dataclass(frozen=True)
class Seen:
    """Candidates with filled-in values, and the attacker's own records treated likewise."""

    known: Bool[np.ndarray, "records *features"]
    candidates: tuple[Records, ...]
    """In one or several ways, in the candidates' order; no hidden value is in them."""
    treat: Callable[[], _Treated]
    """Not before somebody looks: it takes as long as the candidates, and few attacks need it."""

    @property
    def reference(self) -> Records | None:
        """These were whole: without their own missing features they are comparable."""
        return next(iter(self._treated.reference), None)

    @property
    def pool(self) -> tuple[Records, ...]:
        """The pool of offline shadows, in as many ways as the candidates; empty without one."""
        return self._treated.pool

    @property
    def pool_known(self) -> Bool[np.ndarray, "pool *features"] | None:
        """Which of the pool's features were left."""
        return self._treated.pool_known

    @cached_property
    def _treated(self) -> _Treated:
        return self.treat()


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
    hidden = imputation.hide(candidates, mask)
    ways = imputation.complete(
        hidden, mask, reference, known.fill, draws, count=count, one_hot=groups
    )

    def treat() -> _Treated:
        found: list[tuple[Records, ...]] = []
        theirs = None
        for own in (reference, pool):
            if own is None:
                found.append(())
                continue
            theirs = known.mask(own.x.shape, names, masks)
            found.append(
                imputation.complete_each_other(
                    own, theirs, known.fill, draws, count=count, one_hot=groups
                )
            )
        return _Treated(found[0], found[1], None if pool is None else theirs)

    return Seen(mask, ways, treat)
