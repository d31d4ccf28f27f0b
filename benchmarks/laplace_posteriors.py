"""Quality: a Laplace posterior around one reference model, in place of shadow models."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from scipy import special

from benchmarks.shadow_quality.tasks import TASKS
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.core import ModelView, PoolPredictions, Records, Shadows, Target, as_white_box
from divulge.metrics import intervals, membership, signals
from divulge.metrics.softened import softened_log_probability

SUMMARY = "BMIA and LSET-Laplace, with one reference model, less rmia with the same model"

NAMES = ("location-30", "mnist")
"""Targets whose models can be looked into."""

DRAWS = 50
"""Last layers that are drawn, as in LeakPro's BMIA."""

PRECISIONS = np.logspace(-4, 4, 41)
"""Prior precisions of which the one with the highest evidence is taken."""

Half = Bool[np.ndarray, " records"]


class Posterior(NamedTuple):
    """Of the last layer of a model: Gaussian, with a Kronecker-factored precision."""

    precision: Float64[np.ndarray, "features classes"]
    """In the eigenbases of both factors."""
    features: Float64[np.ndarray, "features features"]
    classes: Float64[np.ndarray, "classes classes"]


def run(quick: bool) -> None:  # noqa: FBT001 (like all)
    """Print the mean over targets of each attack, and its paired difference to rmia.

    Raises:
        MissingData: the data is not at hand.
    """
    for name in NAMES:
        rows_by_attack: dict[str, list[list[float]]] = {}
        for seed in range(2 if quick else 4):
            for attack, row in _measure(name, seed).items():
                rows_by_attack.setdefault(attack, []).append(row)
        print(f"{name}: {seed + 1} targets, AUC, TPR at 1 % and at 0.1 %, and each less rmia's")
        for attack, rows in rows_by_attack.items():
            apart = np.subtract(rows, rows_by_attack["rmia"]).T
            limits = (intervals.student_mean(list(column)) for column in apart)
            cells = [
                f"{value:.3f} ({column.mean():+.3f} [{low:+.3f}, {high:+.3f}])"
                for value, column, (low, high) in zip(np.mean(rows, 0), apart, limits, strict=True)
            ]
            print(f"{attack:14}", *cells)


def _measure(name: str, seed: int) -> dict[str, list[float]]:
    task, rng = TASKS[name], stream(seed, "laplace posteriors", name)
    records, size = task.records(), task.size
    own, theirs = (records.take(np.arange(k * size, (k + 1) * size)) for k in range(2))
    outside = records.take(np.arange(2 * size, 2 * size + task.reference))
    member, taught = (rng.permutation(size) < size // 2 for _ in range(2))
    (target,) = task.trainer().many(own, member[None], [seed])
    (reference,) = task.trainer().many(theirs, taught[None], [seed + 50])
    view = _view(target, reference, own, outside, theirs, taught)
    scores = {
        "BMIA": _bmia(target, reference, theirs.take(taught), own, rng),
        "LSET-Laplace": _lset_laplace(target, reference, theirs.take(taught), own),
        **{
            attack: catalog.attack(attack)(view, rng).score
            for attack in ("rmia", "calibrated", "base")
        },
    }
    return {
        attack: [
            membership.auc(score, member).value,
            *(membership.tpr_at_fpr(score, member, fpr).value for fpr in (0.01, 0.001)),
        ]
        for attack, score in scores.items()
    }


def _view(
    target: Target, model: Target, own: Records, outside: Records, pool: Records, taught: Half
) -> ModelView:
    """The view of an attacker with the reference model as its only shadow model."""
    phi, reference_phi, known = (
        signals.compute_phi(model.predict(group.x), group)[:, None]
        for group in (own, outside, pool)
    )
    softened = softened_log_probability(model.predict(own.x), own.y)[:, None]
    shadows = Shadows(
        phi,
        np.zeros_like(phi, np.bool_),
        reference_phi,
        pool=PoolPredictions(pool.y, known, taught[:, None]),
        softened=(softened,),
    )
    return ModelView(target, own, outside, shadows)


def _posterior(model: Target, taught: Records) -> Posterior:
    """Laplace's, with the prior precision of the highest evidence (MacKay 1992)."""
    inner, p = as_white_box(model).last_layer(taught.x), model.predict(taught.x)
    features = _with_bias(inner.features)
    # the Gauss-Newton matrix of softmax: the sum over records of (diag p - p p') times h h'
    sizes, left = np.linalg.eigh(features.T @ features)
    bends, right = np.linalg.eigh((np.diag(p.sum(axis=0)) - p.T @ p) / len(p))
    curvature = np.outer(np.maximum(sizes, 0), np.maximum(bends, 0))
    norm = float((inner.weights**2).sum())
    evidence = [
        curvature.size * np.log(tau) - tau * norm - np.log(curvature + tau).sum()
        for tau in PRECISIONS
    ]
    return Posterior(curvature + PRECISIONS[int(np.argmax(evidence))], left, right)


def _with_bias(features: np.ndarray) -> Float64[np.ndarray, "records features"]:
    return np.column_stack([features, np.ones(len(features))]).astype(np.float64)


def _log_p(model: Target, records: Records) -> Float64[np.ndarray, "records classes"]:
    log_p: Float64[np.ndarray, "records classes"] = np.log(
        np.maximum(model.predict(records.x), signals.SMALLEST)
    )
    return log_p


def _bmia(
    target: Target, model: Target, taught: Records, own: Records, rng: np.random.Generator
) -> Float64[np.ndarray, " records"]:
    """Standard deviations of φ above its mean over drawn last layers (Liu et al. 2025)."""
    posterior = _posterior(model, taught)
    inputs = _with_bias(as_white_box(model).last_layer(own.x).features) @ posterior.features
    logits, drawn = _log_p(model, own), []
    for _ in range(DRAWS):
        change = rng.normal(size=posterior.precision.shape) / np.sqrt(posterior.precision)
        moved = logits + inputs @ change @ posterior.classes.T
        drawn.append(signals.compute_phi(special.softmax(moved, axis=1), own))
    phi = signals.compute_phi(target.predict(own.x), own)
    score: Float64[np.ndarray, " records"] = (phi - np.mean(drawn, 0)) / (np.std(drawn, 0) + 1e-6)
    return score


def _lset_laplace(
    target: Target, model: Target, taught: Records, own: Records
) -> Float64[np.ndarray, " records"]:
    """Log p at temperature 2 less that which the posterior expects, by the probit link."""
    posterior = _posterior(model, taught)
    inputs = _with_bias(as_white_box(model).last_layer(own.x).features) @ posterior.features
    variance = inputs**2 @ (1 / posterior.precision) @ posterior.classes.T**2
    expected = special.log_softmax(_log_p(model, own) / np.sqrt(1 + np.pi / 8 * variance), axis=1)
    own_log_p = softened_log_probability(target.predict(own.x), own.y)
    score: Float64[np.ndarray, " records"] = own_log_p - expected[np.arange(len(own)), own.y]
    return score
