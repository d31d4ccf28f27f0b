"""Hold each step of a training against the steps before it: is its noise new, and as large?"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64
from scipy import special

from divulge.data.noise import LookKind, Loss, NoiseLook, SeenNoise

FIRST, LAST = 64, 192
"""How many of the first and of the last steps a step is held against."""

SUMS = "sums over classes"
"""The name of the directions in which no record has a gradient."""

_MEAN_OF = 8
_TERMS = 3
_ABSENT = 1e-5
"""Noise below this share of the gradient is none: it is what rounding leaves."""

_MOST = 700.0
"""Largest -ln p of one step; beyond it floats end."""


class Step(NamedTuple):
    """What is kept of one noisy gradient, or of one round's change."""

    entries: Float64[np.ndarray, " entries"]
    """Some entries, part by part, in an order drawn by chance; NaN where nothing is released."""
    sums: Float64[np.ndarray, " sums"]
    """Inner products with unit vectors at right angles to every record's gradient."""
    reach: float = 0.0
    """The root mean square of the gradient where the sums are taken."""
    deviation: float | None = None
    """Standard deviation of the noise in each entry, as stated; None where it is not known."""


class StepNoise:
    """Holds each step against those before it; adds up what is improbable for fresh noise.

    The noise of a step is independent of all that came before, and of its batch. So whatever is
    made of earlier steps to predict it, what is left of n entries has a sum of squares, in units
    of the noise's variance, that is chi-square with n degrees of freedom or larger by chance, as
    gradients are. How it is predicted is chosen by half of the entries, and tested by the others.
    In directions in which no record has a gradient nothing but noise is left; there correlations
    with an earlier step have a known distribution, whatever the scale is.

    Args:
        parts: how many entries each part of the weights has in a step, by name.
        sums: how many directions without gradients there are.
    """

    def __init__(self, parts: Mapping[str, int], sums: int) -> None:
        self._parts, self._sums = dict(parts), sums
        self._width = sum(parts.values()) + sums
        self._rows = np.zeros((FIRST + LAST, self._width), np.float32)
        self._numbers = np.full(FIRST + LAST, -1)
        self.steps = self._absent = 0
        self._stated: bool | None = None
        self.loss: Loss = "unseen"
        self._looks: dict[tuple[LookKind, str], NoiseLook] = {}

    def add(self, step: Step) -> None:
        """Hold one more step against those before."""
        unit = step.deviation or 1.0
        self._stated = bool(step.deviation) and self._stated is not False
        entries, sums = step.entries / unit, step.sums / unit
        filled = np.flatnonzero(self._numbers >= 0)
        earlier = self._rows[filled].astype(np.float64)
        energy = float((sums**2).sum())
        reached = self._sums > 0 and step.reach > 0 and math.isfinite(energy)
        absent = energy <= len(sums) * (_ABSENT * step.reach / unit) ** 2
        self._absent += absent and reached
        if reached and self.loss != "other":
            self._look_at_sums(sums, earlier[:, self._width - len(sums) :], energy, rounded=absent)
        self._look_at_entries(entries, earlier, 0.0 if absent else energy)
        place, row = self._slot(self.steps), np.concatenate([entries, sums])
        self._rows[place], self._numbers[place] = np.nan_to_num(row, posinf=0, neginf=0), self.steps
        self.steps += 1

    def seen(self) -> SeenNoise:
        """What all steps so far show; nothing that supposes a loss which is not the training's."""
        stated, sums = bool(self._stated), self.loss != "other"
        usable = {"repeats": sums, "scale": sums and stated, "predicted": sums or stated}
        looks = [look for look in self._looks.values() if usable[look.kind]]
        absent = 0 if self.loss == "other" else self._absent
        return SeenNoise(self.steps, tuple(looks), stated, self.loss, absent)

    def as_arrays(self) -> dict[str, np.ndarray]:
        """The steps that later ones are held against."""
        order = np.flatnonzero(self._numbers >= 0)
        return {"noise_steps": self._rows[order].ravel()}

    def restore(self, noise: SeenNoise, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what was kept.

        Raises:
            ValueError: it is of other weights, or damaged.
        """
        rows = arrays.get("noise_steps", np.zeros(0, np.float32))
        count = min(noise.steps, FIRST + LAST)
        if rows.dtype != np.float32 or len(rows) != count * self._width:
            raise ValueError("its steps are not those of this network")
        self._rows[:count] = rows.reshape(count, self._width)
        for number in range(noise.steps):
            self._numbers[self._slot(number)] = number
        self.steps, self.loss, self._absent = noise.steps, noise.loss, noise.absent
        self._stated = noise.stated if noise.steps else None
        self._looks = {(look.kind, look.part): look for look in noise.looks}

    def _slot(self, number: int) -> int:
        return number if number < FIRST else FIRST + (number - FIRST) % LAST

    def _look_at_sums(
        self, sums: np.ndarray, earlier: np.ndarray, energy: float, *, rounded: bool
    ) -> None:
        if self._stated:
            p = float(special.gammainc(len(sums) / 2, energy / 2))
            share = energy / len(sums)
            self._note("scale", SUMS, len(sums), p, share, share)
        if not len(earlier):
            return
        r = 0.0 if rounded else _chosen_correlation(sums, earlier)
        size = len(sums) - len(sums) // 2
        p = float(special.betainc((size - 1) / 2, 0.5, max(0.0, 1 - r**2))) if size > 1 else 1.0
        self._note("repeats", SUMS, size, p, abs(r), 0.0)

    def _look_at_entries(self, entries: np.ndarray, earlier: np.ndarray, energy: float) -> None:
        """Each part by itself; the sums say the scale where it is not stated."""
        if not self._stated and (not energy > 0 or self.loss == "other"):
            return
        first = 0
        recent = np.argsort(self._numbers[self._numbers >= 0])[-_MEAN_OF:]
        for name, count in self._parts.items():
            some = slice(first, first + count)
            first += count
            if not np.isfinite(entries[some]).all():
                continue
            value, rest = _predict(entries[some], earlier[:, some], recent)
            size = len(rest)
            left, whole = float((rest**2).sum()), float((value**2).sum())
            if self._stated:
                p, unit = float(special.gammainc(size / 2, left / 2)), 1.0
            else:
                unit = energy / self._sums
                p = float(special.fdtr(size, self._sums, left / size / unit))
            self._note("predicted", name, size, p, whole / size / unit, left / size / unit)

    def _note(
        self, kind: LookKind, part: str, size: int, p: float, before: float, after: float
    ) -> None:
        look = self._looks.get((kind, part)) or NoiseLook(kind, part, size, 0.0, 0.0, 0, 0.0, 0.0)
        minus = min(_MOST, -math.log(p)) if p > 0 else _MOST
        largest, step = max((look.largest, look.step), (minus, self.steps), key=lambda two: two[0])
        share = 1 / (self.steps + (kind != "repeats"))  # the first step repeats none
        self._looks[kind, part] = NoiseLook(
            kind,
            part,
            size,
            look.evidence + max(0.0, minus),
            max(0.0, largest),
            step,
            look.before + (before - look.before) * share,
            look.after + (after - look.after) * share,
        )


def _chosen_correlation(
    value: Float64[np.ndarray, " entries"], earlier: Float64[np.ndarray, "steps entries"]
) -> float:
    """With the earlier step that is most alike by one half of the entries; in the other half."""
    half = len(value) // 2
    if not half or not len(earlier):
        return 0.0
    squares = (earlier[:, :half] ** 2).sum(axis=1)
    gain = _divide((earlier[:, :half] @ value[:half]) ** 2, squares)
    other, rest = earlier[int(gain.argmax()), half:], value[half:]
    norms = float(np.linalg.norm(other) * np.linalg.norm(rest))
    return float(other @ rest) / norms if norms > 0 else 0.0


def _predict(
    value: Float64[np.ndarray, " entries"],
    earlier: Float64[np.ndarray, "steps entries"],
    recent: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The second half of the entries, and what is left of it.

    A few earlier steps, or the mean of the last ones, are taken off where the first half shows that
    this helps by more than chance does.
    """
    half = len(value) // 2
    if half and len(earlier):
        tried = np.vstack([earlier, earlier[recent].mean(axis=0)])
        squares = (tried[:, :half] ** 2).sum(axis=1)
        by_chance = 2 * math.log(len(tried)) + 4  # the largest of so many squared normal numbers
        left = value.copy()
        for _ in range(_TERMS):
            along = tried[:, :half] @ left[:half]
            gain = _divide(along**2, squares)
            best = int(gain.argmax())
            if gain[best] <= by_chance * float((left[:half] ** 2).mean()):
                break
            left -= along[best] / squares[best] * tried[best]
        return value[half:], left[half:]
    return value[half:], value[half:]


def _divide(
    values: Float[np.ndarray, " steps"], by: Float[np.ndarray, " steps"]
) -> Float[np.ndarray, " steps"]:
    return np.asarray(np.divide(values, by, out=np.zeros_like(values), where=by > 0))
