"""The page of an attack on composition: class shares of each client, in sentences and a figure."""

from collections.abc import Collection, Sequence
from typing import Any, TypedDict

import numpy as np

from divulge._util import showable
from divulge._util.random import stream
from divulge.core import CompositionFacts, Finding, Proportions
from divulge.metrics import composition
from divulge.metrics.uninformed import composition as uninformed
from divulge.report import words
from divulge.report.federation.brief import write_brief
from divulge.report.federation.story import (
    Figure,
    PageContent,
    estimate_cells,
    headline_attack,
    join_words,
)
from divulge.report.federation.verdicts.composition import SCOPE, CompositionWords
from divulge.report.federation.verdicts.expected_shares import COLUMNS, ExpectedShares
from divulge.report.federation.verdicts.judge import judge_federation

UNEVEN = 0.05
"""Largest p-value at which the class shares of a client are called uneven."""

_TITLES = {
    "l1": "L1",
    "l2": "L2",
    "linf": "L∞",
    "null_accuracy": "Null classes: accuracy",
    "null_precision": "Null classes: precision",
    "null_recall": "Null classes: recall",
}

_MEASURES = (
    "L1, L2 and L∞ are distances between predicted and true label distributions: at most 2, 1.41 "
    "and 1. A null class is a class of which a client has no record. The other columns are the "
    "accuracy, precision and recall of the attack in naming null classes."
)

_EXPECTED = (
    "L1 is the distance between predicted and true label distributions, at most 2: twice the share "
    "of records in wrong classes. Nobody gave the truth: these are distances about clients that "
    "the attack simulates, of which it knows the truth. Uneven are clients that equal shares do "
    "not explain (p = 0.05 or less, corrected for the number of clients)."
)
_NOT_ESTIMATED = ("not estimated",) * len(COLUMNS)

_MOST_NAMED = 5
"""Most classes that a sentence names."""

_NAMED_SHARE = 0.9
"""The share of the records from which no further class is named."""

_STANDS_OUT = 1.5
"""A class stands out from this many equal shares on."""

_UNEVEN = "Its classes are uneven"
_NOT_SHOWN = "No test shows that its classes are uneven"

_SAME = 1e-9
"""Shares that differ by less are equal but for rounding."""

_DOUBTS = {
    False: "the true label distributions are unknown, so nothing here could be checked",
    True: "the truth is unknown, so errors are those about simulated clients",
}
"""What figures leave open without the truth, by whether clients were simulated."""

Mixes = Sequence[Proportions]


def page_content(
    facts: CompositionFacts,
    findings: tuple[Finding, ...],
    guesses: tuple[Mixes | None, ...],
    unsound: Collection[int] = (),
) -> PageContent:
    """What the attacks say of class shares; see `FederatedSecret.page_content`."""
    known = facts.truth is not None
    expected = [ExpectedShares.of(guess) for guess in guesses]
    judged = [k for k, shares in enumerate(expected) if shares is not None and not known]
    first = judged[0] if judged else headline_attack(findings)
    shown_guess = None if first is None else guesses[first]
    by = None if first is None else expected[first]
    tested = None
    if facts.truth is not None:
        tested = uninformed.randomise(guesses, facts.truth, stream(0, "permutations of clients"))
    case = CompositionWords(guesses, facts.truth, tested, facts.sums)
    verdict = judge_federation(case, findings, unsound)
    return PageContent(
        verdict=verdict,
        brief=write_brief(case, verdict, findings, unsound, _concerned(facts)),
        title="What each client’s updates reveal about its classes",  # noqa: RUF001
        doubt="" if known else _DOUBTS[by is not None],
        speaker=first,
        sentences=tuple(
            _describe_client(facts, k, guess, by) for k, guess in enumerate(shown_guess or ())
        ),
        **_attack_table(findings, None if known else expected),
        headline=("l1", "mean L1 distance"),
        summary={
            "clients": list(facts.clients),
            "truth": None if facts.truth is None else [t.share.tolist() for t in facts.truth],
        },
        details=tuple(
            {
                "shares": None if guess is None else [g.share.tolist() for g in guess],
                "null": None if guess is None else [g.null.tolist() for g in guess],
                "even": None if guess is None else [g.even for g in guess],
                "expected": None if shares is None else shares.figures(),
            }
            for guess, shares in zip(guesses, expected, strict=True)
        ),
        scope=SCOPE,
        figures=tuple if shown_guess is None else lambda: (_share_figure(facts, shown_guess),),
    )


class _AttackTable(TypedDict):
    """Fields of `PageContent` that are the table of attacks."""

    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    caption: str
    measures: str


def _attack_table(
    findings: Sequence[Finding], expected: Sequence[ExpectedShares | None] | None
) -> _AttackTable:
    """What was measured or, without the truth, what is expected."""
    if expected is None:
        return {
            "columns": tuple(_TITLES.values()),
            "cells": tuple(estimate_cells(finding, tuple(_TITLES)) for finding in findings),
            "caption": "Means over clients with 95 % intervals",
            "measures": _MEASURES,
        }
    return {
        "columns": COLUMNS,
        "cells": tuple(_NOT_ESTIMATED if shares is None else shares.cells() for shares in expected),
        "caption": "Means over the simulated clients that are like each client",
        "measures": _EXPECTED,
    }


