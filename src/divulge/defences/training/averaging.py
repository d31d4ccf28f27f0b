"""Defend any way to train by averaging: several models, each of which learns some records."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from divulge._util.arguments import Count, check_arguments
from divulge._util.random import stream
from divulge.core import Need, Records, SearchSpace, Target, Trainer
from divulge.errors import SpecError
from divulge.targets.encoded import EncodedTarget, decode_for
from divulge.targets.outputs import access_of


@check_arguments
@dataclass(frozen=True, slots=True)
class Averaging:
    """Train several models on random shares of the records, and answer with their mean.

    A record changes only the models that learned it, so that its trace in the mean is smaller the
    smaller the share is. Each model learns this share of every class, one record at least. The
    answers of classifiers that give labels alone become shares of votes.

    Args:
        trainer: trains one model.
        models: how many models one answer is the mean of, from 2.
        share: the share of the records that each of them learns, above 0 and below 1.

    References:
        Breiman (1996), Bagging predictors. Departure: records are drawn without replacement, as
        in Bühlmann and Yu (2002), Analyzing bagging, section 3, and from each class.

    Raises:
        SpecError: there are too few models, or the share makes no sense.
    """

    trainer: Trainer
    models: Count = 10
    share: float = 0.2

    name: ClassVar[str] = "averaging"
    paper: ClassVar[str] = "Breiman 1996"
    search: ClassVar[SearchSpace] = {"models": (5, 10, 20), "share": (0.5, 0.2, 0.1)}

    def __post_init__(self) -> None:
        if self.models < 2 or not 0 < self.share < 1:
            raise SpecError(
                "expected models from 2, and a share above 0 and below 1, got "
                f"models={self.models} and share={self.share}"
            )

    @property
    def work(self) -> float:
        """The work of one averaged model, in trainings on all of its records."""
        return self.models * self.share

    def many(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
    ) -> Iterator[Target]:
        """One averaged model a row of ``subsets``, in order, as soon as it is there.

        Raises:
            DataError: a part of a subset is empty.
            TargetError: a model could not be trained.
        """
        pairs = zip(subsets, seeds, strict=True)
        parts = [self._parts(pool.stratum, subset, seed) for subset, seed in pairs]
        own = [
            int(stream(seed, "averaged", k).integers(2**31))
            for seed in seeds
            for k in range(self.models)
        ]
        if parts:
            trained = self.trainer.many(pool, np.concatenate(parts), own)
            while together := tuple(islice(trained, self.models)):
                bare = tuple(
                    model.target if isinstance(model, EncodedTarget) else model
                    for model in together
                )
                yield decode_for(AveragedTarget(bare), pool.encoding)

    def _parts(
        self, stratum: Int[np.ndarray, " records"], subset: Bool[np.ndarray, " records"], seed: int
    ) -> Bool[np.ndarray, "parts records"]:
        """The records of each of the models behind one answer: of every class this share."""
        rng = stream(seed, "averaging")
        parts = np.zeros((self.models, len(subset)), bool)
        for part in parts:
            for label in np.unique(stratum[subset]):
                rows = rng.permutation(np.flatnonzero(subset & (stratum == label)))
                # without any the model would not know the class
                part[rows[: max(1, round(self.share * len(rows)))]] = True
        return parts


@dataclass(frozen=True, slots=True)
class AveragedTarget:
    """Several models that answer as one, with the mean of their answers."""

    targets: tuple[Target, ...]

    @property
    def offers(self) -> Need:
        """What its answers allow."""
        values = Need.VALUES in self.targets[0].offers
        return access_of("values" if values else "probabilities")

    @property
    def takes_frames(self) -> bool:
        """Whether records may be data frames."""
        return all(getattr(target, "takes_frames", False) for target in self.targets)

    def predict(self, x: Any) -> Float[np.ndarray, "records classes"]:
        """The mean answers; a class that a model never saw has a probability of 0 there.

        Args:
            x: the records in whatever the models take.

        Raises:
            TargetError: a model failed.
        """
        answers = [target.predict(x) for target in self.targets]
        total = np.zeros((len(answers[0]), max(answer.shape[1] for answer in answers)))
        for answer in answers:
            total[:, : answer.shape[1]] += answer
        return total / len(answers)
