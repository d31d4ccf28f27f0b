"""Say by which code, when and on what machine figures were measured."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from divulge.core.runs import BEFORE_NAMING


@dataclass(frozen=True, slots=True)
class Measurement:
    """Provenance of one piece of work."""

    divulge: str
    """Version of divulge."""
    commit: str
    """Git commit of the checkout, with ``-dirty`` if files outside of ``docs`` were changed; empty
    outside of one."""
    source: str
    """Digest of the source that the study runs; see `divulge_papers.source`."""
    cores: int
    """Number of CPU cores of the machine. The piece itself used one."""
    date: str = ""
    """Time at which the piece was finished, in UTC and ISO 8601."""
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Provenance:
    """Provenance of a table: command, version and machine that put its pieces together."""

    command: str
    commit: str
    """Git commit of the checkout, with ``-dirty`` if files outside of ``docs`` were changed; empty
    outside of one."""
    cores: int
    """Number of CPU cores of the machine."""
    processes: int
    date: str
    """Time of the measurement, in UTC and ISO 8601."""
    cpu_seconds: float
    """CPU seconds of all pieces of work, each measured in its process."""
    divulge: str = BEFORE_NAMING


def checkout_commit() -> str:
    """Git commit of the checkout that this file belongs to; empty if it belongs to none."""
    git, here = shutil.which("git"), Path(__file__)
    if git is None:
        return ""

    def run_git(*words: str) -> str:
        command = [git, "-C", str(here.parent), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (git, and words of ours)
        return done.stdout.strip()

    if not run_git("ls-files", here.name):
        return ""
    commit = run_git("rev-parse", "--short=12", "HEAD")
    # stored results of another table are no other code
    code = (":(top)", ":(top,exclude)docs")
    changed = run_git("status", "--porcelain", "--untracked-files=no", "--", *code)
    return f"{commit}-dirty" if changed else commit
