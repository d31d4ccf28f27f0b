"""Keras models on any backend, asked as for inference and left as they were found."""

import hashlib
import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from divulge._util.arguments import Count, check_arguments
from divulge.core import Need
from divulge.errors import SpecError, TargetError
from divulge.targets.batching import count_rows, query_in_batches, translate_model_errors
from divulge.targets.outputs import Output, access_of, to_answers


@check_arguments
@dataclass(frozen=True, slots=True)
class KerasTarget:
    """A Keras model that maps a batch of records to one row of answers each.

    Keras itself decides where the model runs. Nobody looks inside: gradients differ by backend.
    """

    model: Any
    """A ``keras.Model``."""
    output: Output
    batch_size: Count = 1024
    classes: int | None = None
    """How many classes there are; only labels need it."""

    @property
    def offers(self) -> Need:
        """What its answers allow."""
        return access_of(self.output)

    def predict(self, x: Any) -> Float[np.ndarray, "records classes"]:
        """Probabilities or values in float64, whatever the precision of the model.

        Args:
            x: an array, or a dict of arrays by the names of the model's inputs.

        Raises:
            TargetError: the model failed, or its answers are not what ``output`` says.
        """
        remedy = "call it on a few records yourself, and check their shape and type"
        with translate_model_errors("the Keras model to answer", remedy), _without_gradients():
            raw = query_in_batches(self._answer, x, self.batch_size)
        return to_answers(raw, self.output, count_rows(x), self.classes)

    def _answer(self, batch: Any) -> Shaped[np.ndarray, "..."]:
        import keras

        answers = keras.tree.flatten(self.model(batch, training=False))
        if len(answers) != 1:
            raise TargetError(
                f"expected one output of the Keras model, got {len(answers)}: audit "
                "keras.Model(model.inputs, model.outputs[0]), with the output that you mean"
            )
        half = keras.backend.standardize_dtype(answers[0].dtype).endswith("float16")
        return _as_array(keras.ops.cast(answers[0], "float32") if half else answers[0])


def find_output(model: Any, given: Output | None) -> Output:
    """What a Keras model returns: what its last activation says, or else what its user says.

    Args:
        model: a ``keras.Model``.
        given: what the user says; None if nothing.

    Raises:
        TargetError: nobody says it, or the model gives several labels to one record.
        SpecError: the user says something else than the last activation.
    """
    own = _read_output(model)
    if own is None and given is None:
        raise TargetError(
            "expected to be told what the Keras model returns, got a last layer without softmax: "
            'pass output="logits" or output="probabilities", or output="values" for regression'
        )
    if own is not None and given not in (None, own, "values"):  # a sigmoid may bound a value
        raise SpecError(
            f"expected output to be {own}, as the activation of the last layer says, got "
            f"{given}: leave it out"
        )
    return given or own or "probabilities"


def _read_output(model: Any) -> Output | None:
    """Probabilities where the last operation certainly makes some; else None."""
    import keras

    outputs: Sequence[Any] = getattr(model, "outputs", None) or ()
    if len(outputs) != 1:
        return None
    layer = getattr(getattr(outputs[0], "_keras_history", None), "operation", None)
    if isinstance(layer, keras.Model):
        return _read_output(layer)
    if not type(layer).__module__.startswith("keras."):  # a user's layer may do more than it says
        return None
    if isinstance(layer, keras.layers.Softmax):
        return "probabilities" if layer.axis == -1 else None
    activation = getattr(layer, "activation", None)
    if activation is keras.activations.softmax:
        return "probabilities"
    if activation is keras.activations.sigmoid:
        if outputs[0].shape[-1] != 1:
            raise TargetError(
                f"expected one class a record, got a Keras model with {outputs[0].shape[-1]} "
                "sigmoids, each a label of its own: audit each label by itself, "
                "keras.Model(model.inputs, model.outputs[0][:, :1]) and so on"
            )
        return "probabilities"
    return None


def fingerprint_keras(model: Any) -> str | None:
    """A hash of a model's configuration and weights; None where it cannot say its configuration."""
    import keras

    if not model.built:
        return None
    try:
        config = keras.saving.serialize_keras_object(model.get_config())
        settings = json.dumps([str(type(model)), config], sort_keys=True)
    except Exception:  # whatever a layer raises that cannot be written
        return None
    digest = hashlib.blake2b(settings.encode())
    for weight in model.weights:
        value = _as_array(weight)
        digest.update(f"{weight.path}{value.dtype}{value.shape}".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()


def _as_array(tensor: Any) -> Shaped[np.ndarray, "..."]:
    import keras

    with warnings.catch_warnings():  # NumPy, of how PyTorch's tensors become arrays
        warnings.simplefilter("ignore", DeprecationWarning)
        return np.asarray(keras.ops.convert_to_numpy(tensor))


@contextmanager
def _without_gradients() -> Iterator[None]:
    """PyTorch alone would keep what it computes for a gradient that nobody asks for."""
    import keras

    if keras.backend.backend() == "torch":
        import torch

        with torch.no_grad():
            yield
    else:
        yield
