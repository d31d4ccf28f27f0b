import dataclasses
from functools import partial
from typing import ClassVar

import numpy as np
import pytest

from divulge.attacks import catalog
from divulge.attacks.membership.threshold import Threshold
from divulge.core import ModelView, Need, Scores, Status
from divulge.errors import SpecError, TargetError
from divulge.metrics import auc_intervals
from divulge.metrics.measure import METRICS, measure
from divulge.secrets import attempt, controls, wrapped
from divulge.testing import forests
from divulge.testing.membership import Models, Poorer

from ..impostors import CoinFlip, SignFlipped


@dataclasses.dataclass(frozen=True)
class Broken:
    """Breaks in a way that is a setting."""

    how: str = "raise"
    name: ClassVar[str] = "broken"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.LABELS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        del rng
        count = len(view.records)
        match self.how:
            case "raise":
                raise ZeroDivisionError("by design")
            case "target":
                raise TargetError("the model stopped answering")
            case "nan":
                return Scores(np.full(count, np.nan))
            case _:
                return Scores(np.zeros(count - 1))


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("raise", "ZeroDivisionError: by design"),
        ("target", "the model stopped answering"),
        ("nan", "NaN"),
        ("short", "expected 600 scores"),
    ],
)
def test_an_attack_that_breaks_is_a_finding_that_says_why(how: str, reason: str) -> None:
    finding, guess, _ = attempt.run_on_model(forests.leaky(), Broken(how))
    assert guess is None
    assert finding.status is Status.FAILED
    assert reason in finding.reason
    assert not finding.metrics


def test_every_metric_is_measured_or_said_to_be_unmeasurable() -> None:
    score = np.arange(600.0)
    measured = measure(Scores(score), forests.leaky().truth)
    assert {*measured.metrics, *measured.unmeasured} == set(METRICS)
    no_lower_limit = {"tpr@0.01", *(name for name in METRICS if "precision" in name)}
    assert set(measured.unmeasured) == {"tpr@0.001", *no_lower_limit}
    assert "at least 1000" in measured.unmeasured["tpr@0.001"]
    assert set(METRICS) - set(measured.metrics) == {"tpr@0.001"}
    for name in no_lower_limit:
        assert measured.unmeasured[name].endswith("lower limit: give at least 368")
        assert measured.metrics[name].low == 0


def test_answers_are_counted_per_attack() -> None:
    assert attempt.run_on_model(forests.leaky(), Threshold()).finding.queries == 600
    assert attempt.run_on_model(forests.leaky(), Threshold(per_class=True)).finding.queries == 900


@pytest.mark.slow
def test_the_order_of_attacks_changes_nothing() -> None:
    attacks = catalog.default_attacks(shadows=True)
    forth = {a: attempt.run_on_model(forests.leaky(), a).finding.metrics for a in attacks}
    back = {a: attempt.run_on_model(forests.leaky(), a).finding.metrics for a in reversed(attacks)}
    assert forth == back


@pytest.mark.parametrize("attack", catalog.default_attacks(shadows=True), ids=wrapped.attack_label)
def test_both_controls_come_out_right_for_every_attack(attack: Threshold) -> None:
    for challenge in (forests.leaky(), forests.silent()):
        guess = attempt.run_on_model(challenge, attack).guess
        assert guess is not None
        control = controls.run_controls(challenge, attack, guess)
        assert control.sees, control.planted
        assert control.calm, control.covered


@pytest.mark.parametrize("bad", [CoinFlip, SignFlipped])
def test_a_bad_attack_fails_its_positive_control(bad: type[CoinFlip]) -> None:
    attack = bad(Models())
    guess = attempt.run_on_model(forests.leaky(), attack).guess
    assert guess is not None
    assert not controls.run_controls(forests.leaky(), attack, guess).sees


def test_intervals_that_are_too_short_fail_the_null_control(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controls, "areas", partial(auc_intervals.areas, confidence=0.5))
    guess = Threshold()(forests.leaky().view, np.random.default_rng(0))
    assert not controls.run_controls(forests.leaky(), Threshold(), guess).calm


def test_a_label_only_target_leaves_the_gap_attacks_standing() -> None:
    challenge = forests.leaky()
    target = Poorer(challenge.view.target, Need.HARD_LABELS | Need.FEATURES)
    poor = dataclasses.replace(challenge, view=dataclasses.replace(challenge.view, target=target))
    statuses = {
        a.name: attempt.run_on_model(poor, a).finding.status
        for a in catalog.default_attacks(shadows=True)
    }
    assert statuses == {
        "threshold": Status.NOT_APPLICABLE,
        "gap": Status.DONE,
        "external": Status.NOT_APPLICABLE,
        "quantile": Status.NOT_APPLICABLE,
        "cluster-lira": Status.NOT_APPLICABLE,
        "two-sample": Status.NOT_APPLICABLE,
        "shadow": Status.NOT_APPLICABLE,
        "calibrated": Status.NOT_APPLICABLE,
        "lira": Status.NOT_APPLICABLE,
        "rmia": Status.NOT_APPLICABLE,
        "shadow-stack": Status.NOT_APPLICABLE,
        "shadow-gap": Status.DONE,
    }


def test_settings_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(SpecError, match="did you mean 'threshold'"):
        catalog.attack("treshold")
    with pytest.raises(SpecError, match="did you mean 'signal'"):
        catalog.attack("threshold", signl="loss")
    with pytest.raises(SpecError, match="entropy"):
        catalog.attack("threshold", signal="los")
    with pytest.raises(SpecError, match="level"):
        catalog.attack("quantile", level=2.0)
