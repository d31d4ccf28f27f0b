"""What two audits are compared by: all that does not hang on the order of records."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from divulge.audits.result import SecretAudit
from divulge.core import Estimate
from divulge.testing.relations import figures

METRICS = ("auc", "epsilon", "advantage", "balanced_accuracy")


def audit(level: str = "leak", attacks: tuple[str, ...] = ("threshold",), **changed: float) -> Any:
    """Attacks of which shadow-gap orders ties by lots."""
    made = Mock(spec=SecretAudit)
    metrics = {name: Estimate(changed.get(name, 0.5), 0.25, 0.75) for name in METRICS}
    made.findings = tuple(
        SimpleNamespace(label=f"{name}(x=1)", attack=name, metrics=metrics) for name in attacks
    )
    made.verdict = SimpleNamespace(level=level)
    return made


def test_what_is_drawn_by_position_is_left_out() -> None:
    assert set(figures.figures(audit(attacks=("threshold", "shadow-gap")))) == {
        ("threshold(x=1)", "auc"), ("threshold(x=1)", "epsilon"), ("shadow-gap(x=1)", "auc")
    }  # fmt: skip


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (audit(), 0),
        (audit(advantage=0.6), 0),
        (audit(auc=0.5 + 1e-10), 0),
        (audit(auc=0.5 + 2e-9), 1),
        (audit(epsilon=0.6), 1),
        (audit("no leak found"), 1),
        (audit("no leak found", auc=0.6, epsilon=0.6), 3),
        (audit(attacks=("threshold", "gap")), 2),  # an AUC and an ε in one alone
    ],
)
def test_each_figure_and_verdict_that_differs_is_named(other: Any, said: int) -> None:
    assert len(figures.differences(audit(), other)) == said


def test_ranks_have_no_part_in_epsilon() -> None:
    other = audit(auc=0.6, epsilon=0.6)
    assert len(figures.changed(audit(), other)) == 2
    (line,) = figures.changed_ranks(audit(), other)
    assert "'auc'" in line
