"""Privacy Meter: its RMIA and LOSS, with models of its own trainer."""

import importlib.util
import logging
import sysconfig
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.peers.drivers import plain
from benchmarks.peers.drivers.desk import Desk

PEAK = 0.1
"""What its trainer multiplies the given learning rate by, before its schedule."""


def main() -> None:
    """The target and its twin come first, then pairs of references on complementary halves.

    The twin, trained on the target's non-members, is attacked to choose offline_a.
    """
    desk = Desk()
    settings, records = desk.settings, desk.arrays("records")
    x, y, member = records["x"], records["y"], records["member"]
    attacks, log = load_module("attacks.py"), logging.getLogger("privacy-meter")
    pairs = plain.random_halves(settings["shadows"] // 2, len(y))
    inside = np.stack([side for half in (member, *pairs) for side in (half, ~half)])
    with desk.timed("shadows"):
        models = _train(settings, x, y, inside[1:])
    with desk.timed("signals"):
        everyone = [plain.load_network(settings, desk.arrays("target")), *models]
        signals = _signals(everyone, x, y)
        of_others = _signals(everyone, records["reference_x"], records["reference_y"])
    with desk.timed("RMIA offline"):
        a, _, _ = attacks.tune_offline_a(0, signals, of_others, inside.T, log)
        rmia = attacks.run_rmia(0, signals, of_others, inside.T, len(pairs), a)
    _leave(desk, "RMIA offline", rmia, member)
    with desk.timed("LOSS"):
        loss = attacks.run_loss(signals[:, 0])
    _leave(desk, "LOSS", loss, member)


def _leave(desk: Desk, name: str, score: np.ndarray, member: np.ndarray) -> None:
    """Its report prints the AUC of the scores as they are."""
    desk.leave(name, score)
    desk.leave_printed(name, float(roc_auc_score(member, score)))


def _train(
    settings: Mapping[str, Any], x: np.ndarray, y: np.ndarray, halves: np.ndarray
) -> list[nn.Module]:
    """Models by its own trainer, which prints each epoch."""
    trainer = load_module("trainers/default_trainer.py")
    trainer_settings = {
        "device": "cpu", "optimizer": "SGD", "weight_decay": 0.0, "epochs": settings["epochs"],
        "learning_rate": settings["lr"] / PEAK, "momentum": settings["momentum"],
    }  # fmt: skip
    models = []
    for k, half in enumerate(halves):
        torch.manual_seed(k + 1)
        records = TensorDataset(torch.from_numpy(x[half]), torch.from_numpy(y[half]))
        loader: Any = DataLoader(records, batch_size=settings["batch"], shuffle=True)
        with redirect_stdout(StringIO()):
            models.append(trainer.train(plain.network(settings), loader, trainer_settings).eval())
    return models


def _signals(models: list[nn.Module], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The probability of the true class: (records, models)."""
    rows = np.arange(len(y))
    probabilities = [np.exp(plain.log_probabilities(model, x)[rows, y]) for model in models]
    return np.stack(probabilities, axis=1)


def load_module(path: str) -> Any:
    """One file of it: its packages import what these do without."""
    place = Path(sysconfig.get_paths()["purelib"], path)
    spec = importlib.util.spec_from_file_location(f"privacy_meter_{place.stem}", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
