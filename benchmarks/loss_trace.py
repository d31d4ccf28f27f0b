"""What a loss seen during training tells of members, beside attacks with and without shadows."""

import numpy as np

from benchmarks import data
from benchmarks.shadow_quality.tasks import TASKS
from divulge._util.progress import track_silently
from divulge.attacks import catalog
from divulge.audits import checkpoints
from divulge.audits.options import Access
from divulge.core import Membership, ModelView, Scores, Shadows
from divulge.metrics import signals
from divulge.metrics.measure import measure
from divulge.targets.torch import TorchTarget
from divulge.training.checkpoints import train
from divulge.training.fleet import Fleet

SUMMARY = "lt-iqr on checkpoints of Location-30's networks, beside loss, two-sample, lira and rmia"

_TARGETS, _SHADOWS, _FLAGGED = 4, 16, 0.05

_METRICS = ("auc", "tpr@0.01")


def run(quick: bool) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print what each attack finds, and how many of its top members LiRA finds at 1 % FPR.

    Raises:
        MissingData: there is no Location-30.
    """
    task, trainer = TASKS["location-30"], TASKS["location-30"].trainer()
    records = data.location_30()
    order = np.random.default_rng(0).permutation(len(records))
    pool = records.take(order[: task.size])
    reference = records.take(order[task.size : task.size + task.reference])
    targets = 1 if quick else _TARGETS
    subsets = np.random.default_rng(1).random((targets + _SHADOWS, len(pool))) < 0.5
    seeds = range(len(subsets))
    assert isinstance(trainer, Fleet)
    shadows = list(trainer.many(pool, subsets[targets:], seeds[targets:]))
    phi, reference_phi = (
        np.stack([signals.compute_phi(model.predict(group.x), group) for model in shadows], axis=1)
        for group in (pool, reference)
    )
    shadow_signals = Shadows(phi, subsets[targets:].T, reference_phi)
    attacks = [
        catalog.attack("lt-iqr"),
        catalog.attack("lt-iqr", minus_final_loss=False),
        *(catalog.attack(name) for name in ("threshold", "two-sample", "lira", "rmia")),
    ]
    rows = []
    for member, seed in zip(subsets[:targets], seeds, strict=False):
        trained = train(trainer.recipe, pool.take(member), seed=seed)
        view = ModelView(TorchTarget(trained.model, "logits"), pool, reference, shadow_signals)
        before = checkpoints.from_models(trained.checkpoints, Access("logits"))
        trace = checkpoints.trace_losses(before, view, 1024, track_silently)
        view = ModelView(view.target, pool, reference, shadow_signals, loss_trace=trace)
        guesses = [attack(view, np.random.default_rng(0)) for attack in attacks]
        flagged = _flag(guesses[4].score, member)
        rows.append(
            [
                (*_measure(guess, member), _precision(guess.score, member, flagged))
                for guess in guesses
            ]
        )
        print(f"target {seed}: LiRA flags {flagged[member].mean():.2f} of the members", flush=True)
    shown = ", ".join(_METRICS)
    print(f"\nmean over {targets} targets: {shown}, share of its top 5 % that LiRA flags")
    for attack, figures in zip(attacks, np.mean(rows, axis=0), strict=True):
        print(f"{attack!s:45}", *(f"{figure:7.3f}" for figure in figures))


def _measure(guess: Scores, member: np.ndarray) -> list[float]:
    metrics, _ = measure(guess, Membership(member))
    return [metrics[name].value for name in _METRICS]


def _flag(score: np.ndarray, member: np.ndarray) -> np.ndarray:
    """The members above all but one in a hundred non-members."""
    flagged: np.ndarray = member & (score > np.quantile(score[~member], 0.99))
    return flagged


def _precision(score: np.ndarray, member: np.ndarray, flagged: np.ndarray) -> float:
    inside = np.flatnonzero(member)
    top = inside[np.argsort(-score[inside])[: round(_FLAGGED * len(inside))]]
    return float(flagged[top].mean())
