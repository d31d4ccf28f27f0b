"""What some defences do on handwritten digits, each as its authors set it."""

from collections.abc import Mapping
from dataclasses import replace

from torch import nn

import divulge
from benchmarks.hardening import TASKS
from divulge.attacks import catalog as attacks
from divulge.core import AnswerDefence, Estimate, Records, Trainer
from divulge.defences import catalog
from divulge.studies.leave_one_out.means import mean_over_targets
from divulge.training.fleet import Fleet

SUMMARY = "defences on handwritten digits: accuracy, and the AUC of attacks of three kinds"

_KINDS = {
    "loss": ("threshold(signal=loss)",),
    "shadows": ("calibrated", "lira"),
    "labels": ("gap", "shadow-gap"),
}
"""Labels of attacks by what they read: the loss, the same beside shadow models, labels alone."""


def _network_of_images() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def _variants(records: Records) -> Mapping[str, tuple[Records, Trainer, AnswerDefence | None]]:
    """By name the records, how a model is trained, and what changes its answers."""
    plain = TASKS["digits"].recipe
    images = replace(records, x=records.x.reshape(-1, 8, 8))
    order = catalog.answer_defence("rank-order")

    def flat(name: str, **settings: object) -> tuple[Records, Trainer, None]:
        return records, catalog.trained_defence(name, plain, **settings), None

    moved = replace(plain, network=_network_of_images)
    return {
        "undefended": (records, Fleet(plain), None),
        "undefended, rank-order": (records, Fleet(plain), order),
        "label-smoothing": flat("label-smoothing"),
        "convex-concave, alpha=0.5": flat("convex-concave"),
        "convex-concave, alpha=0.1": flat("convex-concave", alpha=0.1),
        "hamp": flat("hamp"),
        "hamp, rank-order": (records, catalog.trained_defence("hamp", plain), order),
        "augmentation, mixup=1": flat("augmentation"),
        "augmentation, noise=0.5": flat("augmentation", mixup=0.0, noise=0.5),
        "image-augmentation, shift=1": (
            images,
            catalog.trained_defence("image-augmentation", moved, shift=1, flip=False),
            None,
        ),
        "complementary-distillation, folds=5": flat("complementary-distillation", folds=5),
        "mist": flat("mist"),
        "mist, weight=10": flat("mist", weight=10.0),
        "mist, weight=0": flat("mist", weight=0.0),
    }


def run(quick: bool) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print a row a defence.

    Args:
        quick: four models each, in place of twelve.
    """
    rotation = divulge.Rotation(4, 2) if quick else divulge.Rotation(12, 6)
    wanted = [attacks.attack(name) for name in ("threshold", *_KINDS["shadows"], *_KINDS["labels"])]
    print(f"| defence | accuracy | {' | '.join(f'AUC, {kind}' for kind in _KINDS)} |")
    for name, (records, train, answers) in _variants(TASKS["digits"].records()).items():
        study = divulge.leave_one_out(
            train,
            records=records,
            attacks=wanted,
            access=divulge.Access(answers=answers),
            rotation=rotation,
        )
        accuracy = mean_over_targets("accuracy", study.accuracies("non-members"))
        by_kind = [
            max((study.means(attack)["auc"] for attack in names), key=lambda auc: auc.value)
            for names in _KINDS.values()
        ]
        print(f"| {name} | {' | '.join(map(_cell, (accuracy, *by_kind)))} |", flush=True)


def _cell(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"
