"""What becomes of each thing that a gate asks for: it failed, it passed, or it is undecided.

What is undecided never passes. Figures are compared by limits that hold for all attacks at once.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from divulge.core import Status
from divulge.finished_runs.changes import FigureChange, compare_figures
from divulge.finished_runs.gate import Gate
from divulge.finished_runs.judged import NONE, Attempts, JudgedAudit, JudgedVerdict, Ruling
from divulge.metrics.ceiling import find_side, records_to_decide
from divulge.report.federation.verdicts.judge import is_uninformed
from divulge.report.schema import ClaimRow, Conclusion, Limits
from divulge.report.sentences import next_step
from divulge.report.terms import Terms
from divulge.report.units import PERSON, Unit
from divulge.secrets.registry import lead_metric

_LEVELS: Mapping[str, tuple[str, ...]] = {
    "leak": ("leak",),
    "leak-or-shift": ("leak or shift",),
    "confounded": ("confounded",),
    "control-failed": ("instrument failed",),
    # an estimate without the truth shows no leak of this federation, and rules none out
    "undecided": ("undecided", "nothing measured", "expected leak"),
    "contradicted": ("contradicted",),
    "undecidable": ("undecidable",),
}
_INCOMPARABLE = ("instrument failed", "confounded", "leak or shift", "nothing measured")
"""Levels of a verdict beside which no figure is about the model alone."""
_DECIDED = {"leak": "no leak found", "contradicted": "consistent"}
"""By word that fails: the level that passes it. Every other level is undecided."""
_UNTESTED = "control-untested"
"""The one word of ``fail_on`` that is about attacks, and not about the verdict."""


def hold_against_gate(
    gate: Gate,
    verdict: JudgedVerdict,
    limits: Mapping[str, Limits],
    untested: Mapping[str, str] = MappingProxyType({}),
    attempts: Attempts = NONE,
) -> Ruling:
    """Hold an audit against a gate.

    Args:
        gate: what was asked.
        verdict: of the audit.
        limits: of each metric, over all attacks.
        untested: by label of an attack, why its controls could not be run.
        attempts: all attacks, also those whose figures do not count.

    Returns:
        Where the inputs are doubtful nothing passes, whatever was asked: no figure counts then.
    """
    ruling = Ruling()
    if verdict.level == "inputs doubtful" and (gate.words or gate.agreed or gate.ceilings):
        ruling += Ruling(undecided=(f"{verdict.headline}. {verdict.next_step}",))
        return ruling + _on_untested(untested) if untested and _UNTESTED in gate.words else ruling
    # ceilings first: what a job prints begins with what was agreed
    for name, ceiling in gate.agreed:
        ruling += _on_ceiling(name, ceiling, verdict, limits.get(name), attempts)
    for name, ceiling in gate.ceilings:
        ruling += _on_excess(name, ceiling, gate.judge, verdict, limits.get(name), attempts)
    if words := [word for word in gate.words if word != _UNTESTED]:
        ruling += _on_verdict(words, verdict, untested)
    if _UNTESTED in gate.words:
        ruling += _on_untested(untested)
    return ruling


def hold_claim_against_gate(claim: ClaimRow | None) -> Ruling:
    """What becomes of a claimed guarantee: only one that was held against figures can pass.

    Args:
        claim: what became of it, as in a summary; None if nothing was claimed.
    """
    if claim is None:
        return Ruling(undecided=("no ε is claimed, so no claim can hold: state epsilon and delta",))
    if claim.outcome == "contradicted":
        return Ruling(failed=(claim.sentence,))
    if claim.outcome == "consistent":
        return Ruling(passed=(claim.sentence,))
    return Ruling(undecided=(claim.sentence,))


def hold_against_earlier(later: JudgedAudit, earlier: JudgedAudit) -> Ruling:
    """Whether more leaks than in an earlier audit: no passing where that cannot be decided.

    Args:
        later: the later audit.
        earlier: the one it is compared with, about the same secret.
    """
    changes = compare_figures(earlier, later)
    if worse := [change for change in changes if change.is_worse]:
        return Ruling(failed=tuple(_describe_change(change, "more than") for change in worse))
    unknown = "nothing shows that no more leaks than before"
    for name, audit in (("earlier", earlier), ("later", later)):
        level = audit.verdict.level
        if level not in (*_DECIDED, *_DECIDED.values()):
            why = f"the verdict of the {name} audit is {level!r}"
            return Ruling(undecided=(f"{unknown}: {why}. {audit.verdict.next_step}",))
    metric = lead_metric(later.about)
    compared = {change.attack for change in changes}
    lost = [
        label
        for label, figures in earlier.figures().items()
        if metric in figures and label not in compared
    ]
    if lost or not changes:
        why = f"not measured again: {', '.join(lost)}" if lost else "no attack stands in both"
        return Ruling(undecided=(f"{unknown}: {why}",))
    most = max(changes, key=lambda change: change.difference.high or 0.0)
    return Ruling(passed=(_describe_change(most, "not shown to be more than"),))


def _describe_change(change: FigureChange, how: str) -> str:
    less = change.difference
    assert less.high is not None
    return (
        f"{change.metric} of {change.attack} is {change.after.value:.4g}, {how} "
        f"{change.before.value:.4g} before: difference {less.value:+.3f} (95 % interval for all "
        f"compared attacks {less.low:+.3f} to {less.high:+.3f})"
    )


def _on_verdict(
    fail_on: Collection[str], verdict: JudgedVerdict, untested: Collection[str]
) -> Ruling:
    level, sentence = verdict.level, f"the verdict is {verdict.level!r}: {verdict.headline}"
    if any(level in _LEVELS[word] for word in fail_on):
        return Ruling(failed=(sentence,))
    if any(word in fail_on and level != passing for word, passing in _DECIDED.items()):
        return Ruling(undecided=(f"{sentence}. {verdict.next_step}",))
    unknown = f"; controls not tested of {', '.join(untested)}" if untested else ""
    passed = f"the verdict is {level!r} (fails on: {', '.join(fail_on)}{unknown})"
    return Ruling(passed=(passed,))


def _on_untested(untested: Mapping[str, str]) -> Ruling:
    if not untested:
        return Ruling(passed=(f"every attack that is done was tested (fails on: {_UNTESTED})",))
    return Ruling(
        failed=tuple(
            f"the controls of {label} could not be run, so nothing shows that its figures are "
            f"sound: {why}"
            for label, why in untested.items()
        )
    )


def _on_ceiling(
    name: str,
    ceiling: float,
    verdict: JudgedVerdict,
    limits: Limits | None,
    attempts: Attempts,
) -> Ruling:
    """Whether every attack is shown to be under an agreed ceiling."""
    if limits is None or (why := _why_incomparable(name, ceiling, verdict, attempts.unit)):
        return Ruling(undecided=(_not_measured(name, ceiling) if limits is None else why,))
    side = find_side(limits.estimate.low, limits.highest, ceiling)
    figures = _describe_limits(limits)
    if side == "over":
        least = f"{name} is at least {limits.estimate.low:.4g}"
        return Ruling(failed=(f"{least}, over the agreed ceiling {ceiling:g} ({figures})",))
    if side == "under":
        most = f"{name} is at most {limits.highest:.4g}, under the agreed ceiling {ceiling:g}"
        if others := _find_open_attacks(name, ceiling, attempts):
            sentence = f"{most}, by the attacks that count ({figures}); but {'; '.join(others)}"
            return Ruling(undecided=(sentence,))
        return Ruling(passed=(f"{most} ({figures})",))
    sentence = f"{name} is not shown to be under the agreed ceiling {ceiling:g}, nor over it"
    return Ruling(
        undecided=(f"{sentence} ({figures}): {_what_decides(limits, ceiling, attempts)}",)
    )


def _what_decides(limits: Limits, ceiling: float, attempts: Attempts) -> str:
    """How many records would show on which side of the ceiling a metric is."""
    if limits.undecided and limits.most > ceiling:
        return _why_undecided(limits, attempts.unit)
    if attempts.sample is None or limits.highest is None:
        return "give more records"
    size, unit = attempts.sample
    # the strongest attack has to be over, or all of them under
    needed = records_to_decide(limits.most, limits.estimate.low, limits.highest, ceiling, size)
    if needed is None:
        return f"the value is so near that no number of {unit} is sure to decide"
    return (
        f"about {needed:,} {unit} would decide in four of five audits, if the value is right "
        f"(this audit has {size:,})"
    )


def _find_open_attacks(name: str, ceiling: float, attempts: Attempts) -> list[str]:
    """Why attacks that are not among the limits may exceed a ceiling, a clause each.

    With fewer records an attack may lack a figure or fail a control; that must pass nothing.
    """
    clauses = []
    for finding in attempts.findings:
        label, figure = finding.label, finding.metrics.get(name)
        if finding.status is Status.FAILED:
            clauses.append(f"{label} ended with an error")
        elif finding.status is not Status.DONE or is_uninformed(finding):
            continue
        elif label in attempts.figures:
            if name not in attempts.figures[label]:
                clauses.append(f"{name} of {label} was not measured")
        elif figure is None or figure.high is None or figure.high > ceiling:
            clauses.append(f"{label} failed a control, and may be over")
    return clauses


def _not_measured(name: str, ceiling: float) -> str:
    return f"{name} was measured by no attack, so nothing shows that it is at most {ceiling:g}"


def _why_undecided(limits: Limits, unit: Unit) -> str:
    """Why an attack has no lower limit, which names how many records would do."""
    return limits.undecided + ", each a person" * (unit is PERSON and bool(limits.undecided))


def _why_incomparable(name: str, ceiling: float, verdict: JudgedVerdict, unit: Unit) -> str:
    """Why no figure of an audit is about the model alone; empty if they are."""
    differ = isinstance(verdict, Conclusion) and verdict.confounding
    if not differ and verdict.level not in _INCOMPARABLE:
        return ""
    since = "the two sets differ" if differ else f"the verdict is {verdict.level!r}"
    # beside a leak, the next step of the verdict is about the leak
    advice = next_step("confounded", terms=Terms(unit=unit)) if differ else verdict.next_step
    return f"{name} cannot be compared with {ceiling:g}, since {since}. {advice}"


def _describe_limits(limits: Limits) -> str:
    upper = "" if limits.highest is None else f", upper limit {limits.highest:.4g}"
    lower = f"lower limit {limits.estimate.low:.4g}"
    return f"highest value {limits.most:.4g}; {lower} ({limits.attack}){upper}"


def _on_excess(
    name: str,
    ceiling: float,
    judge: str,
    verdict: JudgedVerdict,
    limits: Limits | None,
    attempts: Attempts,
) -> Ruling:
    """Whether an attack is proven to exceed a value, which some attack has to be able to."""
    unit = attempts.unit
    if limits is None or (why := _why_incomparable(name, ceiling, verdict, unit)):
        return Ruling(undecided=(_not_measured(name, ceiling) if limits is None else why,))
    low = judge == "low"
    compared, what = (limits.estimate.low, "lower limit") if low else (limits.most, "value")
    figures = _describe_limits(limits)
    if compared > ceiling:
        return Ruling(failed=(f"{name}: {what} {compared:.4g} exceeds {ceiling:g} ({figures})",))
    below = limits.highest is not None and limits.highest <= ceiling
    why = _why_undecided(limits, unit) or (
        verdict.next_step if verdict.level == "undecided" else ""
    )
    if name == "epsilon" and attempts.reach <= ceiling:
        why = (
            f"an attack that knows every member would show no more than {attempts.reach:.3g} with "
            f"so many {unit.many}: give more, or lower the limit"
        )
    if why and not below:
        sentence = f"{name} cannot be compared with {ceiling:g}: {why}"
        return Ruling(undecided=(sentence,))
    sentence = f"{name}: {what} {compared:.4g} does not exceed {ceiling:g} ({figures})"
    return Ruling(passed=(sentence,))
