"""What is filled in where an attacker knows 40 % of a record, by what it fills in with."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from divulge._util import toml
from divulge._util.json import Settings
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.core import ModelView
from divulge.data.known_features import Pattern
from divulge.metrics import membership
from divulge_papers.papers.mrad.data import DRAWS, AuditedModel, train_target
from divulge_papers.papers.mrad.study import LOSS, MRAD, Knowledge

SUMMARY = "attacks on records with 60 % missing, by what fills them in"

TASKS: Mapping[str, AuditedModel] = {
    "residual": AuditedModel("cifar10", "resnet", standardised=True),
    "fashion-mnist": AuditedModel("fashion_mnist", standardised=True),
    "location-30": AuditedModel("location30", standardised=True),
    "retail-100": AuditedModel("retail100", standardised=True),
}
"""Models of `divulge reproduce` at size small, each trained on 500 records."""

_TARGETS: Mapping[str, int] = {"residual": 6}
"""How many targets are attacked where three do not tell fills apart."""

_MISSING, _SEEDS = 0.6, 3
_IMAGES: tuple[Pattern, ...] = ("random", "pixels", "block", "rows")
_TABLES: tuple[Pattern, ...] = ("random", "columns", "telling-columns")
_RMIA: Settings = {"name": "rmia"}
_NEIGHBOURS, _LOCAL = "5 neighbours, then RMIA", "local, then RMIA"
_DRAWN = f"local, {DRAWS} draws, then RMIA"
_BASELINES = (_NEIGHBOURS, _LOCAL, _DRAWN)
_ROWS: Mapping[str, Mapping[str, Any]] = {
    "MRAD from zeros, no shadow": {"attack": MRAD},
    "5 neighbours, then loss, no shadow": {"attack": LOSS, "fill": "neighbours"},
    "local, then loss, no shadow": {"attack": LOSS, "fill": "local"},
    "local, then MRAD, no shadow": {"attack": {**MRAD, "start": "filled"}, "fill": "local"},
    _NEIGHBOURS: {"attack": _RMIA, "fill": "neighbours"},
    "Gaussian, then RMIA": {"attack": _RMIA, "fill": "gaussian"},
    _LOCAL: {"attack": _RMIA, "fill": "local"},
    _DRAWN: {"attack": _RMIA, "fill": "local", "completions": DRAWS},
    "the same, mean of the larger half of the scores": {
        "attack": _RMIA,
        "fill": "local",
        "completions": DRAWS,
        "trimmed": True,
    },
    "fill chosen on shadows, then RMIA": {"attack": _RMIA, "fill": "chosen-near"},
}


class _Figures(NamedTuple):
    """One figure a seed."""

    values: list[float]

    def __str__(self) -> str:
        mean, seeds = float(np.mean(self.values)), len(self.values)
        half = float(stats.t.ppf(0.975, seeds - 1) * np.std(self.values, ddof=1) / seeds**0.5)
        return f"{mean:+.3f} ({mean - half:+.3f} to {mean + half:+.3f})"


def run(quick: bool, *, name: str) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print AUC over targets, with Student's 95 % intervals, and differences by target.

    Raises:
        DataError: there is no such data.
    """
    audited = TASKS[name]
    seeds = range(2 if quick else _TARGETS.get(name, _SEEDS))
    for seed in seeds:
        target = train_target(seed, audited)
        whole = _auc(seed, audited, "random", 0.0, {"attack": LOSS})
        print(
            f"target {seed}: accuracy {target.training_accuracy():.3f} in training, "
            f"{target.accuracy():.3f} in test; loss of whole records, AUC {whole:.3f}",
            flush=True,
        )
    patterns = _IMAGES if audited.data in ("cifar10", "fashion_mnist") else _TABLES
    for pattern in patterns[:1] if quick else patterns:
        print(f"\n{pattern}: AUC, and less that of {'; '.join(_BASELINES)}")
        measured = dict(_measure(audited, pattern, seeds))
        for row, values in measured.items():
            less = [
                str(_Figures([a - b for a, b in zip(values, measured[other], strict=True)]))
                for other in _BASELINES
            ]
            print(f"{row:47} {_Figures(values)}  {'  '.join(less)}", flush=True)


def _measure(
    audited: AuditedModel, pattern: Pattern, seeds: range
) -> Iterator[tuple[str, list[float]]]:
    """AUC of each row, a figure a seed; seeds in turn, since their models are kept for a while."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        for row, how in _ROWS.items():
            # a system of hundreds of unknowns for each record of an image
            each = audited.data == "cifar10" and pattern in ("random", "pixels")
            if each and how.get("fill") == "gaussian":
                continue
            found.setdefault(row, []).append(_auc(seed, audited, pattern, _MISSING, how))
    yield from found.items()


def _auc(
    seed: int,
    audited: AuditedModel,
    pattern: Pattern,
    missing: float,
    how: Mapping[str, Any],
) -> float:
    knowledge = {key: value for key, value in how.items() if key not in ("attack", "trimmed")}
    (attack,) = toml.build_attacks([how["attack"]], catalog.attack)
    view = Knowledge(**knowledge, pattern=pattern).view(seed, audited, missing, attack.needs)
    views = _completions(view) if "trimmed" in how else [view]
    scores = np.sort([attack(one, stream(seed, "partial fills")).score for one in views], axis=0)
    # the larger half, as RaMIA trims; one score stays as it is
    score = scores[len(scores) // 2 :].mean(axis=0)
    return membership.auc(score, train_target(seed, audited).member).value


def _completions(view: ModelView) -> Iterator[ModelView]:
    """The view with each completion of the candidates in turn."""
    shadows = view.shadows
    assert shadows is not None
    ways, answers = (view.records, *view.augmented), (shadows.phi, *shadows.augmented_phi)
    for records, phi in zip(ways, answers, strict=True):
        yield replace(
            view, records=records, augmented=(), shadows=replace(shadows, phi=phi, augmented_phi=())
        )
