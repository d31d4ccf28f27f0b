"""Decaf's refined level on ResNet18 and VGG16 of full width: the time, and how near it comes."""

import time
from functools import partial

import numpy as np
import psutil

from benchmarks.timing import environment
from divulge._util.random import stream
from divulge.attacks import Decaf
from divulge.core import UpdateView
from divulge.metrics import intervals

SUMMARY = "Decaf's refined level on ResNet18 and VGG16 of full width on CIFAR-10: time and distance"

RECORDS, ROUND = 240, 2


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (like every benchmark)
    """Print seconds and L1 of the third round of ten users with Adadelta, as in figure 13."""
    from divulge_papers.papers.decaf.study import find_federation, read_setting
    from divulge_papers.papers.decaf.tables import FIGURE_13_USERS

    print(environment(("divulge", "torch")))
    setting = read_setting(
        0,
        "small" if quick else "paper",
        {
            "data": "cifar10",
            "network": name,
            "users": FIGURE_13_USERS["cifar10"],
            "records": RECORDS,
        },
    )
    begun = time.perf_counter()
    played = find_federation(setting)
    rounds = (played.round(ROUND),)
    weights = sum(array.size for array in rounds[0].sent.values())
    print(
        f"{name}, {weights:,} weights: {ROUND + 1} rounds of {len(setting.users)} users with "
        f"{RECORDS} records took {time.perf_counter() - begun:.0f} s"
    )
    views = [
        UpdateView(str(k), rounds, played.network, played.reference)
        for k in range(len(setting.users))
    ]
    truth = setting.counts / setting.counts.sum(axis=1, keepdims=True)
    attacks = {
        "refined, last layers": Decaf(level="refined", layers="last"),
        **({"refined, all layers": Decaf(level="refined", layers="all")} if quick else {}),
    }
    print(f"{'':26}{'seconds':>10}{'CPU s':>10}{'mean L1':>10}")
    for label, attack in attacks.items():
        begun, cpu = time.perf_counter(), _cpu_seconds()
        guesses = attack.many(views, stream(0, "attack"))
        seconds, cpu = time.perf_counter() - begun, _cpu_seconds() - cpu
        off = [float(np.abs(g.share - t).sum()) for g, t in zip(guesses, truth, strict=True)]
        low, high = intervals.student_mean(off)
        shown = f"{np.mean(off):>10.3f} ({low:.3f} to {high:.3f})"
        print(f"{label:26}{seconds:>10.0f}{cpu:>10.0f}{shown}", flush=True)


def _cpu_seconds() -> float:
    """CPU seconds of this process and of those that it has started."""
    own = psutil.Process()
    each = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return float(sum(times.user + times.system for times in each))


NETWORKS = ("resnet18", "vgg16")
PARTS = {f"decaf-full-width-{name}": partial(run, name=name) for name in NETWORKS}
