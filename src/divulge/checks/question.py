"""What checks look at."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int, Shaped, UInt64

from divulge.checks.duplicates import Copies, PoolCopies
from divulge.checks.row_numbers import hash_rows
from divulge.core import Records, Target, stream_answers

CandidateEase = Float64[np.ndarray, "measures candidates"]
"""How easy each candidate, a record or a person, is for what never saw it, in several ways."""

Mask = Bool[np.ndarray, " records"]


Answers = Float64[np.ndarray, "records classes"]


class SeenAnswers(NamedTuple):
    """What checks look at in answers about records: a few numbers of each, and of some all."""

    label: Int[np.ndarray, " records"]
    """The class that each finds likeliest."""
    top: Float64[np.ndarray, " records"]
    """Its probability; the number itself where an answer is one."""
    sole: Bool[np.ndarray, " records"]
    """Whether no other class has a probability above zero."""
    code: UInt64[np.ndarray, " records"]
    """A hash, the same for equal answers; two others of ten million share one in 3e-6 of cases."""
    ends: Float64[np.ndarray, "2 classes"]
    """The lowest and highest number of each class."""
    ask: Callable[[Int[np.ndarray, " some_rows"]], Answers]
    """Gives whole answers about one record or more."""

    @classmethod
    def of(cls, answers: Answers) -> "SeenAnswers":
        """Of answers in memory."""
        return cls._gather(len(answers), [(np.arange(len(answers)), answers)], answers.__getitem__)

    @classmethod
    def from_target(cls, target: Target, x: Shaped[np.ndarray, "records *f"]) -> "SeenAnswers":
        """Of what a target answers about records.

        Raises:
            TargetError: it failed.
        """
        parts = stream_answers(target, x)
        return cls._gather(len(x), parts, lambda rows: target.predict(x[rows]))

    @classmethod
    def _gather(
        cls,
        records: int,
        parts: Iterable[tuple[Int[np.ndarray, " part"], Answers]],
        read: Callable[[Int[np.ndarray, " some_rows"]], Answers],
    ) -> "SeenAnswers":
        label, top = np.empty(records, np.int32), np.empty(records)
        sole, code, ends = np.empty(records, bool), np.empty(records, np.uint64), []
        for part, answers in parts:
            label[part] = likeliest = answers.argmax(axis=1)
            top[part] = np.take_along_axis(answers, likeliest[:, None], axis=1)[:, 0]
            sole[part] = np.count_nonzero(answers, axis=1) == 1
            code[part] = hash_rows(answers)
            ends.append([answers.min(axis=0), answers.max(axis=0)])
        lowest, highest = np.array(ends).swapaxes(0, 1)
        return cls(
            label, top, sole, code, np.stack([lowest.min(axis=0), highest.max(axis=0)]), read
        )

    def read(self, rows: Int[np.ndarray, " some_rows"]) -> Answers:
        """Whole answers about some records."""
        return self.ask(rows) if len(rows) else np.empty((0, self.classes))

    @property
    def classes(self) -> int:
        """How many numbers an answer has."""
        return int(self.ends.shape[1])

    def take(self, rows: Shaped[np.ndarray, " chosen"]) -> "SeenAnswers":
        """Those about some records; the ends are those of all."""
        places = np.arange(len(self.top))[rows]
        return SeenAnswers(
            self.label[rows],
            self.top[rows],
            self.sole[rows],
            self.code[rows],
            self.ends,
            lambda some: self.read(places[some]),
        )


class CheckInputs(NamedTuple):
    """What the auditor knows when checking."""

    records: Records
    member: Mask
    reference: Records | None
    answers: SeenAnswers
    features: bool
    """Whether ``records.x`` holds features (or only row numbers of a table of predictions)."""
    pool: Records | None = None
    """What offline shadow models are trained on, if there are any."""
    copies: Copies | PoolCopies | None = None
    """What was set aside because it stood twice; None where features are unknown."""
    again: "SecondPredictions | None" = None
    """What the model said when it was asked again; None where it could not be."""
    soft: bool = True
    """Whether the model gives probabilities (or only labels)."""
    declared: bool = False
    """Whether the user, and not the model, says that its answers are probabilities."""
    scores: bool = False
    """Whether ``answers`` are one score a record, and nothing is known of classes."""
    ease: CandidateEase | None = None
    """How easy each record, or person, is for what never saw it; None if nobody knows."""
    blind: str = ""
    """The column that says so; empty where models of the records do."""


class SecondPredictions(NamedTuple):
    """Some of the candidates, about which the model was asked twice."""

    rows: Int[np.ndarray, " asked"]
    answers: Float64[np.ndarray, "asked classes"]
    """The second ones."""
