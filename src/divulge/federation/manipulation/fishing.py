"""Fish for labels under secure aggregation: weights made for each client tell whose is what."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Shaped
from scipy import special

from divulge._util.arguments import Count, check_arguments
from divulge.core import OutputLayerNames, Tensors
from divulge.errors import DataError, NotApplicable, SpecError
from divulge.targets.batching import translate_model_errors

_REMEDY = "call it on the records that clients train on"

_SAME = 1e-5
"""Largest difference of two records' inputs to the last layer that is taken for none, relatively.

Float32 numbers that are summed in another order differ by about as much.
"""


class FishingWeights(NamedTuple):
    """What a malicious server sends to one client, and what it knows of the client's answer."""

    sent: Tensors
    """The weights, in which one batch normalisation gives the same numbers for every record."""
    embedding: Float64[np.ndarray, " inputs"]
    """Input of the last layer, whatever the record."""
    logits: Float64[np.ndarray, " classes"]
    """Logits, whatever the record."""


@check_arguments
def craft_fishing_weights(
    network: Callable[[], Any],
    sent: Tensors,
    x: Shaped[np.ndarray, "records *features"],
    clients: Count,
    rng: np.random.Generator,
    layer: str | None = None,
) -> tuple[FishingWeights, ...]:
    """Make weights for each client that differ from the global ones in one batch normalisation.

    Its factors are 0, and its offsets drawn for each client: so all of its records have the same
    embedding and the same logits, which are no client's else.

    Args:
        network: makes the module that the weights belong to.
        sent: global weights.
        x: two or more records of any content, on which it is checked that embeddings are the same.
        clients: number of clients.
        rng: draws the offsets.
        layer: name of the batch normalisation; the last one unless given.

    References:
        Wang et al. (2024), Breaking secure aggregation: label leakage from aggregated gradients in
        federated learning (arXiv 2406.15731), as its abstract describes it. How offsets are drawn
        is ours.

    Raises:
        NotApplicable: there is no such layer, records reach the last layer by another way too, or
            there are more clients than embeddings can tell apart.
        DataError: the network answers the records with NaN or infinity.
        TargetError: the network could not be made or asked.
    """
    if len(x) < 2:
        raise SpecError(f"expected 2 records or more, got {len(x)}: embeddings are compared")
    with translate_model_errors("a network with a batch normalisation", _REMEDY):
        made = tuple(_craft_one(network, sent, x, layer, rng) for _ in range(clients))
    rank = np.linalg.matrix_rank(np.array([fishing.embedding for fishing in made]))
    if rank < clients:
        raise NotApplicable(
            f"expected clients that the embeddings can tell apart, got {clients} for {rank} "
            "dimensions: choose fewer clients, or a wider batch normalisation"
        )
    return made


@check_arguments
def count_fished_labels(
    total: Tensors, fishing: Sequence[FishingWeights], records: Sequence[Count], lr: float
) -> Float64[np.ndarray, "clients classes"]:
    """Numbers of records of each class of each client, from a secure sum of one plain step each.

    The change that client k adds to the last layer's weights is the outer product of two vectors:
    its logits' gradient g, which is softmax(logits) less its class shares, and its embedding,
    which the server chose. As embeddings of clients are linearly independent, the sum tells each
    g. Numbers are exact, but for rounding, where every client took one step of gradient descent on
    all of its records; else they are estimates, which need not be whole or from 0.

    Args:
        total: sum of what training added to each client's weights, each times the client's share
            of all records, by name, as secure aggregation shows it.
        fishing: what each client was sent.
        records: number of records of each client.
        lr: learning rate of the step.

    Raises:
        SpecError: there is not one number of records a client, or the rate is not above 0.
        DataError: the sum lacks the last layer's weights.
    """
    if len(records) != len(fishing) or lr <= 0:
        raise SpecError(
            f"expected a number of records for each of {len(fishing)} clients and a rate above 0, "
            f"got {len(records)} numbers and {lr}"
        )
    if not fishing:
        raise SpecError("expected one client or more, got none: nobody was sent anything")
    name = OutputLayerNames.of({n: a.shape for n, a in fishing[0].sent.items()}).weight
    embedding = np.array([crafted.embedding for crafted in fishing])
    shape = fishing[0].sent[name].shape
    if name not in total or total[name].shape != shape:
        got = total[name].shape if name in total else "none"
        raise DataError(
            f"expected the summed change of {name} of shape {shape}, got {got}: pass all that the "
            "sum holds"
        )
    # the sum of outer products of each client's logit gradient and embedding, by share of records
    gradient = -np.asarray(total[name], np.float64) / lr
    each = (gradient @ np.linalg.pinv(embedding)).T  # times the client's share of all records
    many = np.array(records, np.float64)[:, None]
    answers = special.softmax(np.array([crafted.logits for crafted in fishing]), axis=1)
    # g = softmax - shares, so that records times shares are records times softmax less g
    counts: Float64[np.ndarray, "clients classes"] = many * answers - many.sum() * each
    return counts


def _craft_one(
    network: Callable[[], Any],
    sent: Tensors,
    x: Shaped[np.ndarray, "records *features"],
    layer: str | None,
    rng: np.random.Generator,
) -> FishingWeights:
    name = _batch_normalisation(network(), layer)
    weights = {n: np.array(a) for n, a in sent.items()}
    factors, offsets = f"{name}.weight", f"{name}.bias"
    weights[factors] = np.zeros_like(weights[factors])
    drawn = np.abs(rng.normal(size=weights[offsets].shape))
    weights[offsets] = drawn.astype(weights[offsets].dtype)
    embedding, logits = _ask(network, weights, x)
    if not np.isfinite(embedding).all():
        raise DataError("expected records that the network can read, got NaN or infinity from it")
    if np.ptp(embedding, axis=0).max() > _SAME * np.abs(embedding).max():
        raise NotApplicable(
            f"expected that all of a record passes {name}, got embeddings that differ: choose a "
            "batch normalisation without a way around it"
        )
    return FishingWeights(weights, embedding[0], logits[0])


def _batch_normalisation(module: Any, layer: str | None) -> str:
    """The name of a batch normalisation with factors and offsets: this one, or the last."""
    from torch.nn.modules.batchnorm import _BatchNorm

    names = [
        n for n, part in module.named_modules() if isinstance(part, _BatchNorm) and part.affine
    ]
    if not names or (layer is not None and layer not in names):
        raise NotApplicable(
            f"expected the batch normalisation {layer or 'of the network'}, got "
            f"{', '.join(names) or 'none'}: this attack changes nothing else"
        )
    return layer or names[-1]


def _ask(
    network: Callable[[], Any], weights: Tensors, x: Shaped[np.ndarray, "records *features"]
) -> tuple[Float[np.ndarray, "records inputs"], Float[np.ndarray, "records classes"]]:
    """The last layer's inputs and outputs."""
    import torch

    from divulge.training.engine.networks import load_network

    module = load_network(network, weights)
    last = OutputLayerNames.of({n: a.shape for n, a in weights.items()}).weight
    embedded: list[Any] = []
    hook = module.get_submodule(last.removesuffix(".weight")).register_forward_pre_hook(
        lambda _, given: embedded.append(given[0])
    )
    try:
        with torch.no_grad():
            answers = module(torch.tensor(x).to(next(module.parameters()).dtype))
    finally:
        hook.remove()
    return embedded[0].double().numpy(), answers.double().numpy()
