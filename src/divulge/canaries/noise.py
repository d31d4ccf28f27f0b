"""Is the noise of every step new, and of the stated scale?"""

import math
from dataclasses import dataclass

from divulge._util.extras import stats
from divulge.data.noise import NoiseLook, SeenNoise

LEVEL = 0.0005
"""The probability of each of two tests to accuse a training whose noise is as stated: of all steps
together, and of single ones."""

_SAME = 0.9


@dataclass(frozen=True, slots=True)
class LookCheck:
    """What one look at the noise says."""

    look: NoiseLook
    p: float
    """How probable steps so far off are together, if noise is fresh and of the stated scale."""
    p_step: float
    """How probable a single step so far off is among all."""


@dataclass(frozen=True, slots=True)
class NoiseCheck:
    """What the noise of steps says."""

    steps: int
    looks: tuple[LookCheck, ...]
    stated: bool
    """Whether the scale of the noise is known."""
    supposed: bool
    """Whether a loss was supposed that is the same when all logits of a record grow alike."""
    absent: int
    """Number of steps without any noise where no record has a gradient."""
    unseen: int = 0
    """Number of steps that were scored and whose noise was not looked at."""
    unit: str = "step"
    """What a step is called."""

    @property
    def faults(self) -> tuple[str, ...]:
        """What was not done as stated; empty where nothing shows it."""
        by_kind: dict[str, list[LookCheck]] = {}
        for check in self.looks:
            if check.p < LEVEL / len(self.looks) or check.p_step < LEVEL / len(self.looks):
                by_kind.setdefault(self._fault_of(check), []).append(check)
        faults = []
        if self.absent:
            faults.append(f"{self.absent:,} of {self.steps:,} {self.unit}s have no noise")
        for kind in ("same", "correlated", "small"):
            if kind in by_kind:
                worst = max(
                    by_kind[kind],
                    key=lambda check: (check.look.kind == "repeats", check.look.evidence),
                )
                faults.append(self._sentence(kind, worst))
        return tuple(faults)

    @property
    def undecided(self) -> tuple[str, ...]:
        """What could not be held against anything; empty where everything was."""
        kinds = {check.look.kind for check in self.looks}
        reasons = []
        if self.unseen:
            reasons.append(f"the noise of {self.unseen:,} {self.unit}s was not looked at")
        if self.steps < 2:
            reasons.append(f"one {self.unit} does not show whether noise repeats")
        elif not kinds:
            reasons.append(f"whether noise repeats cannot be said without its scale{self._remedy}")
        elif not self.stated:
            reasons.append(f"its scale cannot be said, since none is stated{self._remedy}")
            if "predicted" not in kinds:
                reasons.append("noise in weights beside the last layer was not looked at")
        return tuple(reasons)

    @property
    def _remedy(self) -> str:
        return ": give the recorder noise_deviation" if self.unit == "step" else ""

    @property
    def sentence(self) -> str:
        """What was seen, what was supposed, and what was not decided."""
        clean = f"new in each of {self.steps:,} {self.unit}s"
        clean += " and no smaller than stated" if self.stated else ""
        findings = self.faults or ((clean,) if self.looks and self.steps > 1 else ())
        supposed = (
            (
                "supposed: a loss that is the same when all logits of a record grow alike, as "
                "cross-entropy is, and no penalty on weights in it",
            )
            if self.supposed
            else ()
        )
        return "; ".join((*findings, *self.undecided, *supposed))

    def _fault_of(self, check: LookCheck) -> str:
        look = check.look
        if look.kind == "repeats":
            return "same" if look.before > _SAME else "correlated"
        if look.kind == "scale" or look.before < 0.8 or look.after > 0.5 * look.before:
            return "small"
        return "same"

    def _sentence(self, kind: str, check: LookCheck) -> str:
        look, unit = check.look, self.unit
        if kind == "small":
            share = math.sqrt(look.after)
            of = "stated" if self.stated else "of the noise elsewhere"
            where = f"in {look.part!r} " if look.kind == "predicted" else ""
            return f"noise {where}is too small: its deviation is {share:.2g} of the one {of}"
        free = f"the difference of two {unit}s is free of noise"
        if look.kind == "predicted":
            return (
                f"the noise of {unit}s in {look.part!r} is the same as that of earlier ones: {free}"
            )
        if kind == "same":
            return (
                f"the noise of successive {unit}s is the same (correlation {look.before:.2f}): "
                f"{free}"
            )
        return (
            f"the noise of {unit}s is correlated with that of earlier ones (by {look.before:.2f} "
            f"on average; {unit} {look.step + 1} shows most): their differences have less noise "
            "than is stated"
        )


def check_noise(noise: SeenNoise, scored: int, unit: str = "step") -> NoiseCheck:
    """Hold what steps show against fresh noise of the stated scale.

    If the noise of each step is independent of all before, each step's p is uniform or larger,
    given the steps before. So is Fisher's sum over steps, -2 Σ ln p, at most chi-square with two
    degrees of freedom a step; and the smallest p of T steps is below c in at most T c of cases.

    Args:
        noise: what was kept of the noise.
        scored: the number of steps that canaries were scored by.
        unit: what a step is called.
    """
    steps = max(1, noise.steps)
    return NoiseCheck(
        noise.steps,
        tuple(
            LookCheck(
                look,
                float(stats.chi2.sf(2 * look.evidence, 2 * steps)),
                min(1.0, steps * math.exp(-look.largest)),
            )
            for look in noise.looks
        ),
        noise.stated,
        noise.loss == "unseen" and any(look.kind == "repeats" for look in noise.looks),
        noise.absent,
        max(0, scored - noise.steps),
        unit,
    )
