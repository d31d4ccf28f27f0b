"""Shadow models: train them on random halves, and keep what each says of the candidates."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool

from leakscope.attacks import signals
from leakscope.core import ModelView, Records, Shadows, Target, Trainer
from leakscope.progress import Track, untracked
from leakscope.randomness import stream
from leakscope.store import Run


@dataclass(frozen=True, slots=True)
class ShadowPlan:
    """How many models like the target to train, how, and on what."""

    trainer: Trainer
    models: int
    pool: Records | None = None
    """None: on random halves of the candidates (online). Else on random halves of these."""
    fingerprint: str = ""
    """Identifies the trainer, so that stored shadows are never taken for another one's."""


def train(
    view: ModelView,
    plan: ShadowPlan,
    digest: str,
    seed: int = 0,
    run: Run | None = None,
    track: Track[Any] = untracked,
) -> Shadows:
    """Shadows for a view.

    Each shadow learns a random half of the pool, drawn for it alone. With a run folder each one's
    answers are stored as soon as it is trained, and what is stored already is not trained again.

    Args:
        view: whose candidates and reference records the shadows are asked about.
        plan: what to train.
        digest: of the challenge and the plan; names the files in the run folder.
        seed: of the halves and of each model's own randomness.
        run: where answers are stored.
        track: shows progress.

    Raises:
        TargetError: a shadow could not be trained.
        StoreError: its answers could not be stored.
    """
    pool = view.records if plan.pool is None else plan.pool
    subsets = np.stack([_half(pool, seed, k) for k in range(plan.models)])
    keys = [f"{digest[:16]}-{k:04d}" for k in range(plan.models)]
    kept = {k: run.get_shadow(key) for k, key in enumerate(keys)} if run else {}
    missing = [k for k in range(plan.models) if kept.get(k) is None]
    seeds = [int(stream(seed, "shadow", k).integers(2**31)) for k in missing]
    targets = iter(plan.trainer.many(pool, subsets[missing], seeds))
    for k in track(missing, "Training shadows"):
        fresh = _phi(next(targets), view)
        if run:
            run.put_shadow(keys[k], fresh)
        kept[k] = fresh
    columns = [column for k in range(plan.models) if (column := kept[k]) is not None]
    offline = np.zeros((len(view.records), plan.models), np.bool_)
    return Shadows(
        phi=np.stack([candidates for candidates, _ in columns], axis=1),
        member=subsets.T if plan.pool is None else offline,
        reference_phi=np.stack([reference for _, reference in columns], axis=1),
    )


def _half(pool: Records, seed: int, k: int) -> Bool[np.ndarray, " records"]:
    return stream(seed, "shadow's half", k).random(len(pool)) < 0.5


def plan_digest(plan: ShadowPlan | None) -> str:
    """What tells one plan from another."""
    if plan is None:
        return "no shadows"
    pool = hashlib.blake2b(digest_size=16)
    if plan.pool is not None:
        pool.update(np.ascontiguousarray(plan.pool.x).data)
        pool.update(np.ascontiguousarray(plan.pool.y).data)
    return f"{plan.models} {plan.fingerprint} {pool.hexdigest()}"


def _phi(target: Target, view: ModelView) -> tuple[np.ndarray, np.ndarray]:
    """Scaled logits of the candidates, and of the reference records."""
    groups = [view.records] if view.reference is None else [view.records, view.reference]
    columns = [
        signals.compute("scaled_logit", target.predict(group.x), group.y) for group in groups
    ]
    return columns[0], columns[1] if len(columns) > 1 else np.empty(0)
