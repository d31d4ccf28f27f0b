"""Test whether residuals of a record's difficulty given its genotypes reveal membership."""

import tempfile
from pathlib import Path

import numpy as np

from divulge._util.random import stream
from divulge.core import Records
from divulge.federation.local_models import AssignmentGame
from divulge.metrics import intervals, membership, signals
from divulge_papers.papers.nist import federations, games

SUMMARY = "AUC of scaled logits at ε = 200, raw, by class, and less what genotypes lead to expect"

COLUMNS = ("scaled logit", "less its class's mean", "kernel of genotypes", "the same, shuffled")

NOISES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Variances of a record's own part that are tried, with 1 each for genotypes and for classes."""


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print AUCs, means over clients and federations, with Student's interval over federations."""
    scale = games.PRIVATE_SCALES["small"]
    aucs = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(2 if quick else 5):
            records = federations.make_pool(
                "SoyNAM", stream(seed, "genomes", "SoyNAM"), scale.place_step
            )
            game = federations.train_federation(seed, "SoyNAM", 200.0, scale, Path(folder))
            aucs.append(np.mean([_aucs(game, k, records, seed) for k in range(4)], axis=0))
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    shown = []
    for values in np.transpose(aucs):
        low, high = intervals.student_mean(values.tolist())
        shown.append(f"{values.mean():.3f} ({max(0.0, low):.3f} to {min(1.0, high):.3f})")
    print("| " + " | ".join(shown) + " |")


def _aucs(game: AssignmentGame, k: int, pool: Records, seed: int) -> list[float]:
    """AUC of each column on all records of one client's view."""
    view = game.challenge.view
    records = view.relevant[k].joined(view.external[k]).joined(view.records)
    none = np.zeros(len(view.external[k]), bool)
    member = np.concatenate([game.relevant[k], none, game.challenge.truth.client == k])
    signal = signals.compute_signal("scaled_logit", view.targets[k].predict(records.x), records.y)
    x = pool.x[records.x].astype(np.float64)
    shuffled = stream(seed, "shuffled", k).permutation(x)
    of_class = [signal[records.y == label].mean() for label in records.y]
    scores = (signal, signal - of_class, surplus(x, records.y, signal),
              surplus(shuffled, records.y, signal))  # fmt: skip
    return [membership.auc(score, member).value for score in scores]


def surplus(x: np.ndarray, y: np.ndarray, signal: np.ndarray) -> np.ndarray:
    """Standardised leave-one-out residuals of a Gaussian process on genotypes and classes.

    Linear in genotypes, with a mean of each class; the likeliest of `NOISES` is taken. In closed
    form they are K⁻¹ s over the root of K⁻¹'s diagonal (Rasmussen and Williams 2006, eq. 5.12).
    """
    centred = x - x.mean(axis=0)
    kernel = centred @ centred.T
    kernel = kernel / np.diagonal(kernel).mean() + (y[:, None] == y)
    values, vectors = np.linalg.eigh(kernel)
    turned = vectors.T @ (signal - signal.mean())
    likelihood = [
        -len(y) * np.log((turned**2 / (values + noise)).sum()) - np.log(values + noise).sum()
        for noise in NOISES
    ]
    inverse = 1 / (values + NOISES[int(np.argmax(likelihood))])
    left: np.ndarray = (vectors @ (turned * inverse)) / np.sqrt(vectors**2 @ inverse)
    return left
