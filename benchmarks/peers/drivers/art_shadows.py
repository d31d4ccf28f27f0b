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
    x, y, classes = records["x"], records["y"], settings["widths"][-1]
    target = _classifier(settings, plain.loaded(settings, desk.arrays("target")))
    with desk.timed("shadows"):
        shadows = ShadowModels(
            _classifier(settings, plain.network(settings)), settings["shadows"], random_state=0
        )
        inside, outside = shadows.generate_shadow_dataset(x, np.eye(classes, dtype=np.float32)[y])
    lessons = {
        "x": inside[0], "y": inside[1], "pred": softmax(inside[2]),
        "test_x": outside[0], "test_y": outside[1], "test_pred": softmax(outside[2]),
    }  # fmt: skip
    asked = softmax(target.predict(x))
    with desk.timed("random forest"):
        attack = MembershipInferenceBlackBox(target, attack_model_type="rf")
        attack.fit(**lessons)
        score = attack.infer(x, y, pred=asked, probabilities=True)
        desk.leave("random forest", np.ravel(score))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of rows of logits."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    said: np.ndarray = weights / weights.sum(axis=1, keepdims=True)
    return said


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
