"""Is the target like its shadow models? Attacks suppose that it was trained as they were."""

import math
import warnings
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int
from scipy import special

from divulge._util.extras import stats
from divulge.attacks.shared.shadow_signals import read_blocks
from divulge.core import Check, Estimate, ModelView, Need, PoolPredictions, Shadows, Verdict
from divulge.core.check_names import ALL, OTHERS, SHADOWS
from divulge.metrics import intervals, people

UNLIKE = 1e-3
"""A target that is one more shadow model is called unlike them with at most this probability."""

ONE_SIDED = 1.645
"""Standard errors of a one-sided limit at 95 %: the margin of `ALL`; that of `OTHERS` is one."""


People = Int[np.ndarray, " records"] | None
"""Whose record each is; None where each is somebody else's."""


class Quality(NamedTuple):
    """How well models do on records of one group."""

    mean: Float64[np.ndarray, " models"]
    """Mean over records."""
    variance: Float64[np.ndarray, " models"]
    """Variance of that mean, from the spread over records."""
    freedom: float
    """Degrees of freedom of the variance."""


def check_shadow_models(
    view: ModelView, member: Bool[np.ndarray, " records"], pool_people: People = None
) -> Check:
    """Does the target do as well as its shadow models, on members and on non-members?

    What is compared is the mean probability of the true class, or the mean absolute error of a
    regression model. For a target that was trained as its shadows were, on records drawn alike, the
    difference between its mean and that of K shadows has the variance s² (1 + 1/K) of the models,
    estimated from the K means, and those of the records asked about, which count once more so that
    no overlap of the records matters. Welch's test says whether it is larger than that, corrected
    for the two groups.

    Args:
        view: with shadow models.
        member: which candidates are members of the target.
        pool_people: whose record each of the pool of offline shadows is, where records are grouped
            by person: a person then counts once, with the mean of its records.

    Raises:
        TargetError: the model failed.
    """
    assert view.shadows is not None
    regression, person = view.records.regression, view.records.people
    own = _own_quality(view)
    estimates, unlike = {}, []
    for group, mask, shadows in zip(
        ("members", "non-members"),
        (member, ~member),
        _qualities(view.shadows, person, pool_people, regression=regression),
        strict=True,
    ):
        target = _of_target(_mean_by_person(own[mask], None if person is None else person[mask]))
        highest = np.inf if regression else 1.0
        normal = intervals.normal_quantile(0.975)
        estimates[f"{group}, this model"] = _around(target.mean, target.variance, normal, highest)
        count = len(shadows.mean)
        if count < 2:
            continue
        estimates[f"{group}, shadows"] = _around(
            shadows.mean,
            np.var(shadows.mean, ddof=1, keepdims=True) / count,
            float(stats.t.ppf(0.975, count - 1)),
            highest,
        )
        if _differ(target, shadows):
            unlike.append(group)
    if view.shadows.online and view.shadows.phi.shape[1] > 1:
        estimates |= _surprises(view.shadows, own, member, person, regression=regression)
    what = "mean absolute error" if regression else "mean probability of the true class"
    if unlike:
        text = (
            f"On {' and '.join(unlike)} this model is unlike its shadow models by the {what}. "
            "Attacks with shadow models then compare unlike models, and may find less than there "
            "is. Train the shadows exactly as the model was trained, on as many records."
        )
        return Check(SHADOWS, Verdict.WARNING, text, estimates)
    text = f"The {what} of this model beside that of its shadow models; no difference shows."
    return Check(SHADOWS, Verdict.PASS, text, estimates)


def _own_quality(view: ModelView) -> Float64[np.ndarray, " records"]:
    """The target's error about each candidate, or its probability of the true class."""
    answers = view.target.predict(view.records.x)
    if view.records.regression:
        return np.asarray(np.abs(view.records.y - answers[:, 0]))
    if Need.TOKENS in view.target.offers:  # mean log-probabilities, whose exp shadow models answer
        return np.asarray(np.exp(answers[:, 0]))
    return np.asarray(answers[np.arange(len(answers)), view.records.y])


def _mean_by_person(
    quality: Float64[np.ndarray, " records"], person: People
) -> Float64[np.ndarray, " people"]:
    """The mean quality of each person's records; of a record by itself its own."""
    return quality if person is None else people.combine(quality, person, "mean")


def _qualities(
    shadows: Shadows, person: People, pool_people: People, *, regression: bool
) -> tuple[Quality, Quality]:
    """Of the shadows on records that they were trained on, and on others.

    Offline shadows were trained on their pool alone; what they were trained on is unknown where
    nobody asked them about it.
    """
    predictions = shadows if shadows.online or shadows.pool is None else shadows.pool
    whose = person if predictions is shadows else pool_people
    count = shadows.phi.shape[1]
    if whose is not None:
        return _qualities_by_person(predictions, whose, regression=regression)
    inside, outside = np.zeros((3, count)), np.zeros((3, count))
    for block in read_blocks(predictions):
        quality = np.abs(block.phi[0]) if regression else special.expit(block.phi[0])
        moments = np.stack([np.ones_like(quality), quality, quality**2])
        inside += (moments * block.member).sum(axis=1)
        outside += (moments * ~block.member).sum(axis=1)
    return _quality(inside), _quality(outside)


