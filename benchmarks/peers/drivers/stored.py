"""What the drivers of `shadow_quality.other_tools` read: answers of models that were trained once.

A task has a file for each mode, with these arrays: ``target`` and ``target_reference``, logits of
shape (targets, records, classes); ``shadows`` and ``shadows_reference``, (shadows, records,
classes); ``half``, who was in which shadow, (shadows, records); ``member``, (targets, records);
``y`` and ``y_reference``.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from benchmarks.peers.drivers.desk import Desk

MODES = ("online", "offline")


class Game(NamedTuple):
    """One target beside some of the shadows."""

    target: np.ndarray
    """Logits of the candidates, (records, classes)."""
    target_reference: np.ndarray
    shadows: np.ndarray
    """Logits of the candidates by each shadow, (shadows, records, classes)."""
    shadows_reference: np.ndarray
    half: np.ndarray
    """Who was in which shadow; offline nobody."""
    member: np.ndarray
    y: np.ndarray
    y_reference: np.ndarray
    other: "Game | None" = None
    """A target on another half of the same pool, beside the same shadows."""

    def phi(self, logits: np.ndarray) -> np.ndarray:
        """The log odds of the true class (Carlini et al. 2022), of candidates."""
        return scaled_logit(logits, self.y)


Attack = Callable[[Game], np.ndarray]
"""One score a candidate."""


def games(arrays: Mapping[str, np.ndarray], count: int) -> Iterator[Game]:
    """Each target of a mode, beside the first so many shadows."""
    every = [
        Game(
            target, arrays["target_reference"][k], arrays["shadows"][:count],
            arrays["shadows_reference"][:count], arrays["half"][:count], arrays["member"][k],
            arrays["y"], arrays["y_reference"],
        )
        for k, target in enumerate(arrays["target"])
    ]  # fmt: skip
    for k, game in enumerate(every):
        yield game._replace(other=every[(k + 1) % len(every)])


def run(desk: Desk, attacks: Mapping[str, Attack], wanted: Callable[[str, int, str], bool]) -> None:
    """Leave the scores of all attacks on all targets: a file a mode, number and attack.

    An attack that raises on one target has no file, nor one whose scores are no numbers.

    Args:
        desk: of this driver.
        attacks: by name.
        wanted: whether an attack runs, by mode, number of shadows and name.
    """
    for mode in desk.settings["modes"]:
        arrays = desk.arrays(mode)
        for count in desk.settings["budgets"]:
            for name, attack in attacks.items():
                if not wanted(mode, count, name):
                    continue
                label = f"{mode}-{count}-{name}"
                try:
                    with desk.timed(label):
                        scores = [attack(game) for game in games(arrays, count)]
                except (ValueError, AssertionError) as error:
                    print(f"{label}: {error}", flush=True)
                    continue
                if np.isfinite(scores).all():
                    desk.leave(label, np.stack(scores))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log probabilities of all classes, in float64."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    log_p: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return log_p


def true_class(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The probability of the true class, (..., records)."""
    p: np.ndarray = np.exp(log_softmax(logits))[..., np.arange(len(y)), y]
    return p


def scaled_logit(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The log odds of the true class, (..., records)."""
    log_p = log_softmax(logits)
    rows = np.arange(len(y))
    own = log_p[..., rows, y].copy()
    log_p[..., rows, y] = -np.inf
    phi: np.ndarray = own - np.logaddexp.reduce(log_p, axis=-1)
    return phi
