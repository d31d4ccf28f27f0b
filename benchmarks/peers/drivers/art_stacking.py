"""The Adversarial Robustness Toolbox, driven as the published stacking attack drives it.

For each client seven attack models learn its relevant records from its external ones and score
both, and the candidates; a meta-classifier learns from the colluding client and goes on with each
other client's external records (nist-stacking, arXiv 2604.12737, sections 3.2 to 3.4). Whoever
is asked for a score asks the client's model again.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from art.attacks.inference.membership_inference import MembershipInferenceBlackBox
from art.estimators.classification import PyTorchClassifier
from xgboost import XGBClassifier

from benchmarks.peers.drivers import plain
from benchmarks.peers.drivers.desk import Desk

KINDS = ("nn", "rf", "dt", "gb", "knn", "svm", "lr")


def main() -> None:
    """One score for each candidate and client that does not collude, for each federation."""
    desk = Desk()
    np.random.seed(42)  # the seed that estimators without one take theirs from
    for name in desk.settings["federations"]:
        with desk.timed("attack"):
            desk.leave(name, _scores(desk, name))


def _scores(desk: Desk, name: str) -> np.ndarray:
    game = desk.arrays(name)
    colluder = int(game["colluder"])
    meta = XGBClassifier(eval_metric="logloss", random_state=42, n_jobs=1)
    meta.fit(np.concatenate(_features(desk, name, game, colluder)), game["truth"])
    scores = np.zeros((len(game["candidates"]), int(game["clients"])))
    for k in range(scores.shape[1]):
        if k == colluder:
            continue
        _, external, candidates = _features(desk, name, game, k)
        adapted = XGBClassifier(eval_metric="logloss", random_state=42, n_jobs=1)
        # all labels are zero: scikit-learn's interface guesses another objective without the base
        adapted.fit(external, np.zeros(len(external)), xgb_model=meta)
        scores[:, k] = adapted.predict_proba(candidates)[:, 1]
    return scores


def _features(
    desk: Desk, name: str, game: Mapping[str, np.ndarray], k: int
) -> tuple[np.ndarray, ...]:
    """Of a client's relevant and external records and the candidates: loss, then seven scores."""
    network = desk.settings["federations"][name]
    module = plain.load_network(network, desk.arrays(f"{name}-client-{k}"))
    x, y = game["x"], game["y"]
    sets = [game[f"relevant_{k}"], game[f"external_{k}"], game["candidates"]]
    columns = [[_losses(module, x[rows], y[rows])] for rows in sets]
    classifier = _classifier(module, x.shape[1], int(y.max()) + 1)
    relevant, external, _ = sets
    for kind in KINDS:
        attack = MembershipInferenceBlackBox(
            classifier, attack_model_type=kind,
            nn_model_epochs=100, nn_model_batch_size=100, nn_model_learning_rate=0.03,
        )  # fmt: skip
        attack.fit(x[relevant], y[relevant], x[external], y[external])
        for rows, column in zip(sets, columns, strict=True):
            column.append(np.ravel(attack.infer(x[rows], y[rows], probabilities=True)))
    return tuple(np.column_stack(column) for column in columns)


def _losses(module: torch.nn.Module, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Loss of each record, computed one by one as published."""
    with torch.no_grad():
        return np.array([
            float(torch.nn.functional.cross_entropy(module(record[None]), label[None]))
            for record, label in zip(torch.from_numpy(x), torch.from_numpy(y), strict=True)
        ])  # fmt: skip


def _classifier(module: torch.nn.Module, columns: int, classes: int) -> Any:
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)  # never used
    loss = torch.nn.CrossEntropyLoss()
    return PyTorchClassifier(module, loss, (columns,), classes, optimizer=optimiser)


if __name__ == "__main__":
    main()
