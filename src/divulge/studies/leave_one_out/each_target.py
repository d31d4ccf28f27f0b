"""What audits of single targets say of one attack, and how it counts for all of them."""

from collections.abc import Mapping, Sequence

import numpy as np

from divulge.attacks import catalog
from divulge.audits.result import Audit
from divulge.core import Estimate, Finding, Need, Status
from divulge.errors import SpecError
from divulge.metrics.membership import Score
from divulge.metrics.shared_shadows import Influence, influence
from divulge.report.schema import AttackRow


def score_of(audit: Audit, label: str) -> Score:
    """The scores of an attack that ended well on a target."""
    (score,) = (entry.score for entry in audit.contents.entries if entry.finding.label == label)
    assert score is not None
    return score


def influence_of(audit: Audit, label: str, name: str) -> Influence:
    """How far each candidate moves a metric; of one by record a person moves it with all of its."""
    member, person = audit.candidates.member, audit.candidates.person
    if name != "record_auc":
        return influence(name, score_of(audit, label), member)
    assert person is not None
    (by_record,) = (
        entry.arrays["by_record"]
        for entry in audit.contents.entries
        if entry.finding.label == label
    )
    each: Influence = np.bincount(person, influence("auc", by_record, member[person]))
    return each


def unsound_first(rows: Sequence[AttackRow]) -> AttackRow:
    """One attack on several models: a failed control on one of them counts for all."""
    return next((row for row in rows if not row.sound), rows[0])


def ignores_other_models(finding: Finding) -> bool:
    """Whether an attack on one model looks at no other; of one that is not ours nobody knows."""
    try:
        settings = {name: value for name, value in finding.settings.items() if name != "person"}
        attack = catalog.attack(finding.attack, **settings)
    except SpecError:
        return False
    return Need.SHADOWS not in attack.needs


def join_targets(findings: list[Finding], metrics: Mapping[str, Estimate]) -> Finding:
    """One finding of an attack for all targets; one that did not end well on each says why."""
    first = findings[0]
    bad = [finding for finding in findings if finding.status is not Status.DONE]
    status = first.status
    reason = ""
    if bad:
        status = bad[0].status
        reason = f"{len(bad)} of {len(findings)} targets: {bad[0].reason}"
    return Finding(
        label=first.label,
        attack=first.attack,
        paper=first.paper,
        settings=first.settings,
        status=status,
        metrics=metrics,
        reason=reason,
        queries=sum(finding.queries for finding in findings),
        seconds=sum(finding.seconds for finding in findings),
    )
