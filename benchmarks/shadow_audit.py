"""A whole audit with 16 shadows beside the shortest script that a researcher would write."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.timing import Outcome, Timing, environment, table
from leakscope.core import Estimate, Records
from leakscope.metrics import membership

if TYPE_CHECKING:
    import torch
    from torch import nn

SUMMARY = "a whole audit of Location-30 with 16 shadows, and a bare loop; CPU seconds"

_SHADOWS, _EPOCHS, _BATCH = 16, 50, 64


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Print CPU and wall-clock seconds of each side, each in a process of its own.

    Raises:
        MissingData: Location-30 is not at hand.
    """
    print(environment(("leakscope", "torch")))
    data.location_30()
    repeats = 1 if quick else 2
    spent: dict[str, list[_Spent]] = {name: [] for name in SIDES}
    for _ in range(repeats):
        for name, runs in spent.items():
            runs.append(_in_a_process(name))
    timings = [Timing(name, [one.cpu for one in runs]) for name, runs in spent.items()]
    print("CPU seconds, all processes of a side together:")
    print(table(timings, base=timings[0]))
    for name, runs in spent.items():
        best = min(runs, key=lambda one: one.wall)
        print(f"{name}: {best.wall:.1f} s on the clock; {best.said}")
    print(
        "peers on such a task, measured elsewhere (16 shadows, CPU s): LeakPro 67, "
        "Privacy Meter 181, a bare loop beside them 20"
    )
    return Outcome(timings[0], timings[-1])


class _Spent(NamedTuple):
    cpu: float
    wall: float
    said: str


def _in_a_process(side: str) -> _Spent:
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.shadow_audit", side]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return _Spent(cpu, time.perf_counter() - begun, done.stdout.strip().splitlines()[-1])


def _network() -> "nn.Module":
    from torch import nn

    return nn.Sequential(nn.Linear(446, 256), nn.ReLU(), nn.Linear(256, 30))


def _split() -> tuple[Records, Records, Records]:
    """Members, non-members, and reference records."""
    records = data.location_30()
    order = np.random.default_rng(0).permutation(len(records))
    members, others, reference = np.split(order, [2_000, 4_000])
    return records.take(members), records.take(others), records.take(reference)


def _bare() -> None:
    """The target, 16 shadows and LiRA with a global variance, in plain PyTorch and NumPy."""
    import torch
    from scipy import stats

    torch.set_num_threads(1)
    members, others, _ = _split()
    pool = members.joined(others)
    x, y = torch.from_numpy(np.array(pool.x)), torch.from_numpy(np.array(pool.y))
    rows = np.arange(len(y))
    truth = rows < len(members)
    phi = _logits(_trained(x[truth], y[truth], 0), x, y)
    halves = np.random.default_rng(1).random((_SHADOWS, len(y))) < 0.5
    shadows = np.stack(
        [_logits(_trained(x[half], y[half], k + 1), x, y) for k, half in enumerate(halves)]
    )
    inside, outside = (np.where(side, shadows, np.nan) for side in (halves, ~halves))
    scores = [
        stats.norm.logpdf(phi, np.nanmean(side, axis=0), np.nanstd(side - np.nanmean(side, axis=0)))
        for side in (inside, outside)
    ]
    score = np.nan_to_num(scores[0] - scores[1])
    print(json.dumps({"lira": _said(membership.auc(score, truth))}))


def _trained(x: "torch.Tensor", y: "torch.Tensor", seed: int) -> "nn.Module":
    import torch

    torch.manual_seed(seed)
    module = _network()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    for _ in range(_EPOCHS):
        for batch in torch.split(torch.randperm(len(y)), _BATCH):
            optimiser.zero_grad()
            torch.autograd.backward(torch.nn.functional.cross_entropy(module(x[batch]), y[batch]))
            optimiser.step()
    return module.eval()


def _logits(module: "nn.Module", x: "torch.Tensor", y: "torch.Tensor") -> np.ndarray:
    import torch

    with torch.no_grad():
        log_p = torch.log_softmax(module(x).double(), 1)
    chosen = log_p.gather(1, y[:, None])
    rest = log_p.scatter(1, y[:, None], -torch.inf).logsumexp(1)
    scaled: np.ndarray = (chosen[:, 0] - rest).numpy()
    return scaled


def _lira_alone() -> None:
    _audit(["lira"])


def _everything() -> None:
    _audit(None)


def _audit(names: list[str] | None) -> None:
    """The same target and as many shadows, by ``leakscope.audit``."""
    import leakscope
    from leakscope import catalog
    from leakscope.training.fleet import Fleet
    from leakscope.training.recipe import Recipe

    members, others, reference = _split()
    fleet = Fleet(Recipe(_network, lr=0.1, momentum=0.9, epochs=_EPOCHS, batch_size=_BATCH))
    everyone = np.ones((1, len(members)), np.bool_)
    target = next(fleet.many(members, everyone, [0]))
    found = leakscope.audit(
        target,
        members=members,
        nonmembers=others,
        reference=reference,
        shadows=_SHADOWS,
        train=fleet,
        attacks=None if names is None else [catalog.attack(name) for name in names],
    )
    print(json.dumps({finding.label: _said(finding.metrics["auc"]) for finding in found.findings}))


def _said(auc: Estimate) -> str:
    return f"{auc.value:.3f} [{auc.low:.3f}, {auc.high:.3f}]"


SIDES: dict[str, Callable[[], None]] = {
    "leakscope, LiRA alone": _lira_alone,
    "leakscope, all attacks with controls": _everything,
    "bare loop, LiRA alone, one thread": _bare,
}

if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    SIDES[sys.argv[1]]()
