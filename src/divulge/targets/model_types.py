"""Tell the kinds of models in memory apart, without importing a library that is not there yet."""

import sys
from typing import TYPE_CHECKING, TypeGuard

from divulge.core import Need, Target
from divulge.targets import boosters

if TYPE_CHECKING:
    import torch


def is_target(model: object) -> TypeGuard[Target]:
    """Whether this is a target already."""
    return isinstance(getattr(model, "offers", None), Need) and hasattr(model, "predict")


def is_module(model: object) -> "TypeGuard[torch.nn.Module]":
    """Whether this is a module of PyTorch."""
    # Whoever holds a module has imported torch; nobody else should wait for it.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def is_keras(model: object) -> bool:
    """Whether this is a model of Keras."""
    kind = getattr(sys.modules.get("keras"), "Model", None)
    return kind is not None and isinstance(model, kind)


def is_pipeline(model: object) -> bool:
    """Whether this is a pipeline of transformers."""
    kind = getattr(sys.modules.get("transformers.pipelines.base"), "Pipeline", None)
    return kind is not None and isinstance(model, kind)


def is_estimator(model: object) -> bool:
    """Whether this is a model of scikit-learn's kind."""
    base = sys.modules.get("sklearn.base")
    known = base is not None and isinstance(model, base.BaseEstimator)
    return known or hasattr(model, "predict_proba")


def is_booster(model: object) -> bool:
    """Whether this is a booster of a library that is known here."""
    return any(library.accepts(model) for library in boosters.LIBRARIES.values())
