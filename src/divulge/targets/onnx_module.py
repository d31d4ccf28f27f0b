"""ONNX files as PyTorch modules, which can be cut before their classifier and differentiated."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from divulge.errors import MissingExtra, TargetError
from divulge.targets.batching import translate_model_errors

Attributes = Mapping[str, Any]
Operation = Callable[[Attributes, Sequence[Tensor]], Tensor]


class OnnxModule(nn.Module):
    """A network in an ONNX file, of the operations that image classifiers are made of.

    What ONNX calls ``Gemm`` becomes a `torch.nn.Linear`, so that a classifier can be found.

    Args:
        path: the .onnx file; weights must be in it.

    Raises:
        TargetError: the file cannot be read, has an operation that is not known here, or not one
            input.
        MissingExtra: onnx is not installed.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        try:
            import onnx
        except ImportError as error:
            raise MissingExtra("onnx", "images") from error
        with translate_model_errors(f"{path} to be an ONNX model", "export it again"):
            graph = onnx.load(str(path), load_external_data=False).graph
            arrays = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
        inputs = [one.name for one in graph.input if one.name not in arrays]
        unknown = sorted({node.op_type for node in graph.node} - {*_OPERATIONS, "Gemm"})
        if unknown or len(inputs) != 1:
            raise TargetError(
                f"expected one input and operations of image classifiers, got {len(inputs)} inputs "
                f"and {', '.join(unknown) or 'no other operation'}: load the model in PyTorch, "
                "and pass the module"
            )
        self._input, self._output = inputs[0], graph.output[0].name
        self._constants = {name: torch.tensor(array) for name, array in arrays.items()}
        self._nodes = [
            (
                node.op_type,
                list(node.input),
                node.output[0],
                {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute},
            )
            for node in graph.node
        ]
        self.linear = nn.ModuleDict()
        for kind, names, output, given in self._nodes:
            if kind == "Gemm":
                self.linear[_module_name(output)] = self._linear(names, given)

    def forward(self, x: Tensor) -> Tensor:
        """The file's first output."""
        values = {"": torch.empty(0), self._input: x, **self._constants}
        for kind, names, output, given in self._nodes:
            if kind == "Gemm":
                values[output] = self.linear[_module_name(output)](values[names[0]])
            else:
                values[output] = _OPERATIONS[kind](given, [values[name] for name in names])
        return values[self._output]

    def _linear(self, names: Sequence[str], given: Attributes) -> nn.Linear:
        weight = self._constants.get(names[1])
        plain = {given.get("alpha", 1.0), given.get("beta", 1.0)} == {1.0}
        if weight is None or given.get("transA", 0) or not plain:
            raise TargetError("expected Gemm of fixed weights, got another: pass a module instead")
        weight = weight if given.get("transB", 0) else weight.T
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=len(names) > 2)
        with torch.no_grad():
            layer.weight.copy_(weight)
            if len(names) > 2:
                layer.bias.copy_(self._constants[names[2]])
        return layer


def _module_name(name: str) -> str:
    """A name that a module may have."""
    return "gemm " + name.replace(".", " ")


def _pad(given: Attributes, x: Tensor, filling: float) -> Tensor:
    if given.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise TargetError("expected explicit padding, got auto_pad: pass a module instead")
    top, left, bottom, right = given.get("pads", (0, 0, 0, 0))
    return functional.pad(x, (left, right, top, bottom), value=filling)


def _conv(given: Attributes, values: Sequence[Tensor]) -> Tensor:
    x, weight, *bias = values
    return functional.conv2d(
        _pad(given, x, 0.0),
        weight,
        bias[0] if bias else None,
        tuple(given.get("strides", (1, 1))),
        dilation=tuple(given.get("dilations", (1, 1))),
        groups=given.get("group", 1),
    )


def _max_pool(given: Attributes, values: Sequence[Tensor]) -> Tensor:
    x = _pad(given, values[0], -torch.inf)
    strides = tuple(given.get("strides", (1, 1)))
    return functional.max_pool2d(x, tuple(given["kernel_shape"]), strides)


def _average_pool(given: Attributes, values: Sequence[Tensor]) -> Tensor:
    if any(given.get("pads", ())) and not given.get("count_include_pad", 0):
        raise TargetError("expected averages over whole windows: pass a module instead")
    strides = tuple(given.get("strides", (1, 1)))
    return functional.avg_pool2d(_pad(given, values[0], 0.0), tuple(given["kernel_shape"]), strides)


def _batch_norm(given: Attributes, values: Sequence[Tensor]) -> Tensor:
    x, scale, shift, mean, variance = values
    epsilon = given.get("epsilon", 1e-5)
    return functional.batch_norm(x, mean, variance, scale, shift, False, 0.0, epsilon)  # noqa: FBT003


def _clip(given: Attributes, values: Sequence[Tensor]) -> Tensor:
    limits = [one if one.numel() else None for one in values[1:]]
    low, high = (*limits, None, None)[:2]
    return values[0].clamp(
        given.get("min") if low is None else low.item(),
        given.get("max") if high is None else high.item(),
    )


def _reduce_mean(given: Attributes, values: Sequence[Tensor]) -> Tensor:
    axes = given.get("axes") or values[1].tolist()
    return values[0].mean(tuple(axes), keepdim=bool(given.get("keepdims", 1)))


_OPERATIONS: Mapping[str, Operation] = {
    "Add": lambda _, v: v[0] + v[1],
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Concat": lambda given, v: torch.cat(list(v), given["axis"]),
    "Conv": _conv,
    "Dropout": lambda _, v: v[0],
    "Flatten": lambda given, v: v[0].flatten(given.get("axis", 1)),
    "GlobalAveragePool": lambda _, v: v[0].mean((2, 3), keepdim=True),
    "Identity": lambda _, v: v[0],
    "MaxPool": _max_pool,
    "Mul": lambda _, v: v[0] * v[1],
    "ReduceMean": _reduce_mean,
    "Relu": lambda _, v: v[0].relu(),
    "Sigmoid": lambda _, v: v[0].sigmoid(),
    "Softmax": lambda given, v: v[0].softmax(given.get("axis", -1)),
}
"""Those of ResNet, RegNet, DenseNet, MNASNet and their like."""
