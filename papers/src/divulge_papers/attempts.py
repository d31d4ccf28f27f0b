"""Attack what a study has built on the path of every audit, with the controls of the attack."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from divulge.audits.challenges.base import Challenge, run_attack
from divulge.core import Attack, Entry, Status
from divulge.errors import NotApplicable
from divulge.secrets.registry import secret_of


class RowResult(NamedTuple):
    """What one row of a table measures with one seed."""

    values: Mapping[str, Sequence[float]]
    """Values of the units, or of one unit's trials, by column; empty where the row is left out."""
    entries: Sequence[Entry] = ()
    """The findings behind them with their controls; none where nothing was attacked."""


class Attempt(NamedTuple):
    """The guess of an attack that did run, and what an audit would keep of it."""

    guess: Any
    entry: Entry


def attempt(challenge: Challenge, attack: Attack[Any, Any], seed: int) -> Attempt:
    """Run an attack and its controls.

    Args:
        challenge: prepared.
        attack: on its secret.
        seed: of the attack and of its controls.

    Raises:
        NotApplicable: the attack cannot run, or broke; says why.
    """
    entry = run_attack(challenge, attack, seed)
    if entry.finding.status is not Status.DONE:
        raise NotApplicable(entry.finding.reason)
    secret = secret_of(challenge.facts, challenge.candidates)
    return Attempt(secret.decode(entry.arrays), entry)
