"""Turn whatever describes how a model is trained into a trainer: one interface for all."""

import dataclasses
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool

from divulge._util.arguments import check_arguments
from divulge._util.contents import quote_error
from divulge._util.digest import digest
from divulge._util.processes import parallel_calls
from divulge.core import Need, Records, Target, Trainer
from divulge.errors import DataError, SpecError, TargetError
from divulge.targets.batching import unlock
from divulge.targets.boosters import is_catboost
from divulge.targets.encoded import decode_for
from divulge.targets.outputs import Output
from divulge.targets.sklearn import is_regressor
from divulge.targets.token_probability import TokenProbability
from divulge.targets.wrap import as_target

_ONE = {"way": "one-by-one", "workers": 1, "jobs": 1, "threads": 1}
"""Settings that trainers have for how many processes and threads they start."""
_SEEDS = {"random_state", "random_seed"}
_THREADS = {"n_jobs", "nthread", "num_threads", "thread_count"}


@dataclass(frozen=True, slots=True)
class EstimatorTrainer:
    """A scikit-learn estimator, cloned for each model and fitted in processes of their own.

    Args:
        estimator: a scikit-learn estimator, fitted or not; only its settings are used.
        jobs: how many processes fit clones; -1 starts one a core.
        threads: how many threads fit one; as it is set, or its share of the cores, unless given.
    """

    estimator: Any
    jobs: int = -1
    threads: int | None = dataclasses.field(default=None, metadata={"identity": False})

    def many(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
    ) -> Iterator[Target]:
        """One fitted clone a row of ``subsets``, in order, as soon as it is there.

        Raises:
            DataError: a subset is empty.
            TargetError: a clone could not be fitted.
        """
        check_subsets(subsets)
        from joblib import cpu_count, delayed, effective_n_jobs

        if not len(seeds):
            return
        jobs = min(effective_n_jobs(self.jobs), len(seeds))
        threads = self.threads or (max(1, cpu_count() // jobs) if jobs > 1 else None)
        tasks = (
            delayed(_fit_clone)(self.estimator, part.rows(), part.labels(), seed, threads)
            for part, seed in zip(map(pool.take, subsets), seeds, strict=True)
        )
        try:
            for fitted in parallel_calls(tasks, jobs):
                yield decode_for(as_target(fitted, labels=pool.classes), pool.encoding)
        except Exception as error:
            raise _training_error(error) from error


@dataclass(frozen=True, slots=True)
class FunctionTrainer:
    """A function of features, labels and a seed that returns a trained model.

    Args:
        function: trains one model from scratch; anything that `divulge.audit` takes may come
            back. A fine-tuned language model answers with the probability of a text's tokens.
        output: the kind of the model's output, as for `divulge.audit`.
    """

    function: Callable[[Any, np.ndarray, int], Any]
    output: Output | None = None

    def many(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
    ) -> Iterator[Target]:
        """One model a row of ``subsets``, one after another.

        Raises:
            DataError: a subset is empty.
            TargetError: the function failed.
        """
        check_subsets(subsets)
        for subset, seed in zip(subsets, seeds, strict=True):
            try:
                part = pool.take(subset)
                model = self.function(part.rows(), part.labels(), seed)
            except Exception as error:
                raise _training_error(error) from error
            target = as_target(model, self.output, labels=pool.classes)
            if Need.TOKENS in target.offers:
                target = TokenProbability(target)
            yield decode_for(target, pool.encoding)


def check_subsets(subsets: Bool[np.ndarray, "models records"]) -> None:
    """Refuse to train a model on nothing.

    Raises:
        DataError: a subset is empty.
    """
    if not subsets.any(axis=1).all():
        raise DataError("expected records in every subset, got an empty one: enlarge the pool")


@check_arguments
def as_trainer(how: Any, output: Output | None = None) -> Trainer:
    """The trainer behind a trainer, an estimator or a function.

    Raises:
        SpecError: it is none of these.
    """
    if isinstance(how, Trainer):
        return how
    if callable(getattr(how, "fit", None)) and callable(getattr(how, "get_params", None)):
        return EstimatorTrainer(how)
    if callable(how):
        return FunctionTrainer(how, output)
    raise SpecError(
        f"expected a way to train a model, got {type(how).__name__}: pass a scikit-learn "
        "estimator, or a function (x, y, seed) that returns a trained model"
    )


def innermost(trainer: Trainer) -> Trainer:
    """What trains single models, where a trainer is around another one."""
    while isinstance(inner := getattr(trainer, "trainer", None), Trainer):
        trainer = inner
    return trainer


def use_one_thread(trainer: Any) -> Any:
    """The trainer, and those within it, in this process and on one thread."""
    if not dataclasses.is_dataclass(trainer) or isinstance(trainer, type):
        return trainer
    names = {field.name for field in dataclasses.fields(trainer)}
    changed = {name: field for name, field in _ONE.items() if name in names}
    if isinstance(inner := getattr(trainer, "trainer", None), Trainer):
        changed["trainer"] = use_one_thread(inner)
    return dataclasses.replace(trainer, **changed)


def trains_regression(trainer: Trainer) -> bool:
    """Whether its models answer numbers: regressors, or whatever has ``output="values"``."""
    if isinstance(trainer, EstimatorTrainer):
        return is_regressor(trainer.estimator)
    return getattr(trainer, "output", None) == "values"


def trainer_identity(how: Any) -> str:
    """What tells one way to train from another, as far as Python can: settings, or source."""
    if hasattr(how, "get_params"):
        return f"{type(how).__qualname__} {sorted(how.get_params().items(), key=str)!r}"
    if dataclasses.is_dataclass(how) and not isinstance(how, type):
        names = [f.name for f in dataclasses.fields(how) if _tells_models(how, f)]
        fields = {name: trainer_identity(getattr(how, name)) for name in names}
        return f"{type(how).__qualname__} {fields}"
    if how is None or isinstance(how, str | int | float):
        return repr(how)
    if isinstance(how, partial):
        return f"{trainer_identity(how.func)} {how.args!r} {sorted(how.keywords.items())!r}"
    if isinstance(how, tuple):
        return repr([trainer_identity(part) for part in how])
    if isinstance(how, np.ndarray):
        return digest("array", how)
    try:
        return inspect.getsource(how)
    except (OSError, TypeError):
        return f"{getattr(how, '__module__', '')}.{getattr(how, '__qualname__', type(how))}"


def _tells_models(how: Any, field: "dataclasses.Field[Any]") -> bool:
    """Whether models depend on a setting; one that came later counts only where it is changed."""
    kind = field.metadata.get("identity", True)
    return getattr(how, field.name) != field.default if kind == "if changed" else bool(kind)


def _fit_clone(estimator: Any, x: Any, y: np.ndarray, seed: int, threads: int | None) -> Any:
    from sklearn.exceptions import ConvergenceWarning

    fresh = copy_unfitted(estimator)
    fresh.set_params(**_settings(fresh, seed, threads))
    with warnings.catch_warnings(), _torch_seeded(seed):
        # the target was trained with the same settings
        warnings.simplefilter("ignore", ConvergenceWarning)
        x, y = (x, y) if "torch" not in sys.modules else (unlock(x), unlock(y))
        flat = x.reshape(len(x), -1) if isinstance(x, np.ndarray) else x
        return fresh.fit(flat, y)


def copy_unfitted(estimator: Any) -> Any:
    """A new estimator with the same settings."""
    from sklearn.base import clone

    if is_catboost(estimator):  # which copies what it is given, and clone refuses that
        kind, given = type(estimator), estimator.get_params()
        native = "params" in inspect.signature(kind).parameters
        return kind(given) if native else kind(**given)
    return clone(estimator)


def _settings(estimator: Any, seed: int, threads: int | None) -> dict[str, Any]:
    """The seed, and no more than these threads, by the names that an estimator has for them."""
    parameters: dict[str, Any] = {}
    given = {"": estimator, **estimator.get_params()}
    for key, value in given.items():
        of, _, name = key.rpartition("__")
        if name in _SEEDS:
            parameters[key] = seed
        elif name in _THREADS and threads is not None:
            # None is one thread to scikit-learn, which warns of a number it no longer uses, and
            # every core to others
            if value is None and type(given.get(of)).__module__.startswith("sklearn."):
                continue
            few = isinstance(value, int) and 0 < value < threads
            parameters[key] = value if few else threads
        elif is_catboost(value):
            settings = _catboost_settings(value, seed, threads)
            parameters |= {
                f"{key}__{name}".removeprefix("__"): value for name, value in settings.items()
            }
    return parameters


def _catboost_settings(model: Any, seed: int, threads: int | None) -> dict[str, Any]:
    """What CatBoost does not name, since it was not given it; and that it writes no files."""
    given = model.get_params().keys()
    settings: dict[str, Any] = {"allow_writing_files": False}
    if not given & _SEEDS:
        settings["random_seed"] = seed
    if not given & {"logging_level", "silent", "verbose", "verbose_eval"}:
        settings["logging_level"] = "Silent"
    if threads is not None and "thread_count" not in given:
        settings["thread_count"] = threads
    return settings


@contextmanager
def _torch_seeded(seed: int) -> Iterator[None]:
    """PyTorch draws from the seed, where an estimator has loaded it, and afterwards as before."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        yield


def _training_error(error: Exception) -> TargetError:
    return TargetError(
        f"expected a shadow model to train, got {type(error).__name__}: "
        f"{quote_error(error)}: train one on half of the data by hand to see why"
    )
