"""The hard-label attack: a record that the model gets right is called a member."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge.core import ModelView, Need, Scores, stream_answers


@dataclass(frozen=True, slots=True)
class Gap:
    """Score 1 if the model's label is right, 0 if it is wrong.

    The advantage TPR - FPR is the accuracy on members less that on non-members. The score has two
    values, and the attacker decides at random among records that tie: at a low false-positive rate
    f the TPR is f times the ratio of the two accuracies.

    References:
        Yeom et al. (2018), Privacy risk in machine learning, adversary 1.
    """

    name: ClassVar[str] = "gap"
    paper: ClassVar[str] = "Yeom et al. 2018"

    @property
    def needs(self) -> Need:
        """The model's preferred class."""
        return Need.HARD_LABELS | Need.LABELS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """1 for each candidate that the model classifies correctly, 0 for the others."""
        del rng
        score = np.empty(len(view.records))
        for part, answers in stream_answers(view.target, view.records.x):
            score[part] = answers.argmax(axis=1) == view.records.y[part]
        return Scores(score)
