"""The page of an attack on assignment: which client trained on each record."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Bool, Int

from divulge._util import showable
from divulge._util.json import JSON
from divulge._util.random import stream
from divulge.core import NOBODY, Assignment, Collusion, Estimate, Finding
from divulge.metrics import assignment
from divulge.metrics.uninformed import assignment as uninformed
from divulge.metrics.uninformed.draws import RandomisationTest
from divulge.report import words
from divulge.report.federation import small_samples
from divulge.report.federation.rounds import round_tables, rounds_seen
from divulge.report.federation.story import (
    Figure,
    PageContent,
    PageTable,
    headline_attack,
    join_words,
    rate_cells,
)
from divulge.report.federation.verdicts.assignment import SCOPE, AssignmentWords
from divulge.report.federation.verdicts.judge import judge_federation

_TITLES = {
    "accuracy": "Accuracy",
    "recall": "Recall of members",
    "specificity": "Specificity on non-members",
    "tpr@0.01": "TPR at 1 % FPR",
    "tpr@0.03": "TPR at 3 % FPR",
}
_TESTS = ("p, z-test", "p, permutation")

_MEASURES = (
    "Accuracy is the share of candidates assigned to the right client, or rightly to nobody. "
    "Members are candidates that some client trained on, non-members are the others. The "
    "TPR is over all pairs of a candidate and a client under attack, by their scores: the share of "
    "the pairs of a client and its own record that the attack identifies at a false-positive rate "
    "of 1 % or 3 % on all other pairs. The z-test compares the accuracy with that of the best "
    "single answer, as the paper of stacking does. It treats the two as independent, although they "
    "are about the same records. The permutation test asks how often the attack does as well, by "
    "its accuracy or by the order of its scores, where owners are shuffled among candidates of a "
    "class."
)

_SIGNIFICANT = 0.05
"""Largest p-value at which two accuracies differ significantly."""


@dataclass(frozen=True, slots=True)
class AssignmentInput:
    """Facts of the audit: clients, candidates and, perhaps, the truth."""

    clients: tuple[str, ...]
    """Names of the clients."""
    colluder: int | None
    """Number of the colluding client; None where the server attacks alone."""
    known: Bool[np.ndarray, " records"]
    """True for candidates that the colluding client trained on."""
    label: Int[np.ndarray, " records"]
    """Class of each candidate."""
    truth: Assignment | None
    """The client of each candidate; None if nobody knows it."""
    rounds: int | None = None
    """Number of recorded rounds; None if only models' answers are known."""

    def name(self, client: int) -> str:
        """The name of a client, or of nobody."""
        return "nobody" if client == NOBODY else showable.make_showable(self.clients[client])

    @property
    def collusion(self) -> Collusion:
        """What the colluding client knows of the candidates."""
        return Collusion(self.colluder, np.zeros(0, bool), self.known)

    @property
    def others(self) -> list[int]:
        """The clients under attack."""
        return [k for k in range(len(self.clients)) if k != self.colluder]


def page_content(
    asked: AssignmentInput,
    findings: tuple[Finding, ...],
    guesses: tuple[Assignment | None, ...],
    unsound: Collection[int] = (),
) -> PageContent:
    """What the attacks say of who trained on what; no record is named.

    Args:
        asked: clients, candidates and perhaps the truth.
        findings: one finding an attack.
        guesses: the guess of each attack; None for an attack that is not done.
        unsound: positions of the attacks that failed a control.
    """
    first = headline_attack(findings)
    told = None if first is None else guesses[first]
    tested = _test_guesses(asked, guesses)
    tests = [_attack_p_values(asked, guess, tested, k) for k, guess in enumerate(guesses)]
    sentences: tuple[str, ...] = ()
    if told is not None and first is not None:
        sentences = tuple(
            _sentences_without_truth(asked, told)
            if asked.truth is None
            else _sentences_with_truth(asked, asked.truth, findings[first], told)
        )
    known = asked.truth is not None
    owners = AssignmentWords(guesses, asked.truth, asked.collusion, tested)
    return PageContent(
        verdict=judge_federation(owners, findings, unsound),
        title="Which client trained on which record",
        doubt="" if known else "the truth about the candidates is unknown, so nothing was checked",
        sentences=sentences,
        columns=(*_TITLES.values(), *_TESTS),
        cells=tuple(
            (*rate_cells(finding, tuple(_TITLES)), *(_p_cell(test.get(name)) for name in _TESTS))
            for finding, test in zip(findings, tests, strict=True)
        ),
        caption="Over all candidates, with 95 % intervals",
        measures=_MEASURES,
        headline=("accuracy", "accuracy"),
        summary=_summary_facts(asked),
        details=tuple(
            {
                "answers": None if g is None else _counts_by_client(asked, g.client),
                "tests": test,
                "rounds": rounds_seen(finding, asked.rounds),
            }
            for finding, g, test in zip(findings, guesses, tests, strict=True)
        ),
        scope=SCOPE,
        limits=_size_limits(asked),
        figures=partial(_accuracy_figure, asked, findings),
        tables=()
        if told is None
        else (
            _answer_table(asked, told),
            *(() if asked.truth is None else round_tables(findings, asked.rounds)),
        ),
    )


