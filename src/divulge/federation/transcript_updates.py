"""Ask the updates in a transcript about records: losses, and how a record's gradient fits in."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from divulge._util.arguments import check_arguments
from divulge.core import Records, Round, Rounds, RoundSignals, Target
from divulge.errors import NotApplicable
from divulge.federation.layer_inputs import layer_inputs, linear_layer, weight_name
from divulge.federation.transcript.reader import RoundSubset
from divulge.metrics import signals
from divulge.metrics.projection import projection_residual, row_space
from divulge.targets.batching import translate_model_errors
from divulge.targets.torch import TorchTarget

if TYPE_CHECKING:
    import torch

_REMEDY = "differentiate the network's loss on one record yourself to see why"

_FITS = "name the function that made the clients' network"

_NUMBERS_AT_ONCE = 2**23
"""Entries of records' gradients that are in memory at once, about."""


@check_arguments
@dataclass(frozen=True, slots=True)
class TranscriptUpdates:
    """The updates of clients in recorded rounds, with the network that they belong to.

    Networks are asked and differentiated in evaluation mode, and answer logits.

    Args:
        rounds: the rounds; those of a `Transcript`, or the first few of them.
        clients: names of the clients in the rounds, in the order of a view's targets.
        network: makes the module that the weights belong to.
    """

    rounds: Rounds
    clients: tuple[str, ...]
    network: Callable[[], Any]

    def signals(self, records: Records) -> tuple[RoundSignals, ...]:
        """What each round says about these records.

        Raises:
            TargetError: the network could not be made, asked or differentiated.
            NotApplicable: a round has gradients and no learning rate.
        """
        return tuple(self._ask(played, records) for played in self.rounds)

    def residuals(
        self, records: Records, layer: str | None = None
    ) -> tuple[Float64[np.ndarray, "records clients"], ...]:
        """By round, the share of each record's input of a layer that no update's rows span.

        Args:
            records: the records.
            layer: the name of a linear layer; None takes the one that can name most records.

        Raises:
            NotApplicable: the network has no such layer, or a round has gradients and no learning
                rate.
            TargetError: the network could not be made or asked.
        """
        return tuple(self._residuals(played, records, layer) for played in self.rounds)

    def _residuals(
        self, played: Round, records: Records, layer: str | None
    ) -> Float64[np.ndarray, "records clients"]:
        from divulge.training.engine.networks import load_network

        residuals = np.full((len(records), len(self.clients)), np.nan)
        with translate_model_errors("a network that the weights belong to", _FITS):
            module = load_network(self.network, played.sent)
        name = linear_layer(module, layer)
        with translate_model_errors("a network that can be asked", _FITS):
            inputs = layer_inputs(module, name, records)
        for k, client in enumerate(self.clients):
            if client in played.received:
                change = played.change(client)[weight_name(name)]
                residuals[:, k] = projection_residual(inputs, row_space(change))
        return residuals

    def first(self, rounds: int) -> "TranscriptUpdates":
        """What the server had after so many of the rounds."""
        return replace(self, rounds=RoundSubset(self.rounds, range(rounds)))

    def models(self) -> tuple[Target, ...]:
        """Each client's model as it came out of the last round that has its own update.

        Raises:
            NotApplicable: no round has an own update of one of the clients.
            TargetError: the network could not be made, or has other weights.
        """
        return tuple(self._last_model(client) for client in self.clients)

    def _last_model(self, client: str) -> Target:
        for position in range(len(self.rounds) - 1, -1, -1):
            played = self.rounds[position]
            if client in played.received:
                return self._model(played, client)
        raise NotApplicable(
            f"expected an own update of client {client!r} in one of {len(self.rounds)} rounds, "
            "got none: leave the client out; where secure aggregation hides its updates, keep it"
        )

    def _model(self, played: Round, client: str) -> TorchTarget:
        from divulge.training.engine.networks import load_network

        change = played.change(client)
        state = {n: a + change[n] if n in change else a for n, a in played.sent.items()}
        with translate_model_errors("a network that the weights belong to", _FITS):
            return TorchTarget(load_network(self.network, state), "logits")

    def _ask(self, played: Round, records: Records) -> RoundSignals:
        shape = len(records), len(self.clients)
        loss, inner = np.full(shape, np.nan), np.full(shape, np.nan)
        norm = np.full(len(self.clients), np.nan)
        there = [k for k, name in enumerate(self.clients) if name in played.received]
        for k in there:
            answers = self._model(played, self.clients[k]).predict(records.x)
            loss[:, k] = -signals.compute_signal("loss", answers, records.y)
        products, gradient_norm, update_norm = self._project(played, there, records)
        inner[:, there], norm[there] = products, update_norm
        return RoundSignals(loss, inner, gradient_norm, norm)

    def _project(
        self, played: Round, there: list[int], records: Records
    ) -> tuple[
        Float64[np.ndarray, "records chosen"],
        Float64[np.ndarray, " records"],
        Float64[np.ndarray, " chosen"],
    ]:
        """Products of records' gradients and chosen clients' pseudo-gradients, and both norms."""
        from divulge.training.engine.networks import load_network

        with translate_model_errors("a network that can be differentiated", _REMEDY):
            module = load_network(self.network, played.sent)
            names = [n for n, p in module.named_parameters() if p.requires_grad]
            numbers = sum(played.sent[n].size for n in names)
            steps = np.empty((len(there), numbers))
            for step, k in zip(steps, there, strict=True):
                change = played.change(self.clients[k])
                step[:] = np.concatenate([-change[n].ravel() for n in names])
            gradients = np.concatenate([
                np.column_stack([part @ steps.T, np.linalg.norm(part, axis=1)])
                for part in _record_gradients(module, names, records)
            ])  # fmt: skip
        return gradients[:, :-1], gradients[:, -1], np.linalg.norm(steps, axis=1)


def _record_gradients(
    module: "torch.nn.Module", names: list[str], records: Records
) -> Iterator[Float64[np.ndarray, "part numbers"]]:
    """The gradient of each record's own cross-entropy by these parameters, some at a time."""
    import torch
    from torch.func import functional_call, grad, vmap
    from torch.nn.functional import cross_entropy

    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    weights = {name: state.pop(name).detach() for name in names}
    like = next(iter(weights.values())).dtype

    def loss(weights: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = functional_call(module, (weights, state), (x[None],))
        return cross_entropy(answers, y[None])

    at_once = max(1, _NUMBERS_AT_ONCE // sum(w.numel() for w in weights.values()))
    for first in range(0, len(records), at_once):
        x, y = (torch.tensor(a[first : first + at_once]) for a in (records.x, records.y))
        gradients = vmap(grad(loss), (None, 0, 0))(weights, x.to(like), y)
        yield torch.cat([gradients[n].flatten(1) for n in names], 1).double().numpy()
