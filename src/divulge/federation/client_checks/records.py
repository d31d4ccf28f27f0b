"""Score whether an update names the client's own records to a server that holds candidates."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.core import Records
from divulge.errors import DataError, NotApplicable
from divulge.federation.client_checks.base import Outgoing
from divulge.federation.layer_inputs import layer_inputs, linear_layer, weight_name
from divulge.metrics import membership
from divulge.metrics.projection import projection_residual, row_space


@check_arguments
@dataclass(frozen=True, slots=True)
class NamedRecords:
    """How well the span of an update's linear layer tells the client's records from others.

    The client runs `divulge.attacks.ProjRes` on itself: 0 where its own records lie no nearer to
    the span than others do, 1 where all do. Twice the AUC less 1, and at least 0.

    Args:
        network: function that makes the module that the weights belong to.
        records: those that the client trained on, or some of them.
        others: records that it did not train on, of the same population.
        layer: the name of a linear layer; None takes the one that can name most records.
    """

    network: Callable[[], Any]
    records: Records
    others: Records
    layer: str | None = None

    def __call__(self, outgoing: Outgoing) -> float:
        """The score of one update.

        Raises:
            DataError: a set of records is empty, the network has no such layer, or the update does
                not hold its weights.
        """
        from divulge.training.engine.networks import load_network

        if not len(self.records) or not len(self.others):
            raise DataError(
                f"expected own records and others, got {len(self.records)} and {len(self.others)}: "
                "give some of both"
            )
        module = load_network(self.network, outgoing.sent)
        try:
            name = linear_layer(module, self.layer)
        except NotApplicable as error:
            raise DataError(str(error)) from error
        weight = weight_name(name)
        if weight not in outgoing.update:
            raise DataError(
                f"expected {weight} in the update, got {', '.join(outgoing.update)}: test "
                "what is sent before it is changed, or name another layer"
            )
        basis = row_space(outgoing.update[weight])
        score = np.concatenate([
            -projection_residual(layer_inputs(module, name, group), basis)
            for group in (self.records, self.others)
        ])  # fmt: skip
        own = np.arange(len(score)) < len(self.records)
        return max(0.0, 2 * membership.auc(score, own).value - 1)
