"""Run every attack with shadow models on every target, with few shadows and with many."""

import datetime as dt
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64

from benchmarks.shadow_quality import compare, rows
from benchmarks.shadow_quality.models import SEEDS, Games, Views
from benchmarks.shadow_quality.rows import METRICS, MODES, Heading, Mode, Row
from benchmarks.shadow_quality.tasks import TASKS, Task
from benchmarks.timing import environment
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.core import MembershipAttack
from divulge.errors import NotApplicable
from divulge.metrics import membership

SUMMARY = "what attacks find with 2 to 64 shadows"

BUDGETS = (2, 4, 8, 16, 64)

USUAL = 16
"""The largest number of shadows, unless the name of the benchmark says another."""

KEPT = "DIVULGE_QUALITY"
"""The variable that names a folder where the answers of trained models are kept."""

FPRS = {METRICS[1]: 0.01, METRICS[2]: 0.001}


def run(quick: bool, name: str, shadows: int = USUAL) -> None:  # noqa: FBT001 (like all)
    """Measure a target's missing rows, store each, and print all.

    Raises:
        MissingData: the data is not at hand.
    """
    task = TASKS[name]
    if not quick:
        measure(task, shadows, rows.STORED)
        print_comparison([name], rows.STORED)
        return
    with tempfile.TemporaryDirectory() as folder:
        small = task._replace(size=2_000, reference=500)
        measure(small, 4, Path(folder))
        print_comparison([name], Path(folder))


def run_all(quick: bool) -> None:  # noqa: FBT001 (like all)
    """Measure the missing rows of all targets, and compare the attacks over them.

    Raises:
        MissingData: some data is not at hand.
    """
    for name in TASKS:
        run(quick, name)
    if not quick:
        print_comparison(list(TASKS), rows.STORED)


def print_comparison(names: Sequence[str], folder: Path) -> None:
    """Print what is stored of these targets."""
    print("\n".join(compare.page(list(rows.read_all(names, folder)))))


def measure(task: Task, shadows: int, folder: Path) -> None:
    """Measure and store the rows of a target that are not stored yet."""
    path = folder / f"{task.name}.jsonl"
    stored = rows.read(path)
    have = set() if stored is None else {row.key for row in stored.rows}
    missing = [key for key in _wanted(task.name, shadows) if key not in have]
    if stored is not None and stored.heading.trained != task.trained:
        raise SystemExit(f"expected rows of {task.trained!r} in {path}: delete the file")
    if not missing:
        return
    with folder_of_answers(task) as answers_folder:
        games = Games(task, shadows, answers_folder)
        games.train()
        if stored is None:
            rows.append(path, _heading(task, games))
        for mode in MODES:
            views = list(games.views(mode))
            for row in _rows(task, mode, views, missing, games.shadow_cpu()):
                rows.append(path, row)
                print(*row.key, *(f"{row.mean(m):.3f}" for m in row.values), flush=True)


@contextmanager
def folder_of_answers(task: Task) -> Iterator[Path]:
    """The folder that keeps what models of this task say; a temporary one unless `KEPT` is set."""
    digest = hashlib.sha256(repr((task.trained, task.size, task.reference)).encode()).hexdigest()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(os.environ.get(KEPT, scratch), f"{task.name}-{digest[:12]}")
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def _wanted(target: str, shadows: int) -> Iterator[tuple[str, str, int, str]]:
    for mode in MODES:
        yield target, mode, 0, "threshold"
        for count in BUDGETS:
            if count <= shadows:
                yield from ((target, mode, count, name) for name in shadow_attacks())


AUTO = "lira, auto"
"""`lira` with the variances of its paper: its name, and the setting."""


def shadow_attacks() -> tuple[str, ...]:
    """The names of all attacks on classifiers that have shadow models."""
    others = (*catalog.RESIDUAL_SHADOW_ATTACKS, *catalog.CASCADE_ATTACKS)
    return *(name for name in catalog.ATTACKS_WITH_SHADOWS if name not in others), AUTO


def _attack(name: str, shadows: int) -> MembershipAttack:
    if not shadows:
        return catalog.attack("threshold", signal="loss")
    attack, _, variance = name.partition(", ")
    return catalog.attack(attack, variance=variance) if variance else catalog.attack(attack)


def _heading(task: Task, games: Games) -> Heading:
    return Heading(
        task.name, task.trained, task.size, task.reference, games.accuracy(),
        environment(("divulge", "torch", "scikit-learn")),
        dt.datetime.now(dt.UTC).date().isoformat(),
    )  # fmt: skip


def _rows(
    task: Task,
    mode: Mode,
    views: Sequence[Views],
    missing: Sequence[tuple[str, str, int, str]],
    shadow_cpu: float,
) -> Iterator[Row]:
    for key in missing:
        _, of, count, name = key
        if of == mode:
            row = row_of_attack(_attack(name, count), views, count)
            yield replace(row, attack=name, target=task.name, mode=mode,
                          shadow_cpu=count * shadow_cpu)  # fmt: skip


def row_of_attack(attack: MembershipAttack, views: Sequence[Views], count: int) -> Row:
    """An attack on all targets of a mode."""
    unmeasured = Row("", "online", count, attack.name, {}, [], 0.0, 0.0)
    begun = time.process_time()
    try:
        scores = [
            attack(views_of_target.of(count), stream(k, "attack", attack.name)).score
            for k, views_of_target in enumerate(views)
        ]
    except NotApplicable as error:
        return replace(unmeasured, reason=str(error))
    spent = (time.process_time() - begun) / len(views)
    pairs = list(zip(scores, (views_of_target.learned for views_of_target in views), strict=True))
    return row_of_scores(replace(unmeasured, attack_cpu=spent), pairs)


def row_of_scores(empty: Row, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> Row:
    """A row with what scores say.

    Args:
        empty: a row without values.
        pairs: of each model, scores and who is a member.
    """
    values = {METRICS[0]: [membership.auc(*pair).value for pair in pairs]}
    for metric, fpr in FPRS.items():
        values[metric] = [membership.tpr_at_fpr(*pair, fpr).value for pair in pairs]
    flagged = [flag(*pair, FPRS[METRICS[1]]) for pair in pairs]
    agreement = [_shared(flagged[k : k + SEEDS]) for k in range(0, len(flagged), SEEDS)]
    return replace(empty, values=values, agreement=agreement)


def flag(
    score: Float64[np.ndarray, " records"], member: Bool[np.ndarray, " records"], fpr: float
) -> Bool[np.ndarray, " records"]:
    """The records above the lowest threshold that flags no larger share of the non-members."""
    others = np.sort(score[~member])[::-1]
    flagged: Bool[np.ndarray, " records"] = score > others[int(fpr * len(others))]
    return flagged


def _shared(flagged: Sequence[np.ndarray]) -> float | None:
    """Records flagged every time, as a share of those flagged at any; None where none is."""
    ever = np.logical_or.reduce(flagged).sum()
    return float(np.logical_and.reduce(flagged).sum() / ever) if ever else None
