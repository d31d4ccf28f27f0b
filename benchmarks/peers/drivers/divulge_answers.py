"""divulge: the attacks that need no shadow models."""

import numpy as np

from benchmarks.peers.drivers import plain
from benchmarks.peers.drivers.desk import Desk
from divulge.attacks import catalog
from divulge.core import ModelView, Records
from divulge.targets.torch import TorchTarget

ATTACKS = ("threshold", "external", "quantile", "cluster-lira", "two-sample")


def main() -> None:
    """They get known non-members, never known members, and ask the model themselves."""
    desk = Desk()
    answers = desk.arrays("answers")
    view = ModelView(
        TorchTarget(plain.load_network(desk.settings, desk.arrays("target")), "logits"),
        Records(answers["x"], answers["y"]),
        Records(answers["reference_x"], answers["reference_y"]),
    )
    for name in ATTACKS:
        with desk.timed(name):
            attack = catalog.attack(name)
            desk.leave(name, attack(view, np.random.default_rng(0)).score)


if __name__ == "__main__":
    main()
