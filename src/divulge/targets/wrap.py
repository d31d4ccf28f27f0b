"""Wrap whatever a user calls a model as a target."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from divulge.core import Need, Target
from divulge.errors import SpecError, TargetError
from divulge.targets import boosters
from divulge.targets.causal import TASK, CausalTarget
from divulge.targets.files import load_target, refuse_output_name
from divulge.targets.function import FunctionTarget
from divulge.targets.keras import KerasTarget, find_output
from divulge.targets.model_process import TIME_LIMIT
from divulge.targets.model_types import (
    is_booster,
    is_estimator,
    is_keras,
    is_module,
    is_pipeline,
    is_target,
)
from divulge.targets.outputs import Output
from divulge.targets.sklearn import (
    is_regressor,
    wrap_estimator,
)
from divulge.targets.torch import TorchTarget
from divulge.targets.transformers import (
    TransformersTarget,
    refuse_other_problems,
)

if TYPE_CHECKING:
    import torch


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


def _wrap_pipeline(model: Any, options: WrapOptions) -> Target:
    if getattr(model, "task", None) == TASK:
        return CausalTarget(model)
    return TransformersTarget(model, labels=options.labels)


def _wrap_target(model: Target, options: WrapOptions) -> Target:
    del options
    return model


def _wrap_estimator(model: Any, options: WrapOptions) -> Target:
    return wrap_estimator(model, options.labels)


def _wrap_function(model: Callable[..., Any], options: WrapOptions) -> FunctionTarget:
    return FunctionTarget(model, options.output or "probabilities", options.classes)


def _wrap_booster(model: Any, options: WrapOptions) -> Target:
    fitted = boosters.read_booster(model)
    numbered = fitted.classes_.dtype.kind in "iu"  # the booster's columns are those of the labels
    return wrap_estimator(fitted, () if numbered else options.labels)


def _check_output(model: Any, output: str | None) -> None:
    if output not in (None, *get_args(Output)):
        raise SpecError(
            f"expected output to be {', '.join(get_args(Output))}, got {output!r}: "
            "say which of them the model returns"
        )
    kinds = (is_target, is_estimator, is_booster, is_pipeline)
    says_itself = any(is_one(model) for is_one in kinds)
    itself = "values" if _answers_values(model) else "probabilities"
    if says_itself and output not in (None, itself):
        raise SpecError(
            f"expected no output= for {type(model).__name__}, which says itself what it returns, "
            f"got {output!r}: leave it out, or pass a function"
        )


def _answers_values(model: object) -> bool:
    return Need.VALUES in model.offers if is_target(model) else is_regressor(model)


KINDS: Mapping[str, ModelKind] = {
    "keras": ModelKind("a keras.Model in memory, on any backend", is_keras, _wrap_keras),
    "transformers": ModelKind(
        "a text-classification or text-generation pipeline of Hugging Face",
        is_pipeline,
        _wrap_pipeline,
    ),
    "torch": ModelKind("a torch.nn.Module in memory", is_module, _wrap_module),
    "target": ModelKind("a divulge.Target of your own", is_target, _wrap_target),
    "scikit-learn": ModelKind(
        "a fitted scikit-learn classifier or regression model", is_estimator, _wrap_estimator
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
