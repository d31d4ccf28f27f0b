"""Whether hardened models stay under their ceiling, and how they do beside single defences."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from torch import nn

import divulge
from benchmarks import data
from benchmarks.shadow_quality.tasks import pretrained_features
from divulge.core import MembershipAttack, Records
from divulge.metrics import intervals
from divulge.studies.compare.config import default_attacks
from divulge.studies.harden import final
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe

SUMMARY = "divulge harden, repeated: outcomes, accuracy and leakage in the search and afresh"
SINGLES = "each single defence, searched alone with as much work, beside the whole search"
AOP = "AOP(2) of hardened settings on untouched records, beside plain training, epoch by AOP"


class Task(NamedTuple):
    """Records, how an undefended model is trained, and what is asked for."""

    records: Callable[[], Records]
    recipe: Recipe
    metric: str
    ceilings: tuple[float, float]
    """Of the repeated searches, and a lower one."""


SEARCH = divulge.SearchSettings(budget=30, shadows=8)
REPEATS, FEW = 20, 8
WHOLE = (
    *("none", "early-stopping", "regularise", "relaxloss", "complementary-distillation"),
    *("augmentation", "adversarial-regularisation", "selena"),
)
"""What is searched together."""
ALONE = tuple(name for name in WHOLE if not name.startswith(("augment", "adversarial")))
"""What is searched alone."""


def _digits() -> Records:
    x, y = load_digits(return_X_y=True)
    return Records((x / 16).astype(np.float32), y.astype(np.int64))


def _fashion_mnist() -> Records:
    images = data.fashion_mnist().take(np.random.default_rng(0).permutation(70_000)[:5000])
    return Records(images.x.reshape(len(images), -1), images.y)


def _retail_100() -> Records:
    records = data.retail_100()
    return records.take(np.random.default_rng(0).permutation(len(records))[:6000])


@cache
def _cifar_10_features() -> Records:
    features = pretrained_features()
    return features.take(np.random.default_rng(0).permutation(len(features))[:5000])


def _network_of_digits() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def _network_of_location_30() -> nn.Module:
    return nn.Sequential(nn.Linear(446, 256), nn.ReLU(), nn.Linear(256, 30))


def _network_of_retail_100() -> nn.Module:
    return nn.Sequential(nn.Linear(600, 256), nn.ReLU(), nn.Linear(256, 100))


def _network_of_fashion_mnist() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def _network_of_cifar_10_features() -> nn.Module:
    return nn.Sequential(nn.Linear(1280, 128), nn.ReLU(), nn.Linear(128, 10))


TASKS = {
    "digits": Task(
        _digits, Recipe(_network_of_digits, lr=0.1, epochs=60, batch_size=30), "auc", (0.66, 0.63)
    ),
    "location-30": Task(
        data.location_30,
        Recipe(_network_of_location_30, lr=0.1, momentum=0.9, epochs=40, batch_size=64),
        "tpr@0.01",
        (0.15, 0.1),
    ),
    "retail-100": Task(
        _retail_100,
        Recipe(_network_of_retail_100, lr=0.1, momentum=0.9, epochs=40, batch_size=100),
        "tpr@0.01",
        (0.15, 0.1),
    ),
    "fashion-mnist": Task(
        _fashion_mnist,
        Recipe(_network_of_fashion_mnist, lr=0.05, momentum=0.9, epochs=40, batch_size=64),
        "auc",
        (0.62, 0.58),
    ),
    "cifar-10-features": Task(
        _cifar_10_features,
        Recipe(_network_of_cifar_10_features, lr=0.01, momentum=0.9, epochs=40, batch_size=64),
        "auc",
        (0.62, 0.58),
    ),
}


def harden(
    task: Task,
    ceiling: float,
    seed: int,
    folder: Path,
    defences: Sequence[str] | None = None,
    attacks: Sequence[MembershipAttack] | None = None,
) -> divulge.HardenedModel:
    """One search; four fifths of the records are its pool, and the others the reference."""
    records = task.records()
    order = np.random.default_rng(seed).permutation(len(records))
    pool_size = len(order) * 4 // 5
    return divulge.harden(
        task.recipe,
        records=records.take(order[:pool_size]),
        reference=records.take(order[pool_size:]),
        ceiling={task.metric: ceiling},
        attacks=attacks,
        search=replace(SEARCH, defences=None if defences is None else tuple(defences)),
        run=folder,
        options=divulge.Options(seed=seed),
    )


class Repeat(NamedTuple):
    """What one search came to."""

    outcome: str
    label: str
    searched: float
    """Accuracy in the search."""
    accuracy: float
    searched_leak: float
    """The leak in the search."""
    leak: float
    highest: float
    """Its upper limit."""
    undefended: float
    """Accuracy of the undefended model in the search, after all epochs."""
    work: float
    """In trainings of an undefended model, final audit included."""

    def __str__(self) -> str:
        return (
            f"{self.outcome:9} {self.leak:.3f} (at most {self.highest:.3f}), accuracy "
            f"{self.accuracy:.3f}, {self.work:.1f} trainings: {self.label}"
        )


def repeat(name: str, seed: int) -> Repeat:
    """One of the repeated searches.

    Raises:
        MissingData: its data are not there.
    """
    task = TASKS[name]
    with TemporaryDirectory() as folder:
        hardened = harden(task, task.ceilings[0], seed, Path(folder) / "run")
    measured, chosen = hardened.measured[task.metric], hardened.chosen
    assert hardened.accuracy is not None
    return Repeat(
        hardened.outcome,
        chosen.label,
        chosen.accuracy.value,
        hardened.accuracy.value,
        chosen.leaks[task.metric].value,
        measured.value,
        measured.high,
        hardened.undefended.accuracy.value,
        sum(trial.trainings for trial in hardened.trials) + (hardened.log.final or 0.0),
    )


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print the outcome of each repeat, and what they say together.

    Args:
        quick: two repeats.
        name: of the task.

    Raises:
        MissingData: its data are not there.
    """
    repeats = []
    for seed in range(2 if quick else REPEATS):
        repeats.append(repeat(name, seed))
        print(f"repeat {seed}: {repeats[-1]}", flush=True)
    summarise(name, repeats)


