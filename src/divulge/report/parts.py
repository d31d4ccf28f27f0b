"""These protocols are the parts of a run that a report reads.

The report does not import the run folder: it can be made from anything that has these parts.
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
        """Time of the audit's start, in UTC, ISO 8601."""
        ...

    @property
    def challenge(self) -> str:
        """Digest of data, answers, seed and delta."""
        ...

    @property
    def seed(self) -> int:
        """Seed of every random stream."""
        ...

    @property
    def delta(self) -> float:
        """δ of the guarantee that the bound on ε is about."""
        ...

    @property
    def members(self) -> int:
        """Number of candidates that the model was trained on."""
        ...

    @property
    def nonmembers(self) -> int:
        """Number of the other candidates."""
        ...

    @property
    def reference(self) -> int:
        """Number of records that the attacker owns."""
        ...

    @property
    def classes(self) -> int:
        """Number of classes that the model knows."""
        ...

    @property
    def class_names(self) -> Sequence[str]:
        """Names of the classes, in their order; empty if the user gave none."""
        ...

    @property
    def attacks(self) -> Sequence[str]:
        """Labels of all attacks asked for, in order."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings as the user gave them."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """Versions of what the audit ran on."""
        ...

    @property
    def checks(self) -> Sequence[Check]:
        """Checks of the audit itself."""
        ...

    @property
    def shadows(self) -> Shadows:
        """Whether there were shadow models, and whether they were trained on the candidates."""
        ...

    @property
    def divulge(self) -> str:
        """Version of divulge that ran the audit."""
        ...

    @property
    def claim(self) -> Claim | None:
        """The guarantee that the measured ε is held against."""
        ...

    @property
    def drawn(self) -> Drawn:
        """How membership was drawn."""
        ...


@runtime_checkable
class Candidates(Protocol):
    """Truth, labels and positions of the candidates."""

    @property
    def member(self) -> Bool[np.ndarray, " records"]:
        """True for candidates that the model was trained on."""
        ...

    @property
    def label(self) -> Int[np.ndarray, " records"]:
        """Class of each candidate."""
        ...

    @property
    def index(self) -> Int[np.ndarray, " records"]:
        """Position of each candidate among the members, or non-members, as the user gave them."""
        ...

    @property
    def ids(self) -> Shaped[np.ndarray, " records"] | None:
        """The user's own ids, empty where a candidate has none; None without a column of ids."""
        ...


@runtime_checkable
class Entry(Protocol):
    """One attack's finding with what belongs to it."""

    @property
    def finding(self) -> Finding:
        """Result of the attack."""
        ...

    @property
    def control(self) -> Control | None:
        """Result of the attack's controls; None if they were not run."""
        ...

    @property
    def score(self) -> Float64[np.ndarray, " records"] | None:
        """Score of each candidate; None unless the attack is done."""
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
        """Findings, in the order in which attacks were requested."""
        ...

    @property
    def missing(self) -> Sequence[str]:
        """Labels of requested attacks without a finding."""
        ...
