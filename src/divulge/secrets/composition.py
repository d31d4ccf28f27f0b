"""Composition: which classes clients hold, and how much of each."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pydantic

from divulge._util.arguments import CountFromZero
from divulge._util.progress import Track, track_silently
from divulge._util.toml import Section
from divulge.core import (
    CompositionFacts,
    Measurements,
    Proportions,
    SimulatedErrors,
    UpdateView,
)
from divulge.metrics import composition
from divulge.metrics.intervals import CONFIDENCE
from divulge.secrets.base import Controls, FederatedSecret, unmeasured


class UpdatesSpec(Section):
    """``[updates]``: what the server of a federation saw of its clients, in place of a model."""

    transcript: str
    """Folder of the [transcript](reference/transcript.md)."""
    network: str
    """``file.py:name``: a function that makes an untrained module."""
    reference: str
    """The attacker's records, some of each class, named as in ``[data]``."""
    label: str = "label"
    """The column of a table that holds the class."""
    class_names: tuple[str, ...] = ()
    """Names for the report, one per class, in order."""
    clients: tuple[str, ...] = ()
    """Whom to attack; everybody, unless given."""
    counts: dict[str, tuple[CountFromZero, ...]] = pydantic.Field(default={})
    """The truth, where it is known: how many records of each class each client holds."""


class CompositionSecret(FederatedSecret[CompositionFacts, tuple[UpdateView, ...]]):
    """Which classes clients hold, and how much of each."""

    __slots__ = ()
    kind: ClassVar = "composition"
    guess: ClassVar = Proportions
    question: ClassVar = "Which classes does a client hold, and in which shares?"
    risk: ClassVar = "Can the server of a federation find out which classes a client holds?"
    task: ClassVar = "Inference of class shares"
    gated: ClassVar = [name for name in composition.METRICS if name.startswith("null")]
    lead: ClassVar = "null_accuracy"
    section: ClassVar = "updates"
    usual: ClassVar = ("decaf", "label-counts")

    def control(
        self, view: Any, attack: Any, guess: Any, seed: int, track: Track[Any] = track_silently
    ) -> Controls:
        """The attack on exchanged updates, held against the real class shares."""
        from divulge.secrets.blind import composition as blind  # reading a run needs no control

        del guess
        return Controls(blind=blind.control_on_updates(view, self, attack, seed, track))

    def measure(self, guess: Sequence[Proportions], confidence: float = CONFIDENCE) -> Measurements:
        """Metrics over clients."""
        truth = self.facts.truth
        if truth is None:
            return unmeasured(composition.METRICS, "the true label distributions are unknown")
        return composition.measure(guess, truth, confidence)

    def encode(self, guess: Sequence[Proportions]) -> Mapping[str, np.ndarray]:
        """Class shares, one client after another."""
        return _encode_errors(guess) | {
            "share": np.concatenate([client.share for client in guess]),
            "null": np.concatenate([client.null for client in guess]),
            "even": np.array([np.nan if c.even is None else c.even for c in guess]),
        }

    def decode(self, arrays: Mapping[str, np.ndarray]) -> tuple[Proportions, ...]:
        """Class shares by client.

        Raises:
            ValueError: the arrays are not those of all clients.
        """
        clients = len(self.facts.clients)
        if any(arrays[name].dtype.kind != "f" for name in ("share", "even")):
            raise ValueError("shares that are no numbers")
        if arrays["null"].dtype.kind != "b":
            raise ValueError("null classes that are no truth values")
        share, null = (arrays[name].reshape(clients, -1) for name in ("share", "null"))
        even = [None if np.isnan(p) else float(p) for p in arrays["even"]]
        errors = _decode_errors(arrays, clients)
        return tuple(
            Proportions(share[k], null[k], even[k], errors=errors[k]) for k in range(clients)
        )


def _encode_errors(guess: Sequence[Proportions]) -> dict[str, np.ndarray]:
    """What guesses about simulated clients are off by, one client after another."""
    errors = [client.errors for client in guess if client.errors is not None]
    if len(errors) < len(guess):
        return {}
    arrays = {
        f"alike_{name}": [getattr(client_errors, name) for client_errors in errors]
        for name in _ALIKE
    }
    joined = {name: np.concatenate(parts).ravel() for name, parts in arrays.items()}
    return joined | {"far": np.array([client_errors.far for client_errors in errors])}


def _decode_errors(
    arrays: Mapping[str, np.ndarray], clients: int
) -> Sequence[SimulatedErrors | None]:
    """What `_encode_errors` made into arrays; of earlier runs none."""
    if "far" not in arrays:
        return [None] * clients
    for name, kind in {
        **{f"alike_{name}": kind for name, kind in _ALIKE.items()},
        "far": "f",
    }.items():
        if arrays[name].dtype.kind != kind or not np.isfinite(arrays[name]).all():
            raise ValueError(f"no finite numbers of simulated clients as {name}")
    which, l1, equal, null = (arrays[f"alike_{name}"].reshape(clients, -1) for name in _ALIKE)
    if not which.shape == l1.shape == equal.shape or null.shape[1] != 4 * l1.shape[1]:
        raise ValueError("simulated clients that do not fit")
    parts = zip(which, l1, equal, null.reshape(clients, -1, 4), arrays["far"].tolist(), strict=True)
    return [SimulatedErrors(*part) for part in parts]


_ALIKE = {"which": "i", "l1": "f", "equal": "f", "null": "i"}
"""Arrays of `SimulatedErrors`, and what they hold."""
