"""Measure the losses of members and of others in the federations of NIST's challenge."""

from pathlib import Path

import numpy as np

from divulge.metrics import signals
from divulge_papers.attempts import RowResult
from divulge_papers.papers.nist.federations import GenotypeOrigin
from divulge_papers.papers.nist.games import load_game
from divulge_papers.table import Size

QUANTILES = {f"{percent} % of records": percent / 100 for percent in range(10, 100, 10)}
"""Share of records whose loss is below a column's figure."""


def measure_losses(
    seed: int, size: Size, *, folder: Path, origin: GenotypeOrigin, tier: str, member: bool
) -> RowResult:
    """Measure the mean and the deciles of the loss at the clients' own models.

    Args:
        seed: seed of the federation.
        size: size of the experiment.
        folder: folder that stores the clients' predictions.
        origin: origin of the genotypes.
        tier: privacy tier.
        member: whether the losses are those of each client's members; otherwise those of its
            relevant records and candidates that are none, and of its external records.
    """
    game = load_game(seed, size, folder, origin, tier)
    view, truth = game.challenge.view, game.challenge.truth
    client_losses = []
    for k, target in enumerate(view.targets):
        records = view.relevant[k].joined(view.records).joined(view.external[k])
        none = np.zeros(len(view.external[k]), bool)
        inside = np.concatenate([game.relevant[k], truth.client == k, none])
        loss = -signals.compute_signal("loss", target.predict(records.x), records.y)
        client_losses.append(loss[inside == member])
    losses = np.concatenate(client_losses)
    values = {column: [float(np.quantile(losses, q))] for column, q in QUANTILES.items()}
    return RowResult({"mean": [float(losses.mean())], **values})
