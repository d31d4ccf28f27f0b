"""What requests to an endpoint cost, and where that has to end."""

from dataclasses import dataclass
from typing import NamedTuple

from divulge.errors import BudgetSpent


class Spent(NamedTuple):
    """What the questions to an endpoint have cost since the target was made."""

    requests: int
    records: int
    """Records in these requests, those of repeated requests each time."""
    cost: float
    """In the currency of the prices."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What a request costs, whether it is answered or not, and where that has to end."""

    per_request: float
    per_record: float
    most: float | None


@dataclass(slots=True)
class Account:
    """Counts requests and their cost, and refuses those that would exceed the highest cost."""

    prices: Prices
    requests: int = 0
    records: int = 0

    @property
    def spent(self) -> Spent:
        """What was asked so far, and its cost."""
        return Spent(self.requests, self.records, self._cost(self.requests, self.records))

    def charge(self, records: int) -> None:
        """Count one request.

        Raises:
            BudgetSpent: it would exceed the highest cost; it is not counted.
        """
        after = self._cost(self.requests + 1, self.records + records)
        most = self.prices.most
        if most is not None and after > most * (1 + 1e-9):  # sums of prices round
            raise BudgetSpent(
                f"expected to spend {most:g} at most, got a request that would raise the "
                f"{self.spent.cost:g} spent on {self.requests:,} requests to {after:g}: raise "
                "max_cost or audit fewer records; in a run folder, answers so far are kept"
            )
        # Counted before it is sent: a request whose answer gets lost was paid for all the same.
        self.requests += 1
        self.records += records

    def _cost(self, requests: int, records: int) -> float:
        return requests * self.prices.per_request + records * self.prices.per_record
