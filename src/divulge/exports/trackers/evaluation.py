"""What the evaluator of MLflow does: an audit on the rows of a data set, stored in a run."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pydantic
from jaxtyping import Bool
from mlflow import MlflowClient

from divulge._util.toml import Section
from divulge.audits.api import audit
from divulge.audits.options import Access, Options
from divulge.errors import DataError, SpecError
from divulge.exports.ci.gather import gather_cases
from divulge.exports.trackers import mlflow_runs
from divulge.exports.trackers.tracked import gather_figures, name_figures, name_tags
from divulge.finished_runs.gate import Gate


class EvaluatorSettings(Section):
    """What ``evaluator_config`` may hold."""

    member: Any
    """For each row of the data, whether the model was trained on it: true or false."""
    output: Literal["probabilities", "labels", "values"] | None = None
    """What the model answers; by its shape and the model type unless given."""
    seed: int = 0
    """Fixes every random choice."""
    name: str = "audit"
    """The title of the report."""


def evaluate_model(
    model: Any, model_type: str, dataset: Any, run: str, given: dict[str, Any]
) -> dict[str, float]:
    """Audit a model of MLflow on a data set of MLflow, and add what was found to a run.

    Args:
        model: a ``pyfunc`` model.
        model_type: ``classifier`` or ``regressor``.
        dataset: features and targets.
        run: the id of the run.
        given: see `EvaluatorSettings`.

    Returns:
        Figures by name.

    Raises:
        DivulgeError: a setting, the data or the model cannot be used; says what to do.
    """
    settings = _read_settings(given)
    if model is None or not dataset.has_targets:
        raise SpecError(
            "expected a model, and data with targets, got one without the other: pass "
            "mlflow.models.evaluate a model and targets="
        )
    inside = _read_member(settings.member, len(dataset.labels_data))
    x, y = dataset.features_data, np.asarray(dataset.labels_data)
    result = audit(
        lambda features: np.asarray(model.predict(features)),
        members=(x[inside], y[inside]),
        nonmembers=(x[~inside], y[~inside]),
        access=_choose_access(settings, model, x, y, model_type),
        options=Options(name=settings.name, seed=settings.seed),
    )
    cases = gather_cases(result, Path(), Gate())
    metrics = name_figures(gather_figures(result))
    tags = name_tags(cases.verdicts, cases.divulge)
    page = {result.page: result.files()[result.page]}
    mlflow_runs.add(MlflowClient(), run, metrics, tags, page)
    return metrics


def _read_settings(given: dict[str, Any]) -> EvaluatorSettings:
    try:
        return EvaluatorSettings(**given)
    except (pydantic.ValidationError, TypeError) as error:
        names = ", ".join(EvaluatorSettings.model_fields)
        problem = str(error).splitlines()[:2]
        raise SpecError(
            f"expected an evaluator_config with member, and of {names} what is needed, got "
            f"something else ({' '.join(problem)}): correct it"
        ) from error


def _read_member(member: Any, rows: int) -> Bool[np.ndarray, " records"]:
    flags = np.asarray(member)
    if flags.dtype != np.bool_ or flags.shape != (rows,):
        raise DataError(
            f"expected member with true or false for each of {rows} rows, got {flags.dtype} of "
            f"shape {flags.shape}: pass an array of booleans beside the data"
        )
    return flags


def _choose_access(
    settings: EvaluatorSettings, model: Any, x: Any, y: np.ndarray, model_type: str
) -> Access:
    output = settings.output
    if output is None and model_type == "regressor":
        output = "values"
    if output is None:
        flat = np.ndim(model.predict(x[:2])) == 1
        output = "labels" if flat else "probabilities"
    return Access(output=output, classes=len(np.unique(y)) if output == "labels" else None)
