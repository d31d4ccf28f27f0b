"""Published decisions come out again; what the published protocol sees is shown to be no leak."""

import csv
import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy import special

from divulge.attacks import catalog
from divulge.attacks.assignment import baselines
from divulge.attacks.assignment.stacking import attack
from divulge.attacks.assignment.stacking.attack import Stacking
from divulge.attacks.assignment.stacking.base_classifiers import NAMES, LabelledLogits
from divulge.attacks.membership.threshold import Threshold
from divulge.attacks.shared import decision as shared_decision
from divulge.core import NOBODY, ModelView
from divulge.errors import NotApplicable, SpecError
from divulge.metrics import assignment as metrics
from divulge.metrics import membership
from divulge.targets.logits import read_logits
from divulge.testing import clients
from tests.golden import golden

from .. import federations

pytest.importorskip("xgboost")
pytest.importorskip("torch")


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("tier", ["cnn", "dpcnn200", "dpcnn10"])
def test_the_rule_reproduces_every_published_decision(tier: str) -> None:
    path = federations.shared_file(
        f"nist-soybean/published_outputs/{tier}_ensemble_detailed_submission.csv"
    )
    with path.open() as file:
        rows = list(csv.DictReader(file))
    score = np.array([[float(row[f"pred{k}"]) for k in range(1, 5)] for row in rows])
    decision = np.array([int(row["prediction"]) for row in rows])
    assert len(rows) == 73
    guess = shared_decision.two_sided_rule(score, np.arange(3)) + 1
    guess[score[:, 3] == 1] = 4  # the colluding client knows its own
    np.testing.assert_array_equal(guess, decision)


def test_the_rule_by_hand() -> None:
    score = np.array([[0.9, 0.1], [0.5, 0.5], [0.1, 0.2], [0.1, 0.8], [0.0, 0.0]])
    guess = shared_decision.two_sided_rule(score, np.arange(2), percentile=50.0, dominance=1.5)
    np.testing.assert_array_equal(guess, [0, NOBODY, NOBODY, 1, NOBODY])


def lessons() -> tuple[np.ndarray, np.ndarray]:
    dice = np.random.default_rng(3)
    x = dice.normal(size=(200, 8))
    return x, x[:, 0] + 0.5 * dice.normal(size=200) > 1


