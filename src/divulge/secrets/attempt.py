"""Run attacks on a challenge and measure their guesses against the truth."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from divulge._util.contents import quote_error
from divulge._util.progress import Track, track_silently
from divulge._util.random import stream
from divulge.core import (
    Attack,
    FederationView,
    Finding,
    Game,
    JointAttack,
    Measurements,
    Membership,
    MembershipAttack,
    ModelView,
    Need,
    Scores,
    Status,
    UpdateView,
)
from divulge.errors import DivulgeError, NotApplicable
from divulge.metrics.measure import measure
from divulge.secrets.wrapped import (
    PerPerson,
    attack_label,
    attack_settings,
    check_scores,
    stream_label,
)
from divulge.targets.budget import CountingTarget

G = TypeVar("G")


class AttackResult(NamedTuple):
    """What an attack showed, and the guess that shows it."""

    finding: Finding
    guess: Any
    """The guess, of the attack's kind; None if there is none."""
    error: Exception | None = None
    """Error that ended the attack; None if none did."""


class AttackScores(NamedTuple):
    """What an attack on a model gave."""

    scores: Scores
    queries: int = 0


class SharedScores:
    """What one attack gave the records of people, from which each rule makes its scores of people.

    Rules of an attack follow each other, so what one attack at a time gave is kept.
    """

    def __init__(self) -> None:
        self._attack: MembershipAttack | None = None
        self._kept: list[tuple[object, int, AttackScores]] = []

    def score(
        self,
        attack: MembershipAttack,
        view: ModelView,
        place: tuple[object, int],
        run: Callable[[MembershipAttack], AttackScores],
    ) -> AttackScores:
        """The scores of the candidates; those of records are computed once for all rules.

        Args:
            attack: on records, or on people.
            view: what it sees.
            place: the very object that tells one view from another, and a number: the seed, or that
                of a shadow model in the target's place.
            run: carries out an attack on records.
        """
        if not isinstance(attack, PerPerson):
            return run(attack)
        if self._attack is not attack.attack:
            self._attack, self._kept = attack.attack, []
        where, number = place
        earlier = (made for one, other, made in self._kept if one is where and other == number)
        made = next(earlier, None)
        if made is None:
            made = run(attack.attack)
            self._kept.append((where, number, made))
        return made._replace(scores=attack.combine(made.scores, view))


def attempt(
    attack: Attack[Any, Any],
    seed: int,
    guess: Callable[[np.random.Generator], G],
    measure: Callable[[G], Measurements],
) -> AttackResult:
    """One attack, whatever it attacks.

    An attack that cannot run or breaks ends as a finding that says why; nothing is dropped. It
    draws from a random stream of its own, so its result does not depend on the others; attacks on
    people that differ in their rule alone share one.

    Args:
        attack: for its name and settings.
        seed: of the audit.
        guess: carries it out.
        measure: holds what it guessed against the truth.
    """
    begun = time.perf_counter()
    finding = _start_finding(attack)
    try:
        guessed = guess(stream(seed, "attack", stream_label(attack)))
        metrics, unmeasured = measure(guessed)
    except Exception as error:  # whatever breaks inside an attack is a finding, not the end
        return AttackResult(_end_finding(finding, error), None, error)
    seconds = time.perf_counter() - begun
    done = dataclasses.replace(finding, metrics=metrics, unmeasured=unmeasured, seconds=seconds)
    return AttackResult(done, guessed)


def run_on_model(
    challenge: Game[ModelView, Membership],
    attack: MembershipAttack,
    seed: int = 0,
    delta: float = 0.0,
    measure_guess: Callable[[Scores, Membership, float], Measurements] = measure,
    shared: SharedScores | None = None,
) -> AttackResult:
    """One attack on one model; see `attempt` for what becomes of one that cannot run.

    Args:
        challenge: the model, the candidates and the truth.
        attack: on the model.
        seed: of the audit.
        delta: δ of the bound on ε.
        measure_guess: holds the guess against the truth, by this δ.
        shared: what attacks on people gave records already.
    """
    counting = CountingTarget(challenge.view.target)
    view, known = dataclasses.replace(challenge.view, target=counting), shared or SharedScores()

    def guess(rng: np.random.Generator) -> AttackScores:
        return known.score(
            attack,
            view,
            (challenge, seed),
            lambda inner: AttackScores(_guess(inner, view, rng), counting.query_count),
        )

    result = attempt(
        attack, seed, guess, lambda made: measure_guess(made.scores, challenge.truth, delta)
    )
    if result.guess is None:
        return result
    finding = dataclasses.replace(result.finding, queries=result.guess.queries)
    return result._replace(finding=finding, guess=result.guess.scores)


