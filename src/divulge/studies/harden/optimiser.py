"""The optimiser, Optuna's tree-structured Parzen estimator: studies and proposed values."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from divulge._util.extras import name_missing_extra
from divulge.core import Range

if TYPE_CHECKING:
    import optuna


def new_study() -> "optuna.Study":
    """A study of accuracy and leakage.

    Raises:
        MissingExtra: Optuna is not installed.
    """
    with name_missing_extra():
        import optuna
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # it speaks of each study and trial
    try:
        return optuna.create_study(directions=["maximize", "minimize"])
    finally:
        optuna.logging.set_verbosity(level)


def ask(
    study: "optuna.Study",
    seed: int,
    first: Mapping[str, Any] | None = None,
    *,
    by_chance: bool = False,
) -> "optuna.Trial":
    """A trial whose values the estimator proposes, from all that the study was shown.

    Args:
        study: of accuracy and leakage.
        seed: of the estimator for this trial alone.
        first: values that are not proposed but given.
        by_chance: draw values evenly instead, whatever the study was shown.
    """
    import optuna

    study.sampler = (
        optuna.samplers.RandomSampler(seed)
        if by_chance
        else optuna.samplers.TPESampler(seed=seed, n_startup_trials=1)
    )
    if first is not None:
        study.enqueue_trial(dict(first))
    return study.ask()


def show(
    study: "optuna.Study", trial: "optuna.Trial", accuracy: float, leak: float, excess: float
) -> None:
    """Show the study what a model with the values of a trial came to.

    Args:
        study: of accuracy and leakage.
        trial: what was tried; one trial may have several models, of different epochs.
        accuracy: of the model.
        leak: what is to be small.
        excess: by how much a ceiling is exceeded; 0 or less where none is.
    """
    import optuna

    study.add_trial(
        optuna.trial.create_trial(
            values=[accuracy, leak],
            params=trial.params,
            distributions=trial.distributions,
            constraints={"ceiling": excess},
        )
    )


def end(study: "optuna.Study", trial: "optuna.Trial") -> None:
    """Say that a trial is over: all that it came to was shown, or it was not carried out.

    Until then the estimator expects it to be bad, so that what it proposes meanwhile differs.
    """
    import optuna

    study.tell(trial, state=optuna.trial.TrialState.FAIL)


def holds(values: Range | tuple[Any, ...], value: Any) -> bool:
    """Whether a search that tries these values may come to this one."""
    if isinstance(values, Range):
        return isinstance(value, int | float) and values.low <= value <= values.high
    return value in values


def suggest(trial: "optuna.Trial", name: str, values: Range | tuple[Any, ...]) -> Any:
    """A value; numbers with three digits, which is all that matters of them."""
    if isinstance(values, Range):
        value = trial.suggest_float(name, values.low, values.high, log=values.log)
        return float(f"{value:.3g}")
    return trial.suggest_categorical(name, values)
