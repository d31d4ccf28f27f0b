"""The report lists exposed members, with the share of the list that may be wrong, by one attack.

`divulge.metrics.exposed` has the statistics. **The attack is chosen before its scores are held
against the truth**: the first of `PREFERRED` that passed its controls, else the first one asked for
that did. Of the lists of several attacks, the longest is the one with too many false discoveries,
so the rate would have to be corrected for the choice. That costs more than a weaker attack does: to
list as few members, k attacks need k times as many non-members.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from divulge._util import showable
from divulge.core import Candidates, Contents
from divulge.metrics import exposed as metrics
from divulge.metrics.membership import Score, Unmeasurable
from divulge.report import words
from divulge.report.parts import ExposedGroup, ExposedList, ExposedRecords
from divulge.report.schema import AttackRow, NotMeasured, Summary
from divulge.report.units import RECORD, Unit

PREFERRED = (
    *("lira", "rmia", "shadow-stack", "calibrated", "mrad", "quantile"),
    *("residual-lira", "residual-rmia", "residual-quantile"),
)
"""Preferred attacks: those that compare a record with itself in other models come first."""

RATES = (0.05, 0.1)
"""False-discovery rates of the reported lists."""

GROUPS, POSITIONS = 5, 10
"""Most rows of the short table, and most positions in a row."""

COLUMNS = ("position", "id", "class", "score", "p", "q")

_AT_ONCE = 2**16
"""Members that are written at a time."""

_KEPT_TEXTS = 10_000
"""Texts that are kept once escaped: names of classes stand there often."""

_FORMULA = re.compile(r"(^|;)(\s*['\"]?\s*)(?=[=+\-@＝＋－＠])")  # noqa: RUF001 - full width too
_NEGATIVE = re.compile(r"-\d+(\.\d+)?")
_CONTROL = re.compile(r"[\t\n\r]")


class ExposedRecord(NamedTuple):
    """A member and how surely it is exposed; nothing of its contents."""

    position: int
    """Position among the members as they were given, from 0."""
    id: str
    """The user's own id; empty if no column of ids was named."""
    class_name: str
    """The name of its class; for regression, of the fifth that its true value is in."""
    score: float
    p: float | None
    """Probability of so high a score if the model had not been trained on the record; None if it
    cannot be known."""
    q: float | None
    """Lowest false-discovery rate at which the record is listed; None if it cannot be known."""


def choose_attack(rows: Sequence[AttackRow]) -> AttackRow | None:
    """Choose the attack that makes the list: a sound one if there is any; None without attacks."""
    done = [row for row in rows if row.status == "done"]
    sound = [row for row in done if row.sound]
    names = (*PREFERRED, *dict.fromkeys(row.attack for row in done))
    ordered = (row for name in names for row in sound or done if row.attack == name)
    return next(ordered, None)


def find_exposed(
    rows: Sequence[AttackRow],
    scores: Mapping[str, Score],
    candidates: Candidates,
    differ: str,
    doubt: str = "",
) -> ExposedRecords:
    """Find the members that are exposed.

    Args:
        rows: every attack that was asked for.
        scores: the scores of each done attack, by its label.
        candidates: truth, labels and positions of the candidates.
        differ: how members and non-members may differ without the model, as a clause; empty if they
            do not.
        doubt: why the inputs are doubtful, as a clause; empty if they are not.
    """
    attack = choose_attack(rows)
    reason = _why_unmeasured(attack, differ, doubt)
    if attack is None or reason:
        return ExposedRecords(None if attack is None else attack.label, reason, (), ())
    ranks = _rank(scores[attack.label], candidates)
    outside = len(candidates.member) - len(ranks.order)
    lists = tuple(_exposed_list(ranks.q, rate, outside) for rate in RATES)
    return ExposedRecords(attack.label, "", lists, _exposed_groups(ranks))


class _Ranks(NamedTuple):
    """The members, highest scores first, ties in the order of their positions."""

    order: Int[np.ndarray, " members"]
    """Index of each member among the members of the candidates."""
    position: Int[np.ndarray, " members"]
    accused: metrics.AccusedCounts
    p: metrics.PValues
    q: metrics.PValues


def _rank(score: Score, candidates: Candidates) -> _Ranks:
    member = candidates.member
    accused, index = metrics.count_accused(score, member), candidates.index[member]
    outside = len(member) - len(index)
    p, q = metrics.p_values(accused, outside), metrics.q_values(accused, outside)
    order = np.lexsort((index, -score[member]))
    return _Ranks(order, index[order], accused[order], p[order], q[order])


def _why_unmeasured(attack: AttackRow | None, differ: str, doubt: str) -> str:
    if attack is None:
        return "No attack finished."
    if not attack.sound:
        return "No attack passed its controls, so no score says anything about a record."
    if differ:
        return (
            f"{differ[0].upper()}{differ[1:]}, so the scores of non-members do not show how an "
            "unexposed member scores."
        )
    if doubt:
        return f"The inputs are doubtful, because {doubt}: a list could name the wrong records."
    return ""


def _exposed_list(q: metrics.PValues, rate: float, outside: int) -> ExposedList:
    fewest = metrics.fewest_listed(len(q), outside, rate)
    enough = metrics.nonmembers_needed(len(q), 1, rate)
    listed = None if fewest is None else int(np.sum(q <= rate))
    at = f"At a false-discovery rate of {words.format_percent(rate)}"
    if fewest is None:
        sentence = f"{at}: not measured. {_too_few_sentence(len(q), outside, rate)}"
    elif listed:
        sentence = (
            f"{at}: {listed:,} of {words.format_count(len(q), 'member')} are listed. At most "
            f"1 in {1 / rate:.0f} of these is wrong, on average."
        )
        if listed == fewest > 1:
            sentence += (
                f" No shorter list is possible with {words.format_count(outside, 'non-member')}."
            )
    elif fewest > 1:
        sentence = (
            f"{at}: none. With {words.format_count(outside, 'non-member')} a list holds at least "
            f"{fewest:,} members, or none. So an empty list does not clear anyone. To list a "
            f"single member, give {enough:,}."
        )
    else:
        sentence = f"{at}: none."
    return ExposedList(rate, listed, fewest, enough, sentence)


