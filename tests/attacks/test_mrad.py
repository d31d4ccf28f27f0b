from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from scipy import stats

from divulge.attacks import catalog
from divulge.attacks.membership.gradient_norm import GradientNorm
from divulge.attacks.membership.mrad import attack as attack_module
from divulge.attacks.membership.mrad import detectors
from divulge.attacks.membership.mrad.attack import MRAD
from divulge.attacks.membership.mrad.reconstruction import Descent
from divulge.attacks.membership.threshold import Threshold
from divulge.core import LastLayer, Need, Status
from divulge.data.known_features import KnownFeatures
from divulge.errors import BudgetSpent, NotApplicable, SpecError
from divulge.metrics import membership
from divulge.secrets import attempt, wrapped
from divulge.secrets.controls import fewest_covered
from divulge.targets.budget import CountingTarget
from divulge.targets.function import FunctionTarget
from divulge.testing import networks as world

torch: Any = pytest.importorskip("torch")

HALF = KnownFeatures(share=0.5)
DETECTORS = get_args(detectors.Detector)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def logistic(x: np.ndarray) -> np.ndarray:
    """Two classes, by the sum of the features."""
    p = 1 / (1 + np.exp(-x.sum(axis=1)))
    return np.stack([1 - p, p], axis=1)


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam"])
def test_a_batch_descends_as_torch_does_one_record_at_a_time(optimiser: str) -> None:
    view = world.challenge(HALF).view
    assert view.known is not None
    some, known = view.records.take(np.arange(5)), view.known[:5]
    target: Any = world.trained(0)
    found = Descent(0.3, 4, optimiser)(target, some.x, some.y, known, rng())  # type: ignore[arg-type]
    for row, x, y, mask in zip(found, some.x, some.y, known, strict=True):
        point = torch.tensor(x[None], dtype=torch.float64, requires_grad=True)
        made = torch.optim.Adam if optimiser == "adam" else torch.optim.SGD
        extra = {"momentum": 0.9} if optimiser == "momentum" else {}
        steps = made([point], 0.3, **extra)
        for _ in range(4):
            steps.zero_grad()
            loss = torch.nn.functional.cross_entropy(target.module(point), torch.tensor(y[None]))
            loss.backward()
            point.grad[torch.tensor(mask[None])] = 0
            steps.step()
        np.testing.assert_allclose(row, point.detach().numpy()[0], atol=1e-9)
        np.testing.assert_array_equal(row[mask], x[mask].astype(np.float64))


def test_limits_bind_what_is_not_known_alone() -> None:
    target = FunctionTarget(logistic)
    x, known = np.full((1, 2), 5.0), np.array([[True, False]])
    descent = Descent(1e6, 1, limits=(-1.0, 1.0), access="answers")
    found = descent(target, x, np.array([0]), known, rng())
    assert found.tolist() == [[5.0, -1.0]]


@pytest.mark.parametrize("two_sided", [False, True])
def test_estimated_gradients_come_near_the_true_ones(two_sided: bool) -> None:
    """The loss of class 1 has the gradient -(1 - p) in every feature."""
    target = CountingTarget(FunctionTarget(logistic))
    x, known = rng().normal(size=(3, 4)), np.zeros((3, 4), bool)
    descent = Descent(
        1.0, 1, access="answers", directions=20_000, epsilon=1e-3, two_sided=two_sided
    )
    found = x - descent(target, x, np.ones(3, np.int64), known, rng())
    wanted = np.repeat(logistic(x)[:, :1] - 0.0, 4, axis=1) * -1.0
    # each estimate is a mean of 20,000 products with standard deviation up to √5 |gradient|
    error = 5 * np.sqrt(5 / 20_000) * np.abs(wanted)
    assert (np.abs(found - wanted) < error + 1e-3).all()
    assert target.query_count == descent.count_queries(3) == 3 * (40_000 if two_sided else 20_001)


def test_steps_of_a_millionth_lose_no_digits_in_double_precision() -> None:
    x, known = rng().normal(size=(3, 4)), np.zeros((3, 4), bool)
    found = [
        Descent(1.0, 1, access="answers", directions=4, epsilon=epsilon)(
            FunctionTarget(logistic), x, np.ones(3, np.int64), known, rng()
        )
        for epsilon in (1e-6, 1e-4)
    ]
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)


def test_what_is_estimated_of_a_record_does_not_depend_on_the_others() -> None:
    target, x = FunctionTarget(logistic), rng().normal(size=(7, 4))
    known, y = rng().random((7, 4)) < 0.5, np.ones(7, np.int64)
    descent = Descent(1.0, 1, access="answers", directions=9)
    together = descent(target, x, y, known, rng())
    for k in (6, 2):
        alone = descent(target, x[[k]], y[[k]], known[[k]], rng())[0]
        np.testing.assert_allclose(alone, together[k], rtol=1e-12)


