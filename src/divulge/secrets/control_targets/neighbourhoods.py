"""Which candidate a changed record is about, for targets that answer in a candidate's place."""

from typing import final

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Shaped

from divulge.targets.cache import record_keys

NOBODY = -1
"""Instead of a candidate's position: the question is about none of them."""

_DIRECTIONS = 64
"""Random directions that distances are measured in where records have more features."""

_AT_ONCE = 2**22
"""How many distances are held in memory at a time."""

Features = Shaped[np.ndarray, " records *features"]
OtherFeatures = Shaped[np.ndarray, "_ *features"]
"""As `Features`, where several such arrays differ in length."""

Positions = Int[np.ndarray, " records"]


@final
class Neighbourhoods:
    """The part of space that is nearer to a candidate than to any other one.

    Distances are Euclidean, with each feature divided by its range over the candidates; above 64
    features, between projections on 64 random directions (Johnson and Lindenstrauss 1984), by
    which a question that lies between two candidates may go to the other one.

    Args:
        anchors: the candidates, in all ways of asking about them.
        others: records that are no candidates: questions about exactly these are about nobody.
        salt: of the keys that `nearest` is given.
    """

    def __init__(
        self, anchors: Features, others: tuple[OtherFeatures, ...], salt: bytes = b""
    ) -> None:
        flat = anchors.reshape(len(anchors), -1)
        self._anchors = flat
        self._others = {key for x in others for key in record_keys(x, salt)}
        self._low, self._high = flat.min(axis=0), flat.max(axis=0)
        self._two_valued: Bool[np.ndarray, " features"]
        self._two_valued = ((flat == self._low) | (flat == self._high)).all(axis=0)
        self._centre = flat.mean(axis=0, dtype=np.float64)
        self._directions = _directions(self._low, self._high)
        self._embedded: Float32[np.ndarray, "anchors directions"] | None = None

    def nearest(self, x: Features, keys: list[bytes]) -> Positions:
        """Position of the nearest anchor of each record; `NOBODY` for one of the others.

        Args:
            x: the records.
            keys: their keys, by `record_keys` with the salt.
        """
        positions = np.full(len(x), NOBODY)
        rows = np.array([key not in self._others for key in keys], np.bool_)
        places = np.flatnonzero(rows)
        if self._embedded is None and len(places):
            self._embedded = self._embed(self._anchors)
        step = max(1, _AT_ONCE // len(self._anchors))
        for start in range(0, len(places), step):
            part = places[start : start + step]
            positions[part] = self._nearest(self._embed(x[part].reshape(len(part), -1)))
        return positions

    def carry_over(self, x: Features, near: Positions, instead: Positions) -> Features:
        """The records, each changed from another anchor as it is from the one it is near to.

        A feature that has two values among the anchors is moved towards its other value by as
        much as it was; all others by the same difference. The result stays within the range of
        the anchors, and is rounded where features are whole numbers.

        Args:
            x: the records.
            near: the anchor that each of them is near to.
            instead: the anchor from which it is to be changed in the same way.
        """
        flat = x.reshape(len(x), len(self._low))
        origin, base = (self._anchors[at].astype(np.float64) for at in (near, instead))
        sign = np.where(self._two_valued & (origin != base), -1.0, 1.0)
        moved = np.clip(base + sign * (flat - origin), self._low, self._high)
        if x.dtype.kind != "f":
            moved = np.rint(moved)
        return np.asarray(moved.astype(x.dtype).reshape(x.shape))

    def _nearest(self, directions: Float32[np.ndarray, "asked directions"]) -> Positions:
        assert self._embedded is not None
        lengths = (self._embedded**2).sum(axis=1)
        return np.asarray((lengths - 2 * directions @ self._embedded.T).argmin(axis=1))

    def _embed(
        self, flat: Shaped[np.ndarray, "records features"]
    ) -> Float32[np.ndarray, "records directions"]:
        # near zero, so that differences of squares keep their digits
        return np.asarray((flat - self._centre) @ self._directions, dtype=np.float32)


@final
class KnownParts:
    """Candidates of which an attacker knows only some features.

    A question is about the candidate that it agrees with in these: an attack may try any values
    for the others.

    Args:
        x: the candidates, in all ways of asking about them.
        known: which of their features are known.
    """

    def __init__(self, x: Features, known: Bool[np.ndarray, " records *features"]) -> None:
        self._own = x.reshape(len(x), -1)
        self._mask = known.reshape(self._own.shape)

    def find(self, x: OtherFeatures) -> Positions:
        """Position of the candidate that each record agrees with; `NOBODY` if with none."""
        own, mask = self._own, self._mask
        # near zero and of one size, so that the differences below keep their digits
        centre, spread = own.mean(axis=0), own.std(axis=0)
        spread[spread == 0] = 1.0
        z = np.where(mask, (own - centre) / spread, 0.0)
        flat, place = x.reshape(len(x), own.shape[1]), np.full(len(x), NOBODY)
        step = max(1, _AT_ONCE // len(own))
        for start in range(0, len(x), step):
            rows = slice(start, start + step)
            q = (flat[rows] - centre) / spread
            distance = q**2 @ mask.T - 2 * q @ z.T + (z**2).sum(axis=1)
            best = distance.argmin(axis=1)
            agrees = ((flat[rows] == own[best]) | ~mask[best]).all(axis=1)
            place[rows] = np.where(agrees, best, NOBODY)
        return place


def _directions(
    low: Shaped[np.ndarray, " features"], high: Shaped[np.ndarray, " features"]
) -> Float[np.ndarray, "features directions"]:
    width = high.astype(np.float64) - low
    weight = np.divide(1.0, width, out=np.zeros_like(width), where=width > 0)
    if len(weight) <= _DIRECTIONS:
        return np.diag(weight)
    random = np.random.default_rng(0).normal(size=(len(weight), _DIRECTIONS))
    return np.asarray(weight[:, None] * random)
