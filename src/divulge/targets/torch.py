"""PyTorch modules, asked in evaluation mode and left as they were found."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from divulge._util.arguments import Count, check_arguments
from divulge.core import LastLayer, Need
from divulge.errors import TargetError
from divulge.targets.batching import count_rows, query_in_batches, translate_model_errors
from divulge.targets.outputs import Output, access_of, to_answers, to_logits

if TYPE_CHECKING:
    import torch

_REMEDY = "call it on a few records yourself, and check their shape, type and device"


@check_arguments
@dataclass(frozen=True, slots=True)
class TorchTarget:
    """A module that maps a batch of records to one row of answers each.

    There is no default for ``output``: most modules return logits, some probabilities, and nothing
    in a module says which.
    """

    module: "torch.nn.Module"
    output: Output
    batch_size: Count = 1024
    device: str | None = None
    """Where records are sent; where the module is, unless given."""
    classes: int | None = None
    """How many classes there are; only labels need it."""

    @property
    def offers(self) -> Need:
        """What its answers allow, and a look inside where they are logits or probabilities."""
        inside = Need.AUTOGRAD if Need.PROBABILITIES in access_of(self.output) else Need.NONE
        return access_of(self.output) | inside

    def predict(self, x: Any) -> Float[np.ndarray, "records classes"]:
        """Probabilities or values in float64, whatever the precision of the module.

        Args:
            x: an array, or a dict of arrays that the module takes by these names.

        Raises:
            TargetError: the module failed, or its answers are not what ``output`` says.
        """
        return to_answers(self._query(x), self.output, count_rows(x), self.classes)

    def logits(self, x: Any) -> Float[np.ndarray, "records classes"] | None:
        """Logits in float64; None where the module answers something else.

        Args:
            x: see `predict`.

        Raises:
            TargetError: the module failed.
        """
        return to_logits(self._query(x), count_rows(x)) if self.output == "logits" else None

    def gradient(
        self, x: Shaped[np.ndarray, "records *features"], y: Int[np.ndarray, " records"]
    ) -> Float[np.ndarray, "records *features"]:
        """The gradient of each record's own cross-entropy by its features, in float64.

        Raises:
            TargetError: the module failed, or its answers cannot be differentiated.
        """
        from divulge.targets import white_box

        look = white_box.input_gradient
        parts = self._look("the module to be differentiated", look, x, y)
        return np.concatenate(parts)

    def parameter_gradient(
        self, x: Shaped[np.ndarray, "records *features"], y: Int[np.ndarray, " records"]
    ) -> Float[np.ndarray, "records parameters"]:
        """The gradient of each record's own cross-entropy by all weights, in float64.

        Raises:
            TargetError: the module failed, or its answers cannot be differentiated.
        """
        from divulge.targets import white_box

        look = white_box.parameter_gradient
        parts = self._look("the module to be differentiated", look, x, y)
        return np.concatenate(parts)

    def hessian_product(
        self,
        x: Shaped[np.ndarray, "records *features"],
        y: Int[np.ndarray, " records"],
        vector: Float[np.ndarray, " parameters"],
    ) -> Float[np.ndarray, " parameters"]:
        """The Hessian of the records' mean cross-entropy by all weights, times a vector.

        Raises:
            TargetError: the module failed, or its answers cannot be differentiated twice.
        """
        from divulge.targets import white_box

        look = partial(white_box.hessian_product, vector=vector)
        parts = self._look("the module to be differentiated twice", look, x, y)
        return np.asarray(np.sum(parts, axis=0) / len(x))

    def last_layer(self, x: Shaped[np.ndarray, "records *features"]) -> LastLayer:
        """What enters the module's last linear layer, and its weights, in float64.

        Raises:
            TargetError: the module failed, or has no linear layer.
        """
        from divulge.targets import white_box

        parts = self._look("the module to be looked into", white_box.read_last_layer, x)
        return LastLayer(np.concatenate([part.features for part in parts]), parts[0].weights)

    def _look(
        self, wanted: str, look: Callable[..., Any], x: np.ndarray, y: np.ndarray | None = None
    ) -> list[Any]:
        """What a function of `white_box` says of each batch of records, and of their classes."""
        place = self._place()
        with translate_model_errors(wanted, _REMEDY), evaluation_mode(self.module):
            return [
                look(self.module, *place, x[start:end])
                if y is None
                else look(self.module, *place, self.output, x[start:end], y[start:end])
                for start, end in self._batches(len(x))
            ]

    def _query(self, x: Any) -> Shaped[np.ndarray, "..."]:
        """The module's answers as they are."""
        with translate_model_errors("the module to answer", _REMEDY), evaluation_mode(self.module):
            return query_in_batches(
                partial(query_module, self.module, *self._place()), x, self.batch_size
            )

    def _place(self) -> "tuple[str, torch.dtype]":
        """Where records are sent, and what floating ones become."""
        import torch

        floats = (t for t in chain(self.module.parameters(), self.module.buffers()))
        like = next((t for t in floats if t.is_floating_point()), torch.empty(0))
        return self.device or str(like.device), like.dtype

    def _batches(self, records: int) -> list[tuple[int, int]]:
        if not records:
            raise TargetError("expected at least one record, got none: ask about one or more")
        size = self.batch_size
        return [(start, min(start + size, records)) for start in range(0, records, size)]


def query_module(
    module: "torch.nn.Module",
    device: str,
    dtype: "torch.dtype",
    batch: Any,
) -> Shaped[np.ndarray, "..."]:
    """What the module says about one batch, floating answers in float64.

    Args:
        module: the module.
        device: where the batch is sent.
        dtype: what floating features become.
        batch: an array, or a dict of arrays, which are passed by name.

    Raises:
        TargetError: the module returned something else than a tensor, and nothing with ``logits``.
    """
    import torch

    def send(array: Any) -> torch.Tensor:
        # Copied: records are read-only, tensors never are.
        sent = torch.tensor(np.ascontiguousarray(array), device=device)
        return sent.to(dtype) if sent.is_floating_point() else sent

    with torch.inference_mode():
        if isinstance(batch, Mapping):
            answers = module(**{name: send(array) for name, array in batch.items()})
        else:
            answers = module(send(batch))
        answers = _logits_of(answers)
        if answers.is_floating_point():
            answers = answers.double()
        return np.asarray(answers.cpu().numpy())


def _logits_of(answers: Any) -> "torch.Tensor":
    """The tensor itself, or ``logits`` in a dict or an object, as in Hugging Face's models."""
    import torch

    output = answers.get("logits") if isinstance(answers, Mapping) else answers
    output = getattr(output, "logits", output)
    if isinstance(output, torch.Tensor):
        return output
    raise TargetError(
        f"expected a tensor of answers, or logits in a dict or an object, got "
        f"{type(answers).__name__}: wrap the module in one that returns the logits or "
        "probabilities alone"
    )


@contextmanager
def evaluation_mode(module: "torch.nn.Module") -> Iterator[None]:
    """The module in evaluation mode; afterwards it is as it was found."""
    # One flag per submodule: a frozen layer inside a module in training must stay frozen.
    flags = {part: part.training for part in module.modules()}
    try:
        module.eval()
        yield
    finally:
        for part, training in flags.items():
            part.training = training
