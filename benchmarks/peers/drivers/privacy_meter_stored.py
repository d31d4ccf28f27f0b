"""Privacy Meter's RMIA and LOSS on answers of models that were trained once.

Its RMIA wants each record in one model of each pair, and takes the other's answer. Offline no
shadow was trained on a candidate, so the partner of each is a model that was trained on all
candidates and gives nothing; it takes the shadow's answers. Online shadows are no such pairs.
"""

import logging

import numpy as np

from benchmarks.peers.drivers import stored
from benchmarks.peers.drivers.desk import Desk
from benchmarks.peers.drivers.privacy_meter_shadows import load_module
from benchmarks.peers.drivers.stored import Game, true_class


def main() -> None:
    """A target on another half takes the place of the target's twin, which chooses offline_a."""
    attacks, log = load_module("attacks.py"), logging.getLogger("privacy-meter")

    def rmia(game: Game) -> np.ndarray:
        assert game.other is not None
        other, count = game.other, len(game.shadows)
        signals = _signals((game.target, other.target), game.shadows, game.y)
        references = game.target_reference, other.target_reference
        of_others = _signals(references, game.shadows_reference, game.y_reference)
        nobody, everyone = np.zeros_like(game.member), np.ones_like(game.member)
        inside = np.stack([game.member, other.member, *([nobody, everyone] * count)], axis=1)
        a, _, _ = attacks.tune_offline_a(0, signals, of_others, inside, log)
        score: np.ndarray = attacks.run_rmia(0, signals, of_others, inside, count, a)
        return score

    def loss(game: Game) -> np.ndarray:
        score: np.ndarray = attacks.run_loss(true_class(game.target, game.y))
        return score

    def wanted(mode: str, count: int, name: str) -> bool:
        return name == "LOSS" if count == 0 else (mode, name) == ("offline", "RMIA offline")

    stored.run(Desk(), {"RMIA offline": rmia, "LOSS": loss}, wanted)


def _signals(own: tuple[np.ndarray, ...], shadows: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The probability of the true class: (records, models), with a partner for each shadow."""
    columns = [true_class(logits, y) for logits in own]
    for logits in shadows:
        columns += [true_class(logits, y), np.zeros(len(y))]
    return np.stack(columns, axis=1)


if __name__ == "__main__":
    main()
