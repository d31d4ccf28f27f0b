"""What iha finds with half of the members known, beside attacks on the loss and on answers."""

import time
from dataclasses import replace

import numpy as np
from scipy import stats
from torch import nn

from benchmarks import data
from divulge.attacks import catalog
from divulge.core import Membership, ModelView
from divulge.metrics.measure import measure
from divulge.targets.torch import TorchTarget
from divulge.training.checkpoints import train
from divulge.training.recipe import Recipe

SUMMARY = "iha on small networks of Location-30 with half of the members known"

_RECORDS, _NETWORKS = 1_000, 4
_METRICS = ("auc", "tpr@0.01")


def run(quick: bool) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print what each attack finds, as means over networks with Student's 95 % intervals.

    Raises:
        MissingData: there is no Location-30.
    """
    records = data.location_30()
    recipe = Recipe(_network, lr=0.1, momentum=0.9, epochs=30, batch_size=50)
    attacks = [catalog.attack(name) for name in ("threshold", "supervised", "iha")]
    rows, seconds = [], np.zeros(len(attacks))
    networks = 2 if quick else _NETWORKS
    for seed in range(networks):
        order = np.random.default_rng(seed).permutation(len(records))
        pool, reference = records.take(order[:_RECORDS]), records.take(order[_RECORDS:][:_RECORDS])
        member = np.random.default_rng([seed, 1]).random(_RECORDS) < 0.5
        known = member & (np.random.default_rng([seed, 2]).random(_RECORDS) < 0.5)
        target = TorchTarget(train(recipe, pool.take(member), seed=seed).model, "logits")
        view = ModelView(target, pool.take(~known), reference, known_members=pool.take(known))
        truth, row = Membership(member[~known]), []
        for k, attack in enumerate(attacks):
            begun = time.process_time()
            metrics, _ = measure(attack(replace(view), np.random.default_rng(0)), truth)
            seconds[k] += time.process_time() - begun
            row.append([metrics[name].value for name in _METRICS])
        rows.append(row)
        print(f"network {seed}: {known.sum()} of {member.sum()} members known", flush=True)
    print(f"\nmean over {networks} networks: {', '.join(_METRICS)}, CPU seconds")
    half = stats.t.ppf(0.975, networks - 1) * np.std(rows, axis=0, ddof=1) / networks**0.5
    for attack, mean, wide, spent in zip(
        attacks, np.mean(rows, axis=0), half, seconds / networks, strict=True
    ):
        figures = (f"{m:.3f} ({m - w:.3f} to {m + w:.3f})" for m, w in zip(mean, wide, strict=True))
        print(f"{attack.name:12}", *figures, f"{spent:.1f}")


def _network() -> nn.Module:
    return nn.Sequential(nn.Linear(446, 128), nn.ReLU(), nn.Linear(128, 30))
