"""Estimate what pieces of work cost, and spend a budget of time on the cheapest."""

import math
import re
import time
from collections import defaultdict
from collections.abc import Iterable

from divulge.errors import SpecError
from divulge_papers.cells import Piece, Work, key_pieces
from divulge_papers.table import Size, Table

_BUDGET = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,4})m)?")


class Costs:
    """Estimated CPU seconds of pieces.

    A piece takes its share of the table's minutes by the weight of its row; more in proportion
    where measured pieces of the table took more than theirs, as on slower machines, or without
    native code. Where the row has been measured with other seeds, it takes the mean of these.
    """

    def __init__(self, tables: Iterable[Table], size: Size) -> None:
        self._shares: dict[str, float] = {}
        self._siblings: dict[str, list[float]] = {}
        self._tables: dict[str, str] = {}
        self._took: defaultdict[str, float] = defaultdict(float)
        self._expected: defaultdict[str, float] = defaultdict(float)
        for table in tables:
            weights = sum(row.weight for row in table.rows) * table.seeds[size]
            rows: defaultdict[str, list[float]] = defaultdict(list)
            for key, row, _ in key_pieces(table, size):
                self._shares.setdefault(key, 60 * table.minutes[size] * row.weight / weights)
                self._siblings.setdefault(key, rows[row.name])
                self._tables.setdefault(key, table.title)

    def learn(self, piece: Piece) -> None:
        """Take note of what a piece took."""
        self._siblings[piece.key].append(piece.made.cpu_seconds)
        self._took[self._tables[piece.key]] += piece.made.cpu_seconds
        self._expected[self._tables[piece.key]] += self._shares[piece.key]

    def seconds(self, key: str) -> float:
        """Estimated CPU seconds of a piece."""
        if took := self._siblings[key]:
            return sum(took) / len(took)
        expected = self._expected[self._tables[key]]
        slower = self._took[self._tables[key]] / expected if expected else 1.0
        # a cheap row that took less than its share says nothing of the others
        return max(1.0, slower) * self._shares[key]

    def core_hours(self, keys: Iterable[str]) -> float:
        """Estimated core-hours of pieces together."""
        return math.fsum(map(self.seconds, keys)) / 3600


class Budget:
    """Time on the clock that may be spent, from now on."""

    def __init__(self, budget: str, costs: Costs) -> None:
        self._costs = costs
        self._end = time.monotonic() + parse_budget(budget)

    def allows(self, work: Work) -> bool:
        """Whether a piece that is begun now ends in time, by its estimate."""
        return time.monotonic() + self._costs.seconds(work.key) <= self._end

    def cheapest_first(self, todo: Iterable[Work]) -> list[Work]:
        """Pieces by their estimated cost; equally expensive ones keep their order."""
        return sorted(todo, key=lambda work: self._costs.seconds(work.key))


def parse_budget(budget: str) -> float:
    """Seconds of a budget such as ``2h``, ``90m`` or ``1h30m``.

    Raises:
        SpecError: it is something else.

    Examples:
        >>> parse_budget("1h30m")
        5400.0
    """
    match = _BUDGET.fullmatch(budget)
    if not budget or match is None:
        raise SpecError(
            f"expected a budget in hours and minutes, got {budget[:20]!r}: write 2h, 90m or 1h30m"
        )
    hours, minutes = (float(part or 0) for part in match.groups())
    return 3600 * hours + 60 * minutes
