"""A challenge: what an audit puts to attacks, whatever the secret is."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

from divulge._util.progress import Track
from divulge.audits import attempt
from divulge.audits.attempt import AttackResult
from divulge.audits.challenges import images
from divulge.core import Attack, BlindRun, Candidates, Control, Facts
from divulge.errors import SpecError, did_you_mean
from divulge.federation import Transcript
from divulge.training.shadows.workers import Workers

C = TypeVar("C")


class Controls(NamedTuple):
    """How one attack did on its controls; None where there is no such control."""

    control: Control | None = None
    """The controls of an attack on membership."""
    blind: BlindRun | None = None
    """The attack on shuffled input, where the secret is another one."""


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

    def pictures(self) -> Mapping[str, bytes]:
        """PNG images of records by path in the run folder, for a page that is asked for some.

        Raises:
            SpecError: the audit is about no images.
        """
        ...


class FederationChallenge:
    """What the challenges about federations have in common: nothing slow is left to prepare."""

    __slots__ = ()
    compared: ClassVar[str] = ""
    candidates: ClassVar[None] = None

    def prepare(self: C, folder: Path | None, track: Track[Any], workers: Workers | None) -> C:
        """The challenge itself."""
        del folder, track, workers
        return self

    def pictures(self) -> Mapping[str, bytes]:
        """Nothing: records are not shown.

        Raises:
            SpecError: always.
        """
        images.refuse_images()


def finding_key(challenge: Challenge, attack: Attack[Any, Any], seed: int) -> str:
    """The name of a finding's files: the attack, and a digest of all that its result depends on."""
    settings = sorted(attempt.attack_settings(attack).items())
    name = attempt.attack_label(attack)
    text = f"{challenge.digest} {challenge.compared} {seed} {name} {settings!r}"
    return f"{attack.name}-{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


def clients_under_attack(transcript: Transcript, asked: Sequence[str]) -> tuple[str, ...]:
    """The clients asked for; without any, all that ever took part.

    They come in the order of their first round; if their names are numbers, by size.

    Raises:
        SpecError: one of them never took part.
    """
    rounds = range(len(transcript.rounds))
    everybody = tuple(dict.fromkeys(c for k in rounds for c in transcript.clients(k)))
    if all(name.isdecimal() for name in everybody):
        everybody = tuple(sorted(everybody, key=int))
    for client in asked:
        if client not in everybody:
            hint = did_you_mean(client, everybody)
            raise SpecError(f"expected a client of the transcript, got {client!r}: {hint}")
    return tuple(asked) or everybody
