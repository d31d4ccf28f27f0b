"""LiRA with one variance for all records, in the shortest script of PyTorch and NumPy."""

import numpy as np

from benchmarks.peers.drivers import plain
from benchmarks.peers.drivers.desk import Desk


def main() -> None:
    """Online LiRA (Carlini et al. 2022) on plainly trained shadows."""
    desk = Desk()
    settings, records = desk.settings, desk.arrays("records")
    x, y = records["x"], records["y"]
    with desk.timed("shadows"):
        models, halves = plain.shadows(desk, x, y)
    with desk.timed("LiRA online"):
        phi = plain.scaled_logit(plain.load_network(settings, desk.arrays("target")), x, y)
        shadow_phi = np.stack([plain.scaled_logit(model, x, y) for model in models])
        desk.leave(
            "LiRA online",
            log_normal(phi, shadow_phi, halves) - log_normal(phi, shadow_phi, ~halves),
        )


def log_normal(phi: np.ndarray, shadow_phi: np.ndarray, side: np.ndarray) -> np.ndarray:
    """The log density of each record's answer by the shadows of one side."""
    own = np.where(side, shadow_phi, np.nan)
    mean = np.nanmean(own, axis=0)
    spread = np.nanstd(own - mean)
    density: np.ndarray = -(((phi - mean) / spread) ** 2) / 2 - np.log(spread)
    density[np.isnan(density)] = 0.0  # all shadows are on the other side
    return density


if __name__ == "__main__":
    main()
