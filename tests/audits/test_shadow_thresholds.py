"""Thresholds that shadows choose: a slow twin, their rates, and where there are none."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

import divulge
from divulge.attacks import catalog
from divulge.attacks.shared import turns
from divulge.audits import config
from divulge.audits import shadow_thresholds as subject
from divulge.core import Membership, MembershipAttack, ModelView, Need, Records, Scores, Shadows
from divulge.errors import SpecError
from divulge.metrics import signals
from divulge.secrets import attempt

from .. import memorising
from ..kinds import load_model

RECORDS, MODELS, CLASSES = 400, 6, 3


def _world(
    seed: int, *, ways: int = 1, reference: int = 60
) -> tuple[ModelView, Membership, np.ndarray]:
    """Shadows and a target of one kind: φ is higher by 2 for members. Also the target's own φ."""
    rng = np.random.default_rng(seed)
    member = rng.random((RECORDS, MODELS + 1)) < 0.5
    easy = rng.normal(0, 1, (RECORDS, 1))
    phi = [easy + 2 * member + rng.normal(0, 1, member.shape) for _ in range(ways)]
    owned = rng.normal(0, 1, (reference, 1)) + rng.normal(0, 1, (reference, MODELS + 1))
    y, own_y = rng.integers(0, CLASSES, RECORDS), rng.integers(0, CLASSES, reference)
    said = np.concatenate([*(way[:, -1] for way in phi), owned[:, -1]])
    target = turns.replay(said, np.concatenate([*[y] * ways, own_y]))
    rows = np.arange(float(len(said)))[:, None]
    groups = np.split(rows, np.cumsum([RECORDS] * ways))
    records = [Records(group, y) for group in groups[:-1]]
    shadows = Shadows(
        phi[0][:, :-1], member[:, :-1], owned[:, :-1], tuple(way[:, :-1] for way in phi[1:])
    )
    held = Records(groups[-1], own_y) if reference else None
    view = ModelView(target, records[0], held, shadows, tuple(records[1:]))
    return view, Membership(member[:, -1]), phi[0][:, -1]


def _found(view: ModelView, truth: Membership, name: str) -> tuple[Any, ...]:
    attack = catalog.attack(name)
    guess = attack(view, np.random.default_rng(0))
    return subject.thresholds_from_shadows(view, attack, guess, truth, 0)


def _slow_threshold(score: np.ndarray, member: np.ndarray, fpr: float) -> float:
    """The lowest of all scores that accuses no more of the non-members, one after another."""
    best = np.inf
    for threshold in score:
        accused = sum(
            bool(s >= threshold) for s, inside in zip(score, member, strict=True) if not inside
        )
        if accused <= fpr * sum(~member) and threshold < best:
            best = float(threshold)
    return best


@pytest.mark.parametrize("fpr", [0.0, 0.01, 0.05, 0.2, 1.0])
def test_a_threshold_accuses_no_more_than_so_many(fpr: float) -> None:
    rng = np.random.default_rng(0)
    score = rng.integers(0, 40, 120) / 40  # with ties
    member = rng.random(120) < 0.5
    assert subject.threshold_at(score, member, fpr) == _slow_threshold(score, member, fpr)


def test_there_is_none_where_non_members_stand_on_top() -> None:
    assert subject.threshold_at(np.array([2.0, 1.0]), np.array([False, True]), 0.5) == np.inf


