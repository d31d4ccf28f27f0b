"""SIA: a training record is the client's whose model has the least loss on it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from divulge._util.arguments import check_arguments
from divulge.attacks.shared import decision
from divulge.core import Assignment, FederationView, Need
from divulge.metrics.exact_signals import compute_exactly


@check_arguments
@dataclass(frozen=True, slots=True)
class SIA:
    """Assign a record to the client whose model has the smallest loss on it; never to nobody.

    The score of a client is its share of the probabilities that the clients' models give the
    record's true class. That is the posterior if exactly one of them trained on the record, all are
    equally likely a priori, and parameters follow a Gibbs posterior at temperature 1.

    References:
        Hu et al. (2021), Source inference attacks in federated learning, and Hu et al. (2023),
        Source inference attacks: beyond membership inference attacks in federated learning, where
        the clients' models come from weights (FedAvg), gradients (FedSGD), or predictions on public
        data (FedMD), which is not built. Departures: the colluding client, which knows its own
        records, is no answer for others. The published attack gives no scores, and is evaluated on
        training records alone, at the best round.
    """

    name: ClassVar[str] = "sia"
    paper: ClassVar[str] = "Hu et al. 2021; Hu et al. 2023"
    needs: ClassVar[Need] = Need.PROBABILITIES | Need.LABELS

    def __call__(self, view: FederationView, rng: np.random.Generator) -> Assignment:
        """The client with the least loss, and each client's share of the probabilities."""
        del rng
        clients = decision.clients_under_attack(view)
        x, y = view.records.x, view.records.y
        log_p = np.column_stack([
            compute_exactly("loss", view.targets[k].predict(x), y) for k in clients
        ])  # fmt: skip
        score = np.zeros((len(view.records), len(view.targets)))
        # with equal priors the posterior over clients is exp(-loss) over its sum
        score[:, clients] = special.softmax(log_p, axis=1)
        return decision.assign_known_records(view, clients[log_p.argmax(axis=1)], score)
