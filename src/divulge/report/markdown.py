"""The Markdown report is a comment for a pull request: verdict, table, warnings, gaps."""

import re
from collections.abc import Sequence

from divulge.core import ControlOutcome
from divulge.report import words
from divulge.report.ranking import rank
from divulge.report.schema import AttackRow, Conclusion, Remedy, Summary
from divulge.report.units import unit_of
from divulge.report.unmeasured import up_to_notes

_COLUMNS = ("auc", "tpr@0.01", "epsilon")
_LONGEST = 500
"""Most characters of a text that somebody else wrote."""

# As character references none of these means anything to Markdown or HTML. An underscore between
# letters never does; a colon or full stop does within an address or an emoji's name only.
_SPECIAL = re.compile(
    r"(?<![^\W_])_|_(?![^\W_])|[&<>`*\[\]|\\~$]|:(?=\S)|(?<=www)\.", re.IGNORECASE
)
_SUMMONS = re.compile(r"([@#])(?=\w)")
_WORD_JOINER = "\u2060"


def render(summary: Summary) -> str:
    """Render the comment in GitHub's Markdown; every text of the user's is made inert."""
    verdict = summary.verdict
    parts = []
    if verdict.confounding:
        parts.append(f"> **Warning.** {make_inert(verdict.confounding)}")
    parts += [
        f"### {verdict.headline}",
        make_inert(" ".join(summary.brief.meaning)),
        " ".join(
            make_inert(sentence)
            for sentence in verdict.sentences
            if sentence != verdict.confounding
        ),
        f"Audit: {make_inert(summary.name)}. Verdict: **{verdict.level}**{p_value_note(verdict)}.",
        _attack_table(summary),
    ]
    if summary.claim and summary.claim.outcome != "contradicted":
        parts.append(f"**Claim:** {make_inert(summary.claim.sentence)}")  # else it is said already
    listed = summary.exposed.reason or " ".join(each.sentence for each in summary.exposed.lists)
    parts.append(f"**Exposed {unit_of(summary).many}:** {make_inert(listed)}")
    if summary.strata:
        parts.append(f"**By stratum:** {make_inert(summary.strata.sentence)}")
    if verdict.warnings:
        parts.append(
            "**Warnings**\n\n" + "\n".join(f"- {make_inert(line)}" for line in verdict.warnings)
        )
    parts += [
        make_inert(sentence) for sentence in (verdict.sensitivity, verdict.supposition) if sentence
    ]
    parts.append(f"**Next:** {make_inert(verdict.next_step)}")
    parts += ["\n".join(f"- {_remedy_line(remedy)}" for remedy in summary.remedies)] * bool(
        summary.remedies
    )
    parts.append(f"**Not measured:** {_not_measured_line(summary)}")
    return "\n\n".join(parts) + "\n"


def _remedy_line(remedy: Remedy) -> str:
    return (
        f"**{make_inert(remedy.what)}**: {make_inert(remedy.why)} Cost: {make_inert(remedy.cost)}."
    )


def p_value_note(verdict: Conclusion) -> str:
    """The p-value of a verdict in brackets; empty where nothing was measured."""
    if verdict.p_value is None:
        return ""
    tested = words.format_count(verdict.tested, "attack")
    return f" (p = {words.format_p_value(verdict.p_value)}, {tested} tested together)"


def make_inert(text: str) -> str:
    """Put a text on one line and escape it, so that Markdown shows it and does nothing else.

    Examples:
        >>> make_inert("<b> *x* scaled_logit")
        '&#60;b&#62; &#42;x&#42; scaled_logit'
    """
    line = " ".join(text.split())
    line = line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
    # mentions and references are looked for after rendering, where no escape hides them
    line = _SUMMONS.sub(rf"\1{_WORD_JOINER}", line)
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", line)


def _attack_table(summary: Summary) -> str:
    blind = summary.blind
    less = [] if blind is None else ["AUC less blind"]
    heading = ["Attack", *map(words.metric_title, _COLUMNS), *less, "Controls"]
    ranked = rank(summary.attacks, summary.verdict.attack)
    rows = [
        _cells(row, ranked.twins.get(row.label, ()), against_blind=bool(less))
        for row in ranked.heads + ranked.others
    ]
    lines = [heading, ["---"] * len(heading), *rows]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    lost = [
        f"**{status.capitalize()}:** {', '.join(map(make_inert, labels))}."
        + (f" {make_inert(reason)}" if reason else "")
        for (status, reason), labels in ranked.lost.items()
    ]
    notes = ["Intervals hold for 95 % each; an epsilon bound is a lower limit."]
    if blind is not None:
        notes.append(f"Blind is the {blind.check}, AUC {words.format_auc(blind.auc)}.")
    return "\n\n".join([table, *lost, " ".join([*notes, *up_to_notes(summary.attacks, _COLUMNS)])])


def _cells(row: AttackRow, twins: Sequence[str], *, against_blind: bool) -> list[str]:
    also = f" (also: {', '.join(map(make_inert, twins))})" if twins else ""
    label = f"{make_inert(row.label)}{also}"
    values = [
        words.format_metric(name, row.metrics[name], row.unmeasured)
        if name in row.metrics
        else "not measurable"
        for name in _COLUMNS
    ]
    if against_blind:
        less = row.beyond_blind
        values.append("not measurable" if less is None else words.format_difference(less))
    if row.control is None:
        return [label, *values, "not run"]
    outcome = row.control.outcome
    return [label, *values, f"**{outcome}**" if outcome is ControlOutcome.FAILED else outcome]


def _not_measured_line(summary: Summary) -> str:
    """Everything that was not measured, on one line; the report has the reasons."""
    lines = dict.fromkeys(make_inert(item.what) for item in summary.not_measured)
    return "; ".join(lines) + ". The report gives the reasons."
