"""Exchange a round's updates through a defence, and aggregate what the server receives."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.core import (
    Guarantee,
    MaskedSum,
    ReceivedUpdate,
    Records,
    Tensors,
    UpdateDefence,
    UpdateSum,
)
from divulge.defences.updates import protocol

Evaluate = Callable[[Any], Mapping[str, float]]
"""Function from a module to figures by name, such as its accuracy."""


def exchange_updates(
    defence: UpdateDefence,
    number: int,
    sent: Tensors,
    results: Mapping[int, Tensors],
    sizes: Mapping[int, int],
    promised: Mapping[int, Guarantee | None],
    seed: int,
) -> tuple[dict[str, ReceivedUpdate], MaskedSum | None]:
    """Pass the clients' results through the defence: the server receives each, or their sum.

    Args:
        defence: update defence.
        number: number of the round.
        sent: global weights by name of the tensor.
        results: tensors that each client sends, before the defence.
        sizes: number of records of each client.
        promised: privacy guarantee of all that each client has sent, this round included.
        seed: seed of the federation.

    Raises:
        DivulgeError: the defence refused.
    """
    if defence.name == "none":
        whole = {str(c): ReceivedUpdate(r, sizes[c], promised[c]) for c, r in results.items()}
        return whole, None
    total = sum(sizes.values())
    shares = {client: size / total for client, size in sizes.items()}
    contexts = protocol.begin_round(defence, number, sent, shares, seed)
    messages = [
        protocol.send(defence, results[client], context) for client, context in contexts.items()
    ]
    view = protocol.receive(defence, messages, contexts[min(contexts)].round)
    if isinstance(view, UpdateSum):
        return {}, MaskedSum(tuple(map(str, view.clients)), view.total, total)
    return {
        str(client): ReceivedUpdate(update, sizes[client], promised[client])
        for client, update in view.by_client.items()
    }, None


def average(received: Iterable[ReceivedUpdate], *, equally: bool = False) -> dict[str, np.ndarray]:
    """Average the received tensors, by numbers of records or equally; counters are rounded.

    Examples:
        >>> one = ReceivedUpdate({"w": np.array([1.0])}, 2)
        >>> other = ReceivedUpdate({"w": np.array([4.0])}, 1)
        >>> average([one, other])
        {'w': array([2.])}
    """
    each = list(received)
    weights = [1 if equally else got.records or 0 for got in each]
    shares = [weight / sum(weights) for weight in weights]
    mean = {}
    for name, like in each[0].tensors.items():
        # a Python float leaves float32 as it is, as in Flower
        total = sum(share * got.tensors[name] for share, got in zip(shares, each, strict=True))
        rounded = np.rint(total) if like.dtype.kind in "iu" else total
        mean[name] = np.asarray(rounded).astype(like.dtype, copy=False)
    return mean


def take_step(sent: Tensors, mean: Tensors, step: float) -> dict[str, np.ndarray]:
    """Move the global weights along the mean of what clients sent."""
    # McMahan et al. (2017), algorithm 1; the type is kept, as a float64 step would widen weights
    return {n: (w + step * mean[n]).astype(w.dtype, copy=False) for n, w in sent.items()}


@check_arguments
def accuracy(test: Records) -> Evaluate:
    """Function for ``Federation(evaluate=...)`` that measures the accuracy on test records."""
    from divulge.targets.torch import TorchTarget

    def evaluate(module: Any) -> dict[str, float]:
        answers = TorchTarget(module, "logits").predict(test.x)
        return {"accuracy": float((answers.argmax(axis=1) == test.y).mean())}

    return evaluate
