"""The black-box membership attacks of the Adversarial Robustness Toolbox (ART)."""

from importlib.util import find_spec
from typing import Any

import numpy as np
from jaxtyping import Float

from benchmarks.answers import Answers
from benchmarks.timing import MissingPeer

KINDS = ("nn", "rf", "gb", "lr", "dt", "knn")
"""Attack models that ART offers, its default first, but for ``svm``, which takes far longer."""


def require() -> None:
    """Make sure that ART can be measured, with the PyTorch that its default attack is made of.

    Raises:
        MissingPeer: one of them is not installed.
    """
    if find_spec("art") is None:
        raise MissingPeer("adversarial-robustness-toolbox", "benchmark")
    if find_spec("torch") is None:
        raise MissingPeer("torch", "torch")


class ArtAttack:
    """ART's attack with one kind of model, fitted on one part of the answers, asked about another.

    Answers are handed over (``pred=``), so ART does not call a model either.
    """

    def __init__(self, kind: str, learnt: Answers, judged: Answers) -> None:
        self.name = f"art {kind}"
        self.score: Float[np.ndarray, " records"] = np.empty(0)
        self._kind = kind
        self._learnt = learnt
        self._judged = judged

    def __call__(self) -> None:
        """Fit and infer, with ART's own settings."""
        from art.attacks.inference.membership_inference import MembershipInferenceBlackBox

        p, y, member = self._learnt
        attack = MembershipInferenceBlackBox(
            _classifier(self._learnt), attack_model_type=self._kind
        )
        attack.fit(pred=p[member], y=y[member], test_pred=p[~member], test_y=y[~member])
        guess = attack.infer(None, self._judged.y, pred=self._judged.p, probabilities=True)
        self.score = np.asarray(guess, dtype=np.float64).ravel()


def rule_based(answers: Answers) -> Float[np.ndarray, " records"]:
    """ART's rule-based attack: member if the label is right. The predictions stand for records."""
    from art.attacks.inference.membership_inference import MembershipInferenceBlackBoxRuleBased

    attack = MembershipInferenceBlackBoxRuleBased(_classifier(answers))
    return np.asarray(attack.infer(answers.p, answers.y), dtype=np.float64)


def _classifier(answers: Answers) -> Any:
    from art.estimators.classification import BlackBoxClassifier

    classes = answers.p.shape[1]
    return BlackBoxClassifier(lambda x: x, input_shape=(classes,), nb_classes=classes)
