"""Show an audit's records as an attacker sees them who knows only some features of each."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from divulge._util.random import stream
from divulge.core import Records
from divulge.data import imputation
from divulge.data.encoding import refuse_encoded
from divulge.data.fill_choice import MaskMaker, choose_fill
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
    known = settle_fill(candidates, reference, known, names, seed)
    shape, fill = candidates.x.shape, known.fill
    assert fill != "chosen"
    masks, draws = stream(seed, "known features"), stream(seed, "filled-in features")
    make_mask = _mask_maker(shape, reference, known, _name_all(names, shape), masks)
    mask = make_mask(shape, masks)
    grid, count = known.laid_out(shape)[1:], known.completions
    groups = known.groups(_name_all(names, shape))
    # hidden first: what fills in never gets hold of the rest
    hidden = imputation.hide_unknown(candidates, mask)
    ways = imputation.impute(
        hidden, mask, reference, fill, draws, count=count, one_hot=groups, grid=grid
    )

    def treat() -> _ImputedRecords:
        imputed: list[tuple[Records, ...]] = []
        theirs = None
        for own in (reference, pool):
            if own is None:
                imputed.append(())
                continue
            theirs = make_mask(own.x.shape, masks)
            imputed.append(
                imputation.cross_impute(
                    own, theirs, fill, draws, count=count, one_hot=groups, grid=grid
                )
            )
        return _ImputedRecords(imputed[0], imputed[1], None if pool is None else theirs)

    return PartialRecords(mask, ways, treat)


def settle_fill(
    candidates: Records,
    reference: Records | None,
    known: KnownFeatures,
    names: tuple[str, ...],
    seed: int,
) -> KnownFeatures:
    """The same knowledge with the fill that the reference records choose, where it is open.

    Arguments and errors are those of `hide_and_impute`; of the candidates only the shape counts.
    """
    if known.fill != "chosen":
        return known
    refuse_encoded(candidates, "known features")
    shape = candidates.x.shape
    names = _name_all(names, shape)
    make_mask = _mask_maker(shape, reference, known, names, stream(seed, "known features"))
    fill = choose_fill(
        reference,
        make_mask,
        count=known.completions,
        one_hot=known.groups(names),
        grid=known.laid_out(shape)[1:],
        seed=seed,
    )
    return replace(known, fill=fill)


def _name_all(names: tuple[str, ...], shape: tuple[int, ...]) -> tuple[str, ...]:
    """The names of the columns, or their numbers."""
    return names or tuple(map(str, range(int(np.prod(shape[1:])))))


def _mask_maker(
    shape: tuple[int, ...],
    reference: Records | None,
    known: KnownFeatures,
    names: tuple[str, ...],
    masks: np.random.Generator,
) -> MaskMaker:
    """What draws masks for records of this shape; some patterns draw one for all at once."""
    if known.columns or known.pattern not in SHARED:
        return lambda shape, rng: known.mask(shape, names, rng)
    shared = known.mask((1, *shape[1:]), names, masks, reference)
    return lambda shape, _: np.broadcast_to(shared, shape)