def run_on_clients(
    views: Sequence[UpdateView],
    measure: Callable[[Sequence[G]], Measurements],
    attack: Attack[UpdateView, G],
    seed: int = 0,
    track: Track[Any] = track_silently,
) -> AttackResult:
    """One attack on several clients of one federation, by what each sent.

    Args:
        views: one a client.
        measure: of all their guesses.
        attack: whose guess is about one client.
        seed: of the audit.
        track: shows progress.
    """
    result = attempt(attack, seed, lambda rng: _guesses(attack, views, rng, track), measure)
    if result.guess is None:
        return result
    how = _join_methods([method for guess in result.guess if (method := getattr(guess, "how", ""))])
    return result._replace(finding=dataclasses.replace(result.finding, how=how))


def run_on_federation(
    view: FederationView,
    measure: Callable[[G], Measurements],
    attack: Attack[FederationView, G],
    seed: int = 0,
    track: Track[Any] = track_silently,
) -> AttackResult:
    """One attack on the models of a federation's clients; arguments as of `run_on_clients`."""

    def guess(rng: np.random.Generator) -> G:
        _check_needs(attack, view.offers)
        with track.step(attack_label(attack)):
            return attack(view, rng)

    return attempt(attack, seed, guess, measure)


def _guess(attack: MembershipAttack, view: ModelView, rng: np.random.Generator) -> Scores:
    _check_needs(attack, view.offers)
    return check_scores(attack, attack(view, rng), len(view.records))


def _guesses(
    attack: Attack[UpdateView, G],
    views: Sequence[UpdateView],
    rng: np.random.Generator,
    track: Track[Any],
) -> Sequence[G]:
    for view in views:
        if missing := attack.needs & ~view.offers:
            raise NotApplicable(
                f"needs {missing.words()}, which client {view.victim!r} does not show"
            )
    guesses = _guess_in_order(attack, views, rng)
    return [next(guesses) for _ in track(views, attack_label(attack))]


def _guess_in_order(
    attack: Attack[UpdateView, G], views: Sequence[UpdateView], rng: np.random.Generator
) -> Iterator[G]:
    if isinstance(attack, JointAttack):
        yield from attack.many(views, rng)
    else:
        yield from (attack(view, rng) for view in views)


_WAYS = 3
"""Ways to a guess that a finding tells in full."""


def _join_methods(methods: Sequence[str]) -> str:
    """What guesses rest on: each way once; of many, those that begin alike by one of them."""
    if len(set(methods)) <= _WAYS:
        return "; or ".join(dict.fromkeys(methods))
    alike: dict[str, list[str]] = {}
    for method in methods:
        alike.setdefault(method.partition(":")[0], []).append(method)
    return "; or ".join(
        ones[0] if len(set(ones)) == 1 else f"{ones[0]} (and much alike for {len(ones) - 1} others)"
        for ones in alike.values()
    )


_OF_CLASSIFIERS = Need.PROBABILITIES | Need.HARD_LABELS | Need.AUTOGRAD


def _check_needs(attack: Attack[Any, Any], offers: Need) -> None:
    if missing := attack.needs & ~offers:
        why = ""
        if Need.VALUES in missing:
            why = ": it attacks regression models, and this model answers classes"
        elif Need.VALUES in offers and missing & _OF_CLASSIFIERS:
            why = ": it attacks classifiers, and this model answers a number"
        raise NotApplicable(
            f"needs {missing.words()}, which this audit does not have (it has {offers.words()})"
            f"{why}"
        )


def _start_finding(attack: Attack[Any, Any]) -> Finding:
    return Finding(
        label=attack_label(attack),
        attack=attack.name,
        paper=attack.paper,
        settings=attack_settings(attack),
        status=Status.DONE,
    )


def _end_finding(finding: Finding, error: Exception) -> Finding:
    """The finding of an attack that an error ended."""
    if isinstance(error, NotApplicable):
        return dataclasses.replace(finding, status=Status.NOT_APPLICABLE, reason=str(error))
    known = isinstance(error, DivulgeError)
    reason = str(error) if known else f"{type(error).__name__}: {quote_error(error)}"
    return dataclasses.replace(finding, status=Status.FAILED, reason=reason)
