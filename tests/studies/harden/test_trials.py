"""What three of four audits would stay under, and how long others are trained, from looks."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from scipy import stats

from divulge.core import Estimate
from divulge.studies.harden import leaks, result, space, trials
from divulge.studies.harden.leaks import Leak, Look
from divulge.studies.harden.log import Draft


def look(high: float, models: int, *, spread: float = 0.0, useful: bool = True) -> Look:
    leak = Leak(high - 0.1, high - 0.2, high, "loss", spread)
    return Look(3, "none", models, Estimate(0.5, 0.4, 0.6), {"auc": leak}, useful=useful)


@pytest.mark.parametrize("models", [1, 3])
def test_the_margin_is_a_quartile_of_what_one_more_audit_shows(models: int) -> None:
    """An audit and a mean of audits both vary: their variances add."""
    found = trials._with_margin(look(0.5, models), {"auc": 0.1}).leaks["auc"]
    deviation = 0.1 * (1 + 1 / models) ** 0.5
    assert found.likely == pytest.approx(0.5 * (1 + stats.norm.ppf(0.75) * deviation), rel=1e-5)
    assert trials._with_margin(look(0.99, models), {"auc": 0.1}).leaks["auc"].likely == 1.0
    assert trials._with_margin(look(0.5, models), {"auc": 0.0}).leaks["auc"].likely == 0.5


def draft(*looks: Look) -> Draft[Any]:
    return Draft(SimpleNamespace(), Mock(), looks=list(looks))


def test_the_spread_is_of_useful_settings_from_half_the_ceiling_to_twice() -> None:
    """Relative to each limit, squared and averaged over all looks of all settings."""
    near = [look(0.3, 3, spread=0.03), look(0.6, 3, spread=0.12), look(1.2, 3, spread=0.12)]
    far = [look(0.299, 3, spread=9.0), look(1.201, 3, spread=9.0)]
    useless = look(0.6, 3, spread=9.0, useful=False)
    expected = ((0.1**2 + 0.2**2 + 0.1**2) / 3) ** 0.5
    tried = [draft(near[0], far[0], useless), draft(near[1], near[2], far[1])]
    assert trials._spread("auc", tried, 0.6) == pytest.approx(expected)
    assert trials._spread("auc", [draft(*far, useless)], 0.6) == 0.0


def after(epochs: int | None, accuracy: float, high: float, answers: str = "none") -> Look:
    one = look(high, 3)
    shown = Estimate(accuracy, accuracy - 0.1, accuracy + 0.1)
    return replace(one, epochs=epochs, accuracy=shown, answers=answers)


@pytest.mark.parametrize(
    ("looks", "short", "teachers"),
    [
        # it never leaks too much: others are trained as long; 0.88 is within .02 of the best
        ([after(2, 0.5, 0.6), after(8, 0.88, 0.6), after(None, 0.9, 0.7)], 32, (16, 8)),
        ([after(2, 0.5, 0.6), after(8, 0.879, 0.6), after(None, 0.9, 0.7)], 32, (32, 32)),
        # it leaks too much from epoch 4 on: others are trained for 8
        ([after(2, 0.9, 0.7), after(4, 0.6, 0.71), after(8, 0.7, 0.9)], 8, (4, 2)),
        # a defence of answers says nothing of the undefended model
        ([after(2, 0.9, 0.7), after(2, 0.99, 0.9, "rounding"), after(4, 0.5, 0.7)], 32, (4, 2)),
    ],
)
def test_others_are_trained_twice_as_long_as_the_undefended_model_may_be(
    looks: list[Look], short: int, teachers: tuple[int, int]
) -> None:
    assert trials.useful_epochs(looks, {"auc": 0.7}, 32) == (short, teachers)


TWO = {"auc": 0.7, "tpr_at_fpr_0.01": 0.1}


def of_two(auc: float, tpr: float, number: int = 1, accuracy: float = 0.8) -> trials.SearchTrial:
    """A setting with figures by two metrics that have ceilings."""
    each = {
        name: Leak(limit - 0.05, limit - 0.1, limit, "loss", likely=limit)
        for name, limit in zip(TWO, (auc, tpr), strict=True)
    }
    shown = Estimate(accuracy, accuracy - 0.1, accuracy + 0.1)
    proposal = space.first_proposal("none", 24)
    return trials.SearchTrial(number, proposal, 3, 3.0, shown, each, False, True)


def test_of_two_ceilings_the_one_that_is_exceeded_by_more_counts() -> None:
    assert of_two(0.6, 0.3).excess(TWO) == pytest.approx(0.2)
    assert of_two(0.6, 0.05).excess(TWO) == pytest.approx(-0.05)
    assert of_two(0.9, 0.12).excess(TWO) == pytest.approx(0.2)
    inside = look(0.95, 3)  # its lower limit is .75
    assert inside.surely_exceeds({"auc": 0.74})
    assert not inside.surely_exceeds({"auc": 0.75})
    both = replace(inside, leaks={**inside.leaks, "tpr_at_fpr_0.01": Leak(0.1, 0.05, 0.2, "loss")})
    assert both.surely_exceeds({"auc": 0.9, "tpr_at_fpr_0.01": 0.04})
    assert leaks.excess(both.leaks, {"auc": 0.9, "tpr_at_fpr_0.01": 0.5}) == pytest.approx(0.05)


def test_a_setting_is_under_where_it_is_under_every_ceiling() -> None:
    accurate, careful = of_two(0.6, 0.2, 1, 0.9), of_two(0.69, 0.09, 2, 0.7)
    assert trials.choose([accurate, careful], TWO) == careful
    assert trials.choose([accurate, careful], {"auc": 0.7}) == accurate
    at = of_two(0.7, 0.1, 3, 0.8)
    assert trials.choose([careful, at], TWO) == at  # a limit at its ceiling is under it
    assert trials.choose([of_two(0.9, 0.5, 4), of_two(0.9, 0.6, 5)], TWO).number == 4


@pytest.mark.parametrize(
    ("best", "said"),
    [
        (None, "Trials 3 to 5 (2.5 of 40 trainings)"),
        (of_two(0.7, 0.1), "best so far: accuracy 0.800, AUC 0.650, "),
        (of_two(0.71, 0.1), ", over)"),
    ],
)
def test_progress_names_what_leads_and_whether_it_is_over(
    best: trials.SearchTrial | None, said: str
) -> None:
    text = trials.describe_progress([3, 4, 5], (2.5, 40), best, TWO)
    assert said in text
    assert (", over)" in text) == (best is not None and best.excess(TWO) > 0)
    one = trials.describe_progress([3], (2.5, 40), best, TWO)
    assert one.startswith("Trial 3 (2.5 of 40 trainings")


def test_a_setting_is_seen_after_each_number_of_epochs() -> None:
    whole = of_two(0.6, 0.05)
    assert whole.at_each_look() == [whole]
    epochs = whole.proposal.epochs
    seen = replace(whole, looks=(after(2, 0.5, 0.6, "rounding"), after(epochs, 0.7, 0.8)))
    first, last = seen.at_each_look()
    assert (first.proposal.stop_after, first.proposal.answers) == (2, "rounding")
    assert (last.proposal.stop_after, last.proposal.answers) == (None, "none")
    assert (first.accuracy.value, last.accuracy.value) == (0.5, 0.7)
    assert (first.leaks["auc"].high, last.leaks["auc"].high) == (0.6, 0.8)


@pytest.mark.parametrize(
    ("auc", "tpr", "under"), [(0.7, 0.1, True), (0.701, 0.1, False), (0.6, 0.101, False)]
)
def test_a_row_says_whether_all_limits_are_under_their_ceilings(
    auc: float, tpr: float, under: bool
) -> None:
    row = result._row(of_two(auc, tpr), TWO)
    assert row.under == under
    assert row.leaks["auc"] == Estimate(auc - 0.05, auc - 0.1, auc)
