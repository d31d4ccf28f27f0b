"""Time: an epoch of the challenge's smallest client at full width, without privacy and with."""

import time

import numpy as np

from benchmarks.timing import environment
from divulge._util.random import stream
from divulge.core import Records
from divulge.reproduce.papers.nist import genomics
from divulge.reproduce.papers.nist.federations import CLIENT_SIZES, client_trainer

SUMMARY = "seconds of an epoch of the smallest client of 125,766 columns, without privacy and with"

COLUMNS = 125_766


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print CPU seconds an epoch, from the difference of two trainings that are long apart."""
    columns = 8_000 if quick else COLUMNS
    pool = _genotypes(CLIENT_SIZES[-1], columns)
    print(f"{len(pool)} records, {columns:,} columns; {environment(('torch', 'opacus'))}")
    print("| training | CPU s an epoch | CPU minutes for 100 epochs |\n|---|---:|---:|")
    for label, epsilon in (("no DP", None), ("ε = 200", 200.0)):
        _, one, three = (_seconds(pool, columns, epsilon, epochs) for epochs in (1, 1, 3))
        epoch = (three - one) / 2
        print(f"| {label} | {epoch:.2f} | {100 * epoch / 60:.1f} |", flush=True)


def _genotypes(lines: int, columns: int) -> Records:
    """SYNTHETIC genotypes with an exact number of columns."""
    genotypes, y = genomics.make_synthetic(lines, columns, stream(0, "full width"))
    return Records(np.ascontiguousarray(genomics.one_hot(genotypes)[:, :columns]), y)


def _seconds(pool: Records, columns: int, epsilon: float | None, epochs: int) -> float:
    begun = time.process_time()
    list(client_trainer(columns, epsilon, epochs).many(pool, np.ones((1, len(pool)), bool), [0]))
    return time.process_time() - begun
