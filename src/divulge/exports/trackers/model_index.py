"""The metadata of a model card on Hugging Face, with the figures of an audit in ``model-index``."""

from collections.abc import Mapping

from divulge._util.extras import name_missing_extra
from divulge.exports.ci.cases import describe_estimate
from divulge.exports.trackers.tracked import TrackedFigure
from divulge.secrets.registry import SECRETS

_OURS = "divulge"
"""What is written as the configuration of the data set, and marks an entry as ours."""

_TASKS: Mapping[str, str] = {
    **{kind: secret.task for kind, secret in SECRETS.items()},
    "canaries": "Audit by canaries",
    "federation": "Search for a federation",
}
"""By secret, or by kind of run without one, what was done."""


def put_figures(
    card: str, model: str, run: str, about: str, figures: tuple[TrackedFigure, ...]
) -> str:
    """The card with a result for the leading metric of each attack; ours of earlier are replaced.

    Args:
        card: its whole text; empty for a new card.
        model: the name of the model in ``model-index``.
        run: the name of the run.
        about: the secret.
        figures: of the run.

    Raises:
        MissingExtra: huggingface_hub is not installed.
        ValueError: the card's metadata are damaged.
    """
    with name_missing_extra():
        from huggingface_hub import EvalResult, ModelCard
    read = ModelCard(card, ignore_metadata_errors=False)
    others = [result for result in read.data.eval_results or () if result.dataset_config != _OURS]
    read.data.model_name = model
    read.data.eval_results = others + [
        EvalResult(
            task_type="other",
            task_name=_TASKS[about],
            dataset_type="private",
            dataset_name=run,
            dataset_config=_OURS,
            metric_type=figure.metric,
            metric_value=round(figure.estimate.value, 4),
            metric_name=_name(figure),
        )
        for figure in figures
        if figure.leads
    ]
    return str(read)


def _name(figure: TrackedFigure) -> str:
    about = f"{figure.about}, " if figure.about else ""
    return f"{about}{figure.attack}: {describe_estimate(figure.metric, figure.estimate, {})}"
