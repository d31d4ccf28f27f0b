import dataclasses

import pytest

from divulge import gate
from divulge.core import Estimate, Finding, Status
from divulge.errors import SpecError
from divulge.report.schema import ClaimRow


def finding(label: str, status: Status = Status.DONE, **metrics: Estimate) -> Finding:
    return Finding(
        label, "a", "p", {}, status, {k.replace("_at_", "@0."): v for k, v in metrics.items()}
    )


FOUND = (
    finding("weak", auc=Estimate(0.55, 0.45, 0.65), tpr_at_01=Estimate(0.02, 0.0, 0.06)),
    finding("strong", auc=Estimate(0.7, 0.65, 0.75), tpr_at_01=Estimate(0.06, 0.03, 0.1)),
    finding("broken", Status.FAILED),
)


def test_the_lower_limit_of_the_strongest_attack_decides() -> None:
    assert gate.tripped(FOUND, {"auc": 0.65}) == ()
    (sentence,) = gate.tripped(FOUND, {"auc": 0.6})
    assert sentence == "auc of strong: lower limit 0.65 exceeds 0.6"


def test_the_value_can_decide_instead() -> None:
    assert gate.tripped(FOUND, {"tpr@0.01": 0.05}) == ()
    assert len(gate.tripped(FOUND, {"tpr@0.01": 0.05}, "value")) == 1


def test_what_was_not_measured_cannot_pass() -> None:
    (sentence,) = gate.tripped(FOUND, {"epsilon": 8.0})
    assert "measured by no attack" in sentence


def test_an_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(SpecError, match=r"did you mean 'tpr@0\.01'"):
        gate.check_names({"tpr@.01": 0.05})


CLAIM = ClaimRow(
    1.0, 1e-5, "", False, "contradicted", Estimate(2.0, 1.5, None), "a", 4.0, None, "It is false."
)


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (CLAIM, ("It is false.",)),
        (dataclasses.replace(CLAIM, outcome="not measured"), ("It is false.",)),
        (dataclasses.replace(CLAIM, outcome="consistent"), ()),
    ],
)
def test_a_claim_passes_only_where_it_is_consistent(claim: ClaimRow, said: tuple[str, ...]) -> None:
    assert gate.unproven(claim) == said


def test_without_a_claim_none_can_hold() -> None:
    assert "no ε is claimed" in gate.unproven(None)[0]


def test_figures_of_a_failed_instrument_pass_no_ceiling() -> None:
    (sentence,) = gate.tripped(FOUND, {"auc": 1.0}, sound=False)
    assert "failed its own controls" in sentence
    assert gate.tripped(FOUND, {}, sound=False) == ()
