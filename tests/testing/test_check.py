"""`divulge check` says of an attack what holds and what does not, on the games of its secret."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import divulge
from divulge.cli.main import main
from divulge.core import Finding, Need, Status
from divulge.errors import SpecError
from divulge.secrets.attempt import AttackResult
from divulge.secrets.controls import fewest_covered
from divulge.secrets.registry import SECRETS
from divulge.testing import check, membership, properties
from divulge.testing.check import check_attack
from divulge.testing.membership import Models
from tests.attacks.test_own import MINE


def run_check(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str]:
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(main, ["check", *arguments])
    return done.exit_code, done.output


def test_the_command_says_what_holds_and_what_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    tried = (properties.finds_a_leak, properties.says_when_it_cannot_run)
    monkeypatch.setattr(check, "PROPERTIES", tried)
    monkeypatch.setattr(membership, "games", lambda: (Models(),))
    code, said = run_check(tmp_path, monkeypatch, "mine.py:Surest", "power=2.0")
    assert code == 0
    assert "surest(power=2.0), an attack on membership: 7 of 7 passed" in said
    assert "Finds the leak" in said

    code, said = run_check(tmp_path, monkeypatch, "mine.py:Unsaid")
    assert code == 2
    assert "write -> Scores" in said
    code, said = run_check(tmp_path, monkeypatch, "mine.py:Unsaid", "--about", "membership")
    assert code == 3
    assert "expected divulge.Scores from surest, got list" in said

    code, said = run_check(tmp_path, monkeypatch, "mine.py:Seer")
    assert code == 4
    assert said.count("undecided") == 4
    assert "needs updates" in said
    code, said = run_check(tmp_path, monkeypatch, "mine.py:Surest", "power")
    assert code == 2
    assert "key=value" in said


@pytest.mark.parametrize("secret", SECRETS)
def test_each_secret_has_games_for_its_own_kind_of_guess(secret: str) -> None:
    assert {world.guess.about for world in SECRETS[secret].games()} == {secret}


def test_what_cannot_be_checked_is_refused() -> None:
    with pytest.raises(SpecError, match="did you mean 'membership'"):
        check_attack("threshold", about="memberships")
    with pytest.raises(SpecError, match="no settings beside an attack"):
        check_attack(divulge.attack("threshold"), settings={"signal": "loss"})


def test_a_flag_and_its_inverse_hold_no_array() -> None:
    """In Python 3.11.2 each holds the other."""
    without = ~Need.TOKENS
    assert not list(properties.arrays([Need.TOKENS, without, ~without]))


@dataclasses.dataclass(frozen=True)
class Covering(Models):
    """Silent games of which so many cover chance."""

    covered: int

    def silent(self, seed: int) -> properties.GameSet:
        return properties.GameSet((), (seed,))

    def run(self, game: properties.GameSet, attack: Any, seed: int = 0) -> AttackResult:
        del game, attack, seed
        return AttackResult(Finding("a", "a", "", {}, Status.DONE), None)

    def covers_chance(self, game: properties.GameSet, result: AttackResult) -> bool:
        del result
        return bool(game.truths[0] < self.covered)


def test_as_many_games_have_to_cover_chance_as_it_says() -> None:
    fewest = fewest_covered(20)
    assert 0 < fewest < 20
    properties.sees_nothing_where_nothing_leaks(properties.Case(Covering(fewest), None))
    with pytest.raises(properties.PropertyError, match="games without a leak"):
        properties.sees_nothing_where_nothing_leaks(properties.Case(Covering(fewest - 1), None))
