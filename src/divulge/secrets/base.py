"""What an audit has to know of a secret, whichever it is."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from divulge._util.progress import Track, track_silently
from divulge._util.toml import Section
from divulge.core import (
    Attack,
    BlindRun,
    Control,
    Entry,
    FederatedFacts,
    Measurements,
    Status,
)
from divulge.errors import DataError, StoreError
from divulge.metrics.intervals import CONFIDENCE

if TYPE_CHECKING:
    from divulge.secrets.attempt import AttackResult
    from divulge.training.shadows.workers import Workers

F = TypeVar("F", bound=FederatedFacts)
V = TypeVar("V")


class Controls(NamedTuple):
    """How one attack did on its controls; None where there is no such control."""

    control: Control | None = None
    """The controls of an attack on membership."""
    blind: BlindRun | None = None
    """The attack on shuffled input, where the secret is another one."""
    arrays: Mapping[str, np.ndarray] = MappingProxyType({})
    """What the verdict needs besides the guess; the run folder keeps it beside that."""


class Secret(ABC):
    """One secret and its truth.

    What it has in other rooms goes by its kind: its attacks in `attacks.catalog.CATALOGUE`, its
    games in a module of `testing`, its page in a module of `report.federation`.
    """

    __slots__ = ()
    kind: ClassVar[str]
    """The kind of its facts."""
    guess: ClassVar[type[Any]]
    """The class of a guess, whose ``about`` is the kind."""
    question: ClassVar[str]
    """What attacks find out."""
    risk: ClassVar[str]
    """The question of a page for a regulator, in plain words."""
    task: ClassVar[str]
    """What an attack does, as the title of a task in a model card."""
    gated: ClassVar[Collection[str]]
    """Metrics that rise with a leak, so that a gate may limit them."""
    lead: ClassVar[str]
    """The metric whose change from one audit to another is tested."""

    @classmethod
    def games(cls) -> tuple[Any, ...]:
        """Small games with a known truth, each a `testing.properties.World`.

        An attack plays the first that it can.
        """
        games: tuple[Any, ...] = import_module(f"divulge.testing.{cls.kind}").games()
        return games

    @property
    @abstractmethod
    def sample(self) -> tuple[int, str]:
        """How many candidates or clients figures rest on, and what these are."""

    def reach(self, attacks: int) -> float:
        """The bound on ε of the best of so many attacks that know the truth; inf if unknown."""
        del attacks
        return math.inf

    @abstractmethod
    def measure(self, guess: Any, confidence: float = CONFIDENCE) -> Measurements:
        """Metrics of a guess, with intervals of this confidence; none where no truth is known."""

    @abstractmethod
    def encode(self, guess: Any) -> Mapping[str, np.ndarray]:
        """The guess as arrays of one dimension by name."""

    @abstractmethod
    def decode(self, arrays: Mapping[str, np.ndarray]) -> Any:
        """The guess that `encode` made into arrays.

        Raises:
            ValueError: the arrays do not fit what the audit is about.
            KeyError: an array is missing.
        """


@dataclass(frozen=True, slots=True)
class FederatedSecret(Secret, Generic[F, V]):
    """A secret of a federation's clients, which attacks guess from a view of type ``V``."""

    facts: F
    section: ClassVar[str]
    """The section of ``audit.toml`` that asks about it."""
    usual: ClassVar[tuple[str, ...]]
    """Names of the attacks that run where settings name none."""

    @property
    def sample(self) -> tuple[int, str]:
        """The clients."""
        return len(self.facts.clients), "clients"

    @property
    def items(self) -> Sequence[int]:
        """How many items each client was shown, where there may be images of them."""
        return ()

    @classmethod
    def check_section(cls, section: Any, where: str) -> None:
        """Refuse keys of the section, in the file of this name, that do not go together.

        Raises:
            SpecError: names the key.
        """

    @classmethod
    def default_attacks(cls, section: Any) -> tuple[str, ...]:
        """Names of the attacks that run if settings with this section name none."""
        del section
        return cls.usual

    @classmethod
    def pose(cls, section: Section, folder: Path) -> "FederationChallenge[F, V]":
        """The challenge that a section of the settings in this folder describes.

        Raises:
            DivulgeError: the transcript, the tables, the records, the network or the truth cannot
                be used.
        """
        # found by name: whoever poses a challenge without settings depends on no reader of files
        posing = import_module(f"divulge.secrets.posing.{cls.kind}")
        challenge: FederationChallenge[F, V] = posing.pose(section, folder)
        return challenge

    def repeat(
        self, section: Any, attacks: tuple[Attack[Any, Any], ...]
    ) -> tuple[Attack[Any, Any], ...]:
        """The attacks, and those that settings want repeated on a part of the view.

        Raises:
            SpecError: there is no such part.
        """
        del section
        return attacks

    def attempt(
        self, view: Any, attack: Any, seed: int, track: Track[Any] = track_silently
    ) -> "AttackResult":
        """One attack on each client, of which there is a view each; see `attempt.attempt`."""
        from divulge.secrets.attempt import run_on_clients  # who reads a run attacks nothing

        return run_on_clients(view, self.measure, attack, seed, track)

    @abstractmethod
    def control(
        self, view: V, attack: Any, guess: Any, seed: int, track: Track[Any] = track_silently
    ) -> Controls:
        """An attack that has guessed, on its controls."""

    def page_content(
        self, entries: Sequence[Entry], guesses: tuple[Any, ...], unsound: Collection[int]
    ) -> Any:
        """The `report.federation.story.PageContent` of these attacks.

        Args:
            entries: one an attack.
            guesses: one an attack; None for an attack that is not done.
            unsound: positions of the attacks that failed a control.

        Raises:
            StoreError: an entry holds something else than such an audit has.
        """
        # found by name: whoever measures without a report depends on no page
        page = import_module(f"divulge.report.federation.{self.kind}")
        findings = tuple(entry.finding for entry in entries)
        return page.page_content(self.facts, findings, guesses, unsound, **self._extras(entries))

    def _extras(self, entries: Sequence[Entry]) -> Mapping[str, Any]:
        """Further arguments of the page, from what entries keep besides guesses."""
        del entries
        return {}


