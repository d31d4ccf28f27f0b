"""The Adversarial Robustness Toolbox: its shadow models, and attack models taught by them."""

from typing import Any

import numpy as np
import torch
from art.attacks.inference.membership_inference import MembershipInferenceBlackBox, ShadowModels
from art.estimators.classification import PyTorchClassifier

from benchmarks.peers.drivers import plain
from benchmarks.peers.drivers.desk import Desk


def main() -> None:
    """Shokri et al. (2017), with one forest for all classes, which is given the label.

    A forest alone: there are as many lessons as records times shadows, on which boosted trees and
    ART's default, a network, take minutes of CPU time and more.

    Answers are turned into probabilities before they are learned from: on the logits that a
    PyTorch classifier of ART gives by itself, its attacks find far less.
    """
    desk = Desk()
    settings, records = desk.settings, desk.arrays("records")
    x, y = records["x"], records["y"]
    target = _classifier(settings, plain.load_network(settings, desk.arrays("target")))
    with desk.timed("shadows"):
        lessons = _same_lessons(desk, x, y) if desk.same_shadows else _lessons(settings, x, y)
    answers = softmax(target.predict(x))
    with desk.timed("random forest"):
        attack = MembershipInferenceBlackBox(target, attack_model_type="rf")
        attack.fit(**lessons)
        score = attack.infer(x, y, pred=answers, probabilities=True)
        desk.leave("random forest", np.ravel(score))


def _lessons(settings: dict[str, Any], x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """What shadows that it trains say about their members, and about others."""
    shadows = ShadowModels(
        _classifier(settings, plain.network(settings)), settings["shadows"], random_state=0
    )
    onehot = np.eye(settings["widths"][-1], dtype=np.float32)[y]
    inside, outside = shadows.generate_shadow_dataset(x, onehot)
    return {
        "x": inside[0], "y": inside[1], "pred": softmax(inside[2]),
        "test_x": outside[0], "test_y": outside[1], "test_pred": softmax(outside[2]),
    }  # fmt: skip


def _same_lessons(desk: Desk, x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """What the task's shadows say about their members, and about others."""
    models, halves = plain.shadows(desk, x, y)
    shadow_answers = [
        np.exp(plain.log_probabilities(model, x)).astype(np.float32) for model in models
    ]
    lessons = {}
    for prefix, side in (("", halves), ("test_", ~halves)):
        lessons[f"{prefix}x"] = np.concatenate([x[half] for half in side])
        lessons[f"{prefix}y"] = np.concatenate([y[half] for half in side])
        answers = [p[half] for p, half in zip(shadow_answers, side, strict=True)]
        lessons[f"{prefix}pred"] = np.concatenate(answers)
    return lessons


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of rows of logits."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: np.ndarray = weights / weights.sum(axis=1, keepdims=True)
    return probabilities


def _classifier(settings: dict[str, Any], module: torch.nn.Module) -> "_AsLong":
    optimiser = torch.optim.SGD(
        module.parameters(), lr=settings["lr"], momentum=settings["momentum"]
    )
    _AsLong.epochs, _AsLong.batch = settings["epochs"], settings["batch"]
    widths = settings["widths"]
    return _AsLong(module, torch.nn.CrossEntropyLoss(), widths[:1], widths[-1], optimizer=optimiser)


class _AsLong(PyTorchClassifier):  # type: ignore[misc]
    """Trained as the target was: ``ShadowModels`` passes on no number of epochs."""

    epochs = 0
    batch = 0

    def fit(self, x: np.ndarray, y: np.ndarray, *rest: Any, **more: Any) -> None:
        super().fit(x, y, self.batch, self.epochs, *rest, **more)


if __name__ == "__main__":
    main()
