"""Further shadow models, given who of the candidates is a member, and the attack that asks."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divulge
from divulge.attacks import catalog
from divulge.attacks.membership import cascade
from divulge.attacks.membership.cascade import Cascade, lowest_precise
from divulge.core import ControlOutcome, ModelView, Shadows, Status
from divulge.errors import SpecError
from divulge.metrics import membership, signals
from divulge.testing.membership import Models
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.train import ConditionalShadowTrainer, train_shadows
from divulge.training.trainers import as_trainer
from tests.golden import golden

from .. import memorising

SIZE = 400
CANDIDATES, REFERENCE = memorising.draw(SIZE, 0), memorising.draw(SIZE, 1)


def view_of(member: np.ndarray, plan: ShadowPlan, run: Path | None = None) -> ModelView:
    """A model that remembers these candidates, as `divulge.audit` would show it."""
    kept = CANDIDATES.take(member)
    target = memorising.train(kept.x, kept.y, 99)
    view = ModelView(target, CANDIDATES, REFERENCE)
    view = replace(view, shadows=train_shadows(view, plan, run=run))
    return replace(view, conditional=ConditionalShadowTrainer(view, plan, run=run))


def halves(seed: int) -> np.ndarray:
    return np.random.default_rng([seed, 7]).permutation(SIZE) < SIZE // 2


def plan(cascade: int = 3, train: Any = memorising.train, models: int = 6) -> ShadowPlan:
    return ShadowPlan(as_trainer(train), models, cascade=cascade)


def test_further_shadows_agree_on_what_is_known_and_differ_on_the_rest() -> None:
    view = view_of(halves(0), plan(5))
    inside, outside = np.arange(SIZE) < 100, np.arange(SIZE) >= 350
    assert view.conditional is not None
    shadows = view.conditional(inside, outside)
    assert shadows.member[inside].all()
    assert not shadows.member[outside].any()
    rest = shadows.member[~inside & ~outside]
    assert 0.4 < rest.mean() < 0.6
    assert len(np.unique(rest, axis=1).T) == 5
    for k, known in enumerate(shadows.member.T):  # by hand; a trainer's seed changes little
        kept = CANDIDATES.take(known)
        answers = memorising.train(kept.x, kept.y, k).predict(CANDIDATES.x)
        phi = signals.compute_signal("scaled_logit", answers, CANDIDATES.y)
        assert np.corrcoef(phi, shadows.phi[:, k])[0, 1] > 0.99


@pytest.mark.parametrize("first", [True, False])
def test_of_several_ways_to_compare_the_one_that_tells_most_is_kept(*, first: bool) -> None:
    (view,) = Models().leaky().views
    few = np.arange(60)
    right = replace(view.shadows, augmented_phi=())
    wrong = replace(right, member=np.roll(right.member, 1, axis=0))  # of other records
    ways = [right, wrong] if first else [wrong, right]
    found = cascade._rehearse(view, ways, few, np.random.default_rng(0))
    assert found.shadows is right


def test_a_run_folder_keeps_further_shadows(tmp_path: Path) -> None:
    trained = []

    def train(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
        trained.append(len(x))
        return memorising.train(x, y, seed)

    inside, outside = np.arange(SIZE) < 100, np.arange(SIZE) >= 350
    first = view_of(halves(0), plan(2, train), tmp_path).conditional
    assert first is not None
    before = len(trained)
    said = first(inside, outside)
    assert len(trained) == before + 2
    again = view_of(halves(0), plan(2, train), tmp_path).conditional
    assert again is not None
    assert np.array_equal(again(inside, outside).phi, said.phi)
    assert len(trained) == before + 2
    again(inside, ~inside & outside[::-1])  # other candidates are known: other models
    assert len(trained) == before + 4


@pytest.mark.slow
def test_further_shadows_find_more_than_the_first_ones_alone() -> None:
    """Where a record's neighbours decide an answer, whoever knows them knows more."""
    for seed in range(3):
        member = halves(seed)
        view = view_of(member, plan(8, models=8))
        found, first = (
            membership.auc(attack(view, np.random.default_rng(0)).score, member).value
            for attack in (Cascade(), catalog.attack("shadow-stack"))
        )
        assert found > first


def test_without_a_sure_candidate_nothing_is_trained_and_the_score_is_shadow_stacks() -> None:
    rng = np.random.default_rng(0)
    shadows = Shadows(rng.normal(size=(SIZE, 6)), rng.random((SIZE, 6)) < 0.5,
                      rng.normal(size=(SIZE, 6)))  # fmt: skip

    class Refuses:
        def __call__(self, inside: np.ndarray, outside: np.ndarray) -> Shadows:
            raise AssertionError((inside, outside))

        def fewer(self) -> "Refuses":
            return self

    target = memorising.train(REFERENCE.x, REFERENCE.y, 0)
    view = ModelView(target, CANDIDATES, REFERENCE, shadows, conditional=Refuses())
    # at the highest precision a single record of a shadow at the wrong end is enough
    found = Cascade(precision=1 - 1e-9)(view, np.random.default_rng(0)).score
    stack = catalog.attack("shadow-stack")(view, np.random.default_rng(0)).score
    assert np.array_equal(np.argsort(np.argsort(found)), np.argsort(np.argsort(stack)))


def test_an_audit_trains_a_few_more_for_each_control() -> None:
    trained = []

    def train(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
        trained.append(len(x))
        return memorising.train(x, y, seed)

    inside, outside = (memorising.draw(SIZE // 2, seed) for seed in (0, 5))
    audit = divulge.audit(
        memorising.train(inside.x, inside.y, 99),
        members=inside,
        nonmembers=outside,
        reference=REFERENCE,
        shadows=divulge.ShadowModels(6, train, cascade=5),
        attacks=[Cascade()],
    )
    (finding,) = audit.findings
    control = audit.contents.entries[0].control
    assert finding.status is Status.DONE
    assert finding.metrics["auc"].value == golden(0.9267)
    assert control is not None
    assert control.blind is not None
    assert control.blind.outcome is not ControlOutcome.FAILED
    assert control.planted is not None
    assert control.planted.value == golden(0.9942)
    further = len(trained) - 6
    assert 5 <= further <= 2 * 5 + 4 * 4


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"cascade": 1}, "expected cascade from 2"),
        ({"cascade": 2, "pool": REFERENCE}, "expected no pool of records beside cascade"),
        ({"cascade": 2, "models": 0}, "expected shadows beside cascade"),
    ],
)
def test_settings_that_do_not_go_together(wrong: dict[str, Any], said: str) -> None:
    settings: dict[str, Any] = {"models": 4, "train": memorising.train} | wrong
    with pytest.raises(SpecError, match=said):
        divulge.audit(
            memorising.train(CANDIDATES.x, CANDIDATES.y, 0),
            members=CANDIDATES,
            nonmembers=memorising.draw(50, 3),
            shadows=divulge.ShadowModels(**settings),
        )


def slow_lowest(score: np.ndarray, member: np.ndarray, precision: float) -> float:
    fits = [float(one) for one in score if member[score >= one].mean() >= precision]
    return min(fits, default=np.inf)


@pytest.mark.parametrize("seed", range(20))
def test_the_lowest_threshold_is_that_of_a_slow_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    score, member = rng.integers(0, 12, 30) / 4, rng.random(30) < 0.6
    for precision in (0.55, 0.7, 0.95):
        assert lowest_precise(score, member, precision) == slow_lowest(score, member, precision)
