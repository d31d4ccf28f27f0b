"""What trees see that no single signal shows, and that they see nothing where nothing is."""

import dataclasses
from typing import get_args

import numpy as np
import pytest

from divulge.attacks.membership.two_sample import (
    BINS,
    TwoSample,
    _bin_features,
)
from divulge.attacks.shared.answer_features import answer_features
from divulge.core import ModelView, Need, Records
from divulge.errors import NotApplicable, SpecError
from divulge.metrics import membership, signals
from divulge.targets.function import FunctionTarget

MEMBERS, OTHERS = 300, 300


class _Table:
    """A model whose answer to record i, which is its own number, stands in row i of a table."""

    offers = Need.PROBABILITIES | Need.HARD_LABELS

    def __init__(self, logit: np.ndarray) -> None:
        p = 1 / (1 + np.exp(-logit))
        self.answers = np.column_stack([p, 1 - p])

    def predict(self, x: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.answers[x[:, 0].astype(int)]
        return found


def _view(members: np.ndarray, others: np.ndarray, reference: np.ndarray) -> ModelView:
    """Candidates and reference records of class 0, whose answers have these logits."""
    rows = np.arange(len(members) + len(others) + len(reference), dtype=np.float64)[:, None]
    records = Records(rows, np.zeros(len(rows), np.int64))
    edge = len(members) + len(others)
    target = _Table(np.concatenate([members, others, reference]))
    return ModelView(
        target, records.take(np.arange(edge)), records.take(np.arange(edge, len(rows)))
    )


def _band(seed: int) -> ModelView:
    """Members' logits lie in a narrow band with non-members' on both sides of it."""
    rng = np.random.default_rng(seed)
    return _view(rng.normal(0, 0.3, MEMBERS), *(rng.normal(0, 3, n) for n in (OTHERS, 400)))


TRUTH = np.arange(MEMBERS + OTHERS) < MEMBERS


def test_it_finds_members_between_non_members_where_each_signal_alone_finds_little() -> None:
    view = _band(0)
    alone = membership.auc(signals.compute_for_records("loss", view, view.records), TRUTH)
    found = membership.auc(TwoSample()(view, np.random.default_rng(0)).score, TRUTH)
    assert 0.4 < alone.value < 0.6
    assert found.low > 0.8


def test_reference_records_of_another_kind_accuse_nobody_more_than_others() -> None:
    rng = np.random.default_rng(1)
    members, others = rng.normal(3, 1, (2, MEMBERS))
    score = TwoSample()(_view(members, others, rng.normal(-3, 1, 400)), rng).score
    assert 0.5 in membership.auc(score, TRUTH)


def test_no_record_is_scored_by_what_was_fitted_to_it() -> None:
    """Candidates that were fitted to would score higher than reference records like them."""
    rng = np.random.default_rng(2)
    view = _view(*(rng.normal(0, 1, n) for n in (MEMBERS, OTHERS, 600)))
    assert view.reference is not None
    score = TwoSample()(view, np.random.default_rng(0)).score
    exchanged = ModelView(view.target, view.reference, view.records)
    other = TwoSample()(exchanged, np.random.default_rng(0)).score
    both = membership.auc(np.concatenate([score, -other]), np.arange(1200) < 600)
    assert both.value < 0.55


def test_the_rarer_set_does_not_shift_the_scores() -> None:
    rng = np.random.default_rng(3)
    view = _view(*(rng.normal(0, 1, n) for n in (MEMBERS, OTHERS, 60)))
    assert abs(np.median(TwoSample()(view, rng).score)) < 0.2


@pytest.mark.parametrize(("classes", "others"), [(3, 2), (10, 5)])
def test_an_answer_is_all_signals_and_the_likeliest_other_classes(
    classes: int, others: int
) -> None:
    drawn = np.random.default_rng(5).dirichlet(np.ones(classes), 20)
    target = FunctionTarget(lambda _: drawn)
    records = Records(np.arange(20.0)[:, None], np.arange(20) % classes)
    found, p = answer_features(ModelView(target, records), records), target.predict(records.x)
    named = get_args(signals.SignalName)
    for column, name in zip(found.T, named, strict=False):
        np.testing.assert_array_equal(column, signals.compute_signal(name, p, records.y))
    for row, answer, y in zip(found[:, len(named) :], p, records.y, strict=True):
        np.testing.assert_allclose(row, sorted(np.log(np.delete(answer, y)))[::-1][:others])


def test_bins_hold_equally_many_and_keep_the_order() -> None:
    rng = np.random.default_rng(4)
    column = rng.normal(size=(BINS * 4, 1))
    bins = _bin_features(column)
    assert np.unique(bins, return_counts=True)[1].tolist() == [4] * BINS
    assert (np.diff(bins[np.argsort(column[:, 0]), 0]) >= 0).all()
    ties = _bin_features(np.ones((7, 1)))
    assert len(np.unique(ties)) == 1


def test_too_few_records_and_folds_are_refused() -> None:
    view = _band(0)
    assert view.reference is not None
    few = ModelView(view.target, view.records, view.reference.take(np.arange(49)))
    with pytest.raises(NotApplicable, match="50 or more reference records"):
        TwoSample()(few, np.random.default_rng(0))
    with pytest.raises(SpecError, match="folds of 2 or more"):
        TwoSample(folds=1)


def test_two_candidates_are_enough() -> None:
    view = _band(0)
    two, one = (dataclasses.replace(view, records=view.records.take(np.arange(n))) for n in (2, 1))
    assert TwoSample()(two, np.random.default_rng(0)).score.shape == (2,)
    with pytest.raises(NotApplicable, match="2 or more candidates"):
        TwoSample()(one, np.random.default_rng(0))
