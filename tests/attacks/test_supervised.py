"""What is learned from known members, and what is not."""

import numpy as np
import pytest

from divulge.attacks.membership import supervised
from divulge.attacks.membership.supervised import SupervisedAttack
from divulge.attacks.shared.answer_features import answer_features
from divulge.core import ModelView, Need, Records
from divulge.errors import NotApplicable
from divulge.metrics import membership
from tests.golden import golden

CLASSES = 4


class _Drawn:
    """A model whose answer to record i, which is its own number, stands in row i of a table."""

    offers = Need.PROBABILITIES | Need.HARD_LABELS

    def __init__(self, answers: np.ndarray) -> None:
        self.answers = answers

    def predict(self, x: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.answers[x[:, 0].astype(int)]
        return found


def _view(logits: np.ndarray, y: np.ndarray, counts: tuple[int, int, int]) -> ModelView:
    """Known members, reference records and candidates, in this order."""
    p = np.exp(logits)
    records = Records(np.arange(float(len(y)))[:, None], y)
    known, reference, candidates = np.split(np.arange(len(y)), np.cumsum(counts)[:2])
    return ModelView(
        _Drawn(p / p.sum(axis=1, keepdims=True)),
        records.take(candidates),
        records.take(reference),
        known_members=records.take(known),
    )


def _game(seed: int, mean: float, spread: float) -> tuple[ModelView, np.ndarray]:
    """150 of 300 candidates are members, whose true logits have this mean and spread."""
    rng = np.random.default_rng(seed)
    member = np.arange(750) < 200
    member[450:600] = True
    y = rng.integers(0, CLASSES, 750)
    logits = rng.normal(size=(750, CLASSES))
    logits[np.arange(750), y] += np.where(
        member, rng.normal(mean, spread, 750), rng.normal(2, 3, 750)
    )
    return _view(logits, y, (200, 250, 300)), member[450:]


def test_it_finds_members_between_non_members() -> None:
    view, member = _game(0, 2, 0.3)
    found = membership.auc(SupervisedAttack()(view, np.random.default_rng(0)).score, member)
    assert found.value == golden(0.7375)


def test_it_turns_round_where_members_are_answered_worse() -> None:
    view, member = _game(1, -2, 1)
    found = membership.auc(SupervisedAttack()(view, np.random.default_rng(0)).score, member)
    assert found.value == golden(0.8491)


def test_both_sets_count_alike() -> None:
    """Known members that are fewer do not move the scores, where answers tell nothing: by log
    (440 / 60), which is 2, if they counted less.
    """
    rng = np.random.default_rng(2)
    y = rng.integers(0, CLASSES, 800)
    view = _view(rng.normal(size=(800, CLASSES)), y, (60, 440, 300))
    assert abs(np.median(SupervisedAttack()(view, np.random.default_rng(0)).score)) < 1


def test_the_classes_of_known_members_are_not_learned() -> None:
    """Members of class 0 are known alone, and answers tell nothing: nor does the class then."""
    rng = np.random.default_rng(3)
    y = np.concatenate([np.zeros(200, np.int64), rng.integers(0, CLASSES, 550)])
    logits = np.zeros((750, CLASSES))
    logits[np.arange(750), y] = rng.normal(2, 1, 750)
    view = _view(logits, y, (200, 250, 300))
    seen = supervised._read_answers(view, view.records, view.reference or view.records)
    for label in range(CLASSES):
        few = np.abs(seen.signals[view.records.y == label].mean(axis=0)[len(seen.signals.T) // 2 :])
        assert (few < 1).all()
    score = SupervisedAttack()(view, np.random.default_rng(0)).score
    assert np.isfinite(score).all()


def test_signals_stand_beside_themselves_less_the_median_of_their_class() -> None:
    """Slowly: one record and one signal at a time."""
    view, _ = _game(4, 2, 1)
    reference = view.reference
    assert reference is not None
    seen = supervised._read_answers(view, view.records, reference)
    own, plain = answer_features(view, reference), answer_features(view, view.records)
    assert seen.signals.shape == (300, 2 * plain.shape[1])
    for row in range(0, 300, 17):
        same = own[reference.y == view.records.y[row]]
        weight = len(same) / (len(same) + 10)
        for column in range(plain.shape[1]):
            middle = weight * np.median(same[:, column])
            middle += (1 - weight) * np.median(own[:, column])
            assert seen.signals[row, column] == plain[row, column]
            relative = seen.signals[row, plain.shape[1] + column]
            assert relative == pytest.approx(plain[row, column] - middle)
    np.testing.assert_allclose(np.exp(seen.log_p), view.target.predict(view.records.x))


def test_the_score_is_the_mean_of_two_log_odds(monkeypatch: pytest.MonkeyPatch) -> None:
    view, _ = _game(5, 2, 1)
    both = SupervisedAttack()(view, np.random.default_rng(0)).score
    alone = []
    for name in ("_ask_forest", "_ask_regression"):
        with monkeypatch.context() as patched:
            patched.setattr(supervised, name, lambda *_: np.zeros(300))
            alone.append(2 * SupervisedAttack()(view, np.random.default_rng(0)).score)
    np.testing.assert_allclose(both, (alone[0] + alone[1]) / 2)
    most = np.log(1.01 / 0.01)
    assert np.abs(alone[1]).max() <= most  # the forest's, as the regression was silenced second


def test_no_more_records_are_learned_from_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    view, member = _game(6, 6, 1)
    learned = []
    ask = supervised._ask_forest

    def spy(lessons: supervised._Answers, *rest: object) -> np.ndarray:
        learned.append(len(lessons.signals))
        return ask(lessons, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(supervised, "_ask_forest", spy)
    monkeypatch.setattr(supervised, "MOST", 60)
    found = membership.auc(SupervisedAttack()(view, np.random.default_rng(0)).score, member)
    assert learned == [120]
    assert found.value == golden(0.8760)


@pytest.mark.parametrize("counts", [(49, 200, 50), (200, 49, 50)])
def test_too_few_known_members_or_reference_records(counts: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(7)
    y = rng.integers(0, CLASSES, sum(counts))
    view = _view(rng.normal(size=(len(y), CLASSES)), y, counts)
    with pytest.raises(NotApplicable, match="50 or more known members"):
        SupervisedAttack()(view, np.random.default_rng(0))
