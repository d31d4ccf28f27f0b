"""PyTorch's optimisers without its compiler, whose import takes longer than many trainings."""

from inspect import unwrap
from typing import TypeVar, cast

import torch
from torch.optim import Optimizer

_O = TypeVar("_O", bound=Optimizer)

_WRAPPED = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
"""Methods that import the compiler when they are first called, to have it leave them alone."""

_MADE: dict[type[Optimizer], type[Optimizer]] = {}


def without_compiler(kind: type[_O]) -> type[_O]:
    """The same optimiser, bit for bit, whose methods do not import PyTorch's compiler."""
    if kind not in _MADE:
        methods = {name: unwrap(getattr(kind, name)) for name in _WRAPPED}
        methods["step"] = torch.no_grad()(unwrap(kind.step))  # its wrapper does that, too
        _MADE[kind] = type(kind.__name__, (kind,), methods)
    return cast("type[_O]", _MADE[kind])
