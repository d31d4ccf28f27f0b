"""The page of an attack on assignment: which client trained on each record."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from functools import partial

import numpy as np

from divulge._util.json import JSON
from divulge._util.random import stream
from divulge.core import NOBODY, Assignment, AssignmentFacts, Finding
from divulge.metrics import assignment
from divulge.metrics.uninformed import assignment as uninformed
from divulge.metrics.uninformed.draws import RandomisationTest
from divulge.report import words
from divulge.report.federation.assignment_sentences import (
    client_name,
    counts_by_client,
    describe_guess,
    size_sentences,
)
from divulge.report.federation.brief import write_brief
from divulge.report.federation.rounds import round_tables, rounds_seen
from divulge.report.federation.story import (
    Figure,
    PageContent,
    PageTable,
    headline_attack,
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


def page_content(
    facts: AssignmentFacts,
    findings: tuple[Finding, ...],
    guesses: tuple[Assignment | None, ...],
    unsound: Collection[int] = (),
) -> PageContent:
    """What attacks say of records, of which none is named; see `FederatedSecret.page_content`."""
    first = headline_attack(findings)
    guess = None if first is None else guesses[first]
    tested = _test_guesses(facts, guesses)
    tests = [_attack_p_values(facts, guess, tested, k) for k, guess in enumerate(guesses)]
    known = facts.truth is not None
    owners = AssignmentWords(guesses, facts.truth, facts.collusion, tested)
    verdict = judge_federation(owners, findings, unsound)
    return PageContent(
        verdict=verdict,
        brief=write_brief(owners, verdict, findings, unsound, _concerned(facts)),
        title="Which client trained on which record",
        doubt="" if known else "the truth about the candidates is unknown, so nothing was checked",
        sentences=() if first is None else describe_guess(facts, findings[first], guess),
        columns=(*_TITLES.values(), *_TESTS),
        cells=tuple(
            (*rate_cells(finding, tuple(_TITLES)), *(_p_cell(test.get(name)) for name in _TESTS))
            for finding, test in zip(findings, tests, strict=True)
        ),
        caption="Over all candidates, with 95 % intervals",
        measures=_MEASURES,
        headline=("accuracy", "accuracy"),
        summary=_summary_facts(facts),
        details=tuple(
            {
                "answers": None if g is None else counts_by_client(facts, g.client),
                "tests": test,
                "rounds": rounds_seen(finding, facts.rounds),
            }
            for finding, g, test in zip(findings, guesses, tests, strict=True)
        ),
        scope=SCOPE,
        limits=size_sentences(facts),
        figures=partial(_accuracy_figure, facts, findings),
        tables=()
        if guess is None
        else (
            _answer_table(facts, guess),
            *(() if facts.truth is None else round_tables(findings, facts.rounds)),
        ),
    )


def _concerned(facts: AssignmentFacts) -> str:
    clients = words.format_count(len(facts.clients), "client")
    tried = words.format_count(facts.candidates, "record")
    if facts.owners is None:
        return f"{clients}. {tried} were tried."
    trained = sum(owner != NOBODY for owner in facts.owners)
    return f"{clients}. {tried} were tried; the clients trained on {trained:,} of them."


def _test_guesses(
    facts: AssignmentFacts, guesses: Sequence[Assignment | None]
) -> RandomisationTest | None:
    if facts.truth is None:
        return None
    label, rng = np.array(facts.labels, np.int64), stream(0, "permutations of owners")
    return uninformed.randomise(guesses, facts.truth, facts.collusion, label, rng)


def _attack_p_values(
    facts: AssignmentFacts, guess: Assignment | None, tested: RandomisationTest | None, attack: int
) -> dict[str, float]:
    """P-values of the accuracy against the best single answer, and of all against no knowledge."""
    if guess is None or facts.truth is None or tested is None:
        return {}
    truth, many = facts.truth, facts.candidates
    hits = round(assignment.accuracy(guess, truth).value * many)
    constant = round(assignment.best_constant(truth, facts.collusion.records).value * many)
    return {
        _TESTS[0]: assignment.two_proportion_test((hits, constant), (many, many)).p,
        _TESTS[1]: tested.of([attack]).p,
    }


def _p_cell(value: float | None) -> str:
    if value is None:
        return "not measured"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _summary_facts(facts: AssignmentFacts) -> dict[str, JSON]:
    truth = facts.truth
    summary: dict[str, JSON] = {
        "clients": list(facts.clients),
        "colluder": None if facts.colluder is None else facts.clients[facts.colluder],
        "rounds": facts.rounds,
        "candidates": facts.candidates,
        "known": int(facts.collusion.records.sum()),
        "truth": None if truth is None else counts_by_client(facts, truth.client),
    }
    if truth is not None:
        best = assignment.best_constant(truth, facts.collusion.records)
        summary["best_constant"] = asdict(best)
        summary["chance"] = assignment.chance_accuracy(facts.collusion, len(facts.clients))
    return summary


def _answer_table(facts: AssignmentFacts, guess: Assignment) -> PageTable:
    """Answers by client; where the truth is known, a row for each client that it was."""
    order = (*range(len(facts.clients)), NOBODY)
    names = words.shorten_names([client_name(facts, k) for k in order], 40)
    if facts.truth is None:
        rows = [("all candidates", np.ones(len(guess.client), bool))]
        what = "How many candidates the attack assigns to each client, and to nobody."
    else:
        truth = facts.truth.client
        rows = [(name, truth == k) for name, k in zip(names, order, strict=True)]
        what = (
            "Rows are the clients that trained on a record, columns the clients that the attack "
            "names: on the diagonal the attack is right."
        )
        if facts.colluder is not None:
            name = names[facts.colluder]
            what += f" Client {name} is the malicious client and knows its own records."
    return PageTable(
        "answers",
        "Who was given what",
        what,
        (
            "Trained on by client" if facts.truth is not None else "",
            *(f"to {name}" for name in names),
        ),
        tuple(
            (name, *(f"{int((mask & (guess.client == k)).sum()):,}" for k in order))
            for name, mask in rows
        ),
    )


def _accuracy_figure(facts: AssignmentFacts, findings: Sequence[Finding]) -> Iterator[Figure]:
    """Accuracies with their intervals, beside the best single answer; after all rounds."""
    import altair as alt

    from divulge.report import chart_style, charts

    done = [
        finding
        for finding in findings
        if "accuracy" in finding.metrics and "after_rounds" not in finding.settings
    ]
    if facts.truth is None or not done:
        return
    names = words.shorten_names([finding.label for finding in done], 46)
    rows = [
        {"attack": name, **asdict(finding.metrics["accuracy"])}
        for name, finding in zip(names, done, strict=True)
    ]
    best = assignment.best_constant(facts.truth, facts.collusion.records).value
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
