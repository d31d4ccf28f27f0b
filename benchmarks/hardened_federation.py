"""Whether hardened federations stay within their limits, and what that costs in accuracy."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from torch import nn

import divulge
from benchmarks import data
from divulge.core import Records
from divulge.federation import Federation, dirichlet
from divulge.metrics import intervals
from divulge.studies.harden import federated
from divulge.training.recipe import Recipe

SUMMARY = "divulge harden on a federation, repeated: outcomes, accuracy and leakage"


class Task(NamedTuple):
    """Records, and the federation that is to be held under limits."""

    records: Callable[[], Records]
    network: Callable[[], nn.Module]
    lr: float
    size: int
    """Records of each client."""
    limits: divulge.FederationLimits
    defences: tuple[str, ...] = federated.USUAL


CLIENTS, EPOCHS, ROUNDS, BUDGET, REPEATS = 12, 4, 8, 13, 4


def _digits() -> Records:
    x, y = load_digits(return_X_y=True)
    return Records((x / 16).astype(np.float32), y.astype(np.int64))


def _network_of_digits() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def _network_of_location_30() -> nn.Module:
    return nn.Sequential(nn.Linear(446, 128), nn.ReLU(), nn.Linear(128, 30))


TASKS = {
    "digits": Task(
        _digits,
        _network_of_digits,
        0.2,
        60,
        divulge.FederationLimits(class_shares=0.4, which_client=0.6),
    ),
    "digits-secure-sum": Task(
        _digits,
        _network_of_digits,
        0.2,
        60,
        divulge.FederationLimits(class_shares=0.4, which_client=0.6),
        ("none", "secure-sum"),
    ),
    "location-30": Task(
        data.location_30,
        _network_of_location_30,
        0.1,
        150,
        divulge.FederationLimits(class_shares=0.4, which_client=0.6),
    ),
}


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print the outcome of each repeat, and what they say together.

    The clients' class mixes are uneven (Dirichlet, alpha 1). Records that no client holds are the
    test and the reference records, half each.

    Args:
        quick: one repeat, with three federations.
        name: of the task.

    Raises:
        MissingData: its data are not there.
    """
    task = TASKS[name]
    records, outcomes, rows = task.records(), Counter[str](), []
    for seed in range(1 if quick else REPEATS):
        with TemporaryDirectory() as folder:
            hardened = _search(task, records, 3 if quick else BUDGET, seed, Path(folder) / "run")
        outcomes[hardened.outcome] += 1
        rows.append([_differences(hardened, key) for key in hardened.fresh.leaks])
        plain, chosen, fresh = hardened.trials[0], hardened.chosen, hardened.fresh
        print(
            f"repeat {seed}: {hardened.outcome}, {fresh.setting.label}: accuracy "
            f"{fresh.accuracy.value:.3f}, in the search {chosen.accuracy.value:.3f}, undefended "
            f"{plain.accuracy.value:.3f}; {len(hardened.trials)} settings",
            flush=True,
        )
        for key, leak in fresh.leaks.items():
            print(
                f"    {key}: {leak.value:.3f} ({leak.low:.3f}-{leak.high:.3f}), in the search "
                f"{chosen.leaks[key].value:.3f}, undefended {plain.leaks[key].value:.3f}",
                flush=True,
            )
        mine = chosen.accuracy.value
        rows[-1].append((mine - fresh.accuracy.value, plain.accuracy.value - mine))
    low, high = intervals.wilson(outcomes["within"], len(rows))
    print(f"within: {outcomes['within']} of {len(rows)} ({low:.2f} to {high:.2f}); {outcomes}")
    if quick:
        return
    table = np.array(rows)
    for k, key in enumerate((*hardened.fresh.leaks, "accuracy")):
        for what, less in (("search less fresh", 0), ("undefended less chosen", 1)):
            values = table[:, k, less]
            low, high = intervals.student_mean(values.tolist())
            print(f"{key}, {what}: {values.mean():+.3f} ({low:+.3f} to {high:+.3f})")


def _differences(hardened: divulge.HardenedFederation, key: str) -> tuple[float, float]:
    """Search less fresh, and undefended less chosen."""
    chosen = hardened.chosen.leaks[key].value
    return chosen - hardened.fresh.leaks[key].value, hardened.trials[0].leaks[key].value - chosen


def _search(
    task: Task, records: Records, budget: int, seed: int, folder: Path
) -> divulge.HardenedFederation:
    order = np.random.default_rng(seed).permutation(len(records))
    pool_size = CLIENTS * task.size
    middle = pool_size + (len(order) - pool_size) // 2
    pool, test, reference = (
        records.take(part) for part in (order[:pool_size], order[pool_size:middle], order[middle:])
    )
    return divulge.harden_federation(
        Federation(
            pool,
            dirichlet(pool, [task.size] * CLIENTS, 1.0, seed),
            Recipe(task.network, lr=task.lr, epochs=EPOCHS, batch_size=20),
            seed=seed,
            workers=1,
        ),
        limits=task.limits,
        test=test,
        reference=reference,
        rounds=ROUNDS,
        budget=budget,
        defences=task.defences,
        run=folder,
    )