@dataclass(frozen=True, slots=True)
class FederationChallenge(Generic[F, V]):
    """What an attacker of a federation sees, and the secret of the clients."""

    view: V
    secret: FederatedSecret[F, V]
    digest: str = ""
    compared: ClassVar[str] = ""
    candidates: ClassVar[None] = None

    @property
    def facts(self) -> F:
        """What the run folder keeps of the secret."""
        return self.secret.facts

    @property
    def libraries(self) -> Mapping[str, str]:
        """By name, the versions of the libraries that models of the federation come from."""
        from divulge.targets.model_parts import versions_of  # a run is read without its models

        return versions_of(self.view)

    def prepare(
        self, folder: Path | None, track: Track[Any], workers: "Workers | None"
    ) -> "FederationChallenge[F, V]":
        """The challenge itself: nothing slow is left to prepare."""
        del folder, track, workers
        return self

    def attempt(self, attack: Any, seed: int, track: Track[Any] = track_silently) -> "AttackResult":
        """One attack on the clients."""
        return self.secret.attempt(self.view, attack, seed, track)

    def control(
        self, attack: Any, guess: Any, seed: int, track: Track[Any] = track_silently
    ) -> Controls:
        """An attack that has guessed, on its controls."""
        return self.secret.control(self.view, attack, guess, seed, track)


def decode_all(
    entries: Sequence[Entry], decode: Callable[[Mapping[str, np.ndarray]], Any]
) -> Iterator[Any]:
    """By attack, what its arrays hold; None where it is not done.

    Raises:
        StoreError: they do not hold what such an audit has.
    """
    for entry in entries:
        done = entry.finding.status is Status.DONE
        try:
            guess = decode(entry.arrays) if done else None
        except (KeyError, ValueError, TypeError, DataError) as error:
            raise StoreError(
                f"expected the guess of {entry.finding.label} as it was written, got something "
                f"else ({error}): the run is damaged; run the audit again"
            ) from error
        yield guess


def unmeasured(metrics: Collection[str], why: str) -> Measurements:
    """No metric, for one reason."""
    return Measurements({}, dict.fromkeys(metrics, why))
