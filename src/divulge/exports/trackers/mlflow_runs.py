"""A finished run as a run of MLflow: metrics, tags and the report as artefacts."""

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from divulge._util.extras import name_missing_extra
from divulge._util.redaction import redact_foreign
from divulge.errors import MissingExtra, StoreError

T = TypeVar("T")

_EXPERIMENT = "MLFLOW_EXPERIMENT_NAME"
"""The variable in which users of MLflow name the experiment."""


def check_store(uri: str | None) -> None:
    """Refuse a store of MLflow that cannot be reached, before a run is made in it.

    Args:
        uri: where MLflow tracks; None takes what it is set up with.

    Raises:
        MissingExtra: MLflow is not installed.
        StoreError: MLflow cannot be reached, or the experiment was deleted.
    """
    named, experiment = _call(lambda: _find_experiment(_make_client(uri)), uri)
    if experiment is not None and experiment.lifecycle_stage != "active":
        raise StoreError(
            f"expected an experiment of MLflow that takes runs, got {named!r}, which was deleted: "
            f"restore it, or name another in {_EXPERIMENT}"
        )


def track(
    name: str,
    metrics: Mapping[str, float],
    tags: Mapping[str, str],
    files: Mapping[str, bytes],
    uri: str | None,
) -> str:
    """Write a new run of MLflow, and return its id.

    Args:
        name: of the run.
        metrics: by name.
        tags: by name.
        files: by name, stored under ``divulge/``.
        uri: where MLflow tracks; None takes what it is set up with.

    Raises:
        MissingExtra: MLflow is not installed.
        StoreError: MLflow refuses something, or cannot be reached.
    """

    def write() -> str:
        client = _make_client(uri)
        named, before = _find_experiment(client)
        number = client.create_experiment(named) if before is None else before.experiment_id
        run = client.create_run(number, run_name=name).info.run_id
        ended = "FAILED"
        try:
            add(client, run, metrics, tags, files)
            ended = "FINISHED"
        finally:
            client.set_terminated(run, ended)
        return str(run)

    return _call(write, uri)


def _call(work: Callable[[], T], uri: str | None) -> T:
    """Do something with a store of MLflow; its errors are ours, and hold no password."""
    try:
        return work()
    except MissingExtra:
        raise
    except Exception as error:  # of its stores, each a library of its own
        # its own message may hold the URI with a password, and what a server said
        message = (redact_foreign(str(error), uri or "").splitlines() or [type(error).__name__])[0]
    raise StoreError(
        f"expected MLflow to take the run, got an error ({message}): check the URI after "
        "--mlflow, such as sqlite:///mlflow.db, or MLFLOW_TRACKING_URI"
    )


def _make_client(uri: str | None) -> Any:
    with name_missing_extra():
        from mlflow import MlflowClient
    return MlflowClient(tracking_uri=uri)


def _find_experiment(client: Any) -> tuple[str, Any]:
    """The name of the experiment, and the experiment if it is there."""
    named = os.environ.get(_EXPERIMENT, "divulge")
    return named, client.get_experiment_by_name(named)


def add(
    client: Any,
    run: str,
    metrics: Mapping[str, float],
    tags: Mapping[str, str],
    files: Mapping[str, bytes],
) -> None:
    """Add figures and the report to a run of MLflow that is there.

    Args:
        client: an ``MlflowClient``.
        run: its id.
        metrics: by name.
        tags: by name.
        files: by name, stored under ``divulge/``.
    """
    for key, text in tags.items():
        client.set_tag(run, key, text)
    for key, value in metrics.items():
        client.log_metric(run, key, value)
    with tempfile.TemporaryDirectory() as folder:
        for file, content in files.items():
            (Path(folder) / file).write_bytes(content)
        if files:
            client.log_artifacts(run, folder, "divulge")
