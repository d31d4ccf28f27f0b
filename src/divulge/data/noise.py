"""What the steps of a private training, or the rounds of a federation, show of their noise."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

LookKind = Literal["repeats", "scale", "predicted"]
"""Whether noise repeats, and whether it is of the stated scale, both where no record has a
gradient; and whether earlier steps predict more of a step than its noise lets them."""

Loss = Literal["unseen", "shift-invariant", "other"]
"""Whether gradients of logits that add up to zero were seen, as those of cross-entropy do."""

_COLUMNS = 6


@dataclass(frozen=True, slots=True)
class NoiseLook:
    """One look at the noise of all steps."""

    kind: LookKind
    part: str
    """The weights that are looked at."""
    size: int
    """Number of entries that are tested in each step."""
    evidence: float
    """Σ -ln p over steps, where p is how probable a step so far off is, given those before."""
    largest: float
    """The largest -ln p of one step."""
    step: int
    """Which step that is, from 0."""
    before: float
    """Mean over steps: of the size of correlations; or of squares in units of the stated variance,
    before earlier steps are taken off."""
    after: float
    """Mean over steps of the squares that are left, in the same units; 0 for correlations."""


@dataclass(frozen=True, slots=True)
class SeenNoise:
    """What is kept of the noise of a training."""

    steps: int
    looks: tuple[NoiseLook, ...]
    stated: bool
    """Whether the scale of the noise is known."""
    loss: Loss = "unseen"
    absent: int = 0
    """Number of steps without any noise where no record has a gradient."""

    def as_arrays(self) -> dict[str, np.ndarray]:
        """All numbers, and the names of looks."""
        numbers = [
            [look.size, look.evidence, look.largest, look.step, look.before, look.after]
            for look in self.looks
        ]
        head = [self.steps, self.stated, get_args(Loss).index(self.loss), self.absent]
        names = [name for look in self.looks for name in (look.kind, look.part)]
        return {
            "noise": np.concatenate([head, *numbers]).astype(np.float64),
            "noise_looks": np.array(names, dtype=np.str_),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "SeenNoise | None":
        """What `as_arrays` made; None where there is nothing of it.

        Raises:
            ValueError: they are no such arrays.
        """
        if "noise" not in arrays:
            return None
        numbers, names = arrays["noise"], arrays.get("noise_looks", np.zeros(0))
        if numbers.dtype != np.float64 or len(numbers) < 4 or names.dtype.kind not in "U":
            raise ValueError("its noise is no numbers and names")
        count = len(names) // 2
        if len(names) % 2 or len(numbers) != 4 + _COLUMNS * count:
            raise ValueError("its noise has other looks than names")
        head, rows = numbers[:4], numbers[4:].reshape(-1, _COLUMNS)
        kinds, parts = names[0::2].tolist(), names[1::2].tolist()
        if (
            not (np.isfinite(numbers) & (numbers >= 0)).all()
            or (head % 1).any()
            or head[1] > 1
            or head[2] >= len(get_args(Loss))
            or set(kinds) - set(get_args(LookKind))
        ):
            raise ValueError("its noise makes no sense")
        steps, stated, loss, absent = head.astype(int).tolist()
        looks = tuple(
            NoiseLook(kind, part, int(size), evidence, largest, int(step), before, after)
            for kind, part, (size, evidence, largest, step, before, after) in zip(
                kinds, parts, rows.tolist(), strict=True
            )
        )
        return cls(steps, looks, bool(stated), get_args(Loss)[loss], absent)
