"""Time Decaf's decomposition: exact, and by the paper's 1,000 epochs of gradient descent."""

import numpy as np

from benchmarks.timing import Contender, Outcome, environment, interleaved, table
from divulge.attacks.composition.decaf.published import decompose, decomposition_loss

SUMMARY = "decomposition of one update, exact beside 1,000 epochs of descent"

WIDTHS = (64, 128, 512, 4096)
"""Inputs of the last layer: two small networks, ResNet18 and VGG16."""


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the command's flag)
    """Print a table a width; return the timings of the second, as of the paper's small networks."""
    outcomes: list[Outcome] = []
    print(environment(("numpy", "scipy")))
    for width in WIDTHS[:2] if quick else WIDTHS:
        change, bases = _system(width)
        contenders = (
            Contender("exact", lambda c=change, b=bases: decompose(c, b)),  # type: ignore[misc]
            Contender("descent", lambda c=change, b=bases: decompose(c, b, "descent")),  # type: ignore[misc]
        )
        timings = interleaved(contenders, 1 if quick else 3)
        errors = [
            decomposition_loss(change, bases, decompose(change, bases, s))
            for s in ("nnls", "descent")
        ]
        print(f"\n10 classes, {width} inputs; objective {errors[0]:.6g} and {errors[1]:.6g}")
        print(table(timings, timings[0]))
        outcomes.append(Outcome(*timings))
    return outcomes[1]


def _system(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten synthetic bases and a calibrator near their sum, as in training, and a noisy mixture."""
    rng = np.random.default_rng(width)
    each = -rng.random((10, 10, width)) / 10
    each[np.arange(10), np.arange(10)] = rng.random((10, width))
    whole = each.sum(axis=0) + rng.normal(0, 0.1, (10, width))
    bases = np.concatenate([each, whole[None]])
    scales = np.append(rng.dirichlet(np.ones(10)), 0.2)
    change = np.tensordot(scales, bases, 1) + rng.normal(0, 0.05, (10, width))
    return change, bases
