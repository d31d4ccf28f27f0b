"""A challenge: what an audit puts to attacks, whatever the secret is."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from divulge._util.progress import Track, track_silently
from divulge.attacks import own
from divulge.core import Attack, Candidates, Entry, Facts
from divulge.secrets import wrapped
from divulge.secrets.attempt import AttackResult
from divulge.secrets.base import Controls
from divulge.secrets.registry import secret_of
from divulge.training.shadows.workers import Workers


@runtime_checkable
class Challenge(Protocol):
    """All that an audit of one secret starts from; each of the four secrets has one."""

    @property
    def facts(self) -> Facts:
        """What the run folder keeps of the secret."""
        ...

    @property
    def candidates(self) -> Candidates | None:
        """The truth of membership; None for other secrets, whose facts hold it."""
        ...

    @property
    def digest(self) -> str:
        """Digest of all that attacks see but what the model is compared with, and of the truth."""
        ...

    @property
    def compared(self) -> str:
        """What the target is compared with, such as shadow models; empty if with nothing."""
        ...

    @property
    def libraries(self) -> Mapping[str, str]:
        """By name, the versions of the libraries that what is audited, and its data, come from."""
        ...

    def prepare(
        self, folder: Path | None, track: Track[Any], workers: Workers | None
    ) -> "Challenge":
        """The challenge with its slow part done, such as training shadow models.

        Args:
            folder: the run folder; what it holds already is not computed again.
            track: shows progress.
            workers: who trains.
        """
        ...

    def attempt(self, attack: Any, seed: int, track: Track[Any]) -> AttackResult:
        """Run an attack; one that cannot run or breaks ends as a finding that says why."""
        ...

    def control(self, attack: Any, guess: Any, seed: int, track: Track[Any]) -> Controls:
        """Run an attack that has guessed on its controls."""
        ...


def run_attack(
    challenge: Challenge, attack: Attack[Any, Any], seed: int, track: Track[Any] = track_silently
) -> Entry:
    """What one attack found, how it did on its controls, and its guess.

    Args:
        challenge: prepared.
        attack: on its secret.
        seed: of the audit.
        track: shows progress.
    """
    finding, guess, _ = challenge.attempt(attack, seed, track)
    if guess is None:
        return Entry(finding)
    control, blind, further = challenge.control(attack, guess, seed, track)
    arrays = secret_of(challenge.facts, challenge.candidates).encode(guess)
    return Entry(finding, control, {**arrays, **further}, blind)


def finding_key(challenge: Challenge, attack: Attack[Any, Any], seed: int) -> str:
    """The name of a finding's files: the attack, and a digest of all that its result depends on.

    Of an attack that is not divulge's, the code is part of it.
    """
    settings = sorted(wrapped.attack_settings(attack).items())
    name = wrapped.attack_label(attack)
    text = f"{challenge.digest} {challenge.compared} {seed} {name} {settings!r}"
    text += own.code_identity(type(wrapped.unwrap(attack)))
    return f"{attack.name}-{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"
