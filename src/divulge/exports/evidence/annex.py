"""The annex of a pack of evidence: one page in plain words, and an appendix of all figures."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from divulge.core import Status
from divulge.exports.ci.cases import AttackCase, RunCases
from divulge.report.page import template_environment
from divulge.secrets.registry import SECRETS

QUESTIONS: Mapping[str, str] = {
    **{kind: secret.risk for kind, secret in SECRETS.items()},
    "canaries": "Does a training keep its promise of differential privacy?",
    "federation": "Which defence keeps a federation from giving its clients away?",
}
"""What was asked, by what a run is about."""


def render(run: RunCases) -> str:
    """Render the page, one self-contained HTML file; every text is escaped.

    Args:
        run: all that is told of the run.
    """
    template = template_environment("divulge.exports").get_template("annex.html.j2")
    return template.render(
        run=run,
        question=QUESTIONS[run.about],
        verdict=run.verdicts[0] if len(run.verdicts) == 1 else None,
        rows=_join_rows(run),
        done=[case for case in run.attacks if case.status is Status.DONE],
        others=[case for case in run.attacks if case.status is not Status.DONE],
    )


def _join_rows(run: RunCases) -> list[Sequence[AttackCase]]:
    """Attacks that are done, the deciding ones first, then by falling AUC; equal ones in a row."""
    deciding = {(verdict.about, verdict.attack) for verdict in run.verdicts}

    def place(case: AttackCase) -> tuple[bool, str, tuple[str, ...], bool, str]:
        return (case.about, case.label) not in deciding, case.about, case.titled, *shown(case)

    def shown(case: AttackCase) -> tuple[bool, str]:
        return not case.counts, case.untested

    done = [case for case in run.attacks if case.status is Status.DONE]
    alike = groupby(sorted(done, key=lambda case: place(case)[1:]), lambda case: place(case)[1:])

    def order(row: Sequence[AttackCase]) -> tuple[bool, str, tuple[bool, float]]:
        return *place(row[0])[:2], min(case.strength for case in row)

    return sorted((sorted(some, key=place) for _, some in alike), key=order)