def adapted_to(weight: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Log odds before and after boosting on non-members with about this sum of p (1 - p)."""
    x, member = lessons()
    meta = attack._fit_boosted_trees(x, member, seed=0)
    p = attack._predict_scores(meta, x)
    order = np.argsort(p * (1 - p))
    total = np.cumsum((p * (1 - p))[order])
    known = order[: np.searchsorted(total, weight)]
    adapted = attack._fit_boosted_trees(x[known], np.zeros(len(known), bool), seed=1, onto=meta)
    after = attack._predict_scores(adapted, x)
    return special.logit(p), special.logit(after), float((p * (1 - p))[known].sum())


def test_boosting_on_certain_non_members_shifts_all_scores_alike() -> None:
    """A split needs a sum of p (1 - p) of 1 on either side: below 2 no order can change."""
    before, after, weight = adapted_to(1.8)
    assert 1 < weight < 2
    assert np.std(after - before) < 1e-5
    assert np.mean(after - before) < -0.1


def test_boosting_on_very_certain_non_members_changes_nothing() -> None:
    """Below a sum of p (1 - p) of 1, XGBoost's least weight of a leaf, there is no leaf."""
    before, after, weight = adapted_to(0.95)
    assert 0.5 < weight < 1
    np.testing.assert_allclose(after, before, atol=1e-5)


def test_logits_are_known_up_to_a_constant_and_losses_are_exact() -> None:
    view = clients.draw_game(1).challenge.view
    asked = attack._query_client(view, 0, centred=True)
    sets = (view.relevant[0], view.external[0], view.records)
    said = np.concatenate([view.targets[0].predict(records.x) for records in sets])
    y = np.concatenate([records.y for records in sets])
    between = np.log(said[:, :1]) - np.log(said)
    logits = asked.answers.logits
    np.testing.assert_allclose(logits[:, :1] - logits, between, atol=1e-12)
    np.testing.assert_allclose(asked.loss, -np.log(said[np.arange(len(y)), y]), atol=1e-12)


def test_classifiers_see_logits_as_they_are_unless_these_are_centred() -> None:
    view = clients.draw_game(1).challenge.view
    sets = (view.relevant[0], view.external[0], view.records)
    told = np.concatenate([read_logits(view.targets[0], records.x) for records in sets])
    assert np.ptp(told.sum(axis=1)) > 1
    np.testing.assert_array_equal(attack._query_client(view, 0, centred=False).answers.logits, told)
    centred = attack._query_client(view, 0, centred=True).answers.logits
    np.testing.assert_allclose(centred, told - told.mean(axis=1, keepdims=True))


@pytest.fixture
def taught(monkeypatch: pytest.MonkeyPatch) -> list[set[bytes]]:
    """The records that each fit was taught by; the fit of number n scores every record n."""
    fits: list[set[bytes]] = []

    def fit(answers: LabelledLogits, suspect: np.ndarray, rng: np.random.Generator) -> Any:
        number = float(len(fits))
        fits.append({row.tobytes() for row in answers.logits})
        assert 0 < suspect.sum() < len(suspect)
        return lambda asked: np.full((len(asked.y), len(NAMES)), number)

    monkeypatch.setattr(attack, "fit_base_classifiers", fit)
    return fits


@pytest.mark.parametrize(("many", "folds"), [(1000, 5), (10, 3)])
def test_crossfitting_scores_every_record_by_classifiers_fitted_without_it(
    taught: list[set[bytes]], monkeypatch: pytest.MonkeyPatch, many: int, folds: int
) -> None:
    """One of them scores a known record; all score a candidate, on average."""
    monkeypatch.setattr(attack, "_MANY", many)
    asked = attack._query_client(clients.draw_game(1).challenge.view, 0, centred=False)
    features = attack._cross_fit_features(asked, rng())
    np.testing.assert_array_equal(features[:, 0], asked.loss)
    known = asked.suspect | asked.external
    for logits, scores, is_known in zip(asked.answers.logits, features[:, 1:], known, strict=True):
        without = [n for n, records in enumerate(taught) if logits.tobytes() not in records]
        assert len(without) == (1 if is_known else folds)
        np.testing.assert_allclose(scores, np.mean(without))


def test_crossfitting_at_every_depth_shows_a_fold_as_candidates_are_shown(
    taught: list[set[bytes]],
) -> None:
    """A meta-classifier's lessons come from fits without its fold and without the lesson's own."""
    asked = attack._query_client(clients.draw_game(1).challenge.view, 0, centred=False)
    known = asked.suspect | asked.external
    fold = attack._stratified_folds(known.astype(int), rng(), attack.FOLDS)
    tables = attack._cross_fit_features_twice(asked, fold, rng())
    keys = [logits.tobytes() for logits in asked.answers.logits]
    inside = [
        {key for key, f, k in zip(keys, fold, known, strict=True) if k and f == n}
        for n in range(attack.FOLDS)
    ]
    for part, table in enumerate(tables):
        np.testing.assert_array_equal(table[:, 0], asked.loss)
        without = [n for n, records in enumerate(taught) if records.isdisjoint(inside[part])]
        assert len(without) == attack.FOLDS - 1
        for key, scores, is_known, own in zip(keys, table[:, 1:], known, fold, strict=True):
            by = [n for n in without if key not in taught[n]]
            assert len(by) == (1 if is_known and own != part else attack.FOLDS - 1)
            np.testing.assert_allclose(scores, np.mean(by))


def test_the_published_protocol_sees_leaks_that_are_not_there() -> None:
    judged = [
        Stacking("published").on_colluder(clients.draw_game(seed, leak=0.0).challenge.view, rng())
        for seed in range(3)
    ]
    low = [membership.auc(each.score, each.member).low for each in judged]
    assert np.mean(low) == golden(0.55)


@pytest.mark.slow
def test_crossfitting_does_not() -> None:
    judged = Stacking().on_colluder(clients.draw_game(0, leak=0.0).challenge.view, rng())
    assert 0.5 in membership.auc(judged.score, judged.member)


def test_variance_lira_is_a_loss_threshold() -> None:
    view = clients.draw_game(2).challenge.view
    guess = baselines.VarianceLiRA()(view, rng())
    assert guess.score is not None
    loss = Threshold("loss")(ModelView(view.targets[0], view.records), rng()).score
    order = np.argsort(loss)
    assert (np.diff(guess.score[order, 0]) >= 0).all()


def test_nobody_is_the_constant_answer() -> None:
    made = clients.draw_game(3)
    guess = baselines.Nobody()(made.challenge.view, rng())
    best = metrics.best_constant(made.challenge.truth, made.challenge.view.collusion.records)
    assert metrics.accuracy(guess, made.challenge.truth) == best


def test_the_confidence_rule_by_hand() -> None:
    view = clients.draw_game(4).challenge.view
    guess = baselines.ConfidenceRule()(view, rng())
    said = [target.predict(view.records.x) for target in view.targets[:2]]
    norm = [t.predict(e.x) for t, e in zip(view.targets, view.external, strict=True)]
    for i in np.flatnonzero(~view.collusion.records):
        passing = {}
        for k in range(2):
            y, ey = view.records.y[i], view.external[k].y
            loss = -np.log(norm[k][np.arange(len(ey)), ey]).mean()
            if -np.log(said[k][i, y]) < loss and said[k][i].max() > norm[k].max(axis=1).mean():
                passing[k] = said[k][i].max()
        expected = max(passing, key=lambda k: passing[k]) if passing else NOBODY
        assert guess.client[i] == expected


def test_the_confidence_rule_asks_for_more_confidence_than_is_usual() -> None:
    """A model that is always sure is no surer of its own records: they are nobody's."""
    view = clients.draw_game(4).challenge.view
    answers = np.eye(int(view.records.y.max()) + 1)[[1]]

    class Sure:
        offers = view.targets[0].offers

        def predict(self, x: np.ndarray) -> np.ndarray:
            return np.repeat(answers, len(x), axis=0)

    sure = dataclasses.replace(view, targets=tuple(Sure() for _ in view.targets))
    guess = baselines.ConfidenceRule()(sure, rng())
    assert (guess.client[~view.collusion.records] == NOBODY).all()


def test_refuses_settings_without_meaning() -> None:
    with pytest.raises(SpecError, match="expected protocol of Stacking to be one of"):
        catalog.federation_attack("stacking", protocol="leaky")
    with pytest.raises(SpecError, match="expected percentile"):
        Stacking(percentile=101.0)
    with pytest.raises(SpecError, match="expected dominance"):
        Stacking(dominance=0.0)


def test_says_when_records_are_too_few() -> None:
    view = clients.draw_game(5).challenge.view
    few = (*view.external[:2], view.external[2].take(np.arange(9)))
    with pytest.raises(NotApplicable, match="60 and 9 of client 2"):
        Stacking()(dataclasses.replace(view, external=few), rng())


def test_nobody_scores_no_record_but_what_the_colluding_client_knows() -> None:
    view = clients.draw_game(1).challenge.view
    guess = baselines.Nobody()(view, rng())
    assert guess.score is not None
    own, colluder = view.collusion.records, view.collusion.colluder
    np.testing.assert_array_equal(guess.score[:, colluder], own)
    assert not np.delete(guess.score, colluder, axis=1).any()
    np.testing.assert_array_equal(guess.client, np.where(own, colluder, NOBODY))
