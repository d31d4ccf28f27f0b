"""How commands that compute begin: the run folder is there, and said, before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path


def begin(
    settings: Path, run: Path | None, name: str, *, resume: bool
) -> AbstractContextManager[Path]:
    """The run folder of a command that reads settings, taken.

    Args:
        settings: the file of settings.
        run: the folder that the user named.
        name: the name that the settings give.
        resume: whether to continue the folder.
    """
    from divulge._util.folders import choose_run_folder

    return take(choose_run_folder(run, settings, name, resume=resume))


@contextmanager
def take(folder: Path) -> Iterator[Path]:
    """A run folder for this process alone; its path is printed on standard error."""
    from divulge._util.folders import take_folder
    from divulge._util.progress import say

    with take_folder(folder):
        say(f"Run folder: {folder}")
        yield folder
