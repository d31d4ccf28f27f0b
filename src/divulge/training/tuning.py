"""Ways to train whose settings can be changed, and the values of these that are worth a trial."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

from divulge._util.json import JSON
from divulge.core import Trainer
from divulge.errors import SpecError, did_you_mean
from divulge.targets.model_parts import ModelKind, kind_of_parts
from divulge.targets.outputs import Output
from divulge.training.trainers import (
    EstimatorTrainer,
    FunctionTrainer,
    as_trainer,
    copy_unfitted,
)

HYPERPARAMETERS = "hyperparameters"
"""The name under which changed settings are tried as a defence."""

Space = Mapping[str, tuple[JSON, ...]]
"""By setting the values to try, from the mildest to that which is expected to leak least."""


class Values(NamedTuple):
    """Values of a setting, from the mildest to that which is expected to leak least."""

    values: tuple[Any, ...]
    factors: bool = False
    """Whether they are multiples of the value that is set."""
    whole: bool = False


USUAL: Mapping[ModelKind, Mapping[tuple[str, ...], Values]] = {
    "boosted trees": {
        ("iterations", "n_estimators", "max_iter"): Values(
            (0.5, 0.25, 0.1), factors=True, whole=True
        ),
        ("depth", "max_depth"): Values((6, 4, 3, 2)),
        ("min_child_samples", "min_samples_leaf", "min_child_weight"): Values((20, 50, 100, 200)),
        ("subsample",): Values((0.8, 0.5, 0.3)),
        ("learning_rate",): Values((0.5, 0.25), factors=True),
    },
    "forest": {
        ("max_depth",): Values((12, 8, 6, 4)),
        ("min_samples_leaf",): Values((2, 5, 10, 20)),
        ("max_samples",): Values((0.5, 0.2, 0.1)),
    },
    "linear model": {
        ("C",): Values((0.1, 0.01, 0.001), factors=True),
        ("alpha",): Values((10, 100, 1000), factors=True),
    },
    "support vectors": {("C",): Values((0.1, 0.01), factors=True)},
    "scikit-learn network": {
        ("alpha",): Values((100, 1000, 10_000), factors=True),
        ("early_stopping",): Values((True,)),
        ("hidden_layer_sizes",): Values((32, 16, 8)),
    },
    "nearest neighbours": {
        ("n_neighbors",): Values((10, 20, 50)),
        ("weights",): Values(("uniform",)),
    },
}
"""By kind of estimator and name of a setting, or names of which libraries have one."""

_UNSAID = {"iterations": 1000, "n_estimators": 100, "learning_rate": 0.1}
"""What libraries take where nothing is set."""


@dataclass(frozen=True, slots=True)
class Tunable:
    """A way to train any model, and values of its settings that are worth a trial.

    Args:
        trainer: trains models with the settings as they are.
        space: by setting, the values to try.
    """

    trainer: Trainer
    space: Space

    epochs: ClassVar[int] = 0
    """Its models are not looked at while they are trained."""

    def changed(self, settings: Mapping[str, Any]) -> Trainer:
        """What trains models with some settings changed.

        Raises:
            SpecError: there is no such setting.
        """
        changed: Trainer = change_settings(self.trainer, settings)
        return changed


def make_tunable(how: Any, space: Space | None = None, output: Output | None = None) -> Tunable:
    """A way to train with a space of its settings.

    Args:
        how: an estimator, a function (x, y, seed, **settings), or a trainer around either.
        space: by setting, the values to try; the usual ones of an estimator, unless given.
        output: what a model answers that a function returned.

    Raises:
        SpecError: it is no way to train, or has no such setting, or no value is to be tried.
    """
    trainer = as_trainer(how, output)
    if not isinstance(trainer, EstimatorTrainer | FunctionTrainer):
        raise SpecError(
            f"expected a Recipe, an estimator or a function (x, y, seed, **settings), got "
            f"{type(trainer).__name__}: settings of other trainers cannot be changed"
        )
    if space is None:
        return Tunable(trainer, usual_space(trainer))
    check_settings(trainer, space)
    if empty := [name for name, values in space.items() if not values]:
        raise SpecError(f"expected values of {empty[0]} to try, got none: leave it out of space")
    return Tunable(trainer, {name: tuple(values) for name, values in space.items()})


def usual_space(how: Any) -> Space:
    """What is worth a trial of the settings of an estimator, by its kind; nothing of a function.

    Values that are milder than what is set are left out.

    Examples:
        >>> from sklearn.linear_model import LogisticRegression
        >>> usual_space(LogisticRegression(C=10))
        {'C': (1.0, 0.1, 0.01)}
    """
    how = getattr(how, "estimator", how) if isinstance(how, EstimatorTrainer) else how
    if not hasattr(how, "get_params"):
        return {}
    space: dict[str, tuple[JSON, ...]] = {}
    parts = {"": how, **how.get_params(deep=True)}
    for place, part in parts.items():
        if not hasattr(part, "get_params") or hasattr(part, "steps"):
            continue
        for name, values in _usual_of(part):
            space[f"{place}__{name}" if place else name] = values
    return space


def _usual_of(estimator: Any) -> Iterator[tuple[str, tuple[JSON, ...]]]:
    given = estimator.get_params(deep=False)
    known = {**dict.fromkeys(inspect.signature(type(estimator)).parameters), **given}
    for names, wanted in USUAL.get(kind_of_parts(estimator), {}).items():
        name = next((name for name in names if name in given),
                    next((name for name in names if name in known), None))  # fmt: skip
        if name is None or (name == "max_samples" and not given.get("bootstrap")):
            continue
        values = _stronger(wanted, known[name], _UNSAID.get(name))
        if values:
            yield name, values


def _stronger(wanted: Values, now: Any, unsaid: Any) -> tuple[JSON, ...]:
    """The values that are stronger than what is set now."""
    if wanted.factors:
        start = unsaid if now is None else now
        if isinstance(start, bool) or not isinstance(start, int | float):
            return ()
        made = [start * factor for factor in wanted.values]
        return tuple(
            max(1, round(value)) if wanted.whole else float(f"{value:.6g}") for value in made
        )
    first, last = wanted.values[0], wanted.values[-1]
    if isinstance(now, bool | str | None) or not isinstance(now, int | float) or now <= 0:
        return tuple(value for value in wanted.values if value != now)
    rising = last > first
    return tuple(value for value in wanted.values if (value > now if rising else value < now))


def change_settings(how: Any, settings: Mapping[str, Any]) -> Any:
    """The same way to train with some of its settings changed.

    Args:
        how: an estimator, a function (x, y, seed, **settings), or a trainer around either.
        settings: by name; those of a part of an estimator as ``part__name``.

    Raises:
        SpecError: it has no such setting.
    """
    if isinstance(how, EstimatorTrainer):
        return replace(how, estimator=change_settings(how.estimator, settings))
    if isinstance(how, FunctionTrainer):
        return replace(how, function=change_settings(how.function, settings))
    check_settings(how, settings)
    if not hasattr(how, "get_params"):
        return partial(how, **settings) if settings else how
    changed = copy_unfitted(how)
    changed.set_params(**_with_companions(settings, how.get_params()))
    return changed


def _with_companions(settings: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with what LightGBM needs besides to draw a part of the records."""
    beside = {f"{name}_freq": 1 for name in settings if given.get(f"{name}_freq") == 0}
    return {**beside, **settings}


def check_settings(how: Any, names: Iterable[str]) -> None:
    """Refuse names of settings that a way to train does not have.

    Raises:
        SpecError: it has no such setting; says the nearest one.
    """
    if isinstance(how, EstimatorTrainer | FunctionTrainer):
        how = how.estimator if isinstance(how, EstimatorTrainer) else how.function
    if hasattr(how, "get_params"):
        known = {*how.get_params(), *inspect.signature(type(how)).parameters}
    else:
        parameters = inspect.signature(how).parameters
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            return
        known = {*list(parameters)[3:]}  # behind the records, their labels and the seed
    for name in names:
        if name not in known:
            what = getattr(how, "__name__", type(how).__name__)
            hint = did_you_mean(name, known) if known else "it takes x, y and seed alone"
            raise SpecError(f"expected a setting of {what}, got {name!r}: {hint}")
