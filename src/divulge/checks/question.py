"""What checks look at."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge.checks.duplicates import Copies, PoolCopies
from divulge.core import Records

CandidateEase = Float64[np.ndarray, "measures candidates"]
"""How easy each candidate, a record or a person, is for what never saw it, in several ways."""

Mask = Bool[np.ndarray, " records"]


class CheckInputs(NamedTuple):
    """What the auditor knows when checking."""

    records: Records
    member: Mask
    reference: Records | None
    answers: Float64[np.ndarray, "records classes"]
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
