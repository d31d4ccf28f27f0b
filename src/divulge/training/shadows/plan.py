"""What shadows are to be trained: everything about them except what they answer."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from divulge._util.random import stream
from divulge.core import AnswerDefence, Records, Trainer
from divulge.errors import SpecError


@dataclass(frozen=True, slots=True)
class ShadowPlan:
    """How many models like the target to train, how, and on what.

    Raises:
        SpecError: there are no models.
    """

    trainer: Trainer
    models: int
    pool: Records | None = None
    """None: on random halves of the candidates (online). Else on random halves of these."""
    pool_otherwise: tuple[Records, ...] = ()
    """The pool seen as candidates are seen otherwise."""
    fingerprint: str = ""
    """Identifies the trainer, so that stored shadows are never taken for another one's."""
    pool_asked: Records | None = None
    """The pool as the shadows are asked about it: as it is, unless given."""
    pool_known: Bool[np.ndarray, "pool *features"] | None = None
    """Which features of it are known, where the attacker knows only parts of the candidates."""
    answers: AnswerDefence | None = None
    """What stands between the models and whoever asks them; with seeds as their secrets."""

    def __post_init__(self) -> None:
        if self.models < 1:
            raise SpecError(f"expected shadows from 1, got {self.models}: train some, or ask none")

    @property
    def own(self) -> tuple[Records, ...]:
        """What offline shadows are asked about besides: there the attacker knows who is in."""
        if self.pool is None:
            return ()
        return (self.pool_asked or self.pool, *self.pool_otherwise)

    def subsets(self, pool: Records, seed: int) -> Bool[np.ndarray, "models records"]:
        """Which records of this pool each model is trained on: a half of its own, at random.

        Model k's half depends on the seed and k alone: more models change none of the first.
        """
        return np.stack([
            stream(seed, "shadow's half", k).random(len(pool)) < 0.5 for k in range(self.models)
        ])  # fmt: skip

    def seeds(self, seed: int) -> list[int]:
        """One a model, for its own randomness."""
        return [int(stream(seed, "shadow", k).integers(2**31)) for k in range(self.models)]


def identity(plan: ShadowPlan, queries: Sequence[Records], seed: int) -> str:
    """What the answers of model k depend on, apart from k: not on how many models there are.

    Args:
        plan: how models are trained.
        queries: what they are asked about, the candidates first.
        seed: of halves and models.
    """
    how = plan.fingerprint if plan.answers is None else f"{plan.fingerprint} {plan.answers!r}"
    digest = hashlib.blake2b(f"{how}\0{seed}".encode(), digest_size=16)
    for records in (*queries, *([] if plan.pool is None else [plan.pool])):
        for array in (records.x, records.y):
            digest.update(f"\0{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return f"{digest.hexdigest()}{'' if plan.pool is None else '-offline'}"
