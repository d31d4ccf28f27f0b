"""OSLO: one question about a record that was perturbed until surrogate models no longer know it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge._util.arguments import Count, check_arguments
from divulge.attacks.membership.oslo.surrogates import Surrogate, train_surrogates
from divulge.attacks.shared.perturbation import Flat, Space, flatten, space_of
from divulge.core import ModelView, Need, Scores
from divulge.errors import NotApplicable, SpecError
from divulge.targets.cache import record_keys

FEWEST = 50
"""Reference records below which surrogates have nothing to learn from."""

_TINY = 1e-9


@check_arguments
@dataclass(frozen=True, slots=True)
class OSLO:
    """One query per record: does the model keep a label that surrogate models have given up?

    Surrogates are trained on random halves of the reference records. Each candidate is perturbed,
    along the gradients of some of them, until the others give its label a mean probability q of at
    most ``threshold``. Then the model is queried once, about the perturbed record. The score is
    -log q if the model keeps the label, and -1 if it does not.

    Args:
        sources: surrogates whose gradients perturb.
        validators: further surrogates that decide when to stop.
        steps: largest number of steps of the perturbation.
        noise: largest change of a feature, in standard deviations of it.
        flips: largest share of features of two values that is flipped.
        threshold: mean probability of the label, over the validators, at which to stop.

    References:
        Peng et al. (2024), OSLO: One-shot label-only membership inference attacks, section 4.
        Departures: surrogates have one hidden layer, whatever the model is; plain signs of
        gradients with momentum; features of two values are flipped; OSLO decides at one threshold,
        here q orders the records whose label was kept.
    """

    sources: Count = 4
    validators: Count = 2
    steps: Count = 20
    noise: float = 0.3
    flips: float = 0.1
    threshold: float = 0.05

    name: ClassVar[str] = "oslo"
    paper: ClassVar[str] = "Peng et al. 2024"
    needs: ClassVar[Need] = Need.HARD_LABELS | Need.LABELS | Need.FEATURES | Need.REFERENCE

    def __post_init__(self) -> None:
        if self.noise <= 0 or not 0 < self.flips <= 1 or not 0 < self.threshold < 1:
            raise SpecError(
                "expected noise above 0, flips above 0 and up to 1, and a threshold between 0 and "
                f"1, got {self.noise}, {self.flips} and {self.threshold}"
            )

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """Minus the log of the validators' belief where the label was kept, else below all."""
        reference = view.own or view.reference
        assert reference is not None
        if len(reference) < FEWEST:
            raise NotApplicable(
                f"needs {FEWEST} reference records to train surrogates on, got {len(reference)}"
            )
        # in an order of their own, so that no rounding depends on that in which they were given
        order = np.argsort(np.array(record_keys(view.records.x), "V16"), kind="stable")
        x, y = view.records.x[order], view.records.y[order]
        space = space_of(np.concatenate([x, reference.x]))
        classes = view.target.predict(view.records.x).shape[1]
        scaled = self._scale(space, flatten(reference.x))
        both = self.sources + self.validators
        surrogates = tuple(train_surrogates(scaled, reference.y, classes, both, rng))
        sources, validators = surrogates[: self.sources], surrogates[self.sources :]
        perturbed, belief = self._perturb(space, flatten(x), y, sources, validators)
        keeps_label = view.target.predict(space.ask(perturbed)).argmax(axis=1) == y
        score = np.empty(len(y))
        # departure: OSLO says yes or no at one threshold; how far the label held orders the yes
        score[order] = np.where(keeps_label, -np.log(np.maximum(belief, _TINY)), -1.0)
        return Scores(score)

    def _perturb(
        self,
        space: Space,
        x: Flat,
        y: Int[np.ndarray, " records"],
        sources: Sequence[Surrogate],
        validators: Sequence[Surrogate],
    ) -> tuple[Flat, Float64[np.ndarray, " records"]]:
        """The perturbed records, and the validators' mean probability of their labels."""
        at, momentum = x.copy(), np.zeros_like(x)
        belief = self._believe(space, at, y, validators)
        for step in range(self.steps):
            open_ = np.flatnonzero(belief > self.threshold)
            if not len(open_):
                break
            scaled = self._scale(space, at[open_])
            slope = sum((source.gradient(scaled, y[open_]) for source in sources), np.zeros(1))
            size = np.abs(slope).mean(axis=1, keepdims=True)
            # momentum of gradients of equal mean size, or the first steep one would decide
            momentum[open_] += slope / np.maximum(size, _TINY)
            at[open_] = self._step(space, x[open_], at[open_], momentum[open_], step + 1)
            belief[open_] = self._believe(space, at[open_], y[open_], validators)
        return at, belief

    def _step(self, space: Space, x: Flat, at: Flat, slope: Flat, step: int) -> Flat:
        """The records a step further: numbers by the slope's sign, bits by its size."""
        numbers = ~space.bits & (space.spread > 0)
        moved = at + np.where(numbers, np.sign(slope) * self.noise * space.spread / self.steps, 0)
        if not space.bits.any():
            return np.asarray(np.clip(moved, space.low, space.high))
        # what a flip would change a feature by, so that its slope says what the flip gains
        change = (space.low + space.high - 2 * x) / np.where(space.bits, space.spread, 1.0)
        gain = np.where(space.bits, slope * change, -np.inf)
        most = self.flips * space.bits.sum() * step / self.steps
        moved = space.flip(np.where(space.bits, x, moved), _top(gain, int(np.ceil(most))))
        return np.asarray(np.clip(moved, space.low, space.high))

    def _believe(
        self, space: Space, x: Flat, y: Int[np.ndarray, " records"], validators: Sequence[Surrogate]
    ) -> Float64[np.ndarray, " records"]:
        scaled, rows = self._scale(space, x), np.arange(len(y))
        return np.asarray(
            np.mean([validator.predict(scaled)[rows, y] for validator in validators], axis=0)
        )

    def _scale(self, space: Space, x: Flat) -> Flat:
        middle = (space.low + space.high) / 2
        return np.asarray((x - middle) / np.where(space.spread > 0, space.spread, 1.0))


def _top(gain: Flat, count: int) -> Bool[np.ndarray, "records features"]:
    """Marks the features of greatest gain in each row, if it is above zero."""
    least = -np.partition(-gain, count - 1, axis=1)[:, count - 1 : count]
    return np.asarray((gain >= least) & (gain > 0))
