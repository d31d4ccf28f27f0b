"""What every attack must do, whatever it is after; each function asserts one property.

What is particular to a secret stands in `tests.games`: small games with a known truth, and how a
guess is held against it.
"""

import copy
import dataclasses
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from divulge._util.registry import build
from divulge.audits import attempt
from divulge.audits.controls import fewest_covered
from divulge.core import Need, Status

from . import excepted

PAGES = Path(__file__).parents[1] / "docs" / "attacks"
ROUNDING = 1e-9
"""Sums in another order differ by some thousand units of float64's last place at most."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """One game, prepared: what the attacker sees, of one model or of each client, and the truth."""

    views: tuple[Any, ...]
    truths: tuple[Any, ...]


class Lack(NamedTuple):
    """A game without something that views may have."""

    game: Trial
    flag: Need
    """What it is; NONE where there is no flag for it."""


class World(ABC):
    """Small games on one secret with a known truth, and all that is particular to that secret."""

    guess: type
    """Of one view."""
    always: Need = Need.NONE
    """What every view of this kind offers."""
    honest: Any
    """An attack that works."""
    own: ClassVar[tuple["Property", ...]] = ()
    """Further properties that attacks on this secret have."""

    @abstractmethod
    def leaky(self, seed: int = 0) -> Trial:
        """What is asked about is what was trained on."""

    @abstractmethod
    def silent(self, seed: int) -> Trial:
        """What is asked about has nothing to do with what was trained on; cached."""

    @abstractmethod
    def run(self, game: Trial, attack: Any, seed: int = 0) -> attempt.AttackResult: ...

    @abstractmethod
    def beats_chance(self, game: Trial, found: attempt.AttackResult) -> bool:
        """By the lower limit of a metric."""

    @abstractmethod
    def covers_chance(self, game: Trial, found: attempt.AttackResult) -> bool:
        """In 95 of 100 cases where the guess knows nothing."""

    @abstractmethod
    def check(self, view: Any, guess: Any) -> None:
        """Shapes and ranges of a guess about one view."""

    @abstractmethod
    def permuted(self, game: Trial, rng: np.random.Generator) -> tuple[Trial, Callable[[Any], Any]]:
        """The game in another order, and what an old guess about it is in that order."""

    @abstractmethod
    def lacking(self, game: Trial) -> Iterator[Lack]:
        """The game without each thing that such views may lack, one after another."""

    @abstractmethod
    def coin(self, view: Any, rng: np.random.Generator) -> Any:
        """A guess without looking."""

    @abstractmethod
    def flipped(self, guess: Any) -> Any:
        """The opposite of a guess."""

    @abstractmethod
    def told(self, view: Any, truth: Any, rng: np.random.Generator) -> Any:
        """A guess about one view that knows the truth."""

    @abstractmethod
    def same(self, one: Any, other: Any) -> bool:
        """Whether two views are of the same victim of the same game."""


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


@cache
def first(case: Case) -> attempt.AttackResult:
    """What the attack finds in the leaky game: several properties look at it."""
    return done(case, case.world.leaky())


def done(case: Case, game: Trial, seed: int = 0) -> attempt.AttackResult:
    found = case.world.run(game, case.attack, seed)
    assert found.finding.status is Status.DONE, found.finding.reason
    return found


def finds_a_leak(case: Case) -> None:
    assert case.world.beats_chance(case.world.leaky(), first(case))


def sees_nothing_where_nothing_leaks(case: Case) -> None:
    covered = 0
    for seed in range(case.runs):
        game = case.world.silent(seed)
        covered += case.world.covers_chance(game, done(case, game, seed))
    assert covered >= fewest_covered(case.runs) > 0


def repeats_itself(case: Case) -> None:
    assert_same(done(case, case.world.leaky()).guess, first(case).guess)


def leaves_the_view_alone(case: Case) -> None:
    """Arrays that cannot be written to will do, and these and the weights stay as they are."""
    game = copy.deepcopy(case.world.leaky())
    before = [array.copy() for array in arrays(game.views)]
    for array in arrays(game.views):
        array.flags.writeable = False
    done(case, game)
    after = list(arrays(game.views))
    assert len(after) == len(before)
    for one, other in zip(before, after, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def permutes_with_the_order(case: Case) -> None:
    game, expected = case.world.permuted(case.world.leaky(), np.random.default_rng(1))
    assert_same(done(case, game).guess, expected(first(case).guess), atol=ROUNDING)


def says_when_it_cannot_run(case: Case) -> None:
    world, needs = case.world, case.attack.needs
    left = needs & ~world.always
    for game, flag in world.lacking(world.leaky()):
        if flag and not flag & needs:
            continue
        found, guess = world.run(game, case.attack)
        if flag & needs:
            assert found.status is Status.NOT_APPLICABLE, found.reason
            assert flag.words() in found.reason
            left &= ~flag
        if guess is None:
            assert found.status is Status.NOT_APPLICABLE, found.reason
            assert len(found.reason.split()) > 3
            assert not found.metrics
    assert not left, f"no game lacks {left.words()}"


def has_settings_that_json_can_hold(case: Case) -> None:
    settings = json.loads(json.dumps(attempt.attack_settings(case.attack)))
    assert build(type(case.attack), case.attack.name, settings) == case.attack


def names_its_paper(case: Case) -> None:
    assert any(character.isdigit() for character in case.attack.paper)
    assert "References:" in (type(case.attack).__doc__ or "")


def has_a_page(case: Case) -> None:
    """The list of attacks names each setting, and leads to a page that names the attack."""
    name = case.attack.name
    listed = (PAGES / "README.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| \[{name}\]\(([a-z-]+\.md)(?:#[a-z-]+)?\)(.*)$", listed, re.M)
    assert rows
    for page, _ in rows:
        assert name in (PAGES / page).read_text(encoding="utf-8")
    for setting in attempt.attack_settings(case.attack):
        assert any(f"`{setting}`" in row for _, row in rows)


def gives_a_guess_of_its_kind(case: Case) -> None:
    found = first(case).guess
    views = case.world.leaky().views
    guesses = found if isinstance(found, Sequence) else (found,)
    for view, guess in zip(views, guesses, strict=True):
        assert isinstance(guess, case.world.guess)
        assert all(np.isfinite(array).all() for array in arrays(guess))
        case.world.check(view, guess)


PROPERTIES: tuple[Property, ...] = (
    finds_a_leak,
    sees_nothing_where_nothing_leaks,
    repeats_itself,
    leaves_the_view_alone,
    permutes_with_the_order,
    says_when_it_cannot_run,
    has_settings_that_json_can_hold,
    names_its_paper,
    has_a_page,
    gives_a_guess_of_its_kind,
)


def every(cases: Iterable[Case]) -> pytest.MarkDecorator:
    """Each property of each case, as parameters of a test; what is excepted must really fail."""
    rows = []
    for case in cases:
        proofs = (*PROPERTIES, *case.world.own)
        assert set(case.exceptions) <= {prove.__name__ for prove in proofs}
        for prove in proofs:
            marks = excepted.marks(case.exceptions.get(prove.__name__))
            marks += [pytest.mark.slow] if case.slow else []
            name = f"{attempt.attack_label(case.attack)}-{prove.__name__}"
            rows.append(pytest.param(prove, case, id=name, marks=marks))
    return pytest.mark.parametrize(("prove", "case"), rows)


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
    elif type(thing).__module__.startswith(("divulge", "tests")) and hasattr(thing, "__dict__"):
        yield from arrays(list(vars(thing).values()))


def assert_same(one: Any, other: Any, atol: float = 0.0) -> None:
    """Two guesses, or sequences of them, hold the same numbers."""
    for left, right in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=atol)
