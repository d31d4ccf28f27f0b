"""Wrap whatever a user calls a model as a target, and take its fingerprint."""

import contextlib
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, get_args

import numpy as np

from divulge.core import Need, Target
from divulge.errors import SpecError, TargetError
from divulge.targets import boosters
from divulge.targets.defended import DefendedTarget
from divulge.targets.encoded import EncodedTarget
from divulge.targets.files import fingerprint_file, load_target, refuse_output_name
from divulge.targets.function import FunctionTarget
from divulge.targets.http import HTTPTarget
from divulge.targets.keras import KerasTarget, find_output, fingerprint_keras
from divulge.targets.model_process import TIME_LIMIT, IsolatedTarget
from divulge.targets.onnx import OnnxTarget
from divulge.targets.outputs import Output
from divulge.targets.predictions import TableTarget
from divulge.targets.pt2 import ExportedTarget
from divulge.targets.sklearn import (
    SklearnRegressor,
    SklearnTarget,
    is_regressor,
    wrap_estimator,
)
from divulge.targets.torch import TorchTarget
from divulge.targets.transformers import (
    TransformersTarget,
    fingerprint_pipeline,
    refuse_other_problems,
)
from divulge.targets.wider import WiderTarget

if TYPE_CHECKING:
    import torch


_ROUNDS = 32


class WrapOptions(NamedTuple):
    """How a model in memory is to be asked."""

    output: Output | None
    batch_size: int
    device: str | None
    classes: int | None
    labels: tuple[Any, ...]


class ModelKind(NamedTuple):
    """A kind of model in memory."""

    text: str
    """What such a model is, in a few words."""
    accepts: Callable[[Any], bool]
    wrap: Callable[[Any, WrapOptions], Target]


def as_target(
    model: Any,
    output: Output | None = None,
    *,
    batch_size: int = 1024,
    device: str | None = None,
    classes: int | None = None,
    labels: tuple[Any, ...] = (),
    output_name: str | None = None,
    time_limit: float = TIME_LIMIT,
) -> Target:
    """The target behind a model, a file, or a function.

    Args:
        model: a target (such as `HTTPTarget`), a path, a PyTorch module, a Keras model, a pipeline
            of transformers, a scikit-learn model, a booster, or a callable.
        output: what it returns. PyTorch modules do not say; a target and scikit-learn do.
        batch_size: how many records to ask a file or a network at a time.
        device: where PyTorch runs; where the weights are, unless given.
        classes: how many classes there are; only labels need it.
        labels: all labels in the order of columns, where a classifier of scikit-learn's kind may
            not know them all.
        output_name: which output of an ONNX file holds its answers, where there are several.
        time_limit: seconds for loading a file, and for each batch that its model is asked about.

    Raises:
        TargetError: it is none of these, or cannot be used as it is.
        SpecError: there is no such output, or the model returns another one.
    """
    _check_output(model, output)
    if isinstance(model, str) and model.startswith(("http://", "https://")):
        raise TargetError(
            "expected a model, got a URL: pass divulge.targets.HTTPTarget(url, fingerprint), which "
            "also takes how to ask it"
        )
    if isinstance(model, str | Path):
        return load_target(
            model,
            output,
            batch_size=batch_size,
            device=device,
            classes=classes,
            output_name=output_name,
            time_limit=time_limit,
        )
    if output_name is not None:
        refuse_output_name(type(model).__name__, output_name)
    for kind in KINDS.values():
        if kind.accepts(model):
            return kind.wrap(model, WrapOptions(output, batch_size, device, classes, labels))
    raise TargetError(
        f"expected a model, got {type(model).__name__}: pass a path, a PyTorch module, a "
        "scikit-learn model, or a function from records to probabilities or values"
    )


def feature_names(target: Target) -> tuple[str, ...]:
    """The names of the features in the order in which a model was fitted, where it knows them."""
    if isinstance(target, IsolatedTarget):
        return target.feature_names
    fitted = getattr(target, "estimator", None)
    if fitted is None:  # the method of an estimator is a function as well
        fitted = getattr(getattr(target, "function", None), "__self__", None)
    return tuple(map(str, getattr(fitted, "feature_names_in_", ())))


def class_labels(target: Target) -> tuple[Any, ...]:
    """The labels of a model's classes in their order, where the model says them.

    Whole numbers from 0 are the numbers of their columns, see
    `divulge.data.class_names.own_numbers`; the columns of all others are in this order.
    """
    if isinstance(target, HTTPTarget):
        return target.labels
    if isinstance(target, TransformersTarget | IsolatedTarget | OnnxTarget):
        return target.class_labels
    return tuple(np.asarray(getattr(getattr(target, "estimator", None), "classes_", ())).tolist())


