"""Run attacks on a challenge and measure their guesses against the truth."""

import dataclasses
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from leakscope.core import (
    Challenge,
    Estimate,
    Finding,
    Membership,
    MembershipAttack,
    ModelView,
    Scores,
    Status,
)
from leakscope.errors import LeakscopeError, NotApplicable, SpecError
from leakscope.metrics import membership
from leakscope.metrics.audit_epsilon import epsilon_lower_bound
from leakscope.randomness import stream
from leakscope.targets.counting import Counting

FPRS = (0.1, 0.01, 0.001)
"""False-positive rates reported: 10 %, 1 %, 0.1 %."""

PRIORS = (0.5, 0.1, 0.01)
"""Shares of members among an attacker's candidates for which precision is reported."""

PRECISION_FPR = 0.01

METRICS = (
    "auc",
    *(f"tpr@{fpr:g}" for fpr in FPRS),
    "advantage",
    "balanced_accuracy",
    *(f"precision@{PRECISION_FPR:g}:{prior:g}" for prior in PRIORS),
    "epsilon",
)
"""The names of all metrics of a membership attack."""


class Measured(NamedTuple):
    """Metrics, and the ones that these sizes cannot support, each with the reason."""

    metrics: Mapping[str, Estimate]
    unmeasured: Mapping[str, str]


class Result(NamedTuple):
    """What an attack showed, and the guess that shows it (None if there is none)."""

    finding: Finding
    guess: Scores | None


def measure(guess: Scores, truth: Membership, delta: float = 0.0) -> Measured:
    """Every metric of a guess, each with its 95 % interval.

    Names: ``auc``, ``tpr@FPR``, ``advantage``, ``balanced_accuracy``, ``precision@FPR:PRIOR``,
    ``epsilon`` (a lower bound at this δ).

    Raises:
        DataError: a score is not finite, or everybody is a member, or nobody.
    """
    score, member = guess.score, truth.member
    metrics = {"auc": membership.auc(score, member)}
    unmeasured: dict[str, str] = {}
    for fpr in FPRS:
        try:
            metrics[f"tpr@{fpr:g}"] = membership.tpr_at_fpr(score, member, fpr)
        except membership.Unmeasurable as error:
            unmeasured[f"tpr@{fpr:g}"] = str(error)
    try:
        metrics["advantage"] = membership.advantage(score, member)
        metrics["balanced_accuracy"] = membership.balanced_accuracy(metrics["advantage"])
    except membership.Unmeasurable as error:
        unmeasured["advantage"] = unmeasured["balanced_accuracy"] = str(error)
    for prior in PRIORS:
        name, tpr = f"precision@{PRECISION_FPR:g}:{prior:g}", f"tpr@{PRECISION_FPR:g}"
        if tpr in metrics:
            metrics[name] = membership.precision_at_fpr(metrics[tpr], PRECISION_FPR, prior)
        else:
            unmeasured[name] = unmeasured[tpr]
    try:
        metrics["epsilon"] = epsilon_lower_bound(score, member, delta)
    except membership.Unmeasurable as error:
        unmeasured["epsilon"] = str(error)
    return Measured(metrics, unmeasured)


def settings(attack: MembershipAttack) -> dict[str, Any]:
    """An attack's settings: the fields of its dataclass."""
    return {
        field.name: getattr(attack, field.name)
        for field in dataclasses.fields(attack)  # type: ignore[arg-type]
    }


def label(attack: MembershipAttack) -> str:
    """The attack's name with the settings that tell it from others.

    Examples:
        >>> from leakscope.attacks.threshold import Threshold
        >>> label(Threshold(signal="margin"))
        'threshold(signal=margin)'
    """
    shown = [
        f"{field.name}={getattr(attack, field.name)}"
        for field in dataclasses.fields(attack)  # type: ignore[arg-type]
        if field.name == "signal" or getattr(attack, field.name) != field.default
    ]
    return f"{attack.name}({', '.join(shown)})" if shown else attack.name


def run(
    challenge: Challenge[ModelView, Membership],
    attack: MembershipAttack,
    seed: int = 0,
    delta: float = 0.0,
) -> Result:
    """One attack on one challenge.

    An attack that cannot run or breaks ends as a finding that says why; nothing is dropped. It
    draws from a random stream of its own, so its result does not depend on the others.
    """
    begun = time.perf_counter()
    counting = Counting(challenge.view.target)
    view = dataclasses.replace(challenge.view, target=counting)
    finding = Finding(
        label=label(attack),
        attack=attack.name,
        paper=attack.paper,
        settings=settings(attack),
        status=Status.DONE,
    )
    try:
        guess = _guess(attack, view, stream(seed, "attack", finding.label))
        metrics, unmeasured = measure(guess, challenge.truth, delta)
    except NotApplicable as error:
        return Result(
            dataclasses.replace(finding, status=Status.NOT_APPLICABLE, reason=str(error)), None
        )
    except Exception as error:  # whatever breaks inside an attack is a finding, not the end
        known = isinstance(error, LeakscopeError)
        reason = str(error) if known else f"{type(error).__name__}: {error}"
        return Result(dataclasses.replace(finding, status=Status.FAILED, reason=reason), None)
    return Result(
        dataclasses.replace(
            finding,
            metrics=metrics,
            unmeasured=unmeasured,
            queries=counting.asked,
            seconds=time.perf_counter() - begun,
        ),
        guess,
    )


def _guess(attack: MembershipAttack, view: ModelView, rng: np.random.Generator) -> Scores:
    missing = attack.needs & ~view.offers
    if missing:
        raise NotApplicable(
            f"needs {missing.words()}, which this audit does not have "
            f"(it has {view.offers.words()})"
        )
    guess = attack(view, rng)
    if guess.score.shape != (len(view.records),):
        raise SpecError(
            f"expected {len(view.records)} scores, got an array of shape {guess.score.shape}"
        )
    return guess
