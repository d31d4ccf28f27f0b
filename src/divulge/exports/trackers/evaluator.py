"""The evaluator ``divulge`` of ``mlflow.models.evaluate``.

    mlflow.models.evaluate(model, data, targets="label", model_type="classifier",
                           evaluators="divulge", evaluator_config={"member": member})

MLflow loads this file whenever somebody evaluates a model: it loads the rest when it is asked for.
"""

from typing import Any

from mlflow.models.evaluation import EvaluationResult, ModelEvaluator


class DivulgeEvaluator(ModelEvaluator):  # type: ignore[misc]  # MLflow's types are not read
    """Audits classifiers and regression models for membership leakage.

    ``evaluator_config`` is as `divulge.exports.trackers.evaluation.EvaluatorSettings` says.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str, evaluator_config: Any, **given: Any) -> bool:
        """Whether the model is a classifier or a regression model."""
        del evaluator_config, given
        return model_type in ("classifier", "regressor")

    def evaluate(
        self,
        *,
        model_type: str,
        dataset: Any,
        run_id: str,
        evaluator_config: dict[str, Any],
        model: Any = None,
        **given: Any,
    ) -> EvaluationResult:
        """Audit the model, and add figures, verdict and report to the run.

        Args:
            model_type: ``classifier`` or ``regressor``.
            dataset: MLflow's, with features and targets.
            run_id: of the run of MLflow.
            evaluator_config: settings.
            model: a ``pyfunc`` model.
            given: what else MLflow passes.

        Raises:
            DivulgeError: a setting, the data or the model cannot be used; says what to do.
        """
        del given
        from divulge.exports.trackers.evaluation import evaluate_model

        metrics = evaluate_model(model, model_type, dataset, run_id, evaluator_config)
        return EvaluationResult(metrics=metrics, artifacts={})
