"""Options of all commands: a repeated one is refused by name, or all of its values count."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from divulge.cli.main import main


def commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words that name each command of a group, and of the groups in it."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name)


def find(words: tuple[str, ...]) -> click.Command:
    found: click.Command = main
    for word in words:
        assert isinstance(found, click.Group)
        found = found.commands[word]
    return found


def value_of(option: click.Option) -> list[str]:
    """Words that an option takes."""
    if isinstance(option.type, click.Tuple):
        return ["a", "b"]
    if isinstance(option.type, click.Choice):
        return [str(option.type.choices[0])]
    return ["1"]


@pytest.mark.parametrize("words", [*commands(main)], ids=" ".join)
def test_no_option_with_one_value_is_given_twice(words: tuple[str, ...]) -> None:
    command = find(words)
    arguments = [
        str(one.type.choices[0]) if isinstance(one.type, click.Choice) else "none"
        for one in command.params
        if isinstance(one, click.Argument)
    ]
    required = {
        one: [one.opts[-1], *value_of(one)]
        for one in command.params
        if isinstance(one, click.Option) and one.required
    }
    for option in command.params:
        if not isinstance(option, click.Option) or option.is_flag or option.multiple:
            continue
        others = [word for one, given in required.items() if one is not option for word in given]
        twice = [option.opts[-1], *value_of(option)] * 2
        done = CliRunner().invoke(main, [*words, *arguments, *others, *twice])
        assert done.exit_code == 2, done.output
        assert f"expected {option.opts[-1]} once, got it 2 times" in done.output


def test_a_repeated_option_is_noticed_in_each_spelling() -> None:
    for twice in (["--auc", "0.5", "--auc=0.6"], ["--auc=0.6", "--power", "0.9", "--auc=0.6"]):
        done = CliRunner().invoke(main, ["plan", *twice])
        assert done.exit_code == 2
        assert "expected --auc once, got it 2 times" in done.output


def test_a_repeated_flag_says_the_same_again() -> None:
    done = CliRunner().invoke(main, ["audit", "--resume", "--resume", "none.toml"])
    assert done.exit_code == 2
    assert "expected a file at none.toml" in done.output


@pytest.mark.parametrize("size", ["members", "nonmembers", "auc", "exposed", "attacks"])
def test_an_audit_has_sizes_of_its_own(size: str) -> None:
    done = CliRunner().invoke(main, ["plan", "audit.toml", f"--{size}", "1"])
    assert done.exit_code == 2
    assert f"expected AUDIT or --{size}, got both" in done.output
