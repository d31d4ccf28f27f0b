"""Load models from files by their suffix; refuse formats that run code when opened."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from divulge._util import imports, untrusted
from divulge._util.extras import name_missing_extra
from divulge._util.json import refuse_repeated_keys
from divulge.core import Target
from divulge.errors import SpecError, TargetError
from divulge.targets import onnx
from divulge.targets.batching import translate_model_errors
from divulge.targets.model_process import TIME_LIMIT, IsolatedTarget
from divulge.targets.onnx import OnnxTarget
from divulge.targets.outputs import Output
from divulge.targets.pt2 import ExportedTarget
from divulge.targets.skops import load_skops
from divulge.targets.torch import TorchTarget

if TYPE_CHECKING:
    import torch

_LARGEST_HEADER = 2**24
"""Bytes of a .safetensors header: more than 100,000 tensors."""

_ADVICE = {
    ".pkl": "a pickle can run any code; load it where you trust it and save it with "
    "skops.io.dump, or pass the model itself",
    ".pt": "it is a pickle, which can run any code; load it where you trust it and save it with "
    "torch.export.save as .pt2, or its state_dict with safetensors.torch.save_file",
    ".keras": "Keras's loader can run code that such a file holds; load it where you trust it with "
    "keras.saving.load_model, and pass the model itself",
    ".csv": "a table of predictions goes to divulge.audit_predictions, or into [predictions] of "
    "audit.toml",
}
_ADVICE |= {
    ".pickle": _ADVICE[".pkl"],
    ".joblib": _ADVICE[".pkl"],
    ".pth": _ADVICE[".pt"],
    ".h5": _ADVICE[".keras"],
    ".hdf5": _ADVICE[".keras"],
    **dict.fromkeys((".tsv", ".parquet", ".feather", ".arrow", ".jsonl"), _ADVICE[".csv"]),
}


class LoadOptions(NamedTuple):
    """How a model in a file is to be asked."""

    output: Output
    """What it returns; what the format usually returns, unless told."""
    factory: "Callable[[], torch.nn.Module] | None"
    """Builds the network that weights belong to."""
    batch_size: int
    device: str | None
    classes: int | None
    output_name: str | None = None
    """Which output of an ONNX model holds its answers; None where one alone can."""


class FileFormat(NamedTuple):
    """A format of files that hold a model."""

    text: str
    """What such a file holds, in a few words."""
    load: Callable[[Path, LoadOptions], Target]
    output: Output | None
    """What such a model returns unless told otherwise; None where it has to be told."""
    isolated: bool = True
    """Whether a process of its own loads and queries it; not where the network is the user's."""
    named_outputs: bool = False
    """Whether a model may have several outputs with names."""


def load_target(
    path: str | Path,
    output: Output | None = None,
    *,
    factory: "Callable[[], torch.nn.Module] | None" = None,
    batch_size: int = 1024,
    device: str | None = None,
    classes: int | None = None,
    output_name: str | None = None,
    time_limit: float = TIME_LIMIT,
) -> Target:
    """The model in a file, as a target; all but the user's own network is in a process of its own.

    Args:
        path: a file in .onnx, .pt2, .safetensors or .skops format.
        output: what the model returns; ONNX models are taken to return probabilities unless told
            otherwise, scikit-learn models need no telling.
        factory: builds the network that the weights of a .safetensors file belong to.
        batch_size: how many records to ask at a time.
        device: where PyTorch runs; where the weights are, unless given.
        classes: how many classes there are; only labels need it.
        output_name: which output of an ONNX model holds its answers, where there are several.
        time_limit: seconds that the process may take to load the file, and for each batch.

    Raises:
        TargetError: the file is missing, damaged, of another format, could run code, or meets a
            limit.
        MissingExtra: the package that reads this format is not installed.
    """
    path = Path(path)
    returned = _output_of(path, output)
    if output_name is not None and not FORMATS[path.suffix].named_outputs:
        refuse_output_name(f"the model in {path}", output_name)
    if not FORMATS[path.suffix].isolated:
        return open_target(
            path, returned, factory=factory, batch_size=batch_size, device=device, classes=classes
        )
    settings = {
        "output": returned,
        "device": device,
        "classes": classes,
        "output_name": output_name,
    }
    return IsolatedTarget(path, settings, batch_size, time_limit)


def open_target(
    path: Path,
    output: Output | None = None,
    *,
    factory: "Callable[[], torch.nn.Module] | None" = None,
    batch_size: int = 1024,
    device: str | None = None,
    classes: int | None = None,
    output_name: str | None = None,
) -> Target:
    """The model in a file, in this process and without limits; otherwise as `load_target`."""
    returned = _output_of(path, output)
    options = LoadOptions(returned, factory, batch_size, device, classes, output_name)
    return FORMATS[path.suffix].load(path, options)


