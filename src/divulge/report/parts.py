"""What the report takes from a run: the shapes that the store's classes happen to have.

The store and the report do not know each other, so that a report can be made from anything that
has these parts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Int, Shaped

from divulge.core import Check, Claim, Control, Drawn, Finding
from divulge.report.schema import Shadows


@runtime_checkable
class Manifest(Protocol):
    """What was audited and how."""

    @property
    def name(self) -> str:
        """The audit's name."""
        ...

    @property
    def created(self) -> str:
        """UTC, ISO 8601."""
        ...

    @property
    def challenge(self) -> str:
        """Digest of data, answers, seed and delta."""
        ...

    @property
    def seed(self) -> int:
        """Of every random stream."""
        ...

    @property
    def delta(self) -> float:
        """Of the guarantee that the epsilon bound speaks of."""
        ...

    @property
    def members(self) -> int:
        """How many candidates were trained on."""
        ...

    @property
    def nonmembers(self) -> int:
        """How many were not."""
        ...

    @property
    def reference(self) -> int:
        """How many records the attacker owns."""
        ...

    @property
    def classes(self) -> int:
        """How many classes the model knows."""
        ...

    @property
    def class_names(self) -> Sequence[str]:
        """Empty, or one name a class."""
        ...

    @property
    def attacks(self) -> Sequence[str]:
        """Labels of all attacks asked for, in order."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """As the user gave them."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """Versions of what the audit ran on."""
        ...

    @property
    def checks(self) -> Sequence[Check]:
        """Questions about the audit itself."""
        ...

    @property
    def shadows(self) -> Shadows:
        """Whether there were shadow models, and whether they were trained on the candidates."""
        ...

    @property
    def divulge(self) -> str:
        """The version that measured."""
        ...

    @property
    def claim(self) -> Claim | None:
        """The guarantee that the measured ε is held against."""
        ...

    @property
    def drawn(self) -> Drawn:
        """How it was decided who is a member."""
        ...


@runtime_checkable
class Candidates(Protocol):
    """The truth and the labels."""

    @property
    def member(self) -> Bool[np.ndarray, " records"]:
        """Which candidates were trained on."""
        ...

    @property
    def label(self) -> Int[np.ndarray, " records"]:
        """The class of each."""
        ...

    @property
    def index(self) -> Int[np.ndarray, " records"]:
        """The position of each within its group, as the user gave them."""
        ...

    @property
    def ids(self) -> Shaped[np.ndarray, " records"] | None:
        """The user's own ids, empty where there is none; None if no column was named."""
        ...


@runtime_checkable
class Entry(Protocol):
    """One attack's finding with what belongs to it."""

    @property
    def finding(self) -> Finding:
        """What it showed."""
        ...

    @property
    def control(self) -> Control | None:
        """How it did on its controls."""
        ...

    @property
    def score(self) -> Float64[np.ndarray, " records"] | None:
        """Its guess; None unless it is done."""
        ...


@runtime_checkable
class Contents(Protocol):
    """A whole run."""

    @property
    def manifest(self) -> Manifest:
        """What was audited and how."""
        ...

    @property
    def candidates(self) -> Candidates:
        """The truth and the labels."""
        ...

    @property
    def entries(self) -> Sequence[Entry]:
        """Findings, in the order in which they were asked for."""
        ...

    @property
    def missing(self) -> Sequence[str]:
        """Attacks asked for that have no finding."""
        ...
