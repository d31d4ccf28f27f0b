"""Run attacks on a challenge and measure their guesses against the truth."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from leakscope.core import (
    Attack,
    Challenge,
    CompositionAttack,
    Estimate,
    Finding,
    Joint,
    Membership,
    MembershipAttack,
    ModelView,
    Proportions,
    Scores,
    Status,
    UpdateView,
)
from leakscope.errors import LeakscopeError, NotApplicable, SpecError
from leakscope.metrics import composition, membership
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


Mixes = Sequence[Proportions]
"""Class shares, one entry a client."""


class Result(NamedTuple):
    """What an attack showed, and the guess that shows it (None if there is none)."""

    finding: Finding
    guess: Scores | None


class MixResult(NamedTuple):
    """What an attack on updates showed, and its guesses (None if there are none)."""

    finding: Finding
    guesses: Mixes | None


def measure(guess: Scores | Mixes, truth: Membership | Mixes, delta: float = 0.0) -> Measured:
    """Every metric of a guess, each with its 95 % interval.

    Args:
        guess: about membership, or about the class shares of several clients.
        truth: of the same kind.
        delta: of the bound on ε.

    Raises:
        DataError: a score is not finite, or everybody is a member, or nobody; or shares are of
            other classes.
    """
    if isinstance(guess, Scores) and isinstance(truth, Membership):
        return _of_membership(guess, truth, delta)
    assert not isinstance(guess, Scores)
    assert not isinstance(truth, Membership)
    return _of_composition(guess, truth)


def _of_composition(guess: Mixes, truth: Mixes) -> Measured:
    if len(truth) < 2:
        why = f"needs two clients or more for an interval, there is {len(truth)}"
        return Measured({}, dict.fromkeys(composition.METRICS, why))
    nulls, unmeasured = composition.null_classes(guess, truth)
    return Measured({**composition.distances(guess, truth), **nulls}, unmeasured)


def _of_membership(guess: Scores, truth: Membership, delta: float) -> Measured:
    """The metrics of membership.

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


def settings(attack: Attack[Any, Any]) -> dict[str, Any]:
    """An attack's settings: the fields of its dataclass."""
    return {
        field.name: getattr(attack, field.name)
        for field in dataclasses.fields(attack)  # type: ignore[arg-type]
    }


def label(attack: Attack[Any, Any]) -> str:
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
    finding = _begun(attack)
    try:
        guess = _guess(attack, view, stream(seed, "attack", finding.label))
        metrics, unmeasured = measure(guess, challenge.truth, delta)
    except Exception as error:  # whatever breaks inside an attack is a finding, not the end
        return Result(_ended(finding, error), None)
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


def run_on_updates(
    challenge: Challenge[Sequence[UpdateView], Mixes | None],
    attack: CompositionAttack,
    seed: int = 0,
) -> MixResult:
    """One attack on several clients of one federation; without a truth there are guesses alone.

    As with `run`, what cannot run or breaks is a finding that says why.
    """
    begun = time.perf_counter()
    finding = _begun(attack)
    try:
        guesses = _guesses(attack, challenge.view, stream(seed, "attack", finding.label))
        none = dict.fromkeys(composition.METRICS, "nobody said what the clients hold")
        truth = challenge.truth
        measured = Measured({}, none) if truth is None else measure(guesses, truth)
    except Exception as error:  # as above
        return MixResult(_ended(finding, error), None)
    hows = dict.fromkeys(guess.how for guess in guesses if guess.how)
    done = dataclasses.replace(
        finding,
        metrics=measured.metrics,
        unmeasured=measured.unmeasured,
        how="; or ".join(hows),
        seconds=time.perf_counter() - begun,
    )
    return MixResult(done, guesses)


def _guesses(
    attack: CompositionAttack, views: Sequence[UpdateView], rng: np.random.Generator
) -> Mixes:
    for view in views:
        if missing := attack.needs & ~view.offers:
            raise NotApplicable(
                f"needs {missing.words()}, which client {view.victim!r} does not show"
            )
    if isinstance(attack, Joint):
        together: Mixes = attack.many(views, rng)
        return together
    return [attack(view, rng) for view in views]


def _begun(attack: Attack[Any, Any]) -> Finding:
    return Finding(
        label=label(attack),
        attack=attack.name,
        paper=attack.paper,
        settings=settings(attack),
        status=Status.DONE,
    )


def _ended(finding: Finding, error: Exception) -> Finding:
    """The finding of an attack that an error ended."""
    if isinstance(error, NotApplicable):
        return dataclasses.replace(finding, status=Status.NOT_APPLICABLE, reason=str(error))
    known = isinstance(error, LeakscopeError)
    reason = str(error) if known else f"{type(error).__name__}: {error}"
    return dataclasses.replace(finding, status=Status.FAILED, reason=reason)