def test_a_budget_is_never_exceeded() -> None:
    challenge = world.challenge(HALF)
    attack = MRAD(access="answers", directions=10, budget=100)
    with pytest.raises(BudgetSpent, match="100 questions"):
        attack(challenge.view, rng())


def test_cade_is_the_deviation_in_units_of_the_median_absolute_one() -> None:
    own = np.array([[0.0], [1.0], [2.0], [5.0]])
    y = np.zeros(4, np.int64)
    # centre 2, distances 2 1 0 3, median 1.5, median of |d - 1.5| = (.5 .5 1.5 1.5) -> 1
    found = detectors.cade(np.array([[4.0]]), np.array([0]), own, y)
    np.testing.assert_allclose(found, abs(2 - 1.5) / 1.4826)


def test_msad_is_smallest_at_an_own_record_and_knows_no_length() -> None:
    own, y = rng().normal(size=(30, 5)), np.zeros(30, np.int64)
    one = np.array([0])
    here = detectors.msad(own[:1], one, own, y)
    np.testing.assert_allclose(here, detectors.msad(3 * own[:1], one, own, y))
    assert here < detectors.msad(-own[:1], one, own, y)


def test_own_records_of_the_class_are_compared_with_or_all_where_there_are_none() -> None:
    labels = np.array([0, 1, 1, 2])
    assert detectors._class_mask(labels, 1).tolist() == [False, True, True, False]
    assert detectors._class_mask(labels, 3).tolist() == [True] * 4


def test_nci_is_low_along_the_weights_of_the_class_that_is_said() -> None:
    weights = np.array([[1.0, 0.0], [0.0, 1.0]])
    own = LastLayer(np.array([[1.0, -1.0], [-1.0, 1.0]]), weights)  # centred already
    along, across = (LastLayer(np.array([z]), weights) for z in ([2.0, 0.0], [2.0, 1.9]))
    np.testing.assert_allclose(detectors.nci(along, own, 0.0), [-1.0])
    assert detectors.nci(across, own, 0.0) > -1.0
    np.testing.assert_allclose(detectors.nci(along, own, 0.5), [-2.0])


def test_one_large_step_measures_the_gradient() -> None:
    """Its order is that of the gradient's norm at the filled point, up to the detector's centre."""
    view = world.challenge(KnownFeatures(share=0.5, fill="zero")).view
    norm, rebuilt = GradientNorm()(view, rng()).score, MRAD(step=1e7)(view, rng()).score
    own = view.own
    assert own is not None
    for label in range(3):  # each class has a centre and a dispersion of its own
        mine = view.records.y == label
        order = np.argsort(norm[mine])
        far = np.linalg.norm(own.x, axis=1).max() / 1e7
        clear = np.exp(-norm[mine][order]) > 1e3 * far
        assert clear.sum() > 10
        assert (np.diff(rebuilt[mine][order][clear]) >= 0).mean() > 0.97