def numbers_classes(target: Target) -> bool:
    """Whether it is said of a model that class numbers are positions in `class_labels`."""
    return isinstance(target, HTTPTarget | TransformersTarget)


def describe_model(target: Target) -> str:
    """What is asked in a few words: the kind of model, and the name of its class.

    Examples:
        >>> describe_model(FunctionTarget(max))
        'function max'
    """
    match target:
        case DefendedTarget():
            return f"{describe_model(target.target)}, behind {target.defence.name}"
        case EncodedTarget() | WiderTarget():
            return describe_model(target.target)
        case TorchTarget(module=module):
            weights = sum(weight.numel() for weight in module.parameters())
            return f"PyTorch module {type(module).__name__} with {weights:,} weights"
        case KerasTarget(model=model):
            return f"Keras model {type(model).__name__} with {model.count_params():,} weights"
        case TransformersTarget(pipeline=pipeline):
            return f"pipeline of transformers around {type(pipeline.model).__name__}"
        case SklearnTarget(estimator=model) | SklearnRegressor(estimator=model):
            parts = [part for _, part in getattr(model, "steps", ())] or [model]
            return ", ".join(type(getattr(part, "booster", part)).__name__ for part in parts)
        case FunctionTarget(function=function):
            return f"function {getattr(function, '__qualname__', type(function).__name__)}"
        case HTTPTarget():
            return "model behind a URL"
        case IsolatedTarget():
            return target.text
        case OnnxTarget():
            return "ONNX file"
        case ExportedTarget():
            return "PyTorch program in a .pt2 file"
        case TableTarget(offers=offers):
            return "exported losses or scores" if Need.SCORES in offers else "exported predictions"
    return type(target).__name__


def declares_probabilities(target: Target) -> bool:
    """Whether the user, and not the model, says that the answers are probabilities.

    Behind an answer defence that divulge applies nobody says so.
    """
    match target:
        case EncodedTarget():
            return declares_probabilities(target.target)
        case FunctionTarget(function=function) if hasattr(function, "__self__"):
            return not _is_estimator(function.__self__) and target.output == "probabilities"
        case FunctionTarget() | TorchTarget() | HTTPTarget():
            return target.output == "probabilities"
        case TableTarget() | IsolatedTarget():
            return target.declared
    return False


def choose_batch_size(target: Target, asked: int) -> int:
    """How many records to ask about at a time; of a model behind a URL, many rounds of requests.

    At the end of a batch connections are closed, and slots wait for each other.
    """
    return max(asked, _ROUNDS * target.round) if isinstance(target, HTTPTarget) else asked


def fingerprint_model(model: Any) -> str | None:
    """A hash that differs between models with different answers; None if there is none.

    A function, or an object of another library, may read its weights from anywhere.

    Raises:
        TargetError: the model is a file that cannot be read.
    """
    if isinstance(model, str | Path):
        return fingerprint_file(model)
    if isinstance(model, HTTPTarget):
        return model.identity
    if _is_keras(model):
        return fingerprint_keras(model)
    if _is_pipeline(model):
        return fingerprint_pipeline(model, _fingerprint_module(model.model))
    if _is_module(model):
        return _fingerprint_module(model)
    if _is_booster(model):
        return boosters.fingerprint_booster(model)
    if _is_estimator(model) and not _is_target(model) and hasattr(model, "get_params"):
        import joblib

        try:
            # Pickles into a hash; nothing is ever unpickled.
            return str(joblib.hash(model))
        except Exception:  # whatever a part that cannot be pickled raises
            return None
    return None


def _wrap_module(model: "torch.nn.Module", options: WrapOptions) -> TorchTarget:
    if options.output is None:
        raise TargetError(
            "expected to be told what the PyTorch module returns, got nothing: "
            'pass output="logits" or output="probabilities", or output="values" for regression'
        )
    if options.output != "values":
        refuse_other_problems(getattr(model, "config", None))
    return TorchTarget(model, options.output, options.batch_size, options.device, options.classes)


def _wrap_keras(model: Any, options: WrapOptions) -> KerasTarget:
    output = find_output(model, options.output)
    return KerasTarget(model, output, options.batch_size, options.classes)


def _wrap_pipeline(model: Any, options: WrapOptions) -> TransformersTarget:
    return TransformersTarget(model, labels=options.labels)


def _wrap_target(model: Target, options: WrapOptions) -> Target:
    del options
    return model