def refuse_output_name(what: str, output_name: str) -> NoReturn:
    """Refuse the name of an output of a model whose outputs have no names.

    Args:
        what: the model, for the message.
        output_name: the name.

    Raises:
        SpecError: always.
    """
    raise SpecError(
        f"expected no output_name for {what}, got {output_name!r}: only an .onnx file has outputs "
        "with names; leave it out, or pass a function that returns the output"
    )


def fingerprint_file(path: str | Path) -> str:
    """The BLAKE2b hash of a file's content, and of the files that an ONNX model is in besides.

    Raises:
        TargetError: the file cannot be read.
    """
    path = Path(path)
    if path.suffix == ".onnx":
        return onnx.fingerprint_onnx(path)
    with untrusted.open_file(path, untrusted.MAX_DATA_BYTES, TargetError) as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def fingerprint_code(name: str | None, folder: Path) -> str:
    """Of the file that a name is in; nothing where that is no Python file beside the settings."""
    file = imports.split_reference(name)[0] if name else ""
    return fingerprint_file(folder / file) if file.endswith(".py") else ""


def _output_of(path: Path, output: Output | None) -> Output:
    """What a file that can hold a model returns.

    Raises:
        TargetError: it is missing, empty, or of another format, or does not say what it returns.
    """
    _check_file(path)
    returned = output or FORMATS[path.suffix].output
    if returned is None:
        raise TargetError(
            f"expected to be told what {path} returns, got nothing: "
            'pass output="logits" or output="probabilities", or output="values" for regression'
        )
    return returned


def _check_file(path: Path) -> None:
    if path.suffix not in FORMATS:
        raise TargetError(
            f"expected a model in a {', '.join(FORMATS)} file, got {path}: "
            + _ADVICE.get(path.suffix, "save it in one of these formats, or pass a function")
        )
    if untrusted.check_file(path, untrusted.MAX_DATA_BYTES, TargetError).st_size == 0:
        raise TargetError(f"expected a model in {path}, got an empty file: check the path")


def _load_onnx(path: Path, options: LoadOptions) -> OnnxTarget:
    return OnnxTarget(
        path, options.output, options.output_name, options.batch_size, options.classes
    )


def _load_pt2(path: Path, options: LoadOptions) -> ExportedTarget:
    return ExportedTarget(path, options.output, options.batch_size, options.device, options.classes)


def _load_skops(path: Path, options: LoadOptions) -> Target:
    del options
    return load_skops(path)


def _load_safetensors(path: Path, options: LoadOptions) -> TorchTarget:
    network = _load_network(path, options.factory, options.device)
    return TorchTarget(network, options.output, options.batch_size, options.device, options.classes)


def _load_network(
    path: Path, factory: "Callable[[], torch.nn.Module] | None", device: str | None
) -> "torch.nn.Module":
    if factory is None:
        raise TargetError(
            f"expected the network that the weights in {path} belong to, got none: "
            "pass factory=, a function that builds it"
        )
    with name_missing_extra():
        import safetensors.torch
        import torch
    with translate_model_errors(
        f"{path} to hold the weights of the network", "check both belong together"
    ):
        module = factory()
        if not isinstance(module, torch.nn.Module):
            raise TargetError(
                f"expected factory() to build a torch.nn.Module, got {type(module).__name__}: "
                "pass a function that returns the network"
            )
        _check_header(path)
        safetensors.torch.load_model(module, path, strict=True)
        return module if device is None else module.to(device)


def _check_header(path: Path) -> None:
    """Refuse a header that takes minutes to read, or in which a tensor stands twice.

    Raises:
        TargetError: it is too long.
        ValueError: it is no header.
    """
    with untrusted.open_file(path, untrusted.MAX_DATA_BYTES, TargetError) as file:
        length = int.from_bytes(file.read(8), "little")
        if length <= path.stat().st_size:  # the library refuses others at once
            what = f"the header of {path}, which names its tensors"
            untrusted.check_size(length, _LARGEST_HEADER, what, TargetError)
            refuse_repeated_keys(file.read(length))


FORMATS: Mapping[str, FileFormat] = {
    ".onnx": FileFormat(
        "an ONNX model, run by onnxruntime", _load_onnx, "probabilities", named_outputs=True
    ),
    ".pt2": FileFormat("a program that torch.export saved", _load_pt2, None),
    ".safetensors": FileFormat(
        "weights, with a factory that builds their network",
        _load_safetensors,
        None,
        isolated=False,
    ),
    ".skops": FileFormat(
        "a fitted scikit-learn classifier or regression model", _load_skops, "probabilities"
    ),
}
"""By suffix; a new format is one file beside this one, and one line here."""
