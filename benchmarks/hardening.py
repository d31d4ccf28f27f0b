"""Whether hardened models stay under their ceiling, and how far the search is off."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from scipy import stats
from sklearn.datasets import load_digits
from torch import nn

import divulge
from benchmarks import data
from divulge.core import Records
from divulge.metrics import intervals
from divulge.training.recipe import Recipe

SUMMARY = "divulge harden, repeated: outcomes, accuracy and leakage in the search and afresh"


class Task(NamedTuple):
    """Records, how an undefended model is trained, and what is asked for."""

    records: Callable[[], Records]
    recipe: Recipe
    ceiling: Mapping[str, float]
    search: divulge.SearchSettings
    repeats: int


def _digits() -> Records:
    x, y = load_digits(return_X_y=True)
    return Records((x / 16).astype(np.float32), y.astype(np.int64))


def _network_of_digits() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def _network_of_location_30() -> nn.Module:
    return nn.Sequential(nn.Linear(446, 256), nn.ReLU(), nn.Linear(256, 30))


_DEFENCES = ("early-stopping", "regularise", "relaxloss", "label-smoothing")

TASKS = {
    "digits": Task(
        _digits,
        Recipe(_network_of_digits, lr=0.1, epochs=60, batch_size=30),
        {"auc": 0.63},
        divulge.SearchSettings(_DEFENCES, budget=39, models=4, targets=2, shadows=6),
        10,
    ),
    "location-30": Task(
        data.location_30,
        Recipe(_network_of_location_30, lr=0.1, momentum=0.9, epochs=40, batch_size=64),
        {"tpr@0.01": 0.15},
        divulge.SearchSettings(
            (*_DEFENCES, "adversarial-regularisation"), budget=90, models=6, targets=2, shadows=8
        ),
        20,
    ),
}


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print the outcome of each repeat, and what they say together.

    Args:
        quick: two repeats.
        name: of the task.

    Raises:
        MissingData: its data are not there.
    """
    task = TASKS[name]
    records, rows, outcomes = task.records(), [], Counter[str]()
    repeats = 2 if quick else task.repeats
    (metric,) = task.ceiling
    for seed in range(repeats):
        order = np.random.default_rng(seed).permutation(len(records))
        kept = len(order) * 4 // 5
        pool, reference = records.take(order[:kept]), records.take(order[kept:])
        with TemporaryDirectory() as folder:
            found = divulge.harden(
                task.recipe,
                records=pool,
                reference=reference,
                ceiling=task.ceiling,
                search=task.search,
                run=Path(folder) / "run",
                options=divulge.Options(seed=seed),
            )
        measured, chosen = found.measured[metric], found.chosen
        assert found.accuracy is not None
        outcomes[found.outcome] += 1
        rows.append(
            (
                chosen.accuracy.value,
                found.accuracy.value,
                chosen.leaks[metric].value,
                measured.value,
                measured.high,
                found.trials[0].accuracy.value,
            )
        )
        print(
            f"repeat {seed}: {found.outcome:9} {metric} {measured.value:.3f} (at most "
            f"{measured.high:.3f}), accuracy {found.accuracy.value:.3f}: {chosen.label}",
            flush=True,
        )
    table = np.array(rows)
    ceiling = task.ceiling[metric]
    for what, count in (
        ("value under the ceiling", int(np.sum(table[:, 3] <= ceiling))),
        ("upper limit under the ceiling", int(np.sum(table[:, 4] <= ceiling))),
    ):
        low, high = intervals.wilson(count, repeats)
        print(f"{what}: {count} of {repeats} ({low:.2f} to {high:.2f})")
    print(f"outcomes: {dict(outcomes)}")
    for what, less in (
        ("accuracy, search less fresh", table[:, 0] - table[:, 1]),
        (f"{metric}, search less fresh", table[:, 2] - table[:, 3]),
        ("accuracy in the search, undefended less chosen", table[:, 5] - table[:, 0]),
    ):
        half = stats.t.ppf(0.975, repeats - 1) * less.std(ddof=1) / repeats**0.5
        print(
            f"{what}: {less.mean():+.3f} ({less.mean() - half:+.3f} to {less.mean() + half:+.3f})"
        )
