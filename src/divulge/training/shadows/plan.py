"""A plan of the shadow models to train: how many, how, and on what records."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from divulge._util.arguments import check_arguments
from divulge._util.digest import digest
from divulge._util.random import stream
from divulge.core import AnswerDefence, Records, Trainer, check_trainer
from divulge.errors import DataError, SpecError


@check_arguments
@dataclass(frozen=True, slots=True)
class ShadowPlan:
    """How many models like the target to train, how, and on what.

    Raises:
        SpecError: there are no models.
        DataError: the pool is empty.
    """

    trainer: Trainer
    models: int
    pool: Records | None = None
    """Records of which each shadow is trained on a random half (offline); the candidates where None
    (online)."""
    pool_otherwise: tuple[Records, ...] = ()
    """The pool augmented in each way in which the candidates are augmented."""
    fingerprint: str = ""
    """Identifies the trainer, so that stored shadows are never taken for another one's."""
    pool_asked: Records | None = None
    """The pool as the shadows are queried about it; `pool` itself unless given."""
    pool_known: Bool[np.ndarray, "pool *features"] | None = None
    """True where a feature of the pool is known, if the attacker knows only parts of candidates."""
    answers: AnswerDefence | None = None
    """The defence that changes all shadows' predictions, with each one's seed as its secret."""
    cascade: int = 0
    """How many further models are trained at a time where an attack knows who of some candidates
    is a member, as `divulge.attacks.Cascade` does; 0 trains none."""

    def __post_init__(self) -> None:
        if self.models < 1:
            raise SpecError(f"expected shadows from 1, got {self.models}: train some, or ask none")
        if self.cascade < 0 or self.cascade == 1:
            raise SpecError(
                f"expected cascade from 2, or 0 for none, got {self.cascade}: further shadow "
                "models are compared with each other"
            )
        if self.cascade and self.pool is not None:
            raise SpecError(
                "expected no pool of records beside cascade, got one: further shadow models are "
                "trained on candidates"
            )
        if self.pool is not None and not len(self.pool):
            raise DataError("expected records in the pool of shadow models, got none: give some")

    @property
    def own(self) -> tuple[Records, ...]:
        """The pool as queries: the attacker knows which of its records a shadow is trained on."""
        if self.pool is None:
            return ()
        return (self.pool_asked or self.pool, *self.pool_otherwise)

    def check(self, candidates: Records) -> str:
        """Refuse records that no shadow can be trained on; return what to know of the training.

        Args:
            candidates: what shadows are trained on where the plan has no pool of its own.
        """
        return check_trainer(self.trainer, candidates if self.pool is None else self.pool)

    def subsets(self, pool: Records, seed: int) -> Bool[np.ndarray, "models records"]:
        """Which records of this pool each model is trained on: a half of its own, at random.

        Model k's half depends on the seed and k alone: more models change none of the first. Where
        records are grouped by person, it is a half of the people, with all their records.
        """
        if (person := pool.people) is None:
            return random_halves(len(pool), self.models, seed)
        return random_halves(int(person.max()) + 1, self.models, seed)[:, person]

    def seeds(self, seed: int) -> list[int]:
        """The seed of each model's own randomness."""
        return [int(stream(seed, "shadow", k).integers(2**31)) for k in range(self.models)]


def random_halves(records: int, models: int, seed: int) -> Bool[np.ndarray, "models records"]:
    """Which of so many records each of so many models is trained on; see `ShadowPlan.subsets`."""
    return np.stack([stream(seed, "shadow's half", k).random(records) < 0.5 for k in range(models)])


def shadow_key(plan: ShadowPlan, queries: Sequence[Records], seed: int) -> str:
    """A key of all that the predictions of model k depend on, apart from k.

    The number of models is no part of it.

    Args:
        plan: how models are trained.
        queries: the records that they are asked about, the candidates first.
        seed: the seed of the halves and the models.
    """
    how = plan.fingerprint if plan.answers is None else f"{plan.fingerprint} {plan.answers!r}"
    sets = (*queries, *([] if plan.pool is None else [plan.pool]))
    if (person := (queries[0] if plan.pool is None else plan.pool).people) is not None:
        how += f" people {digest('people', person)}"
    identity = digest(f"{how}\0{seed}", *(array for group in sets for array in (group.x, group.y)))
    return f"{identity}{'' if plan.pool is None else '-offline'}"