def summarise(name: str, repeats: Sequence[Repeat]) -> None:
    """Print what repeats say together."""
    ceiling, metric = TASKS[name].ceilings[0], TASKS[name].metric
    for what, count in (
        ("value under the ceiling", sum(repeat.leak <= ceiling for repeat in repeats)),
        ("upper limit under the ceiling", sum(repeat.highest <= ceiling for repeat in repeats)),
    ):
        low, high = intervals.wilson(count, len(repeats))
        print(f"{what}: {count} of {len(repeats)} ({low:.2f} to {high:.2f})")
    print(f"outcomes: {dict(Counter(repeat.outcome for repeat in repeats))}")
    print(f"most work: {max(repeat.work for repeat in repeats):.1f} trainings")
    for what, values in (
        ("accuracy", [repeat.accuracy for repeat in repeats]),
        (metric, [repeat.leak for repeat in repeats]),
        ("accuracy, search less fresh", [repeat.searched - repeat.accuracy for repeat in repeats]),
        (
            f"{metric}, search less fresh",
            [repeat.searched_leak - repeat.leak for repeat in repeats],
        ),
        (
            "accuracy in the search, undefended less chosen",
            [repeat.undefended - repeat.searched for repeat in repeats],
        ),
    ):
        print(f"{what}: {_mean(values)}")


def single(name: str, ceiling: float, seed: int, alone: str) -> tuple[str, float, str]:
    """Outcome, accuracy and setting of one search, with few attacks for the time that many take.

    Args:
        name: of the task.
        ceiling: the highest admissible leak.
        seed: of records and search.
        alone: the one defence that is searched; ``all`` for all of `WHOLE`.

    Raises:
        MissingData: its data are not there.
    """
    defences = WHOLE if alone == "all" else (alone,)
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        hardened = harden(TASKS[name], ceiling, seed, run, defences, default_attacks())
    assert hardened.accuracy is not None
    return hardened.outcome, hardened.accuracy.value, hardened.chosen.label


