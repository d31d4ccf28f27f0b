"""Process images batch by batch, and store finished batches so that they survive a kill."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from divulge._util import atomic
from divulge._util.digest import digest
from divulge._util.progress import Track, track_silently
from divulge.errors import SpecError

Array = Shaped[np.ndarray, "rows *rest"]


def map_batches(
    folder: Path,
    about: str,
    rows: Array,
    size: int,
    work: Callable[[Array, int], np.ndarray],
    track: Track[Any] = track_silently,
) -> np.ndarray:
    """Apply a function to all rows batch by batch; batches finished before are read from disk.

    Args:
        folder: folder for the batches, which is made if need be.
        about: text that names all else the result depends on, such as the settings of ``work``.
        rows: rows to process.
        size: number of rows of a batch.
        work: function from a batch and the number of its first row to one result a row.
        track: progress display.

    Raises:
        SpecError: there is no row, or the size is below 1.
        StoreError: the folder cannot be used, or a batch in it is damaged.
    """
    if size < 1 or not len(rows):
        raise SpecError(f"expected rows and a batch size from 1, got {len(rows)} and {size}")
    with atomic.translate_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    key = digest(f"{about} {size}", rows)
    files = {n: folder / f"{key}-{n:07d}.npz" for n in range(0, len(rows), size)}
    missing = [n for n, path in files.items() if not path.exists()]
    for start in track(missing, "Working on images", len(files) - len(missing)):
        made = np.asarray(work(rows[start : start + size], start))
        arrays = {"values": made.ravel(), "shape": np.array(made.shape)}
        atomic.write_arrays(files[start], arrays)
    return np.concatenate([_read_batch(path) for path in files.values()])


def _read_batch(path: Path) -> np.ndarray:
    arrays = atomic.read_arrays(path, "values", "shape")
    values, shape = arrays["values"], arrays["shape"]
    if shape.dtype.kind != "i" or (shape < 0).any() or np.prod(shape) != len(values):
        raise atomic.damaged_file_error(
            path, ValueError("values do not have the shape that is said")
        )
    return values.reshape(shape)
