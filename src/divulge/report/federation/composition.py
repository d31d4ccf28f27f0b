"""The page of an attack on composition: class shares of each client, in sentences and a figure."""

from collections.abc import Collection, Sequence
from typing import Any

from divulge._util import showable
from divulge._util.random import stream
from divulge.core import CompositionFacts, Finding, Proportions
from divulge.metrics import composition
from divulge.metrics.uninformed import composition as uninformed
from divulge.report import words
from divulge.report.federation.story import (
    Figure,
    PageContent,
    estimate_cells,
    headline_attack,
    join_words,
)
from divulge.report.federation.verdicts.composition import SCOPE, CompositionWords
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

_MOST_NAMED = 3
"""Most classes that a sentence names."""

Mixes = Sequence[Proportions]


def page_content(
    facts: CompositionFacts,
    findings: tuple[Finding, ...],
    guesses: tuple[Mixes | None, ...],
    unsound: Collection[int] = (),
) -> PageContent:
    """What the attacks say of class shares; see `FederatedSecret.page_content`."""
    first = headline_attack(findings)
    told = None if first is None else guesses[first]
    known = facts.truth is not None
    tested = None
    if facts.truth is not None:
        tested = uninformed.randomise(guesses, facts.truth, stream(0, "permutations of clients"))
    return PageContent(
        verdict=judge_federation(CompositionWords(guesses, facts.truth, tested), findings, unsound),
        title="What each client’s updates reveal about its classes",  # noqa: RUF001
        doubt=""
        if known
        else "the true label distributions are unknown, so nothing here could be checked",
        sentences=tuple(_client_sentence(facts, k, guess) for k, guess in enumerate(told or ())),
        columns=tuple(_TITLES.values()),
        cells=tuple(estimate_cells(finding, tuple(_TITLES)) for finding in findings),
        caption="Means over clients with 95 % intervals",
        measures=_MEASURES,
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
            }
            for guess in guesses
        ),
        scope=SCOPE,
        figures=tuple if told is None else lambda: (_share_figure(facts, told),),
    )


def _class_name(facts: CompositionFacts, label: int) -> str:
    names = facts.class_names
    return showable.make_showable(names[label]) if label < len(names) else f"class {label}"


def _client_sentence(facts: CompositionFacts, client: int, guess: Proportions) -> str:
    order = sorted(range(len(guess.share)), key=lambda label: -guess.share[label])
    most = [label for label in order[:_MOST_NAMED] if guess.share[label] > 0]
    named = [f"{_class_name(facts, k)} ({100 * guess.share[k]:.0f} %)" for k in most]
    parts = [
        f"Client {showable.make_showable(facts.clients[client])} seems to hold mostly "
        f"{join_words(named)}"
    ]
    absent = [_class_name(facts, k) for k, null in enumerate(guess.null) if null]
    if absent:
        parts.append(f"and nothing of {join_words(absent)}")
    text = " ".join(parts)
    if guess.even is not None and guess.even > UNEVEN:
        text += f"; no test shows that its classes are uneven (p = {guess.even:.2g})"
    if facts.truth is not None:
        off = composition.distance(guess, facts.truth[client])["l1"] / 2
        text += f"; the prediction puts {100 * off:.0f} % of its records into wrong classes"
    return f"{text}."


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
