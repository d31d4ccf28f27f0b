"""Small SYNTHETIC records, canaries like them, and scores that know more or less of the coins."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from divulge.canaries.make import make_canaries
from divulge.core import Records
from divulge.data import canary_files as files
from divulge.data import canary_scores as scores

FEATURES, CLASSES = 60, 2


def records(count: int = 60) -> Records:
    """Records that differ in their first ten features; the others are 0."""
    rng = np.random.default_rng(0)
    x = np.zeros((count, FEATURES), np.float32)
    x[:, :10] = rng.normal(size=(count, 10))
    return Records(x, np.arange(count) % CLASSES)


def linear() -> nn.Module:
    torch.manual_seed(3)
    return nn.Linear(FEATURES, CLASSES)


def make(folder: Path, count: int = 400, seed: int = 1) -> Path:
    return make_canaries(records(), folder / f"canaries-{seed}", count, seed=seed).folder


def coins(folder: Path) -> np.ndarray:
    """The coins as a cheat reads them."""
    found: np.ndarray = np.load(folder / files.SEALED)["inserted"]
    return found


def pool(folder: Path) -> Records:
    """Records and inserted canaries, as the trainer joins them."""
    with np.load(folder / files.TRAIN) as train:
        return records().joined(Records(train["x"], train["y"]))


def write_scores(
    folder: Path,
    score: np.ndarray,
    name: str = "scores.npz",
    *,
    rounds: np.ndarray | None = None,
    **changed: str,
) -> Path:
    """A file of scores of these canaries; ``box``, ``model`` and ``canaries`` may be others."""
    said = {"box": "white", "model": "m", "canaries": files.read_candidates(folder).digest}
    path = folder / name
    held = scores.CanaryScores(score=score, steps=1, rounds=rounds, **(said | changed))  # type: ignore[arg-type]
    scores.write_scores(path, held)
    return path


def leak(folder: Path, size: float, seed: int = 0) -> np.ndarray:
    """Scores with unit noise that are so much higher where a canary was inserted."""
    member = coins(folder)
    return np.asarray(np.random.default_rng(seed).normal(size=len(member)) + size * member)


def add_noise(network: nn.Module, deviation: float, generator: torch.Generator) -> None:
    """Gaussian noise on each entry of a gradient."""
    for p in network.parameters():
        assert p.grad is not None
        p.grad += deviation * torch.randn(p.shape, generator=generator)
