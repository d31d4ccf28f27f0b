"""opake-auditing: its lower bounds on ε, for many audits of one kind."""

import numpy as np
from opake.auditing import canary_scores, one_run
from opake.auditing.types import CoinFlip

from benchmarks.peers.drivers.desk import Desk

GRID = 1000
"""Its least number of points; its own 10,000 take ten times as long."""


def main() -> None:
    """One bound an audit, by each of its methods; a threshold is the one that it chooses."""
    desk = Desk()
    delta = float(desk.settings["delta"])
    audits = desk.arrays("audits")
    estimates = [_estimate(*pair) for pair in zip(audits["score"], audits["member"], strict=True)]
    methods = {
        "epsilon, delta": lambda estimate: estimate.eps_delta().epsilon_at(delta=delta),
        "GDP": lambda estimate: estimate.gdp(grid_size=GRID).epsilon_at(delta=delta),
    }
    for name, method in methods.items():
        with desk.timed(name):
            bounds = [method(estimate) for estimate in estimates]  # type: ignore[no-untyped-call]
        desk.leave(name, np.array(bounds))


def _estimate(score: np.ndarray, member: np.ndarray) -> object:
    records = np.arange(len(score))
    coins = CoinFlip(len(score), records, member, records[member], records[~member])
    return one_run(canary_scores(score, canary_indices=records), coin_flip=coins)


if __name__ == "__main__":
    main()