def run_singles(quick: bool, name: str) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print how accurate the final models are, by what was searched.

    All searches have the same records, seed and budget. Search and final audit have the same few
    attacks.

    Args:
        quick: two repeats.
        name: of the task.

    Raises:
        MissingData: its data are not there.
    """
    for ceiling in TASKS[name].ceilings:
        searches: dict[str, list[tuple[str, float, str]]] = {what: [] for what in ("all", *ALONE)}
        for seed in range(2 if quick else FEW):
            for what, those in searches.items():
                those.append(single(name, ceiling, seed, what))
                outcome, accuracy, label = those[-1]
                print(
                    f"{ceiling:g}, {seed}: {what}: {outcome:9} {accuracy:.3f} {label}", flush=True
                )
        summarise_singles(name, ceiling, searches)


def summarise_singles(
    name: str, ceiling: float, searches: dict[str, list[tuple[str, float, str]]]
) -> None:
    """Print a table of searches.

    A final model that is not shown to be under the ceiling counts with the accuracy of the constant
    answer, which leaks nothing. The last column takes each final model as it is.
    """
    y = TASKS[name].records().y
    constant = float(np.bincount(y).max() / len(y))
    print(f"{name}, ceiling of {ceiling:g} on {TASKS[name].metric}")
    print(
        "| searched | under the ceiling | accuracy under it | all less this | whatever it leaks |"
    )
    mine = {
        what: np.array(
            [accuracy if outcome == "under" else constant for outcome, accuracy, _ in those]
        )
        for what, those in searches.items()
    }
    whole = np.array([accuracy for _, accuracy, _ in searches["all"]])
    for what, those in searches.items():
        under = sum(outcome == "under" for outcome, *_ in those)
        values = np.array([accuracy for _, accuracy, _ in those])
        less = (
            ("", "") if what == "all" else (_mean(mine["all"] - mine[what]), _mean(whole - values))
        )
        low, high = intervals.wilson(under, len(those))
        lowest, highest = np.clip(intervals.student_mean(mine[what].tolist()), 0, 1)
        print(
            f"| {what} | {under} of {len(those)} ({low:.2f} to {high:.2f}) | "
            f"{mine[what].mean():.3f} ({lowest:.3f} to {highest:.3f}) | {' | '.join(less)} |"
        )


def run_aop(quick: bool, name: str) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print AOP(2) of the settings that searches found, beside plain training, epoch by AOP.

    Both are trained on halves of the records that the search never touched, and audited in turn by
    attacks with shadow models that are trained alike.

    Args:
        quick: two repeats.
        name: of the task.

    Raises:
        MissingData: its data are not there.
    """
    task, rows = TASKS[name], []
    for seed in range(2 if quick else FEW):
        with TemporaryDirectory() as folder:
            hardened = harden(
                task, task.ceilings[0], seed, Path(folder) / "run", WHOLE, default_attacks()
            )
        rows.append(aop_beside_plain(task, hardened, seed))
        mine, plain = rows[-1]
        print(f"repeat {seed}: {mine:.3f}, plain {plain:.3f}: {hardened.chosen.label}", flush=True)
    table = np.array(rows)
    for what, values in (
        ("AOP(2), hardened", table[:, 0]),
        ("AOP(2), plain, epoch by AOP", table[:, 1]),
        ("difference", table[:, 0] - table[:, 1]),
    ):
        print(f"{what}: {_mean(values)}")


def aop_beside_plain(task: Task, hardened: divulge.HardenedModel, seed: int) -> tuple[float, float]:
    """AOP(2) of the chosen setting and of plain training, on the records of the final audit."""
    records = task.records()
    order = np.random.default_rng(seed).permutation(len(records))
    pool_size = len(order) * 4 // 5
    pool = records.take(order[:pool_size])
    _, fresh = final.split_records(pool, SEARCH.fresh, seed)
    compared = divulge.compare(
        {
            "plain": Fleet(replace(task.recipe, select="aop")),
            "hardened": hardened.chosen.proposal.as_trainer(task.recipe),
        },
        records=pool.take(fresh),
        reference=records.take(order[pool_size:]),
        rotation=divulge.Rotation(9, 4),
        lambdas=(2.0,),
        options=divulge.Options(seed=seed + 1000),
    )
    mine, plain = (compared.find(name).aop(2.0) for name in ("hardened", "plain"))
    assert mine is not None
    assert plain is not None
    return mine.value, plain.value


def _mean(values: Sequence[float] | np.ndarray) -> str:
    """With Student's interval at 95 %."""
    low, high = intervals.student_mean([float(value) for value in values])
    return f"{np.mean(values):+.3f} ({low:+.3f} to {high:+.3f})"
