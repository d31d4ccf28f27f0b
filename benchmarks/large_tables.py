"""CPU seconds and peak memory of audits by size: both should grow linearly.

All data is SYNTHETIC. Each size runs in a process of its own, which reports its own figures.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from benchmarks import answers
from benchmarks.timing import environment

SUMMARY = "CPU seconds and peak memory by candidates, classes, shadow models and clients"

MILLION = 1_000_000
CHUNK = 50_000


class Series(NamedTuple):
    """An audit or a transcript at growing sizes."""

    what: str
    unit: str
    sizes: tuple[int, ...]
    call: Callable[[int, Path], float]
    """Prepares and runs one size in an empty folder; returns the CPU seconds of the run."""


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print a row for each size: three minutes on a quiet machine, with the imports of each."""
    print(environment(("divulge", "numpy", "pyarrow")))
    for name, series in SERIES.items():
        if name not in ("million", "wide"):
            _measure(name, series.sizes[: 2 if quick else 3])


def run_million(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print the figures of tables of millions of candidates, and of shadows on many of them.

    Up to 2 million; ``python -m benchmarks.large_tables million 10000000`` takes a quarter of an
    hour, and needs 2 GB of memory, 2 GB for the table and 4 GB for temporary files.
    """
    print(environment(("divulge", "numpy", "pyarrow")))
    _measure("million", SERIES["million"].sizes[: 1 if quick else 3])
    _measure("wide", (20_000 if quick else 200_000,))


def _measure(name: str, sizes: tuple[int, ...]) -> None:
    series = SERIES[name]
    print(f"\n{series.what}\n{series.unit:>12}{'CPU s':>10}{'ms each':>10}{'peak MB':>10}")
    for size in sizes:
        output = subprocess.run(  # noqa: S603 (our own module)
            [sys.executable, "-m", "benchmarks.large_tables", name, str(size)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        seconds, peak = json.loads(output.splitlines()[-1])
        print(f"{size:12,}{seconds:10.2f}{1000 * seconds / size:10.3f}{peak:10.0f}", flush=True)


def audit_table(records: int, classes: int, folder: Path) -> float:
    """An audit of a Parquet file of answers, with its report."""
    import pyarrow as pa
    from pyarrow import parquet

    import divulge

    path = folder / "answers.parquet"
    fields = [*((f"p_{k}", pa.float64()) for k in range(classes)), ("label", pa.int64())]
    schema = pa.schema([*fields, ("member", pa.bool_())])
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, records, CHUNK):  # preparing it must not need more memory than it
            part = answers.synthetic(min(CHUNK, records - start), classes, seed=start)
            columns = [*part.p.T, part.y, part.member]
            writer.write_table(pa.table(columns, schema=schema))
    return time_call(lambda: divulge.audit_predictions(path, run=folder / "run"))


def audit_with_shadows(
    models: int, folder: Path, candidates: int = 2_000, classes: int = 3
) -> float:
    """An audit with shadow models that cost next to nothing to train."""
    import divulge

    rng = np.random.default_rng(0)
    half = candidates // 2
    members, nonmembers = (
        (rng.normal(size=(half, 5)), np.arange(half) % classes) for _ in range(2)
    )
    options = divulge.ShadowModels(models, train=_train)
    return time_call(
        lambda: divulge.audit(
            _train(*members, 0),
            members=members,
            nonmembers=nonmembers,
            shadows=options,
            attacks=[divulge.attack("lira"), divulge.attack("rmia")],
            run=folder / "run",
        )
    )


def _train(x: np.ndarray, y: np.ndarray, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """Softmax of the distances to the means of the classes."""
    del seed
    centres = np.stack([x[y == k].mean(axis=0) for k in range(int(y.max()) + 1)])

    def model(records: np.ndarray) -> np.ndarray:
        # the squares of a record are the same for all classes
        weights = np.exp(2 * records @ centres.T - (centres**2).sum(axis=1))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    return model


def _clients(clients: int, folder: Path) -> float:
    """A round of so many clients, 100 weights each: written, read back and inspected."""
    from divulge.core import Round
    from divulge.core.rounds import ReceivedUpdate
    from divulge.federation import Header, Transcript, Writer
    from divulge.federation.transcript.inspect import inspect

    rng = np.random.default_rng(0)
    sent = {"weight": np.zeros(100, np.float32)}
    updates = {
        f"client-{k}": ReceivedUpdate({"weight": rng.normal(size=100).astype(np.float32)}, 1)
        for k in range(clients)
    }

    def write_and_inspect() -> None:
        writer = Writer.begin(folder / "transcript", Header("large", "update", {"weight": (100,)}))
        writer.add(Round(0, "update", sent, updates))
        inspect(Transcript.open(folder / "transcript"))

    return time_call(write_and_inspect)


def time_call(call: Callable[[], object]) -> float:
    """CPU seconds of a call, of all threads of this process."""
    begun = time.process_time()
    call()
    return time.process_time() - begun


SERIES = {
    "candidates": Series(
        "Table of answers, 10 classes",
        "candidates",
        (50_000, 100_000, 200_000),
        lambda size, folder: audit_table(size, 10, folder),
    ),
    "classes": Series(
        "Table of answers, 1,000 classes",
        "candidates",
        (12_500, 25_000, 50_000),
        lambda size, folder: audit_table(size, 1_000, folder),
    ),
    "shadows": Series("Audit of 2,000 candidates", "shadows", (50, 100, 200), audit_with_shadows),
    "clients": Series(
        "Transcript of one round, 100 weights", "clients", (2_500, 5_000, 10_000), _clients
    ),
    "million": Series(
        "Table of answers, 20 classes",
        "candidates",
        (MILLION // 10, MILLION // 2, 2 * MILLION),
        lambda size, folder: audit_table(size, 20, folder),
    ),
    "wide": Series(
        "Audit with 16 shadows, 100 classes",
        "candidates",
        (200_000,),
        lambda size, folder: audit_with_shadows(16, folder, size, 100),
    ),
}


def main() -> None:
    """Run one size, named by two arguments, and print its CPU seconds and peak memory in MB."""
    name, size = sys.argv[1], int(sys.argv[2])
    with TemporaryDirectory() as folder:
        seconds = SERIES[name].call(size, Path(folder))
    print(json.dumps([seconds, _peak()]))


def _peak() -> float:
    """The peak of this process's memory in MB; Linux counts its parent's in ``ru_maxrss``."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024


if __name__ == "__main__":
    main()
