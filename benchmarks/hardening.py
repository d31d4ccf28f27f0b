"""Whether hardened models stay under their ceiling, and how far the search is off."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from scipy import stats
from sklearn.datasets import load_digits
from torch import nn

import divulge
from benchmarks import data
from divulge.audits.compare.config import default_attacks
from divulge.core import MembershipAttack, Records
from divulge.metrics import intervals
from divulge.training.recipe import Recipe

SUMMARY = "divulge harden, repeated: outcomes, accuracy and leakage in the search and afresh"
SINGLES = "each single defence, searched alone with as many trials, beside the whole search"


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
_SINGLES = ("early-stopping", "regularise", "relaxloss")
_TRIALS = 6
"""Settings that are tried by each search of `run_singles`."""

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


def _harden(
    task: Task,
    records: Records,
    search: divulge.SearchSettings,
    seed: int,
    folder: Path,
    attacks: Sequence[MembershipAttack] | None = None,
) -> divulge.HardenedModel:
    """One search; four fifths of the records are its pool, and the others the reference."""
    order = np.random.default_rng(seed).permutation(len(records))
    kept = len(order) * 4 // 5
    return divulge.harden(
        task.recipe,
        records=records.take(order[:kept]),
        reference=records.take(order[kept:]),
        ceiling=task.ceiling,
        attacks=attacks,
        search=search,
        run=folder,
        options=divulge.Options(seed=seed),
    )


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
        with TemporaryDirectory() as folder:
            found = _harden(task, records, task.search, seed, Path(folder) / "run")
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
        print(f"{what}: {_mean(less)}")


def run_singles(quick: bool, name: str) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print how accurate the final models are, by what was searched.

    All searches have the same records, seed and number of trainings. A final model that is not
    under the ceiling counts with the accuracy of the constant answer, which leaks nothing. Search
    and final audit have the same few attacks, for the time that many searches take.

    Args:
        quick: two repeats.
        name: of the task.

    Raises:
        MissingData: its data are not there.
    """
    task = TASKS[name]
    records, every, attacks = task.records(), _SINGLES, default_attacks()
    constant = np.bincount(records.y).max() / len(records)
    searches = {"all": every, "undefended": (), **{one: (one,) for one in every}}
    accuracy = np.full((len(searches), 2 if quick else 4), constant)
    under = np.zeros_like(accuracy)
    for seed in range(accuracy.shape[1]):
        for row, defences in enumerate(searches.values()):
            with TemporaryDirectory() as folder:
                search = replace(task.search, defences=defences, budget=_budget(task))
                run = Path(folder) / "run"
                found = _harden(task, records, search, seed, run, attacks)
            assert found.accuracy is not None
            if found.outcome == "under":
                accuracy[row, seed], under[row, seed] = found.accuracy.value, 1
            reached = f"{found.outcome:9} {found.accuracy.value:.3f} {found.chosen.label}"
            print(f"repeat {seed}: {reached}", flush=True)
    print("| searched | under the ceiling | accuracy under it | all less this one |")
    for what, mine, times in zip(searches, accuracy, under.sum(axis=1), strict=True):
        less = "" if what == "all" else _mean(accuracy[0] - mine)
        print(f"| {what} | {int(times)} of {len(mine)} | {mine.mean():.3f} | {less} |")


def _budget(task: Task) -> int:
    return task.search.final_cost + _TRIALS * task.search.models


def _mean(values: np.ndarray) -> str:
    """With Student's interval at 95 %."""
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    mean = values.mean()
    return f"{mean:+.3f} ({mean - half:+.3f} to {mean + half:+.3f})"
