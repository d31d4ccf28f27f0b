"""The command line: each command parses, calls one function, prints.

Exit codes: 0 done; 1 an attack failed; 2 bad input; 3 the gate or a check failed; 4 it could not
be decided.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from divulge._util.exits import exit_error
from divulge._util.extras import name_missing_extra
from divulge._util.streams import guard_streams

# Only what `--help` needs is imported here; commands import the rest, so that help is instant.
from divulge.cli.begin import begin, take
from divulge.cli.bench import bench
from divulge.cli.canary import canary
from divulge.cli.check import check
from divulge.cli.compare import compare
from divulge.cli.evidence import evidence
from divulge.cli.exit_codes import finish, print_estimates
from divulge.cli.export import export
from divulge.cli.gate import gate_options
from divulge.cli.harden import harden
from divulge.cli.history import diff, history
from divulge.cli.options import Group, SecretChoice
from divulge.cli.plan import plan
from divulge.cli.plugins import find_commands
from divulge.cli.terminal import echo
from divulge.cli.transcript import transcript
from divulge.errors import DivulgeError, SpecError

if TYPE_CHECKING:
    from divulge.finished_runs.gate import FailOn

BAD_INPUT = 2

formats = click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json prints one object as the last line: run, report, verdict, findings and claim.",
)
run_folder = click.option(
    "--run", type=click.Path(path_type=Path), help="Run folder. Default: a new one in runs/."
)
who_trains = click.option(
    "--workers",
    metavar="local|ray[:ADDRESS]",
    default="local",
    help="Where shadow models are trained: on this machine, or on a Ray cluster (ray:auto, "
    "ray:HOST:PORT).",
)
show_records = click.option(
    "--show-records",
    is_flag=True,
    help="Show, in the report, the images that clients received beside the originals. Only for "
    "[interactions] with images in the transcript.",
)


class _Group(Group):
    """Says our errors in one line, without a traceback, with exit code 2; lists whole sentences."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with its first sentence, which click itself cuts to fit one line."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, self.commands[name].get_short_help_str(limit=200))
                    for name in self.list_commands(ctx)
                ]
            )

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the program; from here on, nothing that cannot be printed changes how it ends."""
        guard_streams()
        return super().main(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with name_missing_extra():
                return super().invoke(ctx)
        except DivulgeError as error:
            echo(f"Error: {error}", err=True)
            ctx.exit(BAD_INPUT)
        except SystemExit as error:  # our own commands end by `leave`
            echo(f"Error: {exit_error(error)}", err=True)
            ctx.exit(BAD_INPUT)
        except MemoryError:
            echo(
                "Error: expected memory for this work, got too little: raise the limit (ulimit "
                "-v), or use a machine with more; what was finished is kept, continue with "
                "--resume",
                err=True,
            )
            ctx.exit(BAD_INPUT)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="divulge")
def main() -> None:
    """Audit the privacy of a machine learning model or a federated learning run.

    Start with `divulge demo`, then `divulge init` for a model of your own.
    """


main.add_command(bench)
main.add_command(check)
main.add_command(canary)
main.add_command(compare)
main.add_command(evidence)
main.add_command(export)
main.add_command(harden)
main.add_command(history)
main.add_command(diff)
main.add_command(plan)
main.add_command(transcript)
for name, command in find_commands():
    main.add_command(command, name)


@main.command()
@run_folder
@formats
def demo(run: Path | None, shape: str) -> None:
    """Train a small over-fitted network on real data, and audit it.

    Example: divulge demo
    """
    from divulge._util.folders import numbered_folder

    with take(run or numbered_folder(Path("runs") / "demo")) as folder:
        from divulge.studies import demo as demonstration

        result = demonstration.demo(folder, progress=True)
    finish(result, shape)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
def init(folder: Path) -> None:
    """Write a commented audit.toml and an example subject.py into FOLDER.

    They audit an example model. Replace it and its data by your own.

    Example: divulge init my-audit
    """
    from divulge.cli import init as cli_init

    for path in cli_init.write(folder):
        echo(f"wrote {path}")
    echo(f"now: divulge audit {folder / 'audit.toml'}")


@main.command()
@click.argument("settings", type=click.Path(path_type=Path))
@run_folder
@click.option("--resume", is_flag=True, help="Continue the run folder (default: the latest one).")
@who_trains
@click.option(
    "--estimate",
    is_flag=True,
    help="Estimate the training time of the shadow models by a short trial, and stop.",
)
@show_records
@gate_options
@formats
def audit(
    settings: Path,
    run: Path | None,
    resume: bool,
    workers: str,
    estimate: bool,
    show_records: bool,
    fail_on: tuple[FailOn, ...],
    agreed: tuple[str, ...],
    ceilings: tuple[str, ...],
    judge: Literal["low", "value"] | None,
    not_worse_than: Path | None,
    shape: str,
) -> None:
    """Run the audit described in SETTINGS (an audit.toml file).

    Example: divulge audit audit.toml --fail-on leak
    """
    from divulge.audits import config

    if estimate:
        print_estimates(settings, shape, workers)
        return
    from divulge.finished_runs import gate

    requested = config.read_config(settings)
    # a wrong word is refused before the work, and before there is a folder
    whole_gate = gate.join_gate(
        requested.gate,
        requested.about,
        fail_on,
        tuple(map(gate.read_ceiling, ceilings)),
        judge,
        not_worse_than,
        settings.parent,
        tuple(map(gate.read_ceiling, agreed)),
    )
    with begin(settings, run, requested.name, resume=resume) as folder:
        from divulge.studies import from_file

        result = from_file.audit_file(
            settings,
            folder,
            resume=resume,
            show_records=show_records,
            progress=True,
            workers=workers,
        )
    finish(result, shape, ruling=result.rule(whole_gate))


@main.command()
@click.argument("run", type=click.Path(path_type=Path))
@show_records
def report(run: Path, show_records: bool) -> None:
    """Render the report of RUN again, without the model or the data.

    RUN is an audit, a leave-one-out run (its targets are runs in RUN/targets), a comparison, a
    search, or an audit by canaries.

    Example: divulge report runs/demo-001
    """
    from divulge.finished_runs.finished_run import load

    echo(load(run).report(show_records=show_records))


@main.command()
@click.argument("run", type=click.Path(path_type=Path))
@formats
def measure(run: Path, shape: str) -> None:
    """Compute the metrics of RUN again from its stored scores.

    Example: divulge measure runs/demo-001
    """
    from divulge.finished_runs.finished_run import load

    finish(load(run).measure(), shape)


@main.command()
@click.argument("run", type=click.Path(path_type=Path))
def questions(run: Path) -> None:
    """Show what fewer queries would have found in RUN, an audit of one model.

    Example: divulge questions runs/demo-001
    """
    from divulge.audits.result import Audit
    from divulge.cli import render
    from divulge.finished_runs.finished_run import load

    result = load(run)
    if not isinstance(result, Audit):
        raise SpecError(f"expected an audit of one model in {run}, got another: name such a run")
    render.show_questions(result.questions())


@main.command("list")
@click.argument("what", type=click.Choice(["attacks", "defences", "targets", "data"]))
@click.argument("secret", type=SecretChoice(), required=False)
def list_(what: str, secret: str | None) -> None:
    """List attacks, defences, kinds of target or data sets, one line each.

    SECRET selects the attacks on one secret.

    Example: divulge list attacks membership
    """
    from divulge.cli import listing

    if secret and what != "attacks":
        raise SpecError(f"expected no secret beside {what}, got {secret}: only attacks have one")
    if what != "attacks":
        for name, text in listing.lines(what):
            echo(f"{name:<20} {text}")
        return
    for text in listing.attacks(secret):
        echo(text)


@main.command()
@click.argument("settings", type=click.Path(path_type=Path))
@click.option(
    "--run",
    type=click.Path(path_type=Path),
    help="Folder of the transcript. Default: a new one in runs/.",
)
@click.option("--resume", is_flag=True, help="Continue the transcript (default: the latest one).")
@click.option(
    "--estimate",
    is_flag=True,
    help="Estimate the time of all rounds by a trial of two, and stop.",
)
@click.option(
    "--workers",
    metavar="local|ray[:ADDRESS]",
    default="local",
    help="Where clients are trained: on this machine, or on a Ray cluster (ray:auto, "
    "ray:HOST:PORT).",
)
def federate(settings: Path, run: Path | None, resume: bool, estimate: bool, workers: str) -> None:
    """Simulate the federation described in SETTINGS (a federate.toml file).

    It writes a transcript: what the server of the federation sees.

    Example: divulge federate federate.toml
    """
    from divulge.federation import config

    if estimate:
        print_estimates(settings, "text")
        return
    name = config.read(settings).name
    with begin(settings, run, name, resume=resume) as folder:
        from divulge.federation import from_config

        from_config.federate_file(settings, folder, resume=resume, progress=True, workers=workers)
    echo(f"Transcript: {folder}")
