"""Twice the input takes at most about twice the CPU time: nothing grows with a square.

CPU seconds of this process alone are compared, the least of several runs each, so that other
processes matter little. A square would give 4; what is the same for every size, such as imports,
gives less than 2.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest

import divulge
from divulge.attacks.membership.threshold import Threshold
from divulge.core import ReceivedUpdate, Round
from divulge.federation.transcript import writer
from divulge.metrics import signals

pytestmark = pytest.mark.slow

Run = Callable[[], object]

MOST = 2.6
"""Highest ratio of CPU seconds for twice the input; n log n gives 2.2 at a thousand."""

RUNS = 3


def seconds(run: Run) -> float:
    """CPU seconds of this process, the least of some runs."""

    def once() -> float:
        begun = time.process_time()
        run()
        return time.process_time() - begun

    return min(once() for _ in range(RUNS))


def table(path: Path, rows: int, classes: int = 3, names: str = "{}", others: int = 0) -> Path:
    """A table of answers that leak nothing, with columns that nobody reads."""
    rng = np.random.default_rng(0)
    label = rng.integers(classes, size=rows)
    answers = rng.random((rows, classes)) + 1e-3
    answers /= answers.sum(axis=1, keepdims=True)
    called = [names.format(k) for k in range(classes)]
    frame = pd.DataFrame(answers, columns=[f"p_{name}" for name in called])
    frame["label"] = [called[k] for k in label]
    frame["member"] = np.arange(rows) % 2
    extra = pd.DataFrame(np.ones((rows, others), np.int8)).add_prefix("other_")
    pd.concat([frame, extra], axis=1).to_csv(path, index=False)
    return path


def audit_table(path: Path, attacks: Iterable[Any] = (Threshold(),)) -> Run:
    return lambda: divulge.audit_predictions(path, attacks=attacks).verdict


def answer(x: Any) -> np.ndarray:
    sure = 1 / (1 + np.exp(-np.asarray(x, float)[:, 0]))
    return np.stack([1 - sure, sure], axis=1)


def audit_model(records: int, columns: int, *, frame: bool = False) -> Run:
    """An audit of a function, of as many members as non-members."""
    rng = np.random.default_rng(1)
    x: Any = rng.normal(size=(records, columns))
    y = (x[:, 0] > 0).astype(int)
    x = pd.DataFrame(x).add_prefix("f") if frame else x
    half = records // 2
    return lambda: (
        divulge.audit(
            (lambda asked: answer(asked.to_numpy())) if frame else answer,
            members=(x[:half], y[:half]),
            nonmembers=(x[half:], y[half:]),
            attacks=(Threshold(),),
        ).verdict
    )


def choose_attacks(count: int) -> list[Threshold]:
    """So many, each with a signal of its own."""
    return [Threshold(signal=signal) for signal in get_args(signals.SignalName)[:count]]


UPDATES = """
[updates]
transcript = "transcript"
network = "tests.attacks.federations:relu"
reference = "reference.npz"
[updates.counts]
{counts}
[[attacks]]
name = "label-counts"
"""


def audit_updates(folder: Path, clients: int, rounds: int) -> Run:
    """An audit of updates that hold nothing but noise."""
    pytest.importorskip("torch")
    from tests.attacks.federations import CLASSES, reference, relu

    rng, known = np.random.default_rng(2), reference()
    shapes = {name: tuple(tensor.shape) for name, tensor in relu().state_dict().items()}

    def draw() -> dict[str, np.ndarray]:
        return {k: rng.normal(size=shape).astype(np.float32) for k, shape in shapes.items()}

    folder.mkdir()
    played = [
        Round(k, "weights", draw(), {f"c{c}": ReceivedUpdate(draw(), 40) for c in range(clients)})
        for k in range(rounds)
    ]
    writer.write(folder / "transcript", "noise", played)
    np.savez(folder / "reference.npz", x=known.x, y=known.y)
    counts = rng.integers(1, 20, size=(clients, CLASSES)).tolist()
    lines = "\n".join(f"c{c} = {row}" for c, row in enumerate(counts))
    (folder / "audit.toml").write_text(UPDATES.format(counts=lines))
    return lambda: divulge.audit_file(folder / "audit.toml").verdict


Make = Callable[[int, Path], Run]


MAKE: dict[str, tuple[int, Make]] = {
    "records of a table": (
        40_000,
        lambda n, folder: audit_table(table(folder / f"{n}.csv", n)),
    ),
    "classes of a table": (
        1000,
        lambda n, folder: audit_table(table(folder / f"{n}.csv", 300, n)),
    ),
    "named classes of a table": (
        1000,
        lambda n, folder: audit_table(table(folder / f"{n}.csv", 300, n, "c{:05d}")),
    ),
    "columns of a table that nobody reads": (
        4000,
        lambda n, folder: audit_table(table(folder / f"{n}.csv", 300, others=n)),
    ),
    "attacks": (
        3,
        lambda n, folder: audit_table(table(folder / f"{n}.csv", 20_000), choose_attacks(n)),
    ),
    "records of a model": (4000, lambda n, _: audit_model(n, 8)),
    "features of a model": (4000, lambda n, _: audit_model(400, n)),
    "columns of a data frame": (2000, lambda n, _: audit_model(300, n, frame=True)),
    "clients": (60, lambda n, folder: audit_updates(folder / f"{n}", n, 2)),
    "rounds": (60, lambda n, folder: audit_updates(folder / f"{n}", 6, n)),
}
"""By what is doubled: its first number, and what prepares an audit."""


@pytest.mark.parametrize("what", MAKE)
def test_twice_the_input_takes_about_twice_the_time(what: str, tmp_path: Path) -> None:
    start, make = MAKE[what]
    smaller, larger = make(start, tmp_path), make(2 * start, tmp_path)
    smaller()  # imports, and what is computed once
    once, twice = seconds(smaller), seconds(larger)
    print(f"{what}: {once:.2f} and {twice:.2f} s, ratio {twice / once:.2f}")  # noqa: T201
    assert twice <= MOST * once
