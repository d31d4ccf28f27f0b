"""Why RAIFLE's descent finds less on our small vision models than in the paper: trials."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import data
from benchmarks.means import format_mean
from benchmarks.timing import environment
from divulge._util.json import Settings
from divulge._util.random import stream
from divulge.core import UpdateDefence
from divulge.metrics.interactions import measure_user

if TYPE_CHECKING:
    from divulge_papers.papers.raifle.images import Model

SUMMARY = "RAIFLE's descent on images by network, scale of features, optimiser and its steps"

MODELS: "tuple[Model, ...]" = ("mnasnet", "efficientnet-lite0")

USERS, STEPS = 20, (300, 3_000)


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print the AUC of linear rankers with as many images as features, by table VIII's users.

    Features as they are, and standardised: each with mean 0 and deviation 1. Printed beside is how
    ill-conditioned the least-squares problem is that the descent solves.

    Raises:
        MissingData: there is no CIFAR-10, or no vision model.
    """
    import torch

    from divulge_papers.papers.raifle.images import extract_features

    data.file("cifar10/x_strip.png")
    torch.set_num_threads(1)
    print(environment(("divulge", "torch")))
    print(f"{USERS} users; means with Student's intervals")
    with TemporaryDirectory() as folder:
        for model in MODELS[:1] if quick else MODELS:
            features = extract_features(model, "none", "paper", Path(folder))
            spread = np.maximum(features.std(axis=(0, 1)), 1e-9)
            standardised = (features - features.mean(axis=(0, 1))) / spread
            for name, those in (("as they are", features), ("standardised", standardised)):
                _print_row(f"{model}, features {name}", those.astype(features.dtype), quick)


def _print_row(name: str, features: np.ndarray, quick: bool) -> None:  # noqa: FBT001
    values = np.linalg.svd(features[: features.shape[2], 0], compute_uv=False)
    print(f"{name}; condition number {values[0] / values[-1]:.3g}")
    for label, settings in _ways(quick).items():
        print(f"  {label:24}{format_mean(_aucs(features, settings))}", flush=True)


def _ways(quick: bool) -> Mapping[str, Settings]:  # noqa: FBT001
    from divulge_papers.papers.raifle import study
    from divulge_papers.papers.raifle.images import MATCH

    steps = STEPS[:1] if quick else STEPS
    adam = {f"{n:,} steps of Adam": {**MATCH, "steps": n} for n in steps}
    return adam | {"L-BFGS": study.MATCH, "auto": study.AUTO}


def _aucs(features: np.ndarray, settings: Settings) -> list[float]:
    from divulge_papers.papers.raifle.images import upvote_challenges
    from divulge_papers.papers.raifle.study import build_attack

    attack = build_attack(settings)
    games = list(upvote_challenges(features, 0, 1, USERS, UpdateDefence(), seed=0))
    guesses = attack.many([game.view for game in games], stream(0, "attack"))  # type: ignore[attr-defined]
    pairs = zip(guesses, games, strict=True)
    return [float(measure_user(guess, game.truth).auc) for guess, game in pairs]
