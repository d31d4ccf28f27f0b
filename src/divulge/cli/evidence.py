"""The command that writes a pack of evidence about a finished run, and checks one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from divulge._util.progress import track_visibly
from divulge.cli.options import Command
from divulge.cli.terminal import echo
from divulge.errors import SpecError

if TYPE_CHECKING:
    from divulge.exports.evidence.check import EvidenceCheck

PASSWORD = "DIVULGE_MINISIGN_PASSWORD"  # noqa: S105 (its name, and no password)
"""The variable that holds the password of the key, where nobody can be asked."""


@click.command(cls=Command)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--pack",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The zip file to write (default: RUN-evidence.zip, named after the run folder, here).",
)
@click.option(
    "--key",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"Sign with this secret key of minisign; its password is asked for, or taken from "
    f"{PASSWORD}.",
)
@click.option(
    "--verify", is_flag=True, help="Check RUN, which is a pack, instead; nothing is unpacked."
)
@click.option(
    "--public-key",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --verify: the pack has to be signed by this public key of minisign.",
)
def evidence(
    run: Path, pack: Path | None, key: Path | None, verify: bool, public_key: Path | None
) -> None:
    """Write a pack of evidence about RUN: report, settings, digests, plain words, all signed.

    With --verify, check a pack: that no file of it was changed, and who signed it. The last lines
    say how each part was checked; nothing is measured again.

    Example: divulge evidence runs/demo-001 --key minisign.key
    """
    with track_visibly.step("Loading divulge"):
        from divulge.exports.evidence import check as checking
        from divulge.exports.evidence import minisign
        from divulge.exports.evidence import pack as packing

    if verify:
        if pack is not None or key is not None:
            raise SpecError("expected a pack and --public-key alone beside --verify, got more")
        with track_visibly.step("Checking the pack"):
            checked = checking.check_evidence(run, public_key=public_key)
        _show_check(checked)
        return
    if public_key is not None:
        raise SpecError("expected --verify beside --public-key, got none: add it")
    password = os.environ.get(PASSWORD)
    if key is not None and password is None and minisign.needs_password(key):
        password = click.prompt("Password of the key", hide_input=True)
    place = pack or Path(f"{run.resolve().name}-evidence.zip")
    with track_visibly.step("Writing the pack"):
        packing.evidence(run, place, key=key, password=password)
    echo(place)


def _show_check(result: EvidenceCheck) -> None:
    manifest = result.manifest
    made = f", {manifest.created}" if manifest.created else ""
    _echo_line(f"Whole: {len(manifest.files)} files as the manifest says ({manifest.name}{made})")
    for about, headline in manifest.verdicts.items():
        _echo_line(f"Verdict on {about}: {headline}" if about else f"Verdict: {headline}")
    if result.signed_by is None:
        echo("Not signed: anybody can have made this pack")
    elif result.is_known:
        _echo_line(f"Signed by your key {result.signed_by}: {result.comment}")
    else:
        echo(
            f"Signed by the key {result.signed_by}, which came with the pack: give --public-key to "
            "check whose it is"
        )
    for how in dict.fromkeys(result.parts.values()):
        parts = [part for part, other in result.parts.items() if other == how]
        echo(f"{how.capitalize()}: {', '.join(parts)}")


def _echo_line(text: str) -> None:
    """Print a text of a pack as one line: a second one could look like ours."""
    echo(" ".join(text.split()))
