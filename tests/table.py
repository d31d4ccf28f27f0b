"""What every membership attack must do, written once; each function asserts one property."""

import dataclasses
import json
import pickle
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from divulge.audits import attempt
from divulge.audits.controls import fewest_covered
from divulge.core import MembershipAttack, ModelView, Need, Scores, Status, Target
from divulge.errors import NotApplicable
from divulge.metrics import membership

from . import worlds

Property = Callable[[MembershipAttack], None]


def guess(attack: MembershipAttack, view: ModelView, seed: int = 0) -> np.ndarray:
    return attack(view, np.random.default_rng(seed)).score


def finds_a_leak(attack: MembershipAttack) -> None:
    found = attempt.run(worlds.leaky(), attack).finding
    assert found.status is Status.DONE, found.reason
    assert found.metrics["auc"].low > 0.5


def finds_a_leak_in_two_ways(attack: MembershipAttack) -> None:
    found = attempt.run(worlds.two_ways(worlds.leaky(), 0), attack).finding
    assert found.status is Status.DONE, found.reason
    assert found.metrics["auc"].low > 0.5


def sees_nothing_where_nothing_leaks(attack: MembershipAttack, *, ways: int = 1) -> None:
    runs = 20
    covered = 0
    for seed in range(runs):
        challenge = worlds.silent(seed)
        if ways == 2:
            challenge = worlds.two_ways(challenge, seed)
        score = guess(attack, challenge.view, seed)
        covered += 0.5 in membership.auc(score, challenge.truth.member)
    assert covered >= fewest_covered(runs)


def repeats_itself(attack: MembershipAttack) -> None:
    view = worlds.leaky().view
    np.testing.assert_array_equal(guess(attack, view, 5), guess(attack, view, 5))


def leaves_the_view_alone(attack: MembershipAttack) -> None:
    view = worlds.leaky().view
    assert view.reference is not None
    before = pickle.dumps((view.records.x, view.records.y, view.reference.x, view.reference.y))
    guess(attack, view)
    after = pickle.dumps((view.records.x, view.records.y, view.reference.x, view.reference.y))
    assert before == after


def permutes_with_the_records(attack: MembershipAttack) -> None:
    view = worlds.leaky().view
    order = np.random.default_rng(1).permutation(len(view.records))
    moved = worlds.part(view, order)
    np.testing.assert_allclose(guess(attack, moved), guess(attack, view)[order], atol=1e-9)


@dataclasses.dataclass(frozen=True)
class _Poorer:
    """A target that offers less."""

    target: Target
    offers: Need

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.target.predict(x)


def says_when_it_cannot_run(attack: MembershipAttack) -> None:
    challenge = worlds.leaky()
    for flag in attack.needs & ~Need.LABELS:
        view = dataclasses.replace(
            challenge.view,
            target=_Poorer(challenge.view.target, challenge.view.target.offers & ~flag),
            reference=None if flag is Need.REFERENCE else challenge.view.reference,
            shadows=None if flag is Need.SHADOWS else challenge.view.shadows,
        )
        poor = dataclasses.replace(challenge, view=view)
        found = attempt.run(poor, attack).finding
        assert found.status is Status.NOT_APPLICABLE
        assert flag.words() in found.reason
        assert not found.metrics


def has_settings_that_json_can_hold(attack: MembershipAttack) -> None:
    settings = attempt.settings(attack)
    assert type(attack)(**json.loads(json.dumps(settings))) == attack


def names_its_paper(attack: MembershipAttack) -> None:
    assert any(character.isdigit() for character in attack.paper)
    assert "References:" in (type(attack).__doc__ or "")


def gives_one_finite_score_a_record(attack: MembershipAttack) -> None:
    challenge = worlds.leaky()
    for count in (1, 2, 7):
        try:
            score = guess(attack, worlds.part(challenge.view, np.arange(count)))
        except NotApplicable as error:
            assert "candidates" in str(error)  # noqa: PT017 (an attack may ask for more records)
            assert count < 7
            continue
        assert score.shape == (count,)
        assert np.isfinite(score).all()


def scores_constant_answers_alike(attack: MembershipAttack) -> None:
    """A model that says the same of every record gives nothing to rank by but what is known
    without it: the label, and what shadows say of the record."""

    class Constant:
        offers = Need.PROBABILITIES | Need.HARD_LABELS | Need.FEATURES

        def predict(self, x: np.ndarray) -> np.ndarray:
            return np.full((len(x), worlds.CLASSES), 1 / worlds.CLASSES)

    view = dataclasses.replace(worlds.leaky().view, target=Constant())
    score = guess(attack, view)
    assert np.isfinite(score).all()
    if attack.needs & Need.PROBABILITIES and not attack.needs & Need.SHADOWS:
        np.testing.assert_allclose(score, score[0], atol=1e-9)


PROPERTIES: tuple[Property, ...] = (
    finds_a_leak,
    sees_nothing_where_nothing_leaks,
    repeats_itself,
    leaves_the_view_alone,
    permutes_with_the_records,
    says_when_it_cannot_run,
    has_settings_that_json_can_hold,
    names_its_paper,
    gives_one_finite_score_a_record,
    scores_constant_answers_alike,
)


@dataclasses.dataclass(frozen=True)
class CoinFlip:
    """Guesses; must fail the tables.

    References:
        None, 2026.
    """

    name: ClassVar[str] = "coin-flip"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.LABELS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        return Scores(rng.random(len(view.records)))


@dataclasses.dataclass(frozen=True)
class SignFlipped:
    """The loss with the wrong sign; must fail the tables.

    References:
        A published tool, 2025.
    """

    name: ClassVar[str] = "sign-flipped"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.PROBABILITIES | Need.LABELS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        from divulge.attacks.membership.threshold import Threshold

        return Scores(-Threshold()(view, rng).score)


@dataclasses.dataclass(frozen=True)
class Jumpy:
    """Finds a leak where there is none, by peeking at the truth; must fail the tables.

    References:
        None, 2026.
    """

    name: ClassVar[str] = "jumpy"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.LABELS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        challenge = next(
            worlds.silent(seed)
            for seed in range(30)
            if worlds.silent(seed).view.records is view.records
        )
        return Scores(challenge.truth.member + 2 * rng.normal(size=len(view.records)))
