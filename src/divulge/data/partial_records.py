"""Show an audit's records as an attacker sees them who knows only some features of each."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from divulge._util.random import stream
from divulge.core import Records
from divulge.data import imputation
from divulge.data.encoding import refuse_encoded
from divulge.data.fill_choice import KnownMask, choose_fill
from divulge.data.known_features import SHARED, KnownFeatures


class _ImputedRecords(NamedTuple):
    """The attacker's own whole records, with features hidden and filled in."""

    reference: tuple[Records, ...]
    pool: tuple[Records, ...]
    pool_known: Bool[np.ndarray, "pool *features"] | None


@dataclass(frozen=True)
class PartialRecords:
    """Candidates with filled-in values, and the attacker's own records treated likewise."""

    known: Bool[np.ndarray, "records *features"]
    candidates: tuple[Records, ...]
    """Versions of the filled-in candidates, each in their order; no hidden value is in them."""
    impute_own: Callable[[], _ImputedRecords]
    """Hides and fills in the attacker's own records; called late, since few attacks need it."""

    @property
    def reference(self) -> Records | None:
        """The reference records, with features hidden and filled in as the candidates' are."""
        return next(iter(self._imputed.reference), None)

    @property
    def pool(self) -> tuple[Records, ...]:
        """The pool of offline shadows, in as many ways as the candidates; empty without one."""
        return self._imputed.pool

    @property
    def pool_known(self) -> Bool[np.ndarray, "pool *features"] | None:
        """True where a feature of the pool was not hidden; None without a pool."""
        return self._imputed.pool_known

    @cached_property
    def _imputed(self) -> _ImputedRecords:
        return self.impute_own()


def hide_and_impute(
    candidates: Records,
    reference: Records | None,
    pool: Records | None,
    known: KnownFeatures,
    names: tuple[str, ...],
    seed: int,
) -> PartialRecords:
    """Hide what is not known, and fill it in.

    Args:
        candidates: the candidates with all features.
        reference: the attacker's own records, from which everything is filled in.
        pool: the records that offline shadows are trained on.
        known: what is known, and how the rest is filled in.
        names: the names of the columns; empty where they have none.
        seed: the seed of masks and draws.

    Raises:
        DataError: there is no such column, or there are too few reference records.
    """
    refuse_encoded(candidates, "known features")
    shape = candidates.x.shape
    names = names or tuple(map(str, range(int(np.prod(shape[1:])))))
    masks, draws = stream(seed, "known features"), stream(seed, "filled-in features")
    shared = None
    if not known.columns and known.pattern in SHARED:
        shared = known.mask((1, *shape[1:]), names, masks, reference)

    def make_mask(shape: tuple[int, ...], rng: np.random.Generator) -> KnownMask:
        return known.mask(shape, names, rng) if shared is None else np.broadcast_to(shared, shape)

    mask = make_mask(shape, masks)
    grid = known.laid_out(shape)[1:]
    count, groups = known.completions, known.groups(names)
    fill = known.fill
    if fill == "chosen":
        fill = choose_fill(reference, make_mask, count=count, one_hot=groups, grid=grid, seed=seed)
    # hidden first: what fills in never gets hold of the rest
    hidden = imputation.hide_unknown(candidates, mask)
    ways = imputation.impute(
        hidden, mask, reference, fill, draws, count=count, one_hot=groups, grid=grid
    )

    def treat() -> _ImputedRecords:
        found: list[tuple[Records, ...]] = []
        theirs = None
        for own in (reference, pool):
            if own is None:
                found.append(())
                continue
            theirs = make_mask(own.x.shape, masks)
            found.append(
                imputation.cross_impute(
                    own, theirs, fill, draws, count=count, one_hot=groups, grid=grid
                )
            )
        return _ImputedRecords(found[0], found[1], None if pool is None else theirs)

    return PartialRecords(mask, ways, treat)
