"""Try on one attack what every attack must do, before its results are believed."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from divulge._util.arguments import check_arguments
from divulge._util.json import JSON
from divulge._util.redaction import redact_foreign
from divulge._util.registry import build
from divulge.attacks import catalog, own
from divulge.core import Status
from divulge.errors import DivulgeError, SpecError, did_you_mean
from divulge.secrets import wrapped
from divulge.secrets.registry import SECRETS
from divulge.testing.properties import PROPERTIES, Case, Property, PropertyError, World

Outcome = Literal["passed", "failed", "undecided"]


@dataclass(frozen=True, slots=True)
class PropertyRow:
    """One property of an attack."""

    name: str
    """The property: finds_a_leak."""
    sentence: str
    """What an attack with the property does."""
    outcome: Outcome
    """Undecided where no small game suits the attack."""
    reason: str = ""
    """How it failed, or why nothing was decided."""


@dataclass(frozen=True, slots=True)
class AttackCheck:
    """Which properties an attack has."""

    attack: str
    """The attack's name with its settings."""
    secret: str
    """What it is after: membership, assignment, composition or interactions."""
    rows: tuple[PropertyRow, ...]

    @property
    def outcome(self) -> Outcome:
        """Failed if one property failed; passed if all passed."""
        outcomes = {row.outcome for row in self.rows}
        worst: tuple[Outcome, ...] = ("failed", "undecided")
        return next((outcome for outcome in worst if outcome in outcomes), "passed")

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        passed = sum(row.outcome == "passed" for row in self.rows)
        yield f"{self.attack}, an attack on {self.secret}: {passed} of {len(self.rows)} passed"
        for row in self.rows:
            yield f"{row.outcome:<9}  {row.sentence}"
            if row.reason:
                yield f"{'':<9}  {row.reason}"


@check_arguments
def check_attack(
    attack: Any, *, settings: Mapping[str, JSON] | None = None, about: str | None = None
) -> AttackCheck:
    """Try on an attack what every attack must do, in small games with a known truth.

    It takes seconds, for some attacks minutes. The games need no data; attacks on updates and on
    interactions need the extra ``federated``.

    Args:
        attack: the attack, or its name: ``mine.py:Surest``, or one of the catalogue.
        settings: of an attack that is given by its name.
        about: the secret that it is after: membership, assignment, composition or interactions.
            Needed only where its ``__call__`` is not annotated with what it returns.

    Raises:
        SpecError: it is no attack, or its secret is not known.

    Examples:
        >>> found = check_attack("nobody")  # which looks at nothing
        >>> found.outcome, [row.name for row in found.rows if row.outcome == "failed"]
        ('failed', ['finds_a_leak'])
    """
    built = _build(attack, dict(settings or {}))
    about = about or own.secret_of(type(built))
    if about is None:
        first, *others = (secret.guess.__name__ for secret in SECRETS.values())
        raise SpecError(
            f"expected {type(built).__name__}.__call__ to say what it returns, it does not: write "
            f"-> {first} (or {', '.join(others)}) behind it, or say which "
            f"secret it is about: {', '.join(SECRETS)}"
        )
    if about not in SECRETS:
        raise SpecError(f"expected a secret, got {about!r}: {did_you_mean(about, SECRETS)}")
    label, worlds = wrapped.attack_label(built), SECRETS[about].games()
    world, why = _find_world(built, worlds)
    if world is None:
        properties = (*PROPERTIES, *worlds[0].own)
        return AttackCheck(
            label, about, tuple(_row(prove, "undecided", why) for prove in properties)
        )
    case = Case(world, built)
    properties = (*PROPERTIES, *world.own, *world.relations(built))
    return AttackCheck(label, about, tuple(_try(prove, case) for prove in properties))


def _find_world(attack: Any, worlds: Iterable[World]) -> tuple[World | None, str]:
    """The first small games that the attack can play, or why it can play none."""
    why = ""
    for world in worlds:
        finding = world.run(world.leaky(), attack).finding
        if finding.status is not Status.NOT_APPLICABLE:
            return world, ""
        why = f"it can play no small game: {finding.reason}"
    return None, why


def _try(prove: Property, case: Case) -> PropertyRow:
    try:
        prove(case)
    except PropertyError as error:
        return _row(prove, "failed", str(error))
    except DivulgeError as error:
        return _row(prove, "failed", f"it ended with: {error}")
    except Exception as error:  # whatever breaks inside an attack is a result
        return _row(
            prove, "failed", f"it raised {type(error).__name__}: {redact_foreign(str(error))}"
        )
    return _row(prove, "passed")


def _row(prove: Property, outcome: Outcome, reason: str = "") -> PropertyRow:
    sentence = (prove.__doc__ or "").splitlines()[0]
    return PropertyRow(prove.__name__, sentence, outcome, reason)


def _build(attack: Any, settings: dict[str, JSON]) -> Any:
    if isinstance(attack, str):
        if own.is_own(attack):
            return own.load(attack, settings, Path())
        return build(catalog.attack_class(attack), attack, settings)
    if settings:
        raise SpecError("expected no settings beside an attack that is built, got some: drop them")
    own.check_attack_object(attack)
    return attack
