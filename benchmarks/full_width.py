"""Time: an epoch of the challenge's smallest client at full width, with huge pages and without."""

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from benchmarks.timing import Outcome, Timing, environment
from divulge._util.random import stream
from divulge.core import Records
from divulge_papers.papers.nist import genomics
from divulge_papers.papers.nist.federations import CLIENT_SIZES, client_trainer

SUMMARY = "an epoch of the smallest client of 125,766 columns: PyTorch with huge pages and without"

COLUMNS = 125_766

_SWITCH = "THP_MEM_ALLOC_ENABLE"


def run(quick: bool) -> Outcome:  # noqa: FBT001 (like every benchmark)
    """Print CPU seconds an epoch without privacy and by DP-SGD, on both kinds of pages.

    Each training has a process of its own, since PyTorch chooses its pages once.
    """
    columns = 8_000 if quick else COLUMNS
    packages = environment(("torch", "opacus"))
    print(f"{CLIENT_SIZES[-1]} records, {columns:,} columns; {packages}")
    print("| training | CPU s an epoch | with pages of 4 KiB | times |\n|---|---:|---:|---:|")
    ours, theirs = [], []
    for label, epsilon in (("no DP", None), ("ε = 200", 200.0)):
        huge, usual = (_epoch_in_process(columns, epsilon, on) for on in ("1", "0"))
        print(f"| {label} | {huge:.2f} | {usual:.2f} | {usual / huge:.2f} |", flush=True)
        ours.append(huge)
        theirs.append(usual)
    print("ours: an epoch of each training, with huge pages; theirs: with pages of 4 KiB")
    return Outcome(Timing("huge pages", [sum(ours)]), Timing("4 KiB", [sum(theirs)]))


def _epoch_in_process(columns: int, epsilon: float | None, switch: str) -> float:
    before = os.environ[_SWITCH]
    os.environ[_SWITCH] = switch
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            return process.submit(_epoch, columns, epsilon).result()
    finally:
        os.environ[_SWITCH] = before


def _epoch(columns: int, epsilon: float | None) -> float:
    """CPU seconds of an epoch, from the difference of two trainings that are long apart."""
    pool = _genotypes(CLIENT_SIZES[-1], columns)
    _, single, three = (_seconds(pool, columns, epsilon, epochs) for epochs in (1, 1, 3))
    return (three - single) / 2


def _genotypes(lines: int, columns: int) -> Records:
    """SYNTHETIC genotypes with an exact number of columns."""
    genotypes, y = genomics.make_synthetic(lines, columns, stream(0, "full width"))
    return Records(np.ascontiguousarray(genomics.one_hot(genotypes)[:, :columns]), y)


def _seconds(pool: Records, columns: int, epsilon: float | None, epochs: int) -> float:
    begun = time.process_time()
    list(client_trainer(columns, epsilon, epochs).many(pool, np.ones((1, len(pool)), bool), [0]))
    return time.process_time() - begun
