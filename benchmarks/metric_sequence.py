"""What seqmia finds with half of the members known, beside attacks on answers alone."""

import time

import numpy as np

from benchmarks.shadow_quality.tasks import TASKS
from divulge.attacks import catalog
from divulge.core import Membership, ModelView
from divulge.metrics import intervals
from divulge.metrics.measure import measure

SUMMARY = "seqmia with half of the members known, beside supervised and two-sample"

NAMES = ("location-30", "fashion-mnist")

_NETWORKS = 4
_METRICS = ("auc", "tpr@0.01")


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print what each attack finds, as means over networks with Student's 95 % intervals.

    Raises:
        MissingData: the data is not at hand.
    """
    task = TASKS[name]
    records = task.records()
    attacks = [catalog.attack(each) for each in ("threshold", "two-sample", "supervised", "seqmia")]
    networks = 2 if quick else _NETWORKS
    figures, seconds = np.zeros((len(attacks), networks, len(_METRICS))), np.zeros(len(attacks))
    for seed in range(networks):
        order = np.random.default_rng(seed).permutation(len(records))
        pool = records.take(order[: task.size])
        reference = records.take(order[task.size :][: task.reference])
        member = np.random.default_rng([seed, 1]).random(task.size) < 0.5
        known = member & (np.random.default_rng([seed, 2]).random(task.size) < 0.5)
        (target,) = task.trainer().many(pool, member[None], [seed])
        view = ModelView(target, pool.take(~known), reference, known_members=pool.take(known))
        for k, attack in enumerate(attacks):
            begun = time.process_time()
            guess = attack(view, np.random.default_rng(0))
            seconds[k] += (time.process_time() - begun) / networks
            metrics, _ = measure(guess, Membership(member[~known]))
            figures[k, seed] = [metrics[metric].value for metric in _METRICS]
        print(f"network {seed}: {known.sum()} of {member.sum()} members known", flush=True)
    print(f"\n{name}: {task.trained}; mean over {networks} networks, less supervised, CPU seconds")
    for k, attack in enumerate(attacks):
        cells = []
        for own, usual in zip(figures[k].T, figures[2].T, strict=True):
            low, high = intervals.student_mean(own)
            cell = f"{own.mean():.3f} ({low:.3f} to {high:.3f})"
            if k != 2:
                low, high = intervals.student_mean(own - usual)
                cell += f" {(own - usual).mean():+.3f} ({low:+.3f} to {high:+.3f})"
            cells.append(cell)
        print(f"{attack.name:12}", *(f"{cell:45}" for cell in cells), f"{seconds[k]:.1f}")
