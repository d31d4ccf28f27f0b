"""A server that never sees last layers fits one to its own records, on the layers that it sees."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float64

from divulge.core import OutputLayerNames, ReceivedUpdate, Records, Round


def refit_last_layer(played: Round, network: Callable[[], Any], reference: Records) -> Round:
    """The round with last layers that the server fitted, in what was sent and in what came.

    Each is a logistic regression of the classes of the server's records on what enters the last
    layer. So attacks that ask a client's model can be put to clients who keep their last layer.

    Args:
        played: the round, with each client's own update.
        network: makes the module that the weights belong to.
        reference: records of the server.
    """
    shapes = {name: array.shape for name, array in played.sent.items()}
    layer = OutputLayerNames.of(shapes)
    sent = _refit(played.sent, layer, network, reference)
    received = {}
    for client, got in played.received.items():
        change = played.change(client)
        state = {name: a + change[name] if name in change else a for name, a in played.sent.items()}
        fitted = _refit(state, layer, network, reference)
        received[client] = ReceivedUpdate(
            {name: fitted[name] - sent[name] for name in change}, got.records, got.guarantee
        )
    return replace(played, kind="update", sent=sent, received=received)


def _refit(
    state: Mapping[str, np.ndarray],
    layer: OutputLayerNames,
    network: Callable[[], Any],
    reference: Records,
) -> dict[str, np.ndarray]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    x = _entering(state, layer, network, reference)
    classes = len(state[layer.weight])
    # the fit's penalty supposes features of size 1; the scale is taken out again below
    scale = max(float(x.std()), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = LogisticRegression(max_iter=100, fit_intercept=layer.bias is not None).fit(
            x / scale, reference.y
        )
    weight, bias = np.zeros((classes, x.shape[1])), np.full(classes, -_ABSENT)
    rows, offsets = fit.coef_ / scale, np.broadcast_to(fit.intercept_, len(fit.coef_))
    if len(fit.classes_) == 2:  # one row for two classes
        rows, offsets = np.vstack([-rows, rows]) / 2, np.append(-offsets, offsets) / 2
    weight[fit.classes_], bias[fit.classes_] = rows, offsets
    fitted = {layer.weight: weight} | ({} if layer.bias is None else {layer.bias: bias})
    return {n: np.asarray(fitted.get(n, a)).astype(a.dtype, copy=False) for n, a in state.items()}


_ABSENT = 10.0
"""How far below the others the logit of a class is that the server has no record of."""


def _entering(
    state: Mapping[str, np.ndarray],
    layer: OutputLayerNames,
    network: Callable[[], Any],
    reference: Records,
) -> Float64[np.ndarray, "references inputs"]:
    """What enters the last layer, for each of the server's records."""
    import torch

    from divulge.training.engine.networks import load_network

    module = load_network(network, state)
    captured: list[torch.Tensor] = []

    def keep(_: Any, given: tuple[torch.Tensor, ...]) -> None:
        captured.append(given[0].flatten(1))

    last = module.get_submodule(layer.weight.removesuffix("weight").removesuffix("."))
    like = next(module.parameters()).dtype
    with last.register_forward_pre_hook(keep), torch.no_grad():
        for start in range(0, len(reference), 1024):
            part = torch.tensor(reference.x[start : start + 1024])  # records are read-only: a copy
            module(part.to(like) if part.is_floating_point() else part)
    return torch.cat(captured).double().numpy()
