"""Take the fingerprint of a model: a hash that differs between models with different answers."""

import contextlib
import hashlib
import inspect
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divulge.errors import TargetError
from divulge.targets import boosters
from divulge.targets.files import fingerprint_file
from divulge.targets.http import HTTPTarget
from divulge.targets.keras import fingerprint_keras
from divulge.targets.model_types import (
    is_booster,
    is_estimator,
    is_keras,
    is_module,
    is_pipeline,
    is_target,
)
from divulge.targets.transformers import (
    fingerprint_pipeline,
)

if TYPE_CHECKING:
    import torch


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
    if is_keras(model):
        return fingerprint_keras(model)
    if is_pipeline(model):
        return fingerprint_pipeline(model, _fingerprint_module(model.model))
    if is_module(model):
        return _fingerprint_module(model)
    if is_booster(model):
        return boosters.fingerprint_booster(model)
    if is_estimator(model) and not is_target(model) and hasattr(model, "get_params"):
        import joblib

        try:
            # Pickles into a hash; nothing is ever unpickled.
            return str(joblib.hash(model))
        except Exception:  # whatever a part that cannot be pickled raises
            return None
    return None


def _read_bytes(name: str, value: "torch.Tensor") -> memoryview:
    """A tensor's numbers as bytes, since NumPy does not know every type of PyTorch.

    Raises:
        TargetError: it holds none yet.
    """
    import torch

    if value.is_meta or torch.nn.parameter.is_lazy(value):
        raise TargetError(
            f"expected a module with its weights, got none yet for {name!r}: load them, and call "
            "the module once if it has lazy layers"
        )
    return value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


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
            content = _read_bytes(name, value)
            digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
            digest.update(content)
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
    sources = set()
    for kind in {kind for part in module.modules() for kind in type(part).__mro__}:
        with contextlib.suppress(OSError, TypeError):
            file = Path(inspect.getfile(kind)).resolve()
            if not any(file.is_relative_to(folder) for folder in installed):
                sources.add(inspect.getsource(kind))
    return sources
