"""The gate of a continuous-integration job: which findings exceed their ceiling, or the claim?"""

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from divulge import auditing
from divulge.core import Finding, Status
from divulge.errors import SpecError, did_you_mean
from divulge.metrics import assignment, composition, interactions
from divulge.report.schema import ClaimRow

Judge = Literal["low", "value"]


METRICS: Mapping[str | None, Collection[str]] = {
    None: auditing.METRICS,
    "updates": [name for name in composition.METRICS if name.startswith("null")],
    "interactions": interactions.METRICS,
    "assignment": [name for name in assignment.METRICS if name != "specificity"],
}
"""By the section that asks about a federation, None for models: metrics that rise with a leak."""


def check_names(ceilings: Mapping[str, float], section: str | None = None) -> None:
    """Refuse a metric that does not exist, before anything long starts.

    Args:
        ceilings: by metric.
        section: which asks about a federation; None where models are audited.

    Raises:
        SpecError: names the nearest metric.
    """
    known = METRICS[section]
    for name in ceilings:
        if name not in known:
            hint = did_you_mean(name, known)
            raise SpecError(f"expected the name of a metric, got {name!r}: {hint}")


def unproven(claim: ClaimRow | None) -> tuple[str, ...]:
    """One sentence where a claimed guarantee was not held against figures, or did not hold.

    Args:
        claim: what became of it, as in a summary; None if nothing was claimed.
    """
    if claim is None:
        return ("no ε is claimed, so no claim can hold: state epsilon and delta",)
    return () if claim.outcome == "consistent" else (claim.sentence,)


def tripped(
    findings: Iterable[Finding],
    ceilings: Mapping[str, float],
    judge: Judge = "low",
    *,
    sound: bool = True,
) -> tuple[str, ...]:
    """One sentence for each ceiling exceeded, or not measured by any attack.

    Args:
        findings: of one audit.
        ceilings: highest admissible value of each metric, for the strongest attack.
        judge: ``low`` compares the lower confidence limit, so that the job fails when the leak
            is proven; ``value`` compares the point estimate, which also fails by chance.
        sound: whether the audit's instrument passed its controls; figures that nobody can
            believe pass no ceiling.
    """
    done = [finding for finding in findings if finding.status is Status.DONE]
    sentences = []
    if ceilings and not sound:
        sentences.append("the audit failed its own controls, so its figures pass no ceiling")
    for name, ceiling in ceilings.items():
        measured = [(f.metrics[name], f.label) for f in done if name in f.metrics]
        if not measured:
            sentences.append(f"{name} was measured by no attack, so it cannot pass {ceiling:g}")
            continue
        worst, label = max(measured, key=lambda pair: getattr(pair[0], judge))
        if getattr(worst, judge) > ceiling:
            what = "lower limit" if judge == "low" else "value"
            sentences.append(
                f"{name} of {label}: {what} {getattr(worst, judge):.4g} exceeds {ceiling:g}"
            )
    return tuple(sentences)
