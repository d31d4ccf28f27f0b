"""Answers are kept in a run folder where the model is known by its contents or a name."""

from dataclasses import replace
from pathlib import Path

import pytest

from divulge.audits.challenges import membership
from divulge.audits.subject import AuditInputs
from divulge.core import Need, Verdict
from divulge.targets.function import FunctionTarget
from divulge.targets.recorded import TableTarget
from divulge.testing import forests

RECORDS = forests.draw(30, 0)
NAMELESS = AuditInputs(
    FunctionTarget(lambda x: x[:, :3] ** 2 / (x[:, :3] ** 2).sum(axis=1, keepdims=True),
                   "probabilities"), RECORDS, forests.draw(30, 1)
)  # fmt: skip
TABLE = TableTarget(RECORDS.x[:, :3] ** 2, Need.PROBABILITIES)


@pytest.mark.parametrize(
    ("subject", "kept", "said"),
    [
        (NAMELESS, True, True),
        (NAMELESS, False, False),  # nothing was to be kept
        (replace(NAMELESS, fingerprint="v1"), True, False),
        (replace(NAMELESS, target=TABLE), True, False),  # a table is never asked
    ],
)
def test_a_model_without_a_name_is_said_where_answers_were_to_be_kept(
    subject: AuditInputs, kept: bool, said: bool
) -> None:
    found = membership._note_unknown_model(subject, Path("answers") if kept else None)
    assert [(one.name, one.verdict) for one in found] == (
        [("model identity", Verdict.NOT_APPLICABLE)] if said else []
    )
