"""PrivacyGuard: its LiRA and RMIA. It trains nothing: its users do, here by the plain loop."""

from typing import Any

import numpy as np
import pandas as pd
from privacy_guard.analysis.mia.aggregate_analysis_input import AggregationType
from privacy_guard.attacks.lira_attack import LiraAttack
from privacy_guard.attacks.rmia_attack import RmiaAttack

from benchmarks.peers.drivers import plain
from benchmarks.peers.drivers.desk import Desk

ID = "user_id"

LIRA: dict[str, dict[str, Any]] = {
    "LiRA online": {"std_dev_type": "mix", "online_attack": True},
    "LiRA offline": {"std_dev_type": "shadows_out"},
}


def main() -> None:
    """LiRA with one variance for all records, and RMIA, each online and offline."""
    desk = Desk()
    settings, records = desk.settings, desk.arrays("records")
    x, y, member = records["x"], records["y"], records["member"]
    population = records["reference_x"], records["reference_y"]
    with desk.timed("shadows"):
        models, halves = plain.shadows(desk, x, y)
        target = plain.load_network(settings, desk.arrays("target"))
        phi = plain.scaled_logit(target, x, y)
        shadow_phi = np.stack([plain.scaled_logit(model, x, y) for model in models])
        of_others = np.stack([plain.scaled_logit(m, *population) for m in (target, *models)])
    for name, more in LIRA.items():
        with desk.timed(name):
            lira = LiraAttack(
                *split(gaussians(phi, shadow_phi, halves), member), AggregationType.NONE,
                use_fixed_variance=True, **more,
            )  # fmt: skip
            lira.run_attack()
            desk.leave(name, scores(len(y), lira.df_train_merge, lira.df_test_merge))
    nobody = table(of_others[0], of_others[1:], np.zeros_like(of_others[1:], np.bool_))
    for name, online in (("RMIA online", True), ("RMIA offline", False)):
        with desk.timed(name):
            rmia = RmiaAttack(
                *split(table(phi, shadow_phi, halves), member), nobody, AggregationType.NONE,
                online=online,
            )  # fmt: skip
            rmia.run_attack()
            desk.leave(name, scores(len(y), rmia.df_train_merge, rmia.df_test_merge))


def gaussians(phi: np.ndarray, shadow_phi: np.ndarray, halves: np.ndarray) -> pd.DataFrame:
    """Mean and spread of each record's answers by the shadows with it, and by those without."""
    inside, outside = (np.where(side, shadow_phi, np.nan) for side in (halves, ~halves))
    return pd.DataFrame({
        ID: np.arange(len(phi)),
        "score_orig": phi,
        "score_mean_in": np.nanmean(inside, axis=0),
        "score_std_in": np.nanstd(inside, axis=0),
        "score_mean_out": np.nanmean(outside, axis=0),
        "score_std_out": np.nanstd(outside, axis=0),
        "score_mean": np.nanmean(outside, axis=0),
        "score_std": np.nanstd(outside, axis=0),
    })  # fmt: skip


def table(phi: np.ndarray, shadow_phi: np.ndarray, halves: np.ndarray) -> pd.DataFrame:
    """Probabilities of the true class by the target and by each shadow, and who was in which."""
    columns: dict[str, np.ndarray] = {ID: np.arange(len(phi)), "score_orig": _chance(phi)}
    for k, (own, half) in enumerate(zip(shadow_phi, halves, strict=True)):
        columns[f"{RmiaAttack.REF_SCORE_PREFIX}{k}"] = _chance(own)
        columns[f"{RmiaAttack.REF_MEMBER_PREFIX}{k}"] = half
    return pd.DataFrame(columns)


def _chance(phi: np.ndarray) -> np.ndarray:
    chance: np.ndarray = 1 / (1 + np.exp(-phi))
    return chance


def split(table: pd.DataFrame, member: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of members, and those of the others, as its attacks want them."""
    return table[member].copy(), table[~member].copy()


def scores(count: int, *tables: pd.DataFrame) -> np.ndarray:
    """Scores in the records' order; records that the tool dropped score lowest of all."""
    rows = pd.concat(tables)
    score = np.full(count, rows["score"].min())
    score[rows[ID].to_numpy()] = rows["score"]
    return score


if __name__ == "__main__":
    main()
