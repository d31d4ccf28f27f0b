"""What a target knows of the model behind it: kind, features, classes, and the form of answers."""

from typing import Any

import numpy as np

from divulge.core import Need, Target
from divulge.targets.causal import CausalTarget
from divulge.targets.defended import DefendedTarget
from divulge.targets.encoded import EncodedTarget
from divulge.targets.function import FunctionTarget
from divulge.targets.http import HTTPTarget
from divulge.targets.keras import KerasTarget
from divulge.targets.model_parts import ModelKind, kind_of_parts
from divulge.targets.model_process import IsolatedTarget
from divulge.targets.model_types import (
    is_estimator,
)
from divulge.targets.onnx import OnnxTarget
from divulge.targets.pt2 import ExportedTarget
from divulge.targets.recorded import TableTarget
from divulge.targets.sklearn import (
    SklearnRegressor,
    SklearnTarget,
)
from divulge.targets.token_target import TokenTableTarget
from divulge.targets.torch import TorchTarget
from divulge.targets.transformers import (
    TransformersTarget,
)
from divulge.targets.wider import WiderTarget

_ROUNDS = 32


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
            tokens = Need.TOKENS in target.offers
            return "language model behind a URL" if tokens else "model behind a URL"
        case IsolatedTarget():
            return target.text
        case OnnxTarget():
            return "ONNX file"
        case ExportedTarget():
            return "PyTorch program in a .pt2 file"
        case TokenTableTarget():
            return "language model, by exported log-probabilities of tokens"
        case TableTarget(offers=offers):
            return "exported losses or scores" if Need.SCORES in offers else "exported predictions"
    return type(target).__name__


def kind_of_model(target: Target) -> ModelKind:
    """What kind of model is asked, as far as advice depends on it; empty where nobody knows.

    Examples:
        >>> from sklearn.linear_model import LogisticRegression
        >>> fitted = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
        >>> kind_of_model(FunctionTarget(fitted.predict_proba))
        'linear model'
    """
    match target:
        case DefendedTarget() | EncodedTarget() | WiderTarget():
            return kind_of_model(target.target)
        case TorchTarget() | ExportedTarget():
            return "PyTorch"
        case CausalTarget() | TokenTableTarget():
            return "language model"
        case HTTPTarget():
            return "language model" if Need.TOKENS in target.offers else "URL"
        case TableTarget():
            return "table"
        case IsolatedTarget():
            return target.kind
    return kind_of_parts(target)


def declares_probabilities(target: Target) -> bool:
    """Whether the user, and not the model, says that the answers are probabilities.

    Behind an answer defence that divulge applies nobody says so.
    """
    match target:
        case EncodedTarget():
            return declares_probabilities(target.target)
        case FunctionTarget(function=function) if hasattr(function, "__self__"):
            return not is_estimator(function.__self__) and target.output == "probabilities"
        case HTTPTarget():
            return target.output == "probabilities" and Need.TOKENS not in target.offers
        case FunctionTarget() | TorchTarget():
            return target.output == "probabilities"
        case TableTarget() | IsolatedTarget():
            return target.declared
    return False


def choose_batch_size(target: Target, wanted: int) -> int:
    """How many records to ask about at a time; of a model behind a URL, many rounds of requests.

    At the end of a batch connections are closed, and slots wait for each other.
    """
    return max(wanted, _ROUNDS * target.round) if isinstance(target, HTTPTarget) else wanted
