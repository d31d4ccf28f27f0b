"""Choose the outputs of an ONNX model that hold its answers: by name, shape and type."""

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from divulge.errors import TargetError
from divulge.targets.outputs import Output

OutputForm = Literal["tensor", "maps", "columns"]
"""One tensor; maps from labels to scores, one a record; or a tensor for each class."""

_TENSOR = re.compile(r"tensor\((\w+)\)")
_MAPS = re.compile(r"seq\(map\((int64|string),tensor\((float|double)\)\)\)")
_INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool")
_FLOATS = ("float", "double", "float16")

_CALLED = {
    "probabilities": re.compile(r"prob|softmax", re.IGNORECASE),
    "logits": re.compile(r"logit|decision|raw_?score", re.IGNORECASE),
    "labels": re.compile(r"label|class|predict", re.IGNORECASE),
}
"""What converters call an output of each kind."""


class ChosenOutputs(NamedTuple):
    """Where an ONNX model's answers are."""

    names: tuple[str, ...]
    """The outputs to read: one, or one for each class."""
    form: OutputForm
    label: str | None
    """The output whose labels say what the classes are called, if there is one."""


class _Tensor(NamedTuple):
    name: str
    type: str
    shape: tuple[Any, ...]

    @property
    def element(self) -> str:
        match = _TENSOR.fullmatch(self.type)
        return match[1] if match else ""

    @property
    def is_maps(self) -> bool:
        return _MAPS.fullmatch(self.type) is not None

    @property
    def columns(self) -> int | None:
        """How many numbers a record gets; None where only the answers tell."""
        if len(self.shape) < 2:
            return 1
        return self.shape[1] if isinstance(self.shape[1], int) else None

    @property
    def shown(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"{self.name}: {self.type}" + (f" of shape ({shape})" if self.element else "")


def choose_outputs(session: Any, output: Output, wanted: str | None) -> ChosenOutputs:
    """The outputs with what the user says that the model answers.

    Args:
        session: of ONNX Runtime.
        output: what the model answers.
        wanted: the name of the output, where the user chose one.

    Raises:
        TargetError: there is no suitable one, or several; names all of them.
    """
    tensors = [
        _Tensor(tensor.name, tensor.type, tuple(tensor.shape or ()))
        for tensor in session.get_outputs()
    ]
    suitable = [tensor for tensor in tensors if _is_suitable(tensor, output)]
    labels = [tensor for tensor in tensors if tensor.element in ("int64", "int32", "string")]
    label = _only(_called(labels, "labels")) or _only(labels)
    if wanted is not None:
        suitable = [tensor for tensor in suitable if tensor.name == wanted]
    chosen = _only(suitable)
    if chosen is None and wanted is None and label is not None:
        chosen = _only(_called(suitable, output))
        if chosen is None and _are_columns(suitable, output):
            return ChosenOutputs(tuple(tensor.name for tensor in suitable), "columns", label.name)
    if chosen is not None:
        form: OutputForm = "maps" if chosen.is_maps else "tensor"
        return ChosenOutputs(
            (chosen.name,), form, chosen.name if chosen.is_maps else label and label.name
        )
    raise _refusal(tensors, suitable, output, wanted)


def _is_suitable(tensor: _Tensor, output: Output) -> bool:
    """Whether an output can hold such answers, one row a record."""
    if output == "labels":
        return tensor.element in (*_INTEGERS, "string") and tensor.columns in (1, None)
    if output == "values":
        return tensor.element in _FLOATS and len(tensor.shape) <= 2 and tensor.columns in (1, None)
    return tensor.is_maps or (tensor.element in _FLOATS and len(tensor.shape) <= 2)


def _are_columns(tensors: Sequence[_Tensor], output: Output) -> bool:
    """Whether these are the scores of one class each, as of ``zipmap="columns"``."""
    soft = output in ("probabilities", "logits")
    return (
        soft
        and len(tensors) > 1
        and all(tensor.element and tensor.columns == 1 for tensor in tensors)
    )


def _called(tensors: Sequence[_Tensor], output: Output) -> list[_Tensor]:
    pattern = _CALLED.get(output)
    return [tensor for tensor in tensors if pattern is not None and pattern.search(tensor.name)]


def _only(tensors: Sequence[_Tensor]) -> _Tensor | None:
    return tensors[0] if len(tensors) == 1 else None


def _refusal(
    tensors: Sequence[_Tensor], suitable: Sequence[_Tensor], output: Output, wanted: str | None
) -> TargetError:
    listed = "; ".join(tensor.shown for tensor in tensors)
    if len(suitable) > 1:
        names = " or ".join(f'output_name="{tensor.name}"' for tensor in suitable[:10])
        return TargetError(
            f"expected one output with {output}, got {len(suitable)} that could be it among "
            f"{listed}: pass {names} in divulge.Access, or output_name in [target]"
        )
    kind = "integers, one a record" if output == "labels" else "floats, one row a record"
    which = "an output" if wanted is None else f"the output {wanted!r}"
    return TargetError(
        f"expected {which} to be a tensor of {kind}, got {listed}: pass output_name= or another "
        "output=, or export the model with such an output"
    )
