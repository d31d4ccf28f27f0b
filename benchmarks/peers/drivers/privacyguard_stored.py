"""PrivacyGuard's LiRA and RMIA on answers of models that were trained once."""

from functools import partial

import numpy as np
from privacy_guard.analysis.mia.aggregate_analysis_input import AggregationType
from privacy_guard.attacks.lira_attack import LiraAttack
from privacy_guard.attacks.rmia_attack import RmiaAttack

from benchmarks.peers.drivers import stored
from benchmarks.peers.drivers.desk import Desk
from benchmarks.peers.drivers.privacyguard_shadows import (
    LIRA,
    gaussians,
    scores,
    split,
    table,
)
from benchmarks.peers.drivers.stored import Game, scaled_logit


def lira(game: Game, mode: str) -> np.ndarray:
    """LiRA with one variance for all records."""
    described = gaussians(game.phi(game.target), game.phi(game.shadows), game.half)
    attack = LiraAttack(
        *split(described, game.member), AggregationType.NONE, use_fixed_variance=True,
        **LIRA[f"LiRA {mode}"],
    )  # fmt: skip
    attack.run_attack()
    return scores(len(game.y), attack.df_train_merge, attack.df_test_merge)


def rmia(game: Game, mode: str) -> np.ndarray:
    """RMIA with all shadows, where its default is half of them, and the reference records."""
    target, shadows = (
        scaled_logit(logits, game.y_reference)
        for logits in (game.target_reference, game.shadows_reference)
    )
    nobody = table(target, shadows, np.zeros_like(shadows, np.bool_))
    described = table(game.phi(game.target), game.phi(game.shadows), game.half)
    attack = RmiaAttack(
        *split(described, game.member), nobody, AggregationType.NONE, len(game.shadows),
        online=mode == "online",
    )  # fmt: skip
    attack.run_attack()
    return scores(len(game.y), attack.df_train_merge, attack.df_test_merge)


def main() -> None:
    """Each attack in its own mode."""
    attacks = {
        f"{name} {mode}": partial(attack, mode=mode)
        for name, attack in (("LiRA", lira), ("RMIA", rmia))
        for mode in stored.MODES
    }
    stored.run(Desk(), attacks, lambda mode, _, name: name.endswith(mode))


if __name__ == "__main__":
    main()
