"""The Adversarial Robustness Toolbox: its two attacks on labels alone."""

import numpy as np
from art.attacks.inference.membership_inference import (
    LabelOnlyDecisionBoundary,
    LabelOnlyGapAttack,
)
from art.estimators.classification import BlackBoxClassifier

from benchmarks.peers.drivers import plain
from benchmarks.peers.drivers.desk import Desk

SEARCH = {"max_iter": 2, "max_eval": 60, "init_eval": 20}
"""HopSkipJump's settings; by its own ones it asks some 25,000 questions a record."""


def main() -> None:
    """The gap on all records, the boundary on as many as are named in the settings."""
    desk = Desk()
    records, module = (
        desk.arrays("records"),
        plain.load_network(desk.settings, desk.arrays("target")),
    )
    x, y, rows = records["x"], records["y"], desk.arrays("searched")["rows"]
    queries = 0

    def predict(batch: np.ndarray) -> np.ndarray:
        nonlocal queries
        queries += len(batch)
        labels = plain.log_probabilities(module, np.asarray(batch, np.float32)).argmax(axis=1)
        return np.asarray(np.eye(desk.settings["widths"][-1], dtype=np.float32)[labels])

    model = BlackBoxClassifier(
        predict, x.shape[1:], desk.settings["widths"][-1], clip_values=(x.min(), x.max())
    )
    with desk.timed("gap"):
        desk.leave("gap behind top-1", np.ravel(LabelOnlyGapAttack(model).infer(x, y)))
    desk.leave("questions of gap", np.zeros(1))
    queries = 0
    np.random.seed(0)
    with desk.timed("boundary behind top-1"):
        # whatever the threshold, the probability rises with the distance; it must be above zero
        attack = LabelOnlyDecisionBoundary(model, distance_threshold_tau=1e-6)
        probabilities = attack.infer(x[rows], y[rows], probabilities=True, verbose=False, **SEARCH)
    score = np.full(len(y), np.nan)
    score[rows] = probabilities[:, 1]
    desk.leave("boundary behind top-1", score)
    desk.leave("questions of boundary", np.array([queries / len(rows) - 1]))


if __name__ == "__main__":
    main()