def _wrap_estimator(model: Any, options: WrapOptions) -> Target:
    return wrap_estimator(model, options.labels)


def _wrap_function(model: Callable[..., Any], options: WrapOptions) -> FunctionTarget:
    return FunctionTarget(model, options.output or "probabilities", options.classes)


def _wrap_booster(model: Any, options: WrapOptions) -> Target:
    found = boosters.read_booster(model)
    numbered = found.classes_.dtype.kind in "iu"  # the booster's columns are those of the labels
    return wrap_estimator(found, () if numbered else options.labels)


def _check_output(model: Any, output: str | None) -> None:
    if output not in (None, *get_args(Output)):
        raise SpecError(
            f"expected output to be {', '.join(get_args(Output))}, got {output!r}: "
            "say which of them the model returns"
        )
    kinds = (_is_target, _is_estimator, _is_booster, _is_pipeline)
    says_itself = any(is_one(model) for is_one in kinds)
    itself = "values" if _answers_values(model) else "probabilities"
    if says_itself and output not in (None, itself):
        raise SpecError(
            f"expected no output= for {type(model).__name__}, which says itself what it returns, "
            f"got {output!r}: leave it out, or pass a function"
        )


def _answers_values(model: object) -> bool:
    return Need.VALUES in model.offers if _is_target(model) else is_regressor(model)


def _fingerprint_module(module: "torch.nn.Module") -> str:
    import torch

    digest = hashlib.blake2b(str(module).encode())
    for code in sorted(_read_own_code(module)):
        digest.update(code.encode())
    config: Any = getattr(module, "config", None)
    if hasattr(config, "to_json_string"):
        digest.update(config.to_json_string().encode())  # such as the number of heads
    for name, value in module.state_dict().items():
        digest.update(name.encode())
        if isinstance(value, torch.Tensor):
            digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
            # As bytes, since NumPy does not know every type of PyTorch.
            digest.update(value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        else:
            digest.update(repr(value).encode())
    return digest.hexdigest()


def _read_own_code(module: "torch.nn.Module") -> set[str]:
    """The source of the module's classes, and of its parts', that no installed package brings.

    What a class calls outside itself is not in it; nor is a class whose source is not at hand.
    """
    installed = {
        Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib", "stdlib")
    }
    found = set()
    for kind in {kind for part in module.modules() for kind in type(part).__mro__}:
        with contextlib.suppress(OSError, TypeError):
            file = Path(inspect.getfile(kind)).resolve()
            if not any(file.is_relative_to(folder) for folder in installed):
                found.add(inspect.getsource(kind))
    return found


def _is_target(model: object) -> TypeGuard[Target]:
    return isinstance(getattr(model, "offers", None), Need) and hasattr(model, "predict")


def _is_module(model: object) -> "TypeGuard[torch.nn.Module]":
    # Whoever holds a module has imported torch; nobody else should wait for it.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _is_keras(model: object) -> bool:
    kind = getattr(sys.modules.get("keras"), "Model", None)
    return kind is not None and isinstance(model, kind)


def _is_pipeline(model: object) -> bool:
    kind = getattr(sys.modules.get("transformers.pipelines.base"), "Pipeline", None)
    return kind is not None and isinstance(model, kind)


def _is_estimator(model: object) -> bool:
    base = sys.modules.get("sklearn.base")
    known = base is not None and isinstance(model, base.BaseEstimator)
    return known or hasattr(model, "predict_proba")


def _is_booster(model: object) -> bool:
    return any(library.accepts(model) for library in boosters.LIBRARIES.values())


KINDS: Mapping[str, ModelKind] = {
    "keras": ModelKind("a keras.Model in memory, on any backend", _is_keras, _wrap_keras),
    "transformers": ModelKind(
        "a text-classification pipeline of Hugging Face", _is_pipeline, _wrap_pipeline
    ),
    "torch": ModelKind("a torch.nn.Module in memory", _is_module, _wrap_module),
    "target": ModelKind("a divulge.Target of your own", _is_target, _wrap_target),
    "scikit-learn": ModelKind(
        "a fitted scikit-learn classifier or regression model", _is_estimator, _wrap_estimator
    ),
    **{
        name: ModelKind(library.text, library.accepts, _wrap_booster)
        for name, library in boosters.LIBRARIES.items()
    },
    "function": ModelKind(
        "any callable from features to probabilities, logits, labels or values",
        callable,
        _wrap_function,
    ),
}
"""The first that accepts a model wraps it: Keras stands before PyTorch, since its models may be
modules. A new kind is one file beside this one, and a line."""