def _test_guesses(
    asked: AssignmentInput, guesses: Sequence[Assignment | None]
) -> RandomisationTest | None:
    if asked.truth is None:
        return None
    rng = stream(0, "permutations of owners")
    return uninformed.randomise(guesses, asked.truth, asked.collusion, asked.label, rng)


def _attack_p_values(
    asked: AssignmentInput, guess: Assignment | None, tested: RandomisationTest | None, attack: int
) -> dict[str, float]:
    """P-values of the accuracy against the best single answer, and of all against no knowledge."""
    if guess is None or asked.truth is None or tested is None:
        return {}
    truth, many = asked.truth, len(asked.known)
    hits = round(assignment.accuracy(guess, truth).value * many)
    constant = round(assignment.best_constant(truth, asked.known).value * many)
    return {
        _TESTS[0]: assignment.two_proportion_test((hits, constant), (many, many)).p,
        _TESTS[1]: tested.of([attack]).p,
    }


def _p_cell(value: float | None) -> str:
    if value is None:
        return "not measured"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _counts_by_client(
    asked: AssignmentInput, client: Int[np.ndarray, " records"]
) -> dict[str, int]:
    """Records by client, nobody last."""
    return {asked.name(k): int((client == k).sum()) for k in (*range(len(asked.clients)), NOBODY)}


def _summary_facts(asked: AssignmentInput) -> dict[str, JSON]:
    truth = asked.truth
    facts: dict[str, JSON] = {
        "clients": list(asked.clients),
        "colluder": None if asked.colluder is None else asked.clients[asked.colluder],
        "rounds": asked.rounds,
        "candidates": len(asked.known),
        "known": int(asked.known.sum()),
        "truth": None if truth is None else _counts_by_client(asked, truth.client),
    }
    if truth is not None:
        best = assignment.best_constant(truth, asked.known)
        facts["best_constant"] = {"value": best.value, "low": best.low, "high": best.high}
        facts["chance"] = assignment.chance_accuracy(asked.collusion, len(asked.clients))
    return facts


def _sentences_without_truth(asked: AssignmentInput, told: Assignment) -> Iterator[str]:
    counts = _counts_by_client(asked, told.client)
    said = [f"{count:,} to {name}" for name, count in counts.items()]
    many = words.format_count(len(told.client), "candidate")
    yield f"Of {many}, the attack gives {join_words(said)}."


def _sentences_with_truth(
    asked: AssignmentInput, truth: Assignment, finding: Finding, told: Assignment
) -> Iterator[str]:
    many = len(truth.client)
    right = int((told.client == truth.client).sum())
    best = assignment.best_constant(truth, asked.known)
    chance = assignment.chance_accuracy(asked.collusion, len(asked.clients))
    accuracy = words.format_rate(finding.metrics["accuracy"])
    yield (
        f"Of {words.format_count(many, 'candidate')}, {right:,} were assigned to the right "
        f"client, or rightly to nobody: {accuracy}. The best single answer for all of them is "
        f"right for {words.format_rate(best)}, and random answers for about {100 * chance:.0f} %."
    )
    test = assignment.two_proportion_test((right, round(best.value * many)), (many, many))
    what = "more" if test.z > 0 else "less"
    yield (
        f"That is {what} than the best single answer, beyond chance (z = {test.z:.1f}, p "
        f"{_p_comparison(test.p)})."
        if test.p <= _SIGNIFICANT
        else f"That does not differ significantly from the best single answer (z = {test.z:.1f}, p "
        f"{_p_comparison(test.p)})."
    )
    for k in asked.others:
        own, said = truth.client == k, told.client == k
        yield (
            f"Client {asked.name(k)} trained on {words.format_count(int(own.sum()), 'candidate')}: "
            f"{_count_words(own & said)} of them identified, {_count_words(said & ~own)} of the "
            "others assigned to it (false positives)."
        )
    outside = truth.client == NOBODY
    accused = _count_words(outside & (told.client != NOBODY))
    yield (
        f"Candidates that no client trained on: {_count_words(outside)}; {accused} of them "
        "assigned to one (false positives)."
    )