def _exposed_groups(ranks: _Ranks) -> tuple[ExposedGroup, ...]:
    listed = int(np.sum(ranks.q <= max(RATES)))  # those of the highest scores
    starts = np.flatnonzero(np.diff(ranks.accused[:listed], prepend=-1))
    ends = np.append(starts[1:], listed)
    return tuple(
        ExposedGroup(
            accused=int(ranks.accused[start]),
            members=int(end - start),
            p=float(ranks.p[start]),
            q=float(ranks.q[start]),
            positions=tuple(ranks.position[start : min(end, start + POSITIONS)].tolist()),
        )
        for start, end in zip(starts[:GROUPS], ends, strict=False)
    )


def exposed_records(contents: Contents, summary: Summary) -> Iterator[ExposedRecord]:
    """All members, highest scores first, ties in the order of their positions.

    Args:
        contents: the run.
        summary: the summary of that run. Without a done attack nothing is yielded; where nothing
            could be measured, members have no p and q.
    """
    deciding = [
        e
        for e in contents.entries
        if showable.make_showable(e.finding.label) == summary.exposed.attack
    ]
    if not deciding or deciding[0].score is None:
        return
    score, (facts, candidates) = deciding[0].score, contents.model()
    member, ranks = candidates.member, _rank(score, candidates)
    order, measured = ranks.order, not summary.exposed.reason
    ids = np.full(len(order), "") if candidates.ids is None else candidates.ids[member][order]
    label = candidates.label[member][order]
    named = {
        number: words.class_name(number, facts.class_names) for number in np.unique(label).tolist()
    }
    own = score[member][order]
    for start in range(0, len(order), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        columns: list[Iterable[Any]] = [
            ranks.position[rows].tolist(),
            map(str, ids[rows]),
            map(named.__getitem__, label[rows].tolist()),
            own[rows].tolist(),
            ranks.p[rows].tolist() if measured else repeat(None, _AT_ONCE),
            ranks.q[rows].tolist() if measured else repeat(None, _AT_ONCE),
        ]
        yield from map(ExposedRecord, *columns)


def refuse_empty_list(exposed: ExposedRecords, members: int, nonmembers: int, q: float) -> None:
    """Refuse a list that would be empty whatever the scores are: it would look like good news.

    Raises:
        Unmeasurable: nothing was measured, or there are too few non-members for this rate.
    """
    if exposed.reason:
        raise Unmeasurable(exposed.reason)
    if metrics.fewest_listed(members, nonmembers, q) is None:
        raise Unmeasurable(_too_few_sentence(members, nonmembers, q))


def _too_few_sentence(members: int, nonmembers: int, q: float) -> str:
    return (
        f"With {words.format_count(nonmembers, 'non-member')} every list is empty, whatever the "
        f"scores. Give at least {metrics.nonmembers_needed(1, 1, q):,} for a list that can hold "
        f"all members, {metrics.nonmembers_needed(members, 1, q):,} for one that can hold a single "
        "member."
    )


def as_exposed_csv(members: Iterable[ExposedRecord], group: str | None = "class") -> bytes:
    """``exposed.csv``: every member, with texts that no spreadsheet takes for a formula.

    Args:
        members: see `exposed_records`.
        group: what the column of class names is called; None leaves it out.
    """
    content = io.BytesIO()
    file = io.TextIOWrapper(content, "utf-8", newline="")
    writer = csv.writer(file, lineterminator="\n")
    named = {"class": group}
    writer.writerow(title for c in COLUMNS if (title := named.get(c, c)) is not None)
    escape = lru_cache(_KEPT_TEXTS)(escape_cell)
    # numbers whole: a rounded q could cross the rate that a reader filters by
    writer.writerows(
        (position, escape(own), *([] if group is None else [escape(kind)]), score, p, q)
        for position, own, kind, score, p, q in members
    )
    file.flush()
    return content.getvalue()


def escape_cell(text: str) -> str:
    """A text that a spreadsheet shows as it is; an apostrophe stands before what would calculate.

    Spreadsheets take a cell for a formula that begins with one of ``= + - @`` (or with these
    letters in full width); a semicolon begins a cell where it is the separator. A negative number
    is left alone. Control characters are replaced.

    References:
        OWASP, CSV injection.

    Examples:
        >>> tuple(escape_cell(text) for text in ("=HYPERLINK(1)", "-12.5", "-12.5+1", "A-17"))
        ("'=HYPERLINK(1)", '-12.5', "'-12.5+1", 'A-17')
    """
    shown = _CONTROL.sub("\ufffd", showable.make_showable(text))
    return shown if _NEGATIVE.fullmatch(shown) else _FORMULA.sub(r"\1'\2", shown)


def unmeasured_rates(exposed: ExposedRecords, unit: Unit = RECORD) -> tuple[NotMeasured, ...]:
    """The rates that so few non-members cannot support."""
    return tuple(
        NotMeasured(
            "metric",
            f"Exposed {unit.many} at a false-discovery rate of {words.format_percent(each.fdr)}",
            each.sentence,
        )
        for each in exposed.lists
        if each.listed is None
    )
