"""The Adversarial Robustness Toolbox: its attacks on answers, taught by records that it knows."""

import numpy as np
from art.attacks.inference.membership_inference import MembershipInferenceBlackBox
from art.estimators.classification import BlackBoxClassifier

from benchmarks.peers.drivers.desk import Desk

KINDS = ("nn", "rf", "gb", "lr", "dt", "knn", "svm")
"""All attack models that it offers."""


def main() -> None:
    """Run the attacks on predictions passed as ``pred=``, without queries to a model."""
    desk = Desk()
    answers = desk.arrays("answers")
    classes = answers["learnt_p"].shape[1]
    member, p, y = answers["learnt_member"], answers["learnt_p"], answers["learnt_y"]
    classifier = BlackBoxClassifier(lambda x: x, input_shape=(classes,), nb_classes=classes)
    for kind in KINDS:
        with desk.timed(kind):
            attack = MembershipInferenceBlackBox(classifier, attack_model_type=kind)
            attack.fit(pred=p[member], y=y[member], test_pred=p[~member], test_y=y[~member])
            score = attack.infer(None, answers["y"], pred=answers["p"], probabilities=True)
            desk.leave(kind, np.ravel(score))


if __name__ == "__main__":
    main()
