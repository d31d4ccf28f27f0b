"""The last layers of a network alone, for virtual clients of large networks.

What the layers before give for the attacker's records is computed once a round, with the weights
that were sent. Virtual clients train the last layers on that, and of real clients' updates only
the change of these layers is looked at: as if the layers before had not moved.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Int64

from divulge._util.random import stream
from divulge.attacks.shared.observed_round import ObservedRound
from divulge.core import Records, Tensors

if TYPE_CHECKING:
    from torch import nn

SHARE = 0.25
"""Share of a network's operations that its last layers have at most."""


_QUERIED = 20
"""Records of each class that a trained network is queried on, at most.

Large networks take longer to query about a thousand records than to train on a client's.
"""


class LastLayers(NamedTuple):
    """Where a network is cut."""

    before: int
    """The number of layers before the last ones."""
    share: float
    """The share of the network's operations that the last layers have."""


def find_last_layers(stage: ObservedRound) -> LastLayers | None:
    """The last layers of a network; None if it is not a chain of layers, or is only the last ones.

    They have at most `SHARE` of the operations, but the output layer is always one of them.
    """
    import torch
    from torch import nn
    from torch.utils.flop_counter import FlopCounterMode

    from divulge.training.engine.networks import load_network

    chain = load_network(stage.recipe.network, stage.round.sent)
    if type(chain) is not nn.Sequential or _shares_weights(chain):
        return None
    x, operations = torch.tensor(_cast(stage.reference.x[:1], chain)), []
    with torch.no_grad():
        for layer in chain:
            with FlopCounterMode(display=False) as counter:
                x = layer(x)
            operations.append(counter.get_total_flops())
    (output,) = (
        k for k, name in enumerate(chain._modules) if stage.layer.weight.startswith(f"{name}.")
    )
    for before in range(1, output + 1):
        # operations, and not weights: convolutions have few weights and most of the work
        share = sum(operations[before:]) / max(1, sum(operations))
        # as many layers as fit the share; the output layer always trains
        if share <= SHARE or before == output:
            return LastLayers(before, share)
    return None


def keep_last_layers(
    stage: ObservedRound, pool: Records, before: int
) -> tuple[ObservedRound, Records]:
    """The round as one of a network that is only the last layers, and the records that it sees.

    Args:
        stage: the round.
        pool: records to train on; the first of them are those of the round.
        before: the number of layers before.
    """
    network = partial(_make_last_layers, stage.recipe.network, before)
    names = set(_state_names(network))

    def cut(tensors: Tensors) -> Tensors:
        return {name: array for name, array in tensors.items() if name in names}

    played = stage.round
    less = replace(
        played,
        sent=cut(played.sent),
        received={
            client: replace(got, tensors=cut(got.tensors))
            for client, got in played.received.items()
        },
        masked=None,
        aggregated=None,
    )
    entering = Records(_given_before(stage, pool, before), pool.y)
    own = entering.take(_first_of_each_class(stage.reference.y, _QUERIED))
    return ObservedRound(less, replace(stage.recipe, network=network), own), entering


def _first_of_each_class(y: Int64[np.ndarray, " records"], most: int) -> Int64[np.ndarray, " _"]:
    """Positions of the first records of each class, in order, at most so many of each."""
    each = [np.flatnonzero(y == k)[:most] for k in np.unique(y)]
    return np.sort(np.concatenate(each))


def _given_before(stage: ObservedRound, pool: Records, before: int) -> np.ndarray:
    """What the layers before give for each record, normalised over batches as in training."""
    import torch
    from torch import nn
    from torch.nn.modules.dropout import _DropoutNd

    from divulge.training.engine.loop import torch_threads
    from divulge.training.engine.networks import load_network

    chain = load_network(stage.recipe.network, stage.round.sent)
    assert isinstance(chain, nn.Sequential)
    head = chain[:before].train()
    for layer in head.modules():
        if isinstance(layer, _DropoutNd):
            layer.eval()
    order = stream(0, "batches of what is given", stage.round.number).permutation(len(pool))
    batches = np.split(order, stage.recipe.batch_edges(len(order)))
    x = _cast(pool.x, head)
    with torch.no_grad(), torch_threads(1):
        given = np.concatenate([head(torch.tensor(x[batch])).numpy() for batch in batches])
    # back in the pool's order: batches only decide what batch normalisation sees together
    ordered = np.empty_like(given)
    ordered[order] = given
    return ordered


def _cast(x: np.ndarray, module: "nn.Module") -> np.ndarray:
    """Floating features in the precision of the network."""
    from divulge.training.weights import as_arrays, state

    kinds = [array.dtype for array in as_arrays(state(module)).values() if array.dtype.kind == "f"]
    return x.astype(kinds[0], copy=False) if kinds and x.dtype.kind == "f" else x


def _make_last_layers(network: Callable[[], Any], before: int) -> "nn.Module":
    from torch import nn

    layers = list(network()._modules.items())[before:]
    return nn.Sequential(OrderedDict(layers))


def _state_names(network: Callable[[], Any]) -> list[str]:
    import torch

    with torch.random.fork_rng([]):
        return list(network().state_dict())


def _shares_weights(chain: "nn.Sequential") -> bool:
    """Whether two of the layers have a tensor in common, which would train twice."""
    owners = [{id(t) for t in (*layer.parameters(), *layer.buffers())} for layer in chain]
    return sum(map(len, owners)) > len(set().union(*owners))
