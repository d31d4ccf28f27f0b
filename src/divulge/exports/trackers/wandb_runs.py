"""A finished run as an offline run of Weights & Biases: nothing is sent from here."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from divulge._util import atomic
from divulge._util.extras import name_missing_extra
from divulge._util.redaction import redact_foreign
from divulge.errors import StoreError
from divulge.exports import outputs


def check_folder(folder: Path) -> None:
    """Refuse a folder in which no run can be written, and a wandb that is not there.

    Raises:
        MissingExtra: wandb is not installed.
        StoreError: there is no such folder, or it cannot be written.
    """
    if not folder.is_dir():
        raise StoreError(f"expected a folder at {folder}, there is none: make it, or name another")
    with atomic.translate_os_errors(folder):
        outputs.check_folder(folder)
    _import_wandb()


def _import_wandb() -> Any:
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read when wandb is imported
    with name_missing_extra():
        import wandb
    return wandb


def track(
    name: str,
    metrics: Mapping[str, float],
    tags: Mapping[str, str],
    files: Mapping[str, bytes],
    folder: Path,
) -> Path:
    """Write an offline run, which ``wandb sync`` sends when the user says so; returns its folder.

    Neither git, the machine nor what is printed is recorded. A process of wandb's own writes the
    run; it is done at the latest when this process ends, or after ``wandb.teardown()``.

    Args:
        name: of the run.
        metrics: by name, its summary.
        tags: by name, its configuration.
        files: by name.
        folder: where ``wandb/offline-run-...`` is made.

    Raises:
        MissingExtra: wandb is not installed.
        StoreError: the folder cannot be written, or wandb fails.
    """
    wandb = _import_wandb()
    settings = wandb.Settings(
        mode="offline",
        root_dir=str(folder),
        console="off",
        silent=True,
        host="",
        disable_git=True,
        disable_code=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_disable_machine_info=True,
    )
    try:
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "divulge"),
            name=name,
            job_type="privacy-audit",
            config=dict(tags),
            reinit="create_new",
            settings=settings,
        )
        with run:
            place = Path(run.dir)
            for file, content in files.items():
                (place / file).write_bytes(content)
                run.save(str(place / file), base_path=run.dir, policy="end")
            run.summary.update(dict(metrics))
    except (wandb.Error, OSError) as error:
        raise StoreError(
            f"expected wandb to write an offline run in {folder}, got an error "
            f"({redact_foreign(str(error))}): check the folder"
        ) from error
    return place.parent
