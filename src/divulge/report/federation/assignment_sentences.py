"""Sentences on which client trained on each record."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Int

from divulge._util import showable
from divulge.core import NOBODY, Assignment, AssignmentFacts, Finding
from divulge.metrics import assignment
from divulge.report import words
from divulge.report.federation import small_samples
from divulge.report.federation.story import join_words

_SIGNIFICANT = 0.05
"""Largest p-value at which two accuracies differ significantly."""


def describe_guess(
    facts: AssignmentFacts, finding: Finding, guess: Assignment | None
) -> tuple[str, ...]:
    """What an attack says; none where it is not done."""
    if guess is None:
        return ()
    if facts.truth is None:
        return tuple(_sentences_without_truth(facts, guess))
    return tuple(_sentences_with_truth(facts, facts.truth, finding, guess))


def _sentences_without_truth(facts: AssignmentFacts, guess: Assignment) -> Iterator[str]:
    counts = counts_by_client(facts, guess.client)
    shares = [f"{count:,} to {name}" for name, count in counts.items()]
    many = words.format_count(len(guess.client), "candidate")
    yield f"Of {many}, the attack gives {join_words(shares)}."


def _sentences_with_truth(
    facts: AssignmentFacts, truth: Assignment, finding: Finding, guess: Assignment
) -> Iterator[str]:
    many = len(truth.client)
    right = int((guess.client == truth.client).sum())
    best = assignment.best_constant(truth, facts.collusion.records)
    chance = assignment.chance_accuracy(facts.collusion, len(facts.clients))
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
    for k in _attacked(facts):
        own, named = truth.client == k, guess.client == k
        yield (
            f"Client {client_name(facts, k)} trained on "
            f"{words.format_count(int(own.sum()), 'candidate')}: {_count_words(own & named)} of "
            f"them identified, {_count_words(named & ~own)} of the others assigned to it (false "
            "positives)."
        )
    outside = truth.client == NOBODY
    accused = _count_words(outside & (guess.client != NOBODY))
    yield (
        f"Candidates that no client trained on: {_count_words(outside)}; {accused} of them "
        "assigned to one (false positives)."
    )


def size_sentences(facts: AssignmentFacts) -> tuple[str, ...]:
    """Sentences on what an audit of so few candidates can show."""
    if facts.truth is None:
        return ()
    outside = facts.truth.client == NOBODY
    many = facts.candidates
    best = round(assignment.best_constant(facts.truth, facts.collusion.records).value * many)
    members, outsiders = int((~outside & ~facts.collusion.records).sum()), int(outside.sum())
    return tuple(small_samples.small_sample_sentences(members, outsiders, many, best))


def counts_by_client(facts: AssignmentFacts, client: Int[np.ndarray, " records"]) -> dict[str, int]:
    """Records by client, nobody last."""
    return {
        client_name(facts, k): int((client == k).sum())
        for k in (*range(len(facts.clients)), NOBODY)
    }


def client_name(facts: AssignmentFacts, client: int) -> str:
    """The name of a client, or of nobody."""
    return "nobody" if client == NOBODY else showable.make_showable(facts.clients[client])


def _attacked(facts: AssignmentFacts) -> list[int]:
    """The clients under attack."""
    return [k for k in range(len(facts.clients)) if k != facts.colluder]


def _count_words(records: Bool[np.ndarray, " records"]) -> str:
    """Format how many records are selected; "none" for none."""
    return f"{int(records.sum()):,}" if records.any() else "none"


def _p_comparison(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.2g}"
