"""Whether the target is like its shadow models."""

import numpy as np
import pytest
from scipy import special

from divulge.checks import shadow_models
from divulge.checks.shadow_models import check_shadow_models
from divulge.core import Check, ModelView, Need, PoolPredictions, Records, Shadows, Verdict
from divulge.core.check_names import ALL, OTHERS
from divulge.report.shifts import shadows_explain
from divulge.targets.recorded import TableTarget

RECORDS, MODELS = 200, 8
ACCESS = Need.PROBABILITIES | Need.HARD_LABELS


def check(
    rng: np.random.Generator,
    *,
    lift: float = 0.0,
    drift: float = 0.0,
    offline: bool = False,
    models: int = MODELS,
) -> tuple[Check, np.ndarray, np.ndarray, np.ndarray]:
    """A target of the shadows' kind: a model's own level, records' own, and φ higher by 1 inside.

    The target's φ of members is higher by ``lift`` on top of that. Where it never learned from any
    candidate, but from others of the members' kind, ``drift`` is what it is surer of members and
    less sure of others than shadows that learned from both kinds.
    """
    member = rng.random((RECORDS, models + 1)) < 0.5
    level, own = rng.normal(0, 0.1, models + 1), rng.normal(0, 1, (RECORDS, 1))
    phi = own + level + member + rng.normal(0, 0.5, member.shape)
    target = phi[:, -1] + lift * member[:, -1]
    if drift:
        target += drift * (2 * member[:, -1] - 1) - member[:, -1]
    y = rng.integers(2, size=RECORDS)
    right = special.expit(target)
    answers = np.where(np.arange(2) == y[:, None], right[:, None], 1 - right[:, None])
    nowhere = np.zeros((RECORDS, models), bool)
    none = np.zeros((0, models))
    if offline:
        pool = PoolPredictions(y, phi[:, :-1], member[:, :-1])
        shadows = Shadows(phi[:, :-1] - member[:, :-1], nowhere, none, pool=pool)
    else:
        shadows = Shadows(phi[:, :-1], member[:, :-1], none)
    rows = np.arange(RECORDS)[:, None]
    view = ModelView(TableTarget(answers, ACCESS), Records(rows, y), shadows=shadows)
    return check_shadow_models(view, member[:, -1]), phi, member, right


def explains(rng: np.random.Generator, **world: float) -> bool:
    return shadows_explain((check(rng, **world)[0],), "online")  # type: ignore[arg-type]


def test_a_shift_that_shadows_learned_explains_what_they_find() -> None:
    """All candidates are surer in 5 % of audits by chance: more than 7 of 40 in 1 of 1,000 runs."""
    rng = np.random.default_rng(6)
    assert sum(explains(rng, drift=0.5) for _ in range(40)) >= 33


def test_a_leak_is_hardly_ever_explained() -> None:
    """The model is less sure of others by a standard error in 16 % of audits, and surer of all in
    nearly all of these."""
    rng = np.random.default_rng(7)
    assert sum(explains(rng) for _ in range(40)) <= 3


def test_offline_shadows_explain_nothing() -> None:
    found, *_ = check(np.random.default_rng(8), drift=0.5, offline=True)
    assert not shadows_explain((found,), "offline")


def test_surprises_are_those_of_a_loop_over_records() -> None:
    found, phi, member, right = check(np.random.default_rng(9))
    each = [
        right[i] - special.expit(phi[i, :-1][~member[i, :-1]]).mean()
        for i in range(RECORDS)
        if not member[i, :-1].all()
    ]
    assert found.estimates[ALL].value == pytest.approx(np.mean(each))
    assert found.estimates[OTHERS].low < found.estimates[OTHERS].value


@pytest.mark.parametrize("offline", [False, True])
def test_means_are_those_of_a_loop_over_models(offline: bool) -> None:
    found, phi, member, right = check(np.random.default_rng(1), offline=offline)
    for group, inside in (("members", True), ("non-members", False)):
        own = right[member[:, -1] == inside].mean()
        assert found.estimates[f"{group}, this model"].value == pytest.approx(own)
        means = [
            np.mean([special.expit(phi[i, k]) for i in range(RECORDS) if member[i, k] == inside])
            for k in range(MODELS)
        ]
        assert found.estimates[f"{group}, shadows"].value == pytest.approx(np.mean(means))


@pytest.mark.parametrize("offline", [False, True])
def test_a_model_of_the_same_kind_is_hardly_ever_called_unlike(offline: bool) -> None:
    rng = np.random.default_rng(2)
    warned = sum(check(rng, offline=offline)[0].verdict is Verdict.WARNING for _ in range(300))
    # Binomial(300, 1e-3): more than 4 have a probability of 1.6e-5
    assert warned <= 4


def test_a_model_that_does_better_on_its_members_is_unlike() -> None:
    found, *_ = check(np.random.default_rng(3), lift=8.0)
    assert found.verdict is Verdict.WARNING
    assert "On members this model is unlike its shadow models" in found.text


def test_one_shadow_decides_nothing() -> None:
    found, *_ = check(np.random.default_rng(4), lift=8.0, models=1)
    assert found.verdict is Verdict.PASS
    assert set(found.estimates) == {"members, this model", "non-members, this model"}


def test_two_records_have_a_spread_and_one_has_none() -> None:
    two = shadow_models._of_target(np.array([0.2, 0.6]))
    assert (two.mean[0], two.variance[0], two.freedom) == pytest.approx((0.4, 0.04, 1))
    one = shadow_models._of_target(np.array([0.2]))
    assert np.isnan(one.variance[0])


def test_residuals_of_regression_are_compared_by_their_size() -> None:
    rng = np.random.default_rng(5)
    phi, member = rng.normal(0, 2, (RECORDS, MODELS)), rng.random((RECORDS, MODELS)) < 0.5
    y = rng.normal(size=RECORDS)
    rows, own = np.arange(RECORDS)[:, None], rng.normal(0, 2, RECORDS)
    target = TableTarget((y - own)[:, None], Need.VALUES)
    view = ModelView(target, Records(rows, y), shadows=Shadows(phi, member, np.zeros((0, MODELS))))
    inside = np.arange(RECORDS) < 100
    found = check_shadow_models(view, inside)
    assert "mean absolute error" in found.text
    assert found.estimates["members, this model"].value == pytest.approx(np.abs(own[:100]).mean())
    mean = np.mean([np.abs(phi[member[:, k], k]).mean() for k in range(MODELS)])
    assert found.estimates["members, shadows"].value == pytest.approx(mean)
