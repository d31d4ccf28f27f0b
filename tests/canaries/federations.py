"""Small federations with canary clients on SYNTHETIC records, and what is read out of them."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from divulge.canaries.audit import audit_canaries
from divulge.canaries.clients import Sees, make_canary_clients, score_transcript
from divulge.canaries.result import CanaryAudit
from divulge.core import NoiseAssumption, Records, UpdateDefence
from divulge.data.canary_files import Neighbours
from divulge.federation.canaries import CanaryClients
from divulge.federation.fedavg import Federation
from divulge.federation.simulation import simulate
from divulge.training.recipe import Recipe

FEATURES, OWN = 600, 6


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(FEATURES, 2)


def federation(
    defence: UpdateDefence,
    canaries: Path | None,
    *,
    norm: float = 3.0,
    participation: float = 1.0,
) -> Federation:
    rng = np.random.default_rng(0)
    pool = Records(rng.normal(size=(60, FEATURES)).astype(np.float32), rng.integers(0, 2, 60))
    return Federation(
        pool,
        np.split(np.arange(60), OWN),
        Recipe(network, lr=0.01, epochs=1, batch_size=10),
        defence=defence,
        participation=participation,
        canaries=None if canaries is None else CanaryClients(canaries, norm),
        seed=1,
        workers=1,
    )


def play(
    folder: Path,
    defence: UpdateDefence,
    *,
    count: int = 200,
    rounds: int = 2,
    neighbours: Neighbours = "add-or-remove",
    norm: float = 3.0,
) -> tuple[Path, Path]:
    """The canaries of a federation and its transcript."""
    made = make_canary_clients(folder / "canaries", count, neighbours=neighbours, seed=5)
    run = folder / "run"
    simulate(federation(defence, made.folder, norm=norm), rounds, run)
    return made.folder, run


def judge(
    canaries: Path,
    run: Path,
    *,
    sees: Sees = "rounds",
    noise: NoiseAssumption = "independent-gaussian",
    **claim: float,
) -> CanaryAudit:
    scores = score_transcript(canaries, run, run.parent / f"{sees}.npz", sees=sees)
    return audit_canaries(canaries, [scores], noise=noise, **claim)  # type: ignore[arg-type]
