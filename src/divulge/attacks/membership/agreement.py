"""How often the model keeps to a record's label when the record is perturbed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from divulge._util.arguments import Count, check_arguments
from divulge.attacks.shared.perturbation import Features, flatten, space_of
from divulge.core import ModelView, Need, Scores
from divulge.errors import NotApplicable, SpecError

Under = Literal["noise", "shifts"]


@check_arguments
@dataclass(frozen=True, slots=True)
class Agreement:
    """Share of perturbed copies of a record that the model still classifies correctly.

    All records get the same perturbations. Copy j of n has noise of j/n of the largest size: no one
    size suits all models, and the share grows with the distance to the boundary. Copies stay within
    the range of the features, and whole numbers stay whole.

    Args:
        questions: copies of each record, the record itself not counted.
        under: ``noise`` (features of two values are flipped at random, others get Gaussian noise),
            or ``shifts`` (images moved by pixels, the smallest shifts first, and mirrored), for
            models that were trained on images moved in such ways.
        noise: largest standard deviation of the noise, in those of the feature.
        flips: largest share of features of two values that is flipped.

    References:
        Choquette-Choo et al. (2021), Label-only membership inference attacks, sections 3.2
        (augmentation) and 3.3 (random noise). Departures: sizes of noise from 0 to the largest,
        instead of one that was fitted to a shadow model; augmentations are counted, not learned.
    """

    questions: Count = 10
    under: Under = "noise"
    noise: float = 0.5
    flips: float = 0.1

    name: ClassVar[str] = "agreement"
    paper: ClassVar[str] = "Choquette-Choo et al. 2021"
    needs: ClassVar[Need] = Need.HARD_LABELS | Need.LABELS | Need.FEATURES

    def __post_init__(self) -> None:
        if self.noise <= 0 or not 0 < self.flips <= 1:
            raise SpecError(
                "expected noise above 0 and flips above 0 and up to 1, got "
                f"{self.noise} and {self.flips}"
            )

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The share for each candidate, its own answer counted like that to each copy."""
        x, y = view.records.x, view.records.y
        perturb = self._shifts(x) if self.under == "shifts" else self._noises(x, rng)
        # the record counts as one of its copies, and a wrong answer to it like any other
        right = (view.target.predict(x).argmax(axis=1) == y).astype(np.float64)
        for j in range(self.questions):
            right += view.target.predict(perturb(j)).argmax(axis=1) == y
        return Scores(right / (self.questions + 1))

    def _noises(self, x: Features, rng: np.random.Generator) -> Callable[[int], Features]:
        space, flat = space_of(x), flatten(x)
        bits = np.flatnonzero(space.bits)

        def perturb(j: int) -> Features:
            # departure: every size up to the largest, not one that a shadow model chose
            size = (j + 1) / self.questions
            noise = size * self.noise * space.spread * rng.normal(size=flat.shape[1])
            flips = np.zeros(flat.shape[1], np.bool_)
            flips[rng.permutation(bits)[: int(np.ceil(size * self.flips * len(bits)))]] = True
            return space.ask(space.flip(flat + np.where(space.bits, 0.0, noise), flips[None]))

        return perturb

    def _shifts(self, x: Features) -> Callable[[int], Features]:
        if x.ndim < 3:
            raise NotApplicable(
                f"needs images to shift, got candidates of shape {x.shape}: use under='noise'"
            )
        reach = range(-min(x.shape[-2:]) + 1, min(x.shape[-2:]))
        ways = [(down, right, mirror) for down in reach for right in reach for mirror in (0, 1)]
        ways.sort(key=lambda way: (abs(way[0]) + abs(way[1]) + way[2], way))
        if self.questions >= len(ways):
            raise NotApplicable(
                f"needs images of more pixels: {len(ways) - 1} shifts of {x.shape[-2]} x "
                f"{x.shape[-1]} are possible, {self.questions} were asked for"
            )
        return lambda j: _shift(x, *ways[j + 1])


def _shift(x: Features, down: int, right: int, mirror: int) -> Features:
    """Images moved by pixels; what moves in repeats the edge."""
    height, width = x.shape[-2:]
    rows = np.clip(np.arange(height) - down, 0, height - 1)
    columns = np.clip(np.arange(width) - right, 0, width - 1)
    moved = x[..., rows[:, None], columns]
    return np.ascontiguousarray(moved[..., ::-1] if mirror else moved)
