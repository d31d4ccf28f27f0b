"""What every attack must do, whatever it is after; each function tries one property.

What is particular to a secret stands in the modules beside this one: small games with a known
truth, and how a guess is held against it.
"""

import copy
import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from divulge._util.registry import build
from divulge.core import Need, Status
from divulge.secrets import attempt, wrapped
from divulge.secrets.controls import fewest_covered

ROUNDING = 1e-9
"""Sums in another order differ by some thousand units of float64's last place at most."""


class PropertyError(Exception):
    """An attack lacks a property; says how that was seen."""


def require(holds: Any, message: str) -> None:
    """Refuse an attack of which this does not hold.

    Raises:
        PropertyError: it does not hold; says so in these words.
    """
    if not holds:
        raise PropertyError(message)


@dataclasses.dataclass(frozen=True)
class GameSet:
    """One game, prepared: what the attacker sees, of one model or of each client, and the truth."""

    views: tuple[Any, ...]
    truths: tuple[Any, ...]


class Lack(NamedTuple):
    """A game without something that views may have."""

    game: GameSet
    flag: Need
    """What it is; NONE where there is no flag for it."""


class World(ABC):
    """Small games on one secret with a known truth, and all that is particular to that secret."""

    guess: type
    """Of one view."""
    always: Need = Need.NONE
    """What every view of this kind offers."""
    own: ClassVar[tuple["Property", ...]] = ()
    """Further properties that attacks on this secret have."""

    def __repr__(self) -> str:
        # labels of attacks hold their settings, and random streams follow from labels
        return type(self).__name__

    @abstractmethod
    def leaky(self, seed: int = 0) -> GameSet:
        """What is asked about is what was trained on."""

    @abstractmethod
    def silent(self, seed: int) -> GameSet:
        """What is asked about has nothing to do with what was trained on; cached."""

    @abstractmethod
    def run(self, game: GameSet, attack: Any, seed: int = 0) -> attempt.AttackResult:
        """One attack on one game, measured against its truth."""

    def beats_chance(self, game: GameSet, result: attempt.AttackResult) -> bool:
        """By the lower limit of the AUC, unless the secret has another metric."""
        del game
        return result.finding.metrics["auc"].low > 0.5

    def covers_chance(self, game: GameSet, result: attempt.AttackResult) -> bool:
        """By the interval of that metric: in 95 of 100 cases where the guess knows nothing."""
        del game
        return 0.5 in result.finding.metrics["auc"]

    def relations(self, attack: Any) -> tuple["Property", ...]:
        """What stays and what turns in whole audits, where these suit the attack."""
        del attack
        return ()

    @abstractmethod
    def check(self, view: Any, guess: Any) -> None:
        """Shapes and ranges of a guess about one view.

        Raises:
            PropertyError: they are not those of such a guess.
        """

    @abstractmethod
    def permuted(
        self, game: GameSet, rng: np.random.Generator
    ) -> tuple[GameSet, Callable[[Any], Any]]:
        """The game in another order, and what an old guess about it is in that order."""

    @abstractmethod
    def lacking(self, game: GameSet) -> Iterator[Lack]:
        """The game without each thing that such views may lack, one after another."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One line of a table: an attack, the games that it plays, and what it does not promise."""

    world: World
    attack: Any
    exceptions: Mapping[str, str] = dataclasses.field(
        default_factory=dict, hash=False, compare=False
    )
    """Names of properties that it lacks, each with the reason."""
    runs: int = 20
    """Silent games; fewer where one takes long. 4 are the fewest that can show anything: none of
    4 covers chance once in 160,000 times, where guesses know nothing and intervals are right."""
    slow: bool = False


Property = Callable[[Case], None]
"""Tries one property; its first sentence says what an attack with the property does."""


@cache
def first(case: Case) -> attempt.AttackResult:
    """What the attack finds in the leaky game: several properties look at it."""
    return done(case, case.world.leaky())


def done(case: Case, game: GameSet, seed: int = 0) -> attempt.AttackResult:
    """What the attack finds in a game that it can play.

    Raises:
        PropertyError: it finds nothing, and says why.
    """
    result = case.world.run(game, case.attack, seed)
    status, reason = result.finding.status, result.finding.reason
    require(status is Status.DONE, f"on a small game it ended as {status.value}: {reason}")
    return result


def finds_a_leak(case: Case) -> None:
    """Finds the leak in a game where there is one."""
    beats = case.world.beats_chance(case.world.leaky(), first(case))
    require(beats, "where models remember what is asked about, it does no better than chance")


def sees_nothing_where_nothing_leaks(case: Case) -> None:
    """Sees nothing in games where nothing leaks."""
    covered = 0
    for seed in range(case.runs):
        game = case.world.silent(seed)
        covered += case.world.covers_chance(game, done(case, game, seed))
    fewest = fewest_covered(case.runs)
    require(
        covered >= fewest > 0,
        f"in {case.runs - covered} of {case.runs} games without a leak its result differs from "
        f"chance; {case.runs - fewest} may",
    )


