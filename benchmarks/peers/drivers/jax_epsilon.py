"""jax_privacy: its lower bounds on ε, for many audits of one kind.

Where it chooses a threshold by the scores, half of them serve for the choice (its ``Split``).
"""

import numpy as np
from jax_privacy.auditing import CanaryScoreAuditor, Split

from benchmarks.peers.drivers.desk import Desk

ERROR = 0.05


def main() -> None:
    """One bound an audit, by each of its methods."""
    desk = Desk()
    delta = float(desk.settings["delta"])
    audits = desk.arrays("audits")
    pairs = list(zip(audits["score"], audits["member"], strict=True))
    methods = {
        "one run": lambda auditor: auditor.epsilon_one_run(
            ERROR, delta, threshold_strategy=Split(seed=0)
        ),
        "one run, f-DP of Gaussian noise": lambda auditor: auditor.epsilon_one_run_fdp(
            ERROR, delta, threshold_strategy=Split(seed=0)
        ),
        "Clopper-Pearson": lambda auditor: auditor.epsilon_clopper_pearson(
            ERROR, delta, threshold_strategy=Split(seed=0)
        ),
        "GDP": lambda auditor: auditor.epsilon_from_gdp(ERROR, delta),
    }
    for name, method in methods.items():
        with desk.timed(name):
            bounds = [
                method(CanaryScoreAuditor(score[member], score[~member]))  # type: ignore[no-untyped-call]
                for score, member in pairs
            ]
        desk.leave(name, np.array(bounds))


if __name__ == "__main__":
    main()
