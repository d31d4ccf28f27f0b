"""Defend by noise on predictions that keeps the label, or the order of all classes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Shaped

from divulge._util.arguments import check_arguments
from divulge.core import Need, NoiseKind
from divulge.defences.noise import exponential, fresh_key
from divulge.errors import SpecError
from divulge.targets.cache import record_keys


@check_arguments
@dataclass(frozen=True, slots=True)
class AnswerNoise:
    """Noise like MemGuard's: no defence against attacks that read labels alone.

    Each answer is moved towards a random distribution with the same most likely class, by an L1
    distance of ``distortion`` at most. A record always gets the same noise, so repeated queries do
    not average it away.

    Args:
        distortion: largest L1 distance between an answer and what leaves the model, above 0; from 2
            on only the label is left of the answer.
        noise: what makes the noise of a record from the model's key: NumPy's generator, ``seeded``,
            for experiments; or AES, ``secure``, for a model that others may query.

    References:
        Jia, Salem, Backes, Zhang and Gong (2019), MemGuard: defending against black-box membership
        inference attacks via adversarial examples, sections 3.2 and 4.3. Departure: the noise is
        random, where MemGuard optimises it against a classifier that the defender trains.

    Raises:
        SpecError: a setting makes no sense.
        MissingExtra: cryptography is not installed, which ``secure`` noise needs.
    """

    distortion: float = 0.5
    noise: NoiseKind = "seeded"

    name: ClassVar[str] = "answer-noise"
    paper: ClassVar[str] = "after Jia et al. 2019"
    keeps_label: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.distortion <= 2:
            raise SpecError(
                f"expected distortion above 0 and up to 2, got {self.distortion}: no two "
                "distributions are farther apart"
            )
        _check_noise(self.noise)

    def offers(self, before: Need) -> Need:
        """As before."""
        return before

    def change(
        self,
        answers: Float[np.ndarray, "records classes"],
        x: Shaped[np.ndarray, "records *features"],
        key: int,
    ) -> Float[np.ndarray, "records classes"]:
        """See `divulge.core.AnswerDefence.change`."""
        noise = _draw_each(answers, x, key, self.noise)
        every, label, largest = np.arange(len(x)), answers.argmax(axis=1), noise.argmax(axis=1)
        # the largest share changes places with the label's
        noise[every, largest], noise[every, label] = (
            noise[every, label],
            noise[every, largest],
        )
        distance = np.abs(noise - answers).sum(axis=1, keepdims=True)
        # along a straight line the L1 distance is the share of the whole way
        share = np.minimum(1.0, self.distortion / np.maximum(distance, 1e-300))
        return np.asarray(answers + share * (noise - answers))


@check_arguments
@dataclass(frozen=True, slots=True)
class RankOrder:
    """Answer with the order of classes alone, as HAMP: no defence against attacks on labels.

    The probabilities are drawn evenly from all distributions; the largest goes to the most likely
    class, the second largest to the second most likely, and so on. A record always gets the same
    ones.

    Args:
        noise: what makes the probabilities of a record from the model's key, as for `AnswerNoise`.

    References:
        Chen and Pattabiraman (2024), Overconfidence is a dangerous thing: mitigating membership
        inference attacks by enforcing less confident prediction (NDSS), section IV, the
        modification of outputs at test time. Departure: HAMP takes the probabilities from the
        model's answers to random records.

    Raises:
        MissingExtra: cryptography is not installed, which ``secure`` noise needs.
    """

    noise: NoiseKind = "seeded"

    name: ClassVar[str] = "rank-order"
    paper: ClassVar[str] = "after Chen and Pattabiraman 2024"
    keeps_label: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_noise(self.noise)

    def offers(self, before: Need) -> Need:
        """As before."""
        return before

    def change(
        self,
        answers: Float[np.ndarray, "records classes"],
        x: Shaped[np.ndarray, "records *features"],
        key: int,
    ) -> Float[np.ndarray, "records classes"]:
        """See `divulge.core.AnswerDefence.change`."""
        # section IV of HAMP: nothing but the order of the classes is kept
        drawn = np.sort(_draw_each(answers, x, key, self.noise), axis=1)[:, ::-1]
        order = np.argsort(-answers, axis=1, kind="stable")  # of equals the first, as argmax
        changed = np.empty_like(drawn)
        np.put_along_axis(changed, order, drawn, axis=1)
        return changed


def _check_noise(kind: NoiseKind) -> None:
    if kind == "secure":
        exponential(1, fresh_key())  # whatever is missing is missing now


def _draw_each(
    answers: Float[np.ndarray, "records classes"],
    x: Shaped[np.ndarray, "records *features"],
    key: int,
    kind: NoiseKind,
) -> Float[np.ndarray, "records classes"]:
    """A distribution for each record, by its own numbers."""
    draw = _draw_secretly if kind == "secure" else _draw_distribution
    keys, classes = record_keys(x, str(key).encode()), answers.shape[1]
    return np.array([draw(row, classes) for row in keys]).reshape(answers.shape)


def _draw_distribution(key: bytes, classes: int) -> Float[np.ndarray, " classes"]:
    """Drawn evenly from all distributions (Dirichlet with ones), by the record's own numbers."""
    rng = np.random.default_rng(int.from_bytes(key, "little"))
    # the record's own key seeds it: asked again it says the same, so no mean takes the noise off
    return np.asarray(rng.dirichlet(np.ones(classes)))


def _draw_secretly(key: bytes, classes: int) -> Float[np.ndarray, " classes"]:
    """The same distribution by AES under the record's key: exponential numbers, over their sum."""
    drawn = exponential(classes, key)
    # exponential numbers over their sum are uniform on the simplex
    return np.asarray(drawn / drawn.sum())