@pytest.mark.parametrize("ways", [1, 2])
def test_each_shadow_is_attacked_by_means_of_the_others(ways: int) -> None:
    """Slowly: one view a shadow, whose target answers that shadow's φ."""
    view, truth, _ = _world(1, ways=ways)
    shadows = view.shadows
    assert shadows is not None
    attack = catalog.attack("lira")
    thresholds = []
    for k in range(MODELS):
        rest = [j for j in range(MODELS) if j != k]
        own = [shadows.phi[:, k], *(way[:, k] for way in shadows.augmented_phi)]
        p = np.zeros((ways * RECORDS, CLASSES))
        for row, value in enumerate(np.concatenate(own)):
            label = view.records.y[row % RECORDS]
            p[row, label], p[row, (label + 1) % CLASSES] = expit(value), expit(-value)
        rows = np.arange(float(ways * RECORDS))[:, None]
        asked = [Records(part, view.records.y) for part in np.split(rows, ways)]
        one = ModelView(
            turns.ReplayedTarget(p, Need.PROBABILITIES),
            asked[0],
            None,
            Shadows(
                shadows.phi[:, rest],
                shadows.member[:, rest],
                np.empty((0, MODELS - 1)),
                tuple(way[:, rest] for way in shadows.augmented_phi),
            ),
            tuple(asked[1:]),
        )
        score = attack(one, np.random.default_rng(0)).score
        thresholds.append(_slow_threshold(score, shadows.member[:, k], 0.01))
    first, *_ = _found(view, truth, "lira")
    assert first.intended_fpr == 0.01
    assert first.shadows == MODELS
    assert first.threshold == pytest.approx(np.median(thresholds), rel=1e-9)
    score = attack(view, np.random.default_rng(0)).score
    accused = score >= first.threshold
    assert first.tpr.value == accused[truth.member].mean()
    assert first.fpr.value == accused[~truth.member].mean()
    hits, trials = int(accused[truth.member].sum()), int(truth.member.sum())
    exact = stats.binomtest(hits, trials).proportion_ci(method="exact")
    assert (first.tpr.low, first.tpr.high) == pytest.approx((exact.low, exact.high))


@pytest.mark.parametrize("name", ["lira", "rmia"])
def test_the_realised_rate_is_near_the_intended_one_where_target_and_shadows_are_alike(
    name: str,
) -> None:
    """6 worlds: some 1,200 non-members in all, of whom 12 are to be accused, and 1 to 30 are but
    once in 10,000 times; thresholds err by less.
    """
    rates = []
    for seed in range(6):
        view, truth, _ = _world(seed)
        (found,) = _found(view, truth, name)  # no rate of .1 % with some 200 non-members
        rates.append(found.fpr.value)
        assert found.tpr.value > found.fpr.value
    assert 1 / 1200 <= np.mean(rates) <= 30 / 1200


def test_answers_have_the_phi_that_was_kept() -> None:
    rng = np.random.default_rng(2)
    phi = np.concatenate([rng.normal(0, 10, 100), [-80.0, 80.0]])
    y = rng.integers(0, CLASSES, 102)
    replayed = turns.replay(phi, y)
    p = replayed.predict(np.arange(102.0)[:, None])
    np.testing.assert_allclose(p.sum(axis=1), 1)
    found = signals.compute_signal("scaled_logit", p, y)
    np.testing.assert_allclose(found, phi, rtol=1e-12, atol=2**-39)  # of shares of 40 bits
    values = rng.normal(size=102)
    said = turns.replay(phi, values).predict(np.arange(102.0)[:, None])
    np.testing.assert_allclose(values - said[:, 0], phi)


def test_regression_is_calibrated_likewise() -> None:
    rng = np.random.default_rng(3)
    member = rng.random((RECORDS, MODELS + 1)) < 0.5
    residual = rng.normal(0, np.where(member, 0.3, 1.0))
    y = rng.normal(size=RECORDS)
    records = Records(np.arange(float(RECORDS))[:, None], y)
    shadows = Shadows(residual[:, :-1], member[:, :-1], np.empty((0, MODELS)))
    view = ModelView(turns.replay(residual[:, -1], y), records, None, shadows)
    (found,) = _found(view, Membership(member[:, -1]), "residual-lira")
    assert 0.01 in found.fpr
    assert found.shadows == MODELS


