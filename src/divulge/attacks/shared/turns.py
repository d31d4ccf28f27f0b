"""A shadow model in the target's place, attacked by means of the others."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit

from divulge.core import ModelView, Need, Records


@dataclass(frozen=True, slots=True)
class ReplayedTarget:
    """A model whose answer to a record, which is its own number, stands in a table."""

    answers: Float[np.ndarray, "records columns"]
    offers: Need

    def predict(self, x: Float[np.ndarray, "asked one"]) -> Float[np.ndarray, "asked columns"]:
        """The rows of these numbers."""
        rows: np.ndarray = self.answers[x[:, 0].astype(np.int64)]
        return rows


def put_in_place_of_target(
    view: ModelView, rows: Int[np.ndarray, " chosen"], k: int
) -> tuple[ModelView, Bool[np.ndarray, " chosen"]]:
    """The view of an attacker on shadow model k, by means of the others; and k's members.

    Only the probability of the true class is kept of shadow models: the rest goes to one other
    class.

    Args:
        view: with online shadow models.
        rows: the candidates that the view is on.
        k: number of the shadow model, from 0.
    """
    shadows = view.shadows
    assert shadows is not None
    others = np.flatnonzero(np.arange(shadows.phi.shape[1]) != k)
    y, owned = view.records.y[rows], view.reference
    labels = [y] * (1 + len(shadows.augmented_phi)) + ([] if owned is None else [owned.y])
    ways = [phi[rows] for phi in (shadows.phi, *shadows.augmented_phi)]
    values = [way[:, k] for way in ways] + [shadows.reference_phi[:, k]] * (owned is not None)
    starts = np.cumsum([0, *map(len, labels)])
    numbered = [
        Records(np.arange(start, start + len(own_labels), dtype=np.float64)[:, None], own_labels)
        for start, own_labels in zip(starts, labels, strict=False)
    ]
    candidates, *further = numbered
    if (group := view.records.group) is not None:
        candidates = replace(candidates, group=group[rows])
    reference = further.pop() if owned is not None else None
    left = replace(
        shadows,
        phi=ways[0][:, others],
        member=shadows.member[rows][:, others],
        reference_phi=shadows.reference_phi[:, others],
        augmented_phi=tuple(way[:, others] for way in ways[1:]),
        softened=(),  # the answers above are of two classes: at a temperature they are others
    )
    target = replay(np.concatenate(values).astype(np.float64), np.concatenate(labels))
    stand_in = ModelView(target, candidates, reference, left, tuple(further))
    return stand_in, shadows.member[rows, k]


def replay(phi: Float[np.ndarray, " records"], y: np.ndarray) -> ReplayedTarget:
    """Answers of which φ is this: the rest of a probability goes to one other class."""
    if y.dtype.kind == "f":
        return ReplayedTarget((y - phi)[:, None], Need.VALUES)
    classes, rows = max(2, int(y.max()) + 1), np.arange(len(y))
    answers = np.zeros((len(y), classes))
    # expit(-φ), and not 1 - expit(φ), which is 0 for a memorised record
    answers[rows, y], answers[rows, (y + 1) % classes] = expit(phi), expit(-phi)
    return ReplayedTarget(answers, Need.PROBABILITIES | Need.HARD_LABELS)
