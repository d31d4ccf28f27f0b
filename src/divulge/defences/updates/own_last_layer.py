"""Clients keep their last layer: the server trains the layers before it, and sees these alone."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.core import ClientContext, OutputLayerNames, Update, UpdateDefence
from divulge.defences.updates import vectors


@check_arguments
@dataclass(frozen=True, slots=True)
class OwnLastLayer(UpdateDefence):
    """Send nothing of the last layer, whose gradients name the classes of a client's records.

    The change of the last matrix and its biases is replaced by 0, so the global last layer stays as
    it was at first. A client uses a model of its own: the global layers, and a last layer that it
    trains.

    References:
        Arivazhagan et al. (2019), Federated learning with personalization layers, section 3, with
        one personalised layer; Oh, Kim and Yun (2022), FedBABU: toward enhanced representation for
        federated image classification, for a last layer that stays as it was at first. Departure:
        clients do not keep their last layer from round to round, which would help their accuracy
        and shows the server no more and no less.
    """

    name: ClassVar[str] = "own-last-layer"
    paper: ClassVar[str] = "Arivazhagan et al. 2019"

    @property
    def personal(self) -> bool:
        """Each client has a last layer of its own."""
        return True

    def on_client(self, update: Update, context: ClientContext) -> Update:
        """The update with 0 in place of the last layer's change.

        Raises:
            DataError: the update is empty, not of floating point, or not finite, or has no matrix.
        """
        vectors.check_update(update, "the update")
        layer = OutputLayerNames.of(context.round.shapes)
        return {
            name: np.zeros_like(value) if name in layer else value for name, value in update.items()
        }
