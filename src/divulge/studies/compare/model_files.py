"""A model in formats that need no divulge to be opened."""

import io
from collections.abc import Iterator
from typing import Any, TypeGuard

from divulge._util.extras import name_missing_extra
from divulge.core import Records, Target
from divulge.defences.training.averaging import AveragedTarget
from divulge.errors import SpecError
from divulge.targets.encoded import EncodedTarget
from divulge.targets.sklearn import SklearnTarget
from divulge.targets.torch import TorchTarget


def model_files(model: Target, records: Records) -> Iterator[tuple[str, bytes]]:
    """The model in formats that need no divulge to be opened, by the names of files.

    Args:
        model: a PyTorch module or an estimator of scikit-learn.
        records: some of those that it takes.

    Raises:
        SpecError: it is of no framework that has a format.
        MissingExtra: skops is not installed.
    """
    if isinstance(model, EncodedTarget):
        model = model.target
    if isinstance(model, TorchTarget):
        yield from _torch_files(model, records)
    elif isinstance(model, SklearnTarget):
        yield "model.skops", _skops(model.estimator)
    elif isinstance(model, AveragedTarget) and _are_estimators(model.targets):
        yield "model.skops", _skops([target.estimator for target in model.targets])
    else:
        raise SpecError(
            f"expected a PyTorch module or a scikit-learn estimator to export, got "
            f"{type(model).__name__}: save the model in the function that trains it"
        )


def _torch_files(model: TorchTarget, records: Records) -> Iterator[tuple[str, bytes]]:
    """The weights alone, for whoever has the network's code; and the network with its weights."""
    import safetensors.torch
    import torch

    module = model.module.cpu().eval()
    weights = {k: v.detach().contiguous().clone() for k, v in module.state_dict().items()}
    yield "model.safetensors", safetensors.torch.save(weights)
    dtype = next((p.dtype for p in module.parameters()), torch.float32)
    example = torch.tensor(records.x[:2])
    example = example.to(dtype) if example.is_floating_point() else example
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(module, (example,), dynamic_shapes=({0: batch},))
    file = io.BytesIO()
    torch.export.save(program, file)
    yield "model.pt2", file.getvalue()


def _are_estimators(targets: tuple[Target, ...]) -> TypeGuard[tuple[SklearnTarget, ...]]:
    return all(isinstance(target, SklearnTarget) for target in targets)


def _skops(estimator: Any) -> bytes:
    with name_missing_extra():
        import skops.io
    try:
        content: bytes = skops.io.dumps(estimator)
    except Exception as error:  # of whatever an estimator holds
        raise SpecError(
            f"expected an estimator that skops can save, got {type(error).__name__}: save the "
            "model in the function that trains it"
        ) from error
    return content
