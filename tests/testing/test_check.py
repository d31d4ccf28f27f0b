"""`divulge check` says of an attack what holds and what does not, on the games of its secret."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import divulge
from divulge.cli.main import main
from divulge.core import Need
from divulge.errors import SpecError
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
    assert "surest(power=2.0), an attack on membership: 4 of 4 passed" in said
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