def test_the_gradient_norm_is_that_of_unknown_features_alone() -> None:
    view = world.challenge(HALF).view
    assert view.known is not None
    target: Any = world.trained(0)
    point = torch.tensor(view.records.x, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor(view.records.y)
    torch.nn.functional.cross_entropy(target.module(point), labels, reduction="sum").backward()
    slow = [np.linalg.norm(g[~k]) for g, k in zip(point.grad.numpy(), view.known, strict=True)]
    np.testing.assert_allclose(GradientNorm()(view, rng()).score, -np.log(slow), rtol=1e-9)
    whole = replace(view, known=None)
    assert (GradientNorm()(whole, rng()).score < GradientNorm()(view, rng()).score).all()


def test_a_few_questions_do_as_well_as_the_gradient() -> None:
    """By 21 questions a candidate; none of its random directions is the gradient's own.

    So the scores have nearly the same order, whatever they reach.
    """
    challenge = world.challenge(HALF)
    black = MRAD(access="answers", directions=20)
    one, other = (attack(challenge.view, rng()).score for attack in (MRAD(), black))
    assert stats.spearmanr(one, other).statistic == pytest.approx(0.979, abs=0.01)
    queries = attempt.run_on_model(challenge, black).finding.queries
    assert queries == 21 * len(challenge.view.records)


NULLS = (
    MRAD(),
    MRAD(detector="msad"),
    MRAD(detector="nci"),
    MRAD(space="features", start="filled", step=0.1, iterations=5, optimiser="adam"),
    GradientNorm(),
    Threshold(),
)


@pytest.mark.parametrize("attack", NULLS, ids=wrapped.attack_label)
def test_candidates_none_of_which_was_learned_give_chance(attack: Any) -> None:
    runs = 12
    covered = 0
    for seed in range(runs):
        challenge = world.challenge(HALF, seed, learned=False)
        score = attack(challenge.view, rng(seed)).score
        covered += 0.5 in membership.auc(score, challenge.truth.member)
    assert covered >= fewest_covered(runs)


@pytest.mark.parametrize("detector", DETECTORS)
def test_with_a_shadow_it_compares(detector: str) -> None:
    challenge = world.challenge(HALF)
    view = world.with_shadow(challenge.view, HALF)
    attack = catalog.attack("mrad", detector=detector)
    plain = attempt.run_on_model(challenge, attack).finding
    found = attempt.run_on_model(replace(challenge, view=view), attack).finding
    assert found.status is Status.DONE, found.reason
    assert found.metrics["auc"] != plain.metrics["auc"]
    # a model compared with itself has nothing to add
    assert view.shadow is not None
    same = replace(view, shadow=replace(view.shadow, target=view.target))
    np.testing.assert_allclose(attack(same, rng()).score, 0.0, atol=1e-9)


def test_the_shadow_s_own_members_say_which_way_deviations_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = world.with_shadow(world.challenge(HALF).view, HALF)
    assert view.shadow is not None
    inverted = replace(view, shadow=replace(view.shadow, member=~view.shadow.member))
    attack = MRAD(detector="msad")
    deviation, masks = MRAD._deviation, []

    def keep_mask(self: MRAD, *about: Any) -> Any:
        masks.append(about[2])
        return deviation(self, *about)

    monkeypatch.setattr(MRAD, "_deviation", keep_mask)
    score = attack(view, rng()).score
    assert np.ptp(score) > 0
    assert masks[2] is view.shadow.known
    np.testing.assert_array_equal(attack(inverted, rng()).score, -score)
    attack(replace(view, shadow=replace(view.shadow, known=None)), rng())
    assert masks[8].all()


def test_with_nothing_hidden_it_says_nothing_of_the_model() -> None:
    """No feature may move: the score is that of the record itself, whatever the model."""
    challenge = world.challenge(KnownFeatures(share=1.0))
    other = replace(challenge.view, target=world.trained(500))
    for attack in (MRAD(), MRAD(iterations=0), MRAD(detector="msad")):
        np.testing.assert_array_equal(
            attack(challenge.view, rng()).score, attack(other, rng()).score
        )


def test_it_says_when_it_cannot_run() -> None:
    challenge = world.challenge(HALF)
    whole = replace(challenge, view=replace(challenge.view, known=None))
    assert "partial" in attempt.run_on_model(whole, MRAD()).finding.reason
    shut = replace(challenge.view, target=FunctionTarget(lambda x: np.full((len(x), 3), 1 / 3)))
    found = attempt.run_on_model(replace(challenge, view=shut), MRAD()).finding
    assert (found.status, "autograd" in found.reason) == (Status.NOT_APPLICABLE, True)
    assert Need.AUTOGRAD not in MRAD(access="answers").needs
    with pytest.raises(NotApplicable, match="looked into"):
        CountingTarget(shut.target).gradient(shut.records.x, shut.records.y)


@pytest.mark.parametrize("detector", DETECTORS)
def test_the_shadow_chooses_where_the_descent_starts(detector: detectors.Detector) -> None:
    known = KnownFeatures(share=0.3, fill="neighbours")
    bare = world.challenge(known).view
    view = world.with_shadow(bare, known)
    zeros, filled, chosen = (
        MRAD(detector, start=start)(view, rng()).score for start in get_args(attack_module.Start)
    )
    shadow, own = view.shadow, view.own
    assert shadow is not None
    assert own is not None
    aucs = []
    for start in ("zeros", "filled"):
        deviation = MRAD(detector)._shadow_deviation(shadow, own, start, rng())
        auc = membership.auc(-deviation, shadow.member).value
        aucs.append(auc if detector == "cade" else max(auc, 1 - auc))
    assert aucs[0] != aucs[1]
    np.testing.assert_array_equal(chosen, zeros if aucs[0] > aucs[1] else filled)
    alone = MRAD(detector, start="chosen")(bare, rng()).score
    np.testing.assert_array_equal(alone, MRAD(detector, start="filled")(bare, rng()).score)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"step": 0.0}, "step"),
        ({"iterations": -1}, "iterations"),
        ({"limits": (1.0, 0.0)}, "swap"),
        ({"budget": 0}, "budget"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        MRAD(**settings)


def test_one_direction_is_enough_to_estimate_a_gradient() -> None:
    assert Descent(1.0, 1, access="answers", directions=1).directions == 1
