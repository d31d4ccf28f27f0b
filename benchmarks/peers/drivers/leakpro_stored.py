"""LeakPro's LiRA, RMIA and BASE on answers of models that were trained once.

The attacks are its own classes. In the place of its store of shadow models, which would ask each of
them, is one that has the answers.
"""

from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.peers.drivers import leakpro_audit, stored
from benchmarks.peers.drivers.desk import Desk
from benchmarks.peers.drivers.stored import Game

from leakpro.attacks.mia_attacks import base, lira, rmia  # isort: skip (leakpro_audit comes first)

CLASSES: dict[str, Any] = {
    "LiRA": lira.AttackLiRA, "RMIA": rmia.AttackRMIA, "BASE": base.AttackBASE,
}  # fmt: skip


class _Store:
    """What the attacks ask `ShadowModelHandler` for."""

    target_model_hash = "target"
    attack_cache_folder_path = ""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._order = np.concatenate([np.flatnonzero(game.member), np.flatnonzero(~game.member)])

    def create_shadow_models(self, *, num_models: int, **_: Any) -> np.ndarray:
        return np.arange(num_models)

    def get_shadow_models(self, which: np.ndarray) -> tuple[list[None], np.ndarray]:
        return [None] * len(which), which

    def get_in_indices_mask(self, which: np.ndarray, records: np.ndarray) -> np.ndarray:
        mask: np.ndarray = self._game.half[which][:, records].T
        return mask

    def load_logits(self, name: str | None = None, indx: int | None = None) -> np.ndarray:
        all_logits = self._game.target if indx is None else self._game.shadows[indx]
        assert indx is not None or name == "target_target"
        logits: np.ndarray = all_logits[self._order].astype(np.float64)
        return logits


class _Handler:
    """What the attacks ask their input handler for."""

    def __init__(self, game: Game) -> None:
        self.population = game.y
        self.population_size = len(game.y)
        self.target_model = torch.nn.Identity()
        self.train_indices = np.flatnonzero(game.member)
        self.test_indices = np.flatnonzero(~game.member)

    def get_labels(self, records: np.ndarray) -> np.ndarray:
        labels: np.ndarray = self.population[records]
        return labels

    def get_criterion(self) -> torch.nn.Module:
        return torch.nn.CrossEntropyLoss()


def score(game: Game, name: str, *, online: bool) -> np.ndarray:
    """One attack of LeakPro by its defaults."""
    np.random.seed(0)
    store = _Store(game)
    for module in (lira, rmia, base):
        module.ShadowModelHandler = lambda: store
    settings = {"num_shadow_models": len(game.shadows), "online": online}
    attack = CLASSES[name](_Handler(game), settings)
    attack.prepare_attack()
    return leakpro_audit.place(attack.run_attack(), game.member)


def main() -> None:
    """LiRA loops over records, so it has two numbers of shadows alone."""
    desk = Desk()
    attacks = {
        f"{name} {mode}": partial(score, name=name, online=mode == "online")
        for name in CLASSES
        for mode in stored.MODES
    }
    often = desk.settings["often"]

    def wanted(mode: str, count: int, name: str) -> bool:
        attack, own = name.split()
        return own == mode and (attack != "LiRA" or count in often)

    stored.run(desk, attacks, wanted)


if __name__ == "__main__":
    main()
