"""An accelerator that is none: its tensors compute on the CPU, and refuse to meet the CPU's.

PyTorch calls its device "meta". A tensor there holds one of the CPU, on which each operation is
run. So figures must be those of the CPU, bit for bit, and what forgets to move a tensor raises, as
on a graphics card. Speed, memory and the rounding of other hardware cannot be tested so.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = "meta"

_BETWEEN = ("aten::_to_copy", "aten::to", "aten::copy_", "aten::index", "aten::index_put_")
"""Operations of both: what moves a tensor, and row numbers, which may stay on the CPU."""


class TwoDevices(RuntimeError):
    """An operation met tensors of the accelerator and of the CPU."""


class _Tensor(torch.Tensor):
    """A tensor of the accelerator."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "_Tensor":
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            held.stride(),
            held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(DEVICE),
        )
        made.held = held
        return made

    @classmethod
    def __torch_function__(
        cls, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        del types
        if operation == torch.Tensor.data.__set__:  # type: ignore[attr-defined]
            args[0].held = args[1].held
        with torch._C.DisableTorchFunctionSubclass():
            return operation(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # (a class method, as PyTorch documents)
        cls, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        del types
        return _run(operation, args, kwargs or {})


class _Everywhere(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees operations without a tensor of the accelerator too: what makes one, or moves there."""

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        del types
        return _run(operation, args, kwargs or {})


@contextmanager
def accelerator(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of the device, for as long as it is there."""
    with monkeypatch.context() as patched:
        # its random numbers are the CPU's, which `fork_rng` keeps anyway
        patched.setattr(torch.cuda, "get_rng_state", lambda _: torch.get_rng_state())
        patched.setattr(torch.cuda, "set_rng_state", lambda *_: None)
        patched.setattr(
            import_module("torch.optim.optimizer"),  # the package hides the module
            "_get_fused_kernels_supported_devices",
            lambda: [DEVICE, "cpu"],
        )
        patched.setattr(torch, "tensor", _tensor)
        patched.setattr(torch, "Generator", _Generator)
        with _Everywhere():  # type: ignore[no-untyped-call]
            yield DEVICE


def _run(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    there = [tensor for tensor in tensors if isinstance(tensor, _Tensor)]
    here = [tensor for tensor in tensors if not isinstance(tensor, _Tensor)]
    name = operation._schema.name
    if any(tensor.device.type == DEVICE for tensor in here):
        # PyTorch makes one of a list of row numbers, by itself and without their values
        raise TwoDevices(f"{name} of a tensor of PyTorch's own {DEVICE} device: index by a tensor")
    # as on a graphics card, a lone number of the CPU may go along
    if there and name not in _BETWEEN and any(tensor.dim() for tensor in here):
        raise TwoDevices(f"{name} of tensors of the accelerator and of the CPU")
    wanted = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.device)]
    stays = bool(there)
    if wanted:
        stays = wanted[0].type == DEVICE
    elif name == "aten::copy_":
        stays = isinstance(args[0], _Tensor)
    answer = operation(*_held(args), **_held(kwargs))
    known = {id(tensor.held): tensor for tensor in there}

    def place(leaf: Any) -> Any:
        if not stays or not isinstance(leaf, torch.Tensor):
            return leaf
        return known[id(leaf)] if id(leaf) in known else _Tensor(leaf)  # in place: the same tensor

    return tree_map(place, answer)


def _held(tree: Any) -> Any:
    """The same on the CPU."""

    def fetch(leaf: Any) -> Any:
        if isinstance(leaf, torch.device):
            return torch.device("cpu")
        return leaf.held if isinstance(leaf, _Tensor) else leaf

    return tree_map(fetch, tree)


def _tensor(data: Any, *, device: Any = None, **more: Any) -> torch.Tensor:
    """`torch.tensor`, of which no dispatch mode sees the device."""
    made = _MAKE(data, **more)
    return made if device is None else made.to(device)


class _Generator(torch.Generator):
    """That of the CPU, whatever the device is."""

    def __new__(cls, *_: Any) -> "_Generator":
        return super().__new__(cls)


_MAKE = torch.tensor
