"""The false-positive rates that thresholds from shadows alone realise on targets."""

import numpy as np

from benchmarks.shadow_quality.measure import folder_of_answers
from benchmarks.shadow_quality.models import Games
from benchmarks.shadow_quality.tasks import TASKS
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.audits.shadow_thresholds import INTENDED, thresholds_from_shadows
from divulge.core import Membership
from divulge.metrics import intervals

SUMMARY = "realised false-positive rates of thresholds that shadows chose, on Location-30"

SHADOWS = 16

NAMES = ("shadow-stack", "rmia", "lira", "calibrated", "shadow")


def run(quick: bool) -> None:  # noqa: FBT001 (like all)
    """Print means over the online targets, with Student's 95 % intervals.

    Raises:
        MissingData: the data is not at hand.
    """
    task = TASKS["location-30"]
    with folder_of_answers(task) as folder:
        games = Games(task, SHADOWS, folder)
        games.train()
        views = list(games.views("online"))[: 2 if quick else None]
    print(f"{len(views)} targets; attack, intended FPR, realised FPR, TPR")
    for name in NAMES:
        attack = catalog.attack(name)
        rates: dict[float, list[tuple[float, float]]] = {intended: [] for intended in INTENDED}
        for k, views_of_target in enumerate(views):
            view = views_of_target.of(SHADOWS)
            guess = attack(view, stream(k, "attack", name))
            for threshold in thresholds_from_shadows(
                view, attack, guess, Membership(views_of_target.learned), k
            ):
                rates[threshold.intended_fpr].append((threshold.fpr.value, threshold.tpr.value))
        for intended, pairs in rates.items():
            cells = []
            for column in np.transpose(pairs):
                low, high = intervals.student_mean(column.tolist())
                cells.append(f"{column.mean():.4f} [{max(low, 0):.4f}, {high:.4f}]")
            print(f"{name:13} {intended:6} {'  '.join(cells)}", flush=True)