def test_of_many_records_some_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "CHOSEN_ON", 250)
    view, truth, _ = _world(4)
    seen = []
    attack = catalog.attack("calibrated")

    def spy(one: Any, seed: int, guess: Any, measure: Any) -> Any:
        seen.append(len(guess.args[0].records))
        return attempt.AttackResult(attempt._start_finding(one), guess(np.random.default_rng(0)))

    monkeypatch.setattr(attempt, "attempt", spy)
    guess = attack(view, np.random.default_rng(0))
    (found,) = subject.thresholds_from_shadows(view, attack, guess, truth, 0)
    assert seen == [250] * MODELS
    assert found.fpr.value == (guess.score >= found.threshold)[~truth.member].mean()


def test_one_in_a_thousand_is_chosen_too_where_there_are_a_thousand_non_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "RECORDS", 2400)
    view, truth, _ = _world(6)
    found = _found(view, truth, "calibrated")
    assert [one.intended_fpr for one in found] == [0.01, 0.001]
    assert found[0].threshold < found[1].threshold


@pytest.mark.parametrize("case", ["other attack", "offline", "none", "too few left"])
def test_where_there_are_none(case: str) -> None:
    view, truth, _ = _world(5)
    shadows = view.shadows
    assert shadows is not None
    attack: MembershipAttack = catalog.attack("lira")
    if case == "other attack":
        attack = catalog.attack("threshold")
    elif case == "offline":
        offline = Shadows(shadows.phi, np.zeros_like(shadows.member), shadows.reference_phi)
        view = ModelView(view.target, view.records, view.reference, offline)
    elif case == "none":
        view = ModelView(view.target, view.records, view.reference)
    else:
        attack = catalog.attack("shadow-stack")
        few = Shadows(shadows.phi[:, :1], shadows.member[:, :1], shadows.reference_phi[:, :1])
        view = ModelView(view.target, view.records, view.reference, few)
    guess = Scores(np.zeros(RECORDS))
    assert subject.thresholds_from_shadows(view, attack, guess, truth, 0) == ()


MEMBERS, OTHERS, OWN = (memorising.draw(130, seed) for seed in range(3))


def test_an_audit_that_was_asked_to_reports_them(tmp_path: Path) -> None:
    found = divulge.audit(
        memorising.train(MEMBERS.x, MEMBERS.y, 0),
        members=MEMBERS,
        nonmembers=OTHERS,
        shadows=divulge.ShadowModels(4, memorising.train, thresholds=True),
        attacks=[divulge.attack("lira"), divulge.attack("threshold")],
        run=tmp_path / "run",
    )
    lira, threshold = found.findings
    (one,) = lira.shadow_thresholds
    assert (one.intended_fpr, one.shadows) == (0.01, 4)
    assert threshold.shadow_thresholds == ()
    assert found.summary.attacks[0].shadow_thresholds == (one,)
    assert load_model(tmp_path / "run").findings == found.findings
    assert load_model(tmp_path / "run").measure().findings[0].shadow_thresholds == (one,)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Thresholds from shadows alone" in page


def test_they_need_shadows_on_candidates() -> None:
    shadows = divulge.ShadowModels(2, memorising.train, pool=OWN, thresholds=True)
    arguments: dict[str, Any] = {"members": MEMBERS, "nonmembers": OTHERS}
    model = memorising.train(MEMBERS.x, MEMBERS.y, 0)
    with pytest.raises(SpecError, match="no pool of records beside thresholds"):
        divulge.audit(model, shadows=shadows, **arguments)
    with pytest.raises(SpecError, match="shadows beside thresholds"):
        divulge.audit(model, shadows=divulge.ShadowModels(0, thresholds=True), **arguments)


def test_toml_says_the_same() -> None:
    table: dict[str, Any] = {
        "target": {"model": "subject.py:model"},
        "data": {"members": "m.npz", "nonmembers": "n.npz"},
        "shadows": {"train": "subject.py:train", "thresholds": True},
    }
    spec = config.parse_config(table, "audit.toml")
    assert isinstance(spec, config.ModelAuditSpec)
    assert spec.shadows is not None
    assert spec.shadows.thresholds
