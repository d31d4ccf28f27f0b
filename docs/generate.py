"""Write the generated pages: commands, keys of settings, components, stored results, the reference.

``make docs`` runs it; ``tests/test_docs.py`` compares what it would write with what is there.
"""

import inspect
import runpy
from collections.abc import Iterator
from pathlib import Path

import click

from divulge.cli.main import main

HERE = Path(__file__).parent

PARTS = (
    "generate_components.py",
    "generate_results.py",
    "generate_reference.py",
    "generate_settings.py",
    "generate_shadow_quality.py",
)
"""Files beside this one that write pages too."""

CLI_HEAD = """\
# Commands

<!-- Written by docs/generate.py from the commands: change those, then run `make docs`. -->

Every command prints its help with `--help`. Messages about wrong input go to the standard error
stream in one line that says what was expected, what came, and what to do.

| exit code | meaning |
| --- | --- |
| 0 | done; a leak that was found is no failure of the command |
| 1 | the audit is complete, and at least one attack failed with an error |
| 2 | bad input: settings, data, a model or a run folder cannot be used |
| 3 | the gate failed: the verdict is one that must not be, or a metric exceeds its ceiling |
| 4 | the gate could not be decided: too few records, a failed control, sets that differ |

The exit codes of `divulge check` are 3 and 4 too: the attack lacks a property, or fits no game.

The exit code is decided, and all files are written, before the result is printed. An output that is
closed, full, or a pipe that nobody reads changes neither. A character that the encoding of the
output does not have is printed as `?`.
"""


def pages() -> dict[Path, str]:
    """The generated pages, by path."""
    found = {HERE / "cli.md": cli_page()}
    for name in PARTS:
        found |= runpy.run_path(str(HERE / name))["pages"]()
    return found


def cli_page() -> str:
    """All commands with their arguments, options and examples."""
    described = [
        _command(name, command)
        for top in sorted(main.commands)
        for name, command in _with_subcommands(top, main.commands[top])
    ]
    group = f"## divulge\n\n{_text(main)}\n\n{_options(main)}"
    return "\n".join([CLI_HEAD, group, *described])


def _with_subcommands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        yield from ((f"{name} {sub}", command.commands[sub]) for sub in sorted(command.commands))


def _command(name: str, command: click.Command) -> str:
    usage = ["divulge", name, *_usage(command)]
    text, _, example = _text(command).partition("Example: ")
    return (
        f"## divulge {name}\n\n{text.strip()}\n\n"
        f"```text\n{' '.join(usage)}\n```\n\n"
        f"Example:\n\n```sh\n{example.strip()}\n```\n\n{_options(command)}"
    )


def _text(command: click.Command) -> str:
    return inspect.cleandoc(command.help or "")


def _usage(command: click.Command) -> Iterator[str]:
    yield "[OPTIONS]"
    if isinstance(command, click.Group):
        yield "|".join(sorted(command.commands))
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            choices = getattr(parameter.type, "choices", None)
            name = "|".join(choices) if choices else (parameter.name or "").upper()
            yield name if parameter.required else f"[{name}]"


def _options(command: click.Command) -> str:
    rows = ["| option | meaning |", "| --- | --- |"]
    rows += [_option(p) for p in command.params if isinstance(p, click.Option)]
    rows.append("| `--help`, `-h` | Show the help and exit. |")
    return "\n".join(rows) + "\n"


def _option(option: click.Option) -> str:
    names = ", ".join(f"`{name}{_value(option)}`" for name in option.opts)
    default = option.default
    shown = f" Default: `{default}`." if isinstance(default, str) else ""
    return f"| {names} | {option.help or ''}{shown} |".replace("  ", " ")


def _value(option: click.Option) -> str:
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return f" {' or '.join(map(str, option.type.choices))}"
    return f" {option.metavar or (option.name or '').upper()}"


if __name__ == "__main__":
    for page, content in pages().items():
        page.parent.mkdir(exist_ok=True)
        page.write_text(content, encoding="utf-8")
