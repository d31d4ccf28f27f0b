"""What one client of a federation, turned attacker, has against the others."""

from dataclasses import dataclass
from functools import reduce
from operator import and_

import numpy as np
from jaxtyping import Bool

from divulge.core.records import Need, Records, Target
from divulge.errors import DataError


@dataclass(frozen=True, slots=True)
class Collusion:
    """What the colluding client knows of itself: the only truth an attacker has."""

    client: int
    """From 0."""
    relevant: Bool[np.ndarray, " relevant"]
    """Which of its relevant records it trained on."""
    records: Bool[np.ndarray, " records"]
    """Which of the candidates it trained on."""


@dataclass(frozen=True, slots=True)
class FederationView:
    """The models of all clients, and which records each of them may have trained on.

    Raises:
        DataError: there is not one of each for every client, or the collusion does not fit.
    """

    targets: tuple[Target, ...]
    """The model of each client."""
    records: Records
    """The candidates: which client, if any, trained on each? None trained on one in common."""
    relevant: tuple[Records, ...]
    """Records that each client is suspected of: some it trained on, and some it did not."""
    external: tuple[Records, ...]
    """Records that each client certainly did not train on, of the same population."""
    collusion: Collusion

    def __post_init__(self) -> None:
        clients = len(self.targets)
        counts = {"relevant": len(self.relevant), "external": len(self.external)}
        for what, count in counts.items():
            if count != clients:
                raise DataError(
                    f"expected {what} records for each of {clients} clients, got {count}: "
                    "give one set a target, in the same order"
                )
        known = self.collusion
        if not 0 <= known.client < clients:
            raise DataError(
                f"expected the colluding client from 0 to {clients - 1}, got {known.client}"
            )
        pairs = ((known.records, self.records), (known.relevant, self.relevant[known.client]))
        for mask, records in pairs:
            if len(mask) != len(records):
                raise DataError(
                    "expected the colluding client's membership of every record, got "
                    f"{len(mask)} for {len(records)} records: give one truth value a record"
                )

    @property
    def offers(self) -> Need:
        """All that an attack can use here: what every one of the targets offers."""
        return reduce(and_, (target.offers for target in self.targets)) | (
            Need.LABELS | Need.REFERENCE
        )