def repeats_itself(case: Case) -> None:
    """Gives the same guess for the same seed."""
    same = is_same(done(case, case.world.leaky()).guess, first(case).guess)
    require(same, "a second run with the same seed guesses otherwise: draw from rng alone")


def leaves_the_view_alone(case: Case) -> None:
    """Changes nothing in its view, and needs no array that can be written to."""
    game = copy.deepcopy(case.world.leaky())
    before = [array.copy() for array in arrays(game.views)]
    for array in arrays(game.views):
        array.flags.writeable = False
    done(case, game)
    after = list(arrays(game.views))
    require(
        len(after) == len(before)
        and all(
            original.dtype == other.dtype and np.array_equal(original, other)
            for original, other in zip(before, after, strict=True)
        ),
        "arrays of the view are others after it ran: copy what you change",
    )


def permutes_with_the_order(case: Case) -> None:
    """Guesses the same of the same records, clients or items in another order."""
    game, expected = case.world.permuted(case.world.leaky(), np.random.default_rng(1))
    require(
        is_same(done(case, game).guess, expected(first(case).guess), atol=ROUNDING),
        "in another order the same records, clients or items get other guesses",
    )


def says_when_it_cannot_run(case: Case) -> None:
    """Names in `needs` what it cannot do without, and says what is missing."""
    world, needs = case.world, case.attack.needs
    left = needs & ~world.always
    for game, flag in world.lacking(world.leaky()):
        if flag and not flag & needs:
            continue
        finding, guess, _ = world.run(game, case.attack)
        ended = f"without {flag.words() or 'something that it uses'} it ends as "
        ended += f"{finding.status.value}: {finding.reason}"
        if flag & needs:
            require(
                finding.status is Status.NOT_APPLICABLE and flag.words() in finding.reason, ended
            )
            left &= ~flag
        if guess is None:
            require(finding.status is Status.NOT_APPLICABLE and not finding.metrics, ended)
            require(len(finding.reason.split()) > 3, f"its reason is too short: {finding.reason!r}")
    require(not left, f"needs {left.words()}, which no small game on this secret can take away")


def has_settings_that_json_can_hold(case: Case) -> None:
    """Has settings that audit.toml can give, and is the same attack with them."""
    settings = wrapped.attack_settings(case.attack)
    try:
        stored = json.loads(json.dumps(settings))
    except TypeError as error:
        message = f"settings have to be numbers, texts and truth values: {error}"
        raise PropertyError(message) from error
    again = build(type(case.attack), case.attack.name, stored)
    require(again == case.attack, f"{again!r} is built from its settings, not {case.attack!r}")


def gives_a_guess_of_its_kind(case: Case) -> None:
    """Gives a guess of the right kind and shape, of finite numbers."""
    result = first(case).guess
    views = case.world.leaky().views
    guesses = result if isinstance(result, Sequence) else (result,)
    require(len(guesses) == len(views), f"{len(guesses)} guesses about {len(views)} views")
    for view, guess in zip(views, guesses, strict=True):
        kind = case.world.guess
        came = type(guess).__name__
        require(isinstance(guess, kind), f"it returns {came} in place of {kind.__name__}")
        finite = all(np.isfinite(array).all() for array in arrays(guess))
        require(finite, "its guess has NaN or infinity")
        case.world.check(view, guess)


PROPERTIES: tuple[Property, ...] = (
    gives_a_guess_of_its_kind,
    finds_a_leak,
    sees_nothing_where_nothing_leaks,
    repeats_itself,
    leaves_the_view_alone,
    permutes_with_the_order,
    says_when_it_cannot_run,
    has_settings_that_json_can_hold,
)
"""What attacks on every secret have; `World.own` has what is particular to one."""


def arrays(thing: Any) -> Iterator[np.ndarray]:
    """All arrays that can be reached: in containers, data classes, objects and modules."""
    if isinstance(thing, np.ndarray):
        yield thing
    elif hasattr(thing, "state_dict"):
        yield from (tensor.detach().numpy() for tensor in thing.state_dict().values())
    elif isinstance(thing, Mapping):
        yield from arrays(tuple(thing.values()))
    elif isinstance(thing, tuple | list):
        for part in thing:
            yield from arrays(part)
    elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        yield from arrays([getattr(thing, field.name) for field in dataclasses.fields(thing)])
    elif isinstance(thing, Enum):
        return  # it holds no array, and in some versions a flag and its inverse hold each other
    elif type(thing).__module__.startswith("divulge") and hasattr(thing, "__dict__"):
        yield from arrays(list(vars(thing).values()))


def is_same(first: Any, other: Any, atol: float = 0.0) -> bool:
    """Whether two guesses, or sequences of them, hold the same numbers.

    Args:
        first: a guess.
        other: another.
        atol: by how much numbers may differ.
    """
    pairs = list(zip(arrays(first), arrays(other), strict=True))
    return all(
        left.shape == right.shape and np.allclose(left, right, rtol=0, atol=atol, equal_nan=True)
        for left, right in pairs
    )
