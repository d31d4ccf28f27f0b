"""Attacks that compare the model with shadow models: the same information, the same figures.

Which record trains which shadow is drawn by position. So three relations cannot hold to the last
digit: other shadows come of another order of the records that shadows are trained on, of the
exchange of members and non-members among them, and of another seed. All three hold here where
each record draws by its own numbers, wherever it stands: nothing but the draw may depend on order.
"""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from jaxtyping import Bool
from sklearn.linear_model import LogisticRegression

import divulge
from divulge.attacks import catalog
from divulge.core import Records
from divulge.testing.relations import subjects, ways
from divulge.testing.relations.figures import changed, differences
from divulge.testing.relations.subjects import Change, Subject
from divulge.training.shadows.plan import ShadowPlan
from tests.targets import tiny_models as tiny

MODELS = 6
ATTACKS = ("lira", "rmia", "calibrated", "shadow", "base", "pmia", "shadow-gap")
TRAINED = {
    "shadow-stack": "trains networks from weights that are drawn by the place of a feature",
    "cascade": "trains further shadows on what it is sure of, drawn by position",
    "residual-lira": "of regression models",
    "residual-rmia": "of regression models",
}
"""Attacks with shadows that are not held to the relations, and why."""

Source = Literal["candidates", "pool"]
SOURCES: tuple[Source, ...] = ("candidates", "pool")


def test_every_attack_with_shadows_is_held_to_the_relations_or_says_why() -> None:
    # token-lira reads what a table says of its shadows: tests/attacks/test_token_signals.py
    assert {*ATTACKS, *TRAINED, *catalog.TOKEN_SHADOW_ATTACKS} == {*catalog.ATTACKS_WITH_SHADOWS}


def train(x: Any, y: np.ndarray, seed: int) -> LogisticRegression:
    """One shadow, to the last digits of double precision, in whatever type its records come."""
    del seed
    how = LogisticRegression(C=10, solver="newton-cholesky", tol=1e-10)
    return how.fit(np.asarray(x, np.float64), y)


def draw_by_content(
    plan: ShadowPlan, pool: Records, seed: int
) -> Bool[np.ndarray, "models records"]:
    """Halves of the pool in which each record has the coins of its own numbers."""
    coins = [
        np.random.default_rng([seed, *np.sort(row).astype(np.float64).view(np.uint32)])
        for row in pool.x
    ]
    return np.stack([one.random(plan.models) < 0.5 for one in coins], axis=1)


def audit(subject: Subject, source: Source, change: Change = lambda one: one) -> divulge.Audit:
    """The subject against shadows; what the attacker owns besides is changed as this says."""
    pool, reference = (change(subjects.memorised(seed)).records(inside=False) for seed in (5, 6))
    return divulge.audit(
        tiny.estimator(subject.weight, subject.bias),
        members=subject.records(inside=True),
        nonmembers=subject.records(inside=False),
        reference=reference,
        attacks=[divulge.attack(name) for name in ATTACKS],
        access=divulge.Access(batch_size=subject.batch_size),
        shadows=divulge.ShadowModels(MODELS, train, pool if source == "pool" else None),
        options=divulge.Options(membership="fixed", class_names=subject.names),
    )


@pytest.fixture
def drawn_by_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShadowPlan, "subsets", draw_by_content)


def change_all_but_records(subject: Subject) -> Subject:
    for name, change in subjects.SAME.items():
        subject = subject if name == "records" else change(subject)
    return subject


@pytest.mark.slow
def test_other_forms_of_the_same_records_change_nothing() -> None:
    """As users have it: shadows of the candidates, whose halves are drawn by position."""
    one = audit(subjects.memorised(), "candidates")
    assert one.verdict.level == "leak"
    assert len(one.findings) == len(ATTACKS)
    assert all(finding.status is divulge.Status.DONE for finding in one.findings)
    other = change_all_but_records(subjects.memorised())
    assert not differences(one, audit(other, "candidates", change_all_but_records))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.usefixtures("drawn_by_content")
def test_order_plays_no_part_but_in_the_draw_and_exchanged_sets_pass_no_gate(
    source: Source,
) -> None:
    one = audit(subjects.memorised(), source)
    other = subjects.change_all(subjects.memorised())
    assert not differences(one, audit(other, source, subjects.change_all))
    turned = audit(subjects.exchange(subjects.memorised()), source)
    ways.require_turned_figures(one, turned)
    assert not turned.gate(fail_on=["leak"]).passes
    assert not turned.gate(fail_above={"auc": 0.99}).passes


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("change", subjects.SAME)
@pytest.mark.parametrize("subject", [subjects.memorised, subjects.honest])
@pytest.mark.usefixtures("drawn_by_content")
def test_each_change_alone_changes_nothing(
    source: Source, change: str, subject: Callable[[int], Subject]
) -> None:
    how = subjects.SAME[change]
    assert not changed(audit(subject(1), source), audit(how(subject(1)), source, how))