def _concerned(facts: CompositionFacts) -> str:
    clients = words.format_count(len(facts.clients), "client")
    if facts.counts is None:
        return f"{clients}."
    total = sum(sum(row) for row in facts.counts)
    return f"{clients}, who hold {words.format_count(total, 'record')}."


def _class_name(facts: CompositionFacts, label: int) -> str:
    names = facts.class_names
    return showable.make_showable(names[label]) if label < len(names) else f"class {label}"


def _describe_client(
    facts: CompositionFacts, client: int, guess: Proportions, by: ExpectedShares | None
) -> str:
    name = f"Client {showable.make_showable(facts.clients[client])}"
    p_value = guess.even if by is None else by.even[client]
    uneven = p_value is not None and p_value <= UNEVEN
    if _is_flat(guess) and not uneven:
        shown = "" if p_value is None else f" (p = {p_value:.2g})"
        sentences = [f"{name} seems to be even: no class stands out{shown}."]
    else:
        sentences = [f"{name} {_largest_classes(facts, guess)}.", *_absent_classes(facts, guess)]
        if p_value is not None:
            sentences.append(f"{_UNEVEN if uneven else _NOT_SHOWN} (p = {p_value:.2g}).")
    if facts.truth is not None:
        off = composition.distance(guess, facts.truth[client])["l1"] / 2
        sentences.append(
            f"The prediction puts {100 * off:.0f} % of its records into wrong classes."
        )
    elif by is not None:
        sentences.append(by.describe_client(client))
    return " ".join(sentences)


def _is_flat(guess: Proportions) -> bool:
    """Whether no class is absent, and none has much more than an equal share."""
    return not guess.null.any() and float(guess.share.max()) < _STANDS_OUT / len(guess.share)


def _largest_classes(facts: CompositionFacts, guess: Proportions) -> str:
    """What a client seems to hold, as a clause that follows its name."""
    there = [label for label in range(len(guess.share)) if guess.share[label] > 0]
    if len(there) > 1 and np.ptp(guess.share[there]) < _SAME:
        return f"seems to hold equal shares of {len(there)} classes"
    order = sorted(there, key=lambda label: -guess.share[label])
    # as many as hold nine tenths of the records
    enough = int(np.searchsorted(np.cumsum(guess.share[order]), _NAMED_SHARE - _SAME)) + 1
    most = order[: min(enough, _MOST_NAMED)]
    named = [f"{_class_name(facts, k)} ({100 * guess.share[k]:.0f} %)" for k in most]
    return f"seems to hold mostly {join_words(named)}"


def _absent_classes(facts: CompositionFacts, guess: Proportions) -> tuple[str, ...]:
    absent = [_class_name(facts, k) for k, null in enumerate(guess.null) if null]
    if not absent:
        return ()
    more = len(absent) - _MOST_NAMED
    named = [*absent[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])]
    return (f"It seems to lack {join_words(named)}.",)


def _share_figure(facts: CompositionFacts, guesses: Mixes) -> Figure:
    """A disc for each predicted share, a ring for each true one: where they match, it is right."""
    import altair as alt

    from divulge.report import chart_style

    names = words.shorten_names([showable.make_showable(name) for name in facts.clients], 24)
    labels = words.shorten_names([_class_name(facts, k) for k in range(len(guesses[0].share))], 16)
    x = alt.X("class:N", title=None, sort=None).axis(labelAngle=-40, domain=False, ticks=False)
    x = x.scale(domain=labels)  # in the order of the classes, whoever holds them
    y = alt.Y("client:N", title="client", sort=None).axis(domain=False, ticks=False)
    size = alt.Size("share:Q", legend=None).scale(domain=[0, 1], range=[0, 1400])
    layers = [
        alt.Chart(chart_style.inline_data(_share_dots(guesses, names, labels)))
        .mark_point(filled=True, color=chart_style.ACCENT, opacity=0.75)
        .encode(x=x, y=y, size=size)
    ]
    ring = ""
    if facts.truth is not None:
        layers.append(
            alt.Chart(chart_style.inline_data(_share_dots(facts.truth, names, labels)))
            .mark_point(filled=False, color=chart_style.INK, strokeWidth=1.5, opacity=1)
            .encode(x=x, y=y, size=size)
        )
        ring = "; the ring is the true share: where they match, the prediction is right"
    return Figure(
        "shares",
        "Shares of the classes",
        chart_style.style_layers(*layers, height=alt.Step(40)),
        f"Rows are clients, columns are classes. The area of a disc is the predicted share{ring}.",
        "Label distribution of each client; the sentences above say the largest shares",
    )


def _share_dots(mixes: Mixes, names: Sequence[str], labels: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"client": name, "class": label, "share": float(share)}
        for name, mix in zip(names, mixes, strict=True)
        for label, share in zip(labels, mix.share, strict=True)
        if share > 0
    ]
