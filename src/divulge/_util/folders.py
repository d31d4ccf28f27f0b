"""Run folders are chosen, numbered and created here."""

from pathlib import Path

from divulge._util import atomic
from divulge.errors import StoreError


def create_folder(path: Path) -> None:
    """Make a folder for the owner alone.

    Raises:
        StoreError: it exists with something in it, or cannot be made.
    """
    with atomic.translate_os_errors(path):
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise StoreError(
                f"expected a new run folder, {path} exists: "
                "choose another one, or continue it with --resume"
            )
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)


def choose_run_folder(run: str | Path | None, settings: Path, name: str, *, resume: bool) -> Path:
    """The run folder to use.

    Args:
        run: the folder that the user named; None chooses a numbered one beside the settings.
        settings: the file of settings.
        name: the audit's name.
        resume: whether to choose the latest numbered folder, to continue it, or the next one.
    """
    default = numbered_folder(settings.parent / "runs" / name.replace(" ", "-"), latest=resume)
    return default if run is None else Path(run)


def numbered_folder(base: Path, *, latest: bool = False) -> Path:
    """The first free path of ``base-001``, ``base-002``, ...; with ``latest`` the one before it."""
    number = 1
    while Path(f"{base}-{number:03d}").exists():
        number += 1
    return Path(f"{base}-{max(1, number - latest):03d}")
