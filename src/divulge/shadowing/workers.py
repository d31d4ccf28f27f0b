"""Who trains the models: this process, or the workers of a cluster. Both return the same rows."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64

from divulge.attacks import signals
from divulge.core import AnswerDefence, Need, Records, Trainer
from divulge.defences.defended import Defended
from divulge.errors import SpecError, TargetError
from divulge.shadowing.rows import Row


@dataclass(frozen=True, slots=True)
class Work:
    """Models to train, and what to ask each. All of it is known before any is trained."""

    trainer: Trainer
    pool: Records
    queries: tuple[Records, ...]
    subsets: Bool[np.ndarray, "models records"]
    seeds: Sequence[int]
    answered: int = 0
    """So many of the first models also hand over their whole answers."""
    answers: AnswerDefence | None = None
    """Every model answers behind it, with its own seed as the secret."""


class Trained(NamedTuple):
    """What one model says."""

    model: int
    row: Row
    """φ = log p_y - log(1 - p_y) of every query, one set of records after another."""
    answers: Float64[np.ndarray, "queries classes"] | None


@runtime_checkable
class Workers(Protocol):
    """Whoever trains."""

    def processors(self) -> int:
        """How many models can be in training at once."""
        ...

    def train(self, work: Work, models: Sequence[int]) -> Generator[Trained]:
        """These models, in any order, each as soon as it is there.

        Raises:
            TargetError: one could not be trained.
        """
        ...


def wave(work: Work, models: Sequence[int]) -> Generator[Trained]:
    """Train some models here, and ask each; the one way in which it is done anywhere.

    Raises:
        TargetError: one could not be trained, or is to hand over answers that it does not give.
    """
    seeds = [work.seeds[k] for k in models]
    targets = work.trainer.many(work.pool, work.subsets[list(models)], seeds)
    for k, seed, model in zip(models, seeds, targets, strict=True):
        target = model if work.answers is None else Defended(model, work.answers, seed)
        answers = [target.predict(group.x) for group in work.queries]
        row = [
            signals.compute("scaled_logit", answer, group.y)
            for answer, group in zip(answers, work.queries, strict=True)
        ]
        whole = np.concatenate(answers) if k < work.answered else None
        if whole is not None and Need.PROBABILITIES not in model.offers:
            raise TargetError("expected models that give probabilities, got labels: train others")
        yield Trained(k, np.concatenate(row), whole)


class Local:
    """This process, and whatever processes the trainer starts by itself."""

    def processors(self) -> int:
        """See `Workers`."""
        import joblib

        return int(joblib.cpu_count())

    def train(self, work: Work, models: Sequence[int]) -> Generator[Trained]:
        """See `Workers`."""
        if models:
            yield from wave(work, models)


def named(name: str) -> Workers:
    """Workers by name: ``local``, ``ray``, or ``ray:ADDRESS``.

    Raises:
        SpecError: there are none of this name.
        MissingExtra: Ray is not installed.
    """
    kind, _, address = name.partition(":")
    if name == "local":
        return Local()
    if kind == "ray" and (address or name == "ray"):
        from divulge.shadowing.cluster import Cluster

        return Cluster(address or None)
    raise SpecError(
        f"expected workers to be local, ray, ray:auto or ray:HOST:PORT, got {name!r}: "
        "leave it out to train in this process"
    )
