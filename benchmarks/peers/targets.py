"""The targets that are audited by all, and what each driver reads about them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from benchmarks import data
from benchmarks.peers.drivers import plain
from divulge.core import Records

EACH = 2_000
"""Members, as many non-members, and half as many further non-members for reference."""


class Task(NamedTuple):
    """A target to be audited."""

    records: Callable[[], Records]
    settings: dict[str, Any]
    """How the target is trained, and each shadow; and how many shadows."""


class TaskTruth(NamedTuple):
    """Truth about a task, which no tool is given."""

    member: Bool[np.ndarray, " records"]
    """Membership of the records in `records.npz`, which all tools get with membership."""
    judged: Bool[np.ndarray, " judged"]
    """Membership of the unknown half of `answers.npz`, which no tool gets."""
    accuracy: tuple[float, float]
    """Accuracy of the target on members, and on others."""


_SGD = {"lr": 0.1, "momentum": 0.9, "epochs": 50, "batch": 64, "shadows": 16}

TASKS = {
    "location-30": Task(data.location_30, {**_SGD, "widths": (446, 256, 30)}),
    "fashion-mnist": Task(data.fashion_mnist, {**_SGD, "lr": 0.02, "widths": (784, 256, 10)}),
    "retail-100": Task(data.retail_100, {**_SGD, "widths": (600, 256, 100)}),
}


def write(task: Task, folder: Path) -> TaskTruth:
    """Train the target, and write what drivers read: arrays and settings, nothing else.

    Raises:
        MissingData: the records are not at hand.
    """
    pool = task.records()
    order = np.random.default_rng(0).permutation(len(pool))
    chosen, reference = order[: 2 * EACH], order[2 * EACH : 2 * EACH + EACH // 2]
    x, y = pool.x[chosen].reshape(len(chosen), -1), pool.y[chosen]
    aside: dict[str, Any] = {"reference_x": pool.x[reference].reshape(len(reference), -1)}
    aside["reference_y"] = pool.y[reference]
    member = np.arange(len(y)) < EACH
    target = plain.train_network(task.settings, x[member], y[member], 0)
    weights: dict[str, Any] = {name: value.numpy() for name, value in target.state_dict().items()}
    p = np.exp(plain.log_probabilities(target, x))
    known = np.arange(len(y)) % 2 == 0
    answers: dict[str, Any] = {
        "learnt_p": p[known], "learnt_y": y[known], "learnt_member": member[known],
        "x": x[~known], "y": y[~known], "p": p[~known],
    }  # fmt: skip
    (folder / "settings.json").write_text(json.dumps(task.settings))
    np.savez(folder / "records.npz", x=x, y=y, member=member, **aside)
    np.savez(folder / "answers.npz", **answers, **aside)
    np.savez(folder / "target.npz", **weights)
    right = p.argmax(axis=1) == y
    accuracy = float(right[member].mean()), float(right[~member].mean())
    return TaskTruth(member, member[~known], accuracy)


def write_shadows(settings: dict[str, Any], folder: Path) -> None:
    """Train shadow models of a task that was written, for tools that can do with given ones."""
    with np.load(folder / "records.npz", allow_pickle=False) as records:
        x, y = records["x"], records["y"]
    halves = plain.random_halves(settings["shadows"], len(y))
    for k, half in enumerate(halves):
        model = plain.train_network(settings, x[half], y[half], k + 1)
        weights: dict[str, Any] = {key: value.numpy() for key, value in model.state_dict().items()}
        np.savez(folder / f"shadow-{k}.npz", **weights)
    np.savez(folder / "shadows.npz", member=halves)
