"""Write the generated pages: commands, keys of settings, components, stored results, the reference.

``make docs`` runs it; ``tests/test_docs.py`` compares what it would write with what is there.
"""

import inspect
import runpy
from collections import Counter
from collections.abc import Container, Iterable, Iterator
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

Every command prints its help with `--help` or `-h`. A message about wrong input goes to the
standard error stream: what was expected, what came, and what to do.

| exit code | meaning |
| --- | --- |
| 0 | done; a leak that was found is no failure of the command |
| 1 | the audit is complete, and at least one attack failed with an error |
| 2 | bad input: settings, data, a model or a run folder cannot be used |
| 3 | the gate failed: the verdict is one that must not be, or a metric exceeds its ceiling |
| 4 | the gate could not be decided: too few records, a failed control, sets that differ |

`divulge check` exits with 3 if the attack lacks a property, and with 4 if it fits no game. Files
are written and the exit code is decided before the result is printed: an output that is closed,
full or not UTF-8 changes neither.

## Options of several commands

"""


def pages() -> dict[Path, str]:
    """The generated pages, by path."""
    found = {HERE / "cli.md": cli_page()}
    for name in PARTS:
        found |= runpy.run_path(str(HERE / name))["pages"]()
    return found


def cli_page() -> str:
    """All commands with their arguments, options and examples."""
    commands = [
        (name, command)
        for top in sorted(main.commands)
        for name, command in _with_subcommands(top, main.commands[top])
    ]
    shared = _shared_rows(command for _, command in commands)
    described = [_command(name, command, shared) for name, command in commands]
    first = _text(main).replace("\n\n", "\n\n`divulge --version` prints the version. ", 1)
    return "\n".join([CLI_HEAD + _table(sorted(shared)), f"## divulge\n\n{first}\n", *described])


def _shared_rows(commands: Iterable[click.Command]) -> set[str]:
    """What several commands say of an option; the most common of each name."""
    rows = Counter(item for command in commands for item in _rows(command).items())
    by_name: dict[str, str] = {}
    for (row, name), times in rows.most_common():
        if times > 1:
            by_name.setdefault(name, row)
    return set(by_name.values())


def _with_subcommands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        yield from ((f"{name} {sub}", command.commands[sub]) for sub in sorted(command.commands))


def _command(name: str, command: click.Command, shared: Container[str]) -> str:
    usage = ["divulge", name, *_usage(command)]
    text, _, example = _text(command).partition("Example: ")
    rows = _rows(command)
    own = [row for row in rows if row not in shared]
    also = ", ".join(f"`{option}`" for row, option in rows.items() if row in shared)
    parts = [
        f"## divulge {name}",
        text.strip(),
        f"```text\n{' '.join(usage)}\n```",
        f"Example:\n\n```sh\n{example.strip()}\n```",
        _table(own).strip() if own else "",
        f"[Of several commands](#options-of-several-commands): {also}." if also else "",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


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


def _rows(command: click.Command) -> dict[str, str]:
    """The lines that describe the options of a command, each with the option's name."""
    return {_option(p): p.opts[0] for p in command.params if isinstance(p, click.Option)}


def _table(rows: Iterable[str]) -> str:
    return "\n".join(["| option | meaning |", "| --- | --- |", *rows]) + "\n"


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
