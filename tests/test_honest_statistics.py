"""Whole audits of models that leak nothing: the 95 % intervals must cover chance 92-98 times in
100, neither less (they would cry wolf) nor more (they would say too little)."""

import numpy as np
import pytest

from divulge import auditing
from divulge.attacks.threshold import Threshold
from divulge.core import Challenge, Membership, ModelView, Need, Records

AUDITS = 600
RECORDS = 4000

CHANCE = {
    "auc": 0.5,
    "tpr@0.1": 0.1,
    "tpr@0.01": 0.01,
    "advantage": 0.0,
    "balanced_accuracy": 0.5,
    "precision@0.01:0.5": 0.5,
    "epsilon": 0.0,
}


class Oblivious:
    """A model whose answers have nothing to do with who was in training."""

    offers = Need.PROBABILITIES | Need.HARD_LABELS

    def __init__(self, answers: np.ndarray) -> None:
        self.answers = answers

    def predict(self, x: np.ndarray) -> np.ndarray:
        answers: np.ndarray = self.answers[x[:, 0]]
        return answers


def null_audit(seed: int) -> dict[str, bool]:
    rng = np.random.default_rng([seed, 7])
    answers = rng.dirichlet(np.full(5, 0.3), size=RECORDS)
    rows = Records(np.arange(RECORDS)[:, None], rng.integers(0, 5, RECORDS))
    truth = Membership(rng.permutation(RECORDS) < RECORDS // 2)
    found = auditing.run(Challenge(ModelView(Oblivious(answers), rows), truth), Threshold())
    return {name: value in found.finding.metrics[name] for name, value in CHANCE.items()}


@pytest.fixture(scope="module")
def covered() -> dict[str, float]:
    audits = [null_audit(seed) for seed in range(AUDITS)]
    return {name: float(np.mean([audit[name] for audit in audits])) for name in CHANCE}


@pytest.mark.parametrize("name", CHANCE)
def test_95_percent_intervals_cover_chance_in_92_to_98_percent_of_audits(
    covered: dict[str, float], name: str
) -> None:
    assert 0.92 <= covered[name] <= 0.98


def test_clopper_pearson_alone_would_not_do() -> None:
    """Why the interval of TPR at FPR has two parts: members alone cover far too seldom."""
    from divulge.metrics.intervals import clopper_pearson
    from divulge.metrics.membership import tpr_at_fpr

    rng = np.random.default_rng(0)
    member = np.arange(RECORDS) < RECORDS // 2
    hits = [
        round(tpr_at_fpr(rng.normal(size=RECORDS), member, 0.01).value * RECORDS // 2)
        for _ in range(500)
    ]
    usual = [clopper_pearson(hit, RECORDS // 2) for hit in hits]
    assert np.mean([low <= 0.01 <= high for low, high in usual]) < 0.90