def _count_words(records: Bool[np.ndarray, " records"]) -> str:
    """Format how many records are selected; "none" for none."""
    return f"{int(records.sum()):,}" if records.any() else "none"


def _size_limits(asked: AssignmentInput) -> tuple[str, ...]:
    """Sentences on what an audit of so few candidates can show."""
    if asked.truth is None:
        return ()
    outside = asked.truth.client == NOBODY
    many = len(asked.known)
    best = round(assignment.best_constant(asked.truth, asked.known).value * many)
    members, outsiders = int((~outside & ~asked.known).sum()), int(outside.sum())
    return tuple(small_samples.small_sample_sentences(members, outsiders, many, best))


def _p_comparison(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.2g}"


def _answer_table(asked: AssignmentInput, told: Assignment) -> PageTable:
    """Answers by client; where the truth is known, a row for each client that it was."""
    order = (*range(len(asked.clients)), NOBODY)
    names = words.shorten_names([asked.name(k) for k in order], 40)
    if asked.truth is None:
        rows = [("all candidates", np.ones(len(told.client), bool))]
        what = "How many candidates the attack assigns to each client, and to nobody."
    else:
        truth = asked.truth.client
        rows = [(name, truth == k) for name, k in zip(names, order, strict=True)]
        what = (
            "Rows are the clients that trained on a record, columns the clients that the attack "
            "names: on the diagonal the attack is right."
        )
        if asked.colluder is not None:
            name = names[asked.colluder]
            what += f" Client {name} is the malicious client and knows its own records."
    return PageTable(
        "answers",
        "Who was given what",
        what,
        (
            "Trained on by client" if asked.truth is not None else "",
            *(f"to {name}" for name in names),
        ),
        tuple(
            (name, *(f"{int((mask & (told.client == k)).sum()):,}" for k in order))
            for name, mask in rows
        ),
    )


def _accuracy_figure(asked: AssignmentInput, findings: Sequence[Finding]) -> Iterator[Figure]:
    """Accuracies with their intervals, beside the best single answer; after all rounds."""
    import altair as alt

    from divulge.report import chart_style, charts

    done = [
        finding
        for finding in findings
        if "accuracy" in finding.metrics and "after_rounds" not in finding.settings
    ]
    if asked.truth is None or not done:
        return
    names = words.shorten_names([finding.label for finding in done], 46)
    rows = [
        {"attack": name, **_as_limits(finding.metrics["accuracy"])}
        for name, finding in zip(names, done, strict=True)
    ]
    best = assignment.best_constant(asked.truth, asked.known).value
    x = alt.X("value:Q", title="Accuracy").scale(domain=[0, 1]).axis(format="%")
    room = charts.room_for(names)
    y = alt.Y("attack:N", title=None, sort=None).axis(
        domain=False, ticks=False, labelPadding=10, minExtent=room
    )
    base = alt.Chart(chart_style.inline_data(rows))
    mark = alt.Chart(chart_style.inline_data([{"value": best}]))
    chart = chart_style.style_layers(
        mark.mark_rule(color=chart_style.INK, strokeDash=[4, 3]).encode(x=x),
        base.mark_rule(color=chart_style.ACCENT, strokeWidth=2).encode(
            x=alt.X("low:Q").scale(domain=[0, 1]), x2="high:Q", y=y
        ),
        base.mark_point(filled=True, color=chart_style.ACCENT, size=90, opacity=1).encode(x=x, y=y),
        height=alt.Step(34),
    )
    yield Figure(
        "accuracy",
        "How often attacks are right",
        chart,
        "Accuracy with its 95 % interval; the dashed line is the best single answer for all "
        "records: an attack whose interval crosses it may know nothing.",
        "Accuracy of each attack; the table below has the numbers",
    )


def _as_limits(one: Estimate) -> dict[str, float | None]:
    return {"value": one.value, "low": one.low, "high": one.high}
