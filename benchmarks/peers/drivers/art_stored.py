"""ART's attack by shadow models on answers of models that were trained once."""

import numpy as np
from art.attacks.inference.membership_inference import MembershipInferenceBlackBox
from art.estimators.classification import BlackBoxClassifier

from benchmarks.peers.drivers.desk import Desk
from benchmarks.peers.drivers.stored import log_softmax


def main() -> None:
    """One forest for a number of shadows, which then reads every target.

    It learns from the shadows' answers about their own pool, and is given the label.
    """
    desk = Desk()
    tables = {mode: desk.arrays(mode) for mode in desk.settings["modes"]}
    known = tables["online"]
    classes = known["target"].shape[2]
    for count in desk.settings["often"]:
        estimator = BlackBoxClassifier(lambda x: x, (classes,), classes)
        attack = MembershipInferenceBlackBox(estimator, attack_model_type="rf")
        with desk.timed(f"{count}-fit"):
            attack.fit(**_lessons(known, count))
        for mode, arrays in tables.items():
            label = f"{mode}-{count}-random forest"
            with desk.timed(label):
                answers = np.exp(log_softmax(arrays["target"])).astype(np.float32)
                scores = [
                    attack.infer(p, arrays["y"], pred=p, probabilities=True).ravel()
                    for p in answers
                ]
            desk.leave(label, np.stack(scores))


def _lessons(known: dict[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
    """What shadows say about their members, and about others."""
    shadow_answers = np.exp(log_softmax(known["shadows"][:count])).astype(np.float32)
    half = known["half"][:count]
    lessons = {}
    for prefix, side in (("", half), ("test_", ~half)):
        answers = np.concatenate([p[own] for p, own in zip(shadow_answers, side, strict=True)])
        lessons[f"{prefix}x"] = lessons[f"{prefix}pred"] = answers
        lessons[f"{prefix}y"] = np.concatenate([known["y"][own] for own in side])
    return lessons


if __name__ == "__main__":
    main()
