"""Attacks around attacks: one with what the server had earlier, and one on people."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from divulge._util.json import JSON
from divulge.core import (
    Assignment,
    AssignmentAttack,
    Attack,
    FederationView,
    MembershipAttack,
    ModelView,
    Need,
    RecordedRounds,
    Scores,
)
from divulge.errors import SpecError
from divulge.metrics import people


@dataclass(frozen=True, slots=True)
class AfterRounds:
    """An attack on a federation with what the server had after its first rounds.

    Args:
        attack: attack on the clients' models and updates.
        rounds: number of rounds, from 1.
    """

    attack: AssignmentAttack
    rounds: int

    @property
    def name(self) -> str:
        """The name of the attack."""
        return self.attack.name

    @property
    def paper(self) -> str:
        """The paper of the attack."""
        return self.attack.paper

    @property
    def needs(self) -> Need:
        """What the attack needs, and the rounds."""
        return self.attack.needs | Need.UPDATES

    @property
    def further(self) -> dict[str, JSON]:
        """What tells it from the attack by itself."""
        return {"after_rounds": self.rounds}

    def __call__(self, view: FederationView, rng: np.random.Generator) -> Assignment:
        """The attack's guess."""
        return self.attack(self.restrict(view), rng)

    def restrict(self, view: FederationView) -> FederationView:
        """The view that the server had then.

        Raises:
            NotApplicable: a client had sent nothing of its own yet.
        """
        assert isinstance(view.updates, RecordedRounds)
        updates = view.updates.first(self.rounds)
        return replace(view, targets=updates.models(), updates=updates)


@dataclass(frozen=True, slots=True)
class PerPerson:
    """An attack on people with several records: it scores records, and a rule makes one score.

    Args:
        attack: attack on records.
        rule: how the score of a person is made of those of its records.
    """

    attack: MembershipAttack
    rule: people.Rule

    @property
    def name(self) -> str:
        """The name of the attack."""
        return self.attack.name

    @property
    def paper(self) -> str:
        """The paper of the attack."""
        return self.attack.paper

    @property
    def needs(self) -> Need:
        """What the attack needs."""
        return self.attack.needs

    @property
    def further(self) -> dict[str, JSON]:
        """What tells it from the attack by itself."""
        return {"person": self.rule}

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """One score a person, in the order in which people appear, and those of the records."""
        by_record = self.attack(view, rng)
        return self.combine(check_scores(self.attack, by_record, len(view.records)), view)

    def combine(self, by_record: Scores, view: ModelView) -> Scores:
        """The same from the scores of the records.

        Args:
            by_record: what the attack gave them.
            view: the records, and whose they are.
        """
        person = view.records.people
        assert person is not None
        return Scores(people.combine(by_record.score, person, self.rule), by_record.score)


def attack_people(
    attacks: Iterable[MembershipAttack], rules: Iterable[people.Rule]
) -> tuple[PerPerson, ...]:
    """Each attack on people, once for each rule."""
    chosen = tuple(rules)
    return tuple(PerPerson(attack, rule) for attack in attacks for rule in chosen)


def check_scores(attack: MembershipAttack, guess: Any, candidates: int) -> Scores:
    """Refuse what is no score a candidate.

    Raises:
        SpecError: an attack of the user's returned something else.
    """
    if not isinstance(guess, Scores):
        raise SpecError(
            f"expected divulge.Scores from {attack.name}, got {type(guess).__name__}: return "
            "Scores(score) with one number a candidate"
        )
    if guess.score.shape != (candidates,):
        raise SpecError(f"expected {candidates} scores, got an array of shape {guess.score.shape}")
    return guess


def stream_label(attack: Attack[Any, Any]) -> str:
    """The name of an attack's random stream: every rule combines the same scores of records."""
    return attack_label(attack.attack if isinstance(attack, PerPerson) else attack)


def unwrap(attack: Attack[Any, Any]) -> Attack[Any, Any]:
    """The attack that is carried out."""
    return attack.attack if isinstance(attack, AfterRounds | PerPerson) else attack


def attack_settings(attack: Attack[Any, Any]) -> dict[str, JSON]:
    """An attack's settings: the fields of its dataclass that its result depends on."""
    if isinstance(attack, AfterRounds | PerPerson):
        return {**attack_settings(attack.attack), **attack.further}
    return {
        field.name: getattr(attack, field.name)
        for field in fields(attack)  # type: ignore[arg-type]
        if field.metadata.get("identity", True)
    }


def attack_label(attack: Attack[Any, Any]) -> str:
    """The attack's name with the settings that tell it from others.

    Examples:
        >>> from divulge.attacks import Threshold
        >>> attack_label(Threshold(signal="margin"))
        'threshold(signal=margin)'
    """
    inner = unwrap(attack)
    shown = [
        f"{field.name}={getattr(inner, field.name)}"
        for field in fields(inner)  # type: ignore[arg-type]
        if field.name in attack_settings(inner)
        and (field.name == "signal" or getattr(inner, field.name) != field.default)
    ]
    if isinstance(attack, AfterRounds | PerPerson):
        shown += [f"{name}={value}" for name, value in attack.further.items()]
    return f"{attack.name}({', '.join(shown)})" if shown else attack.name
