"""The optimiser, Optuna's tree-structured Parzen estimator: studies and proposed values."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from divulge._util.extras import name_missing_extra
from divulge.core import Range

if TYPE_CHECKING:
    import optuna


def new_study(firsts: Sequence[Mapping[str, Any]]) -> "optuna.Study":
    """A study of accuracy and leakage, with what it tries first.

    Raises:
        MissingExtra: Optuna is not installed.
    """
    with name_missing_extra():
        import optuna
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # it speaks of each study and trial
    try:
        study = optuna.create_study(directions=["maximize", "minimize"])
        for first in firsts:
            study.enqueue_trial(dict(first))
    finally:
        optuna.logging.set_verbosity(level)
    return study


def seeded_sampler(seed: int, firsts: int) -> "optuna.samplers.BaseSampler":
    """The estimator, which proposes at random until it has seen so many results."""
    import optuna

    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=firsts)


def failed() -> "optuna.trial.TrialState":
    """The state of a proposal that came to nothing."""
    import optuna

    return optuna.trial.TrialState.FAIL


def holds(values: Range | tuple[Any, ...], value: Any) -> bool:
    """Whether a search that tries these values may come to this one."""
    if isinstance(values, Range):
        return isinstance(value, int | float) and values.low <= value <= values.high
    return value in values


def suggest(trial: "optuna.Trial", name: str, values: Range | tuple[Any, ...]) -> Any:
    """A value; numbers with three digits, which is all that matters of them."""
    if isinstance(values, Range):
        found = trial.suggest_float(name, values.low, values.high, log=values.log)
        return float(f"{found:.3g}")
    return trial.suggest_categorical(name, values)