def _qualities_by_person(
    predictions: Shadows | PoolPredictions, person: Int[np.ndarray, " records"], *, regression: bool
) -> tuple[Quality, Quality]:
    """The same where shadows learned from all records of a person or from none."""
    total = np.zeros((int(person.max()) + 1, predictions.phi.shape[1]))
    member = np.zeros(total.shape, np.bool_)
    for block in read_blocks(predictions):
        quality = np.abs(block.phi[0]) if regression else special.expit(block.phi[0])
        np.add.at(total, person[block.rows], quality)
        member[person[block.rows]] = block.member
    quality = total / np.bincount(person)[:, None]
    moments = np.stack([np.ones_like(quality), quality, quality**2])
    inside, outside = ((moments * mask).sum(axis=1) for mask in (member, ~member))
    return _quality(inside), _quality(outside)


def _quality(sums: Float64[np.ndarray, "3 models"]) -> Quality:
    """Of models that were asked about at least two records of the group."""
    number, total, squares = sums[:, sums[0] >= 2]
    mean = total / number
    spread = np.maximum(0.0, squares / number - mean**2) * number / (number - 1)
    return Quality(mean, spread / number, float(number.sum() - len(number)))


def _of_target(quality: Float64[np.ndarray, " records"]) -> Quality:
    count = len(quality)
    variance = np.var(quality, ddof=1) / count if count > 1 else np.nan
    return Quality(np.array([quality.mean()]), np.array([variance]), count - 1)


def _surprises(
    shadows: Shadows,
    own: Float64[np.ndarray, " records"],
    member: Bool[np.ndarray, " records"],
    person: People,
    *,
    regression: bool,
) -> dict[str, Estimate]:
    """How much surer the target is than shadows that did not learn from a record.

    Online shadows learn from both sets. Where these differ, shadows do better on non-members than
    a target that learned from members alone, and as much worse on members: attacks that compare the
    two then find members that nobody learned from. Over all candidates that cancels, and a leak
    does not. An error has two parts, of records and of models, as in `check_shadow_models`.
    """
    surer, means = np.empty(len(own)), []
    for block in read_blocks(shadows):
        quality = -np.abs(block.phi[0]) if regression else special.expit(block.phi[0])
        outside = np.where(block.member, np.nan, quality)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a record in all shadows has no mean
            expected = np.nanmean(outside, axis=1)
        surer[block.rows] = (-own[block.rows] if regression else own[block.rows]) - expected
        means.append(outside - expected[:, None])
    each = np.nanmean(np.concatenate(means), axis=0)
    models = float(np.nanvar(each, ddof=1)) * (1 + 1 / len(each))
    known = np.isfinite(surer)
    groups = ((ALL, known, ONE_SIDED), (OTHERS, known & ~member, 1.0))
    return {
        name: _with_error(
            _mean_by_person(surer[mask], None if person is None else person[mask]), models, errors
        )
        for name, mask, errors in groups
    }


def _with_error(surer: Float64[np.ndarray, " records"], models: float, errors: float) -> Estimate:
    """The mean, give or take so many standard errors; unlimited if nothing is known of them."""
    if len(surer) < 2:
        return Estimate(0.0, -1.0, 1.0)
    mean = float(surer.mean())
    margin = errors * math.sqrt(float(surer.var(ddof=1)) / len(surer) + models)
    return Estimate(mean, mean - margin, mean + margin)


def _around(
    means: Float64[np.ndarray, " models"],
    variance: Float64[np.ndarray, "1"],
    quantile: float,
    highest: float,
) -> Estimate:
    """The mean of the models, whose variance is given; that of one record has no upper limit."""
    mean, margin = float(means.mean()), quantile * float(variance[0]) ** 0.5
    if np.isnan(margin):
        return Estimate(mean, 0.0, None)
    return Estimate(mean, max(0.0, mean - margin), min(highest, mean + margin))


def _differ(target: Quality, shadows: Quality) -> bool:
    """Welch's test, with degrees of freedom after Satterthwaite."""
    variance = target.variance[0]
    if np.isnan(variance):
        return False
    count = len(shadows.mean)
    models = np.var(shadows.mean, ddof=1) * (1 + 1 / count)
    records = variance + shadows.variance.mean()
    distance = abs(target.mean[0] - shadows.mean.mean())
    if not models + records:
        return bool(distance > 0)
    freedom = (models + records) ** 2 / (models**2 / (count - 1) + records**2 / target.freedom)
    return bool(distance > stats.t.isf(UNLIKE / 4, freedom) * (models + records) ** 0.5)
