"""The page of an attack on interactions: how many were recovered, client by client."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np

from divulge._util.json import JSON
from divulge._util.random import stream
from divulge.core import Estimate, Finding, InteractionFacts, Interactions, Reconstruction
from divulge.metrics import interactions, intervals
from divulge.metrics.uninformed import interactions as uninformed
from divulge.report import words
from divulge.report.federation.brief import write_brief
from divulge.report.federation.story import (
    Figure,
    PageContent,
    PageTable,
    headline_attack,
    rate_cells,
)
from divulge.report.federation.verdicts.interactions import SCOPE, InteractionWords
from divulge.report.federation.verdicts.judge import judge_federation

_TITLES = {"auc": "AUC", "f1": "F1", "precision_at_count": "Precision at the true count"}

_MEASURES = (
    "AUC is the probability that an item with an interaction scores higher than one without: 50 % "
    "is guessing. F1 is the harmonic mean of precision and recall of the decisions. Precision at "
    "the true count is the share of items with an interaction among the k highest scores, where k "
    "is the number of interactions of the client."
)

MOST_ROWS = 30
"""Most clients in the table."""

_DOUBTS = {
    (False, False): "",
    (False, True): "",
    (True, False): "the true interactions are unknown, so nothing here could be checked",
    (True, True): "the true interactions are unknown: how good this is, simulated clients say",
}
"""What figures leave open, by whether the truth is unknown, and whether clients were simulated."""

_BINS = np.linspace(0, 1, 11)

Guesses = Sequence[Reconstruction]
Truth = Sequence[Interactions]


def page_content(
    facts: InteractionFacts,
    findings: tuple[Finding, ...],
    guesses: tuple[Guesses | None, ...],
    unsound: Collection[int] = (),
    beyond: tuple[uninformed.BeyondPublic | None, ...] = (),
    simulated: tuple[uninformed.SimulatedClicks | None, ...] = (),
) -> PageContent:
    """What attacks say of items, of which none is named; see `FederatedSecret.page_content`."""
    truth = facts.truth
    judged = [k for k, clicks in enumerate(simulated) if clicks is not None]
    first = judged[0] if judged else headline_attack(findings)
    shown_guesses = None if first is None else guesses[first]
    doubt, sentences = _DOUBTS[truth is None, bool(judged)], tuple[str, ...]()
    figures: Callable[[], Iterable[Figure]] = tuple
    if shown_guesses is not None and first is not None:
        if truth is None:
            sentences = (_sentence_without_truth(facts.items, shown_guesses),)
        else:
            sentences = tuple(_sentences_with_truth(findings[first], shown_guesses, truth))
            figures = partial(_recovery_figure, first, findings, guesses, truth)
    tested = None
    if truth is not None:
        tested = uninformed.randomise(guesses, truth, stream(0, "signs of clients"), beyond)
    case = InteractionWords(guesses, truth, tested, beyond, simulated, facts.sums)
    verdict = judge_federation(case, findings, unsound)
    return PageContent(
        verdict=verdict,
        brief=write_brief(case, verdict, findings, unsound, _concerned(facts)),
        title="What each client’s update reveals about its interactions",  # noqa: RUF001
        doubt=doubt,
        sentences=sentences,
        columns=tuple(_TITLES.values()),
        cells=tuple(rate_cells(finding, tuple(_TITLES)) for finding in findings),
        caption="Means over clients with 95 % intervals",
        measures=_MEASURES,
        headline=("auc", "mean AUC"),
        summary=_summary_facts(facts),
        details=tuple(
            _client_details(guess, truth) | _simulated_details(twins)
            for guess, twins in zip_longest(guesses, simulated)
        ),
        scope=SCOPE,
        speaker=first,
        figures=figures,
        tables=()
        if shown_guesses is None
        else (_client_table(facts.clients, shown_guesses, truth),),
    )


def _summary_facts(facts: InteractionFacts) -> dict[str, JSON]:
    return {
        "clients": list(facts.clients),
        "items": list(facts.items),
        "acted": None if facts.acted is None else [len({*items}) for items in facts.acted],
    }


def _concerned(facts: InteractionFacts) -> str:
    many = words.format_count(len(facts.clients), "user")
    shown = words.format_count(sum(facts.items), "item")
    if facts.acted is None:
        return f"{many}, who were shown {shown}."
    return f"{many}, who were shown {shown} and clicked {sum(map(len, facts.acted)):,}."


def _sentence_without_truth(items: tuple[int, ...], guesses: Guesses) -> str:
    decided = sum(int(guess.decided.sum()) for guess in guesses)
    return (
        f"Of {words.format_count(sum(items), 'item')} shown to "
        f"{words.format_count(len(items), 'client')}, the attack predicts interactions with "
        f"{decided:,}."
    )


def _sentences_with_truth(finding: Finding, guesses: Guesses, truth: Truth) -> Iterator[str]:
    acted = np.array([int(user.acted.sum()) for user in truth])
    right = np.array(
        [int((g.decided & t.acted).sum()) for g, t in zip(guesses, truth, strict=True)]
    )
    decided = sum(int(guess.decided.sum()) for guess in guesses)
    some = acted > 0
    many = words.format_count(len(guesses), "client")
    if some.sum() > 1:
        limits = intervals.clustered_proportion(right[some], acted[some])
        share = words.format_rate(Estimate(float(right.sum() / acted.sum()), *limits))
        yield (
            f"Of {words.format_count(int(acted.sum()), 'interaction')} of {many}, {right.sum():,} "
            f"were recovered: {share}. The attack also has "
            f"{words.format_count(decided - int(right.sum()), 'false positive')}."
        )
        shares = right[some] / acted[some]
        yield (
            f"Of {int((shares >= 0.9).sum()):,} of {words.format_count(int(some.sum()), 'client')} "
            "at least nine in ten interactions were recovered; for the median client "
            f"{100 * np.median(shares):.0f} %, "
            f"for the least exposed one {100 * shares.min():.0f} %."
        )
    if "auc" in finding.metrics:
        auc = finding.metrics["auc"]
        better = auc.low > 0.5
        yield (
            "An item with an interaction scores higher than one without in "
            f"{words.format_rate(auc)} of cases; "
            + ("guessing gives 50 %." if better else "that is no more than guessing, 50 %.")
        )
    if alike := sum(not interactions.is_mixed(user) for user in truth):
        yield (
            f"{words.format_count(alike, 'client')} interacted with all items or with none: the "
            "means below leave them out."
        )


def _client_table(clients: tuple[str, ...], guesses: Guesses, truth: Truth | None) -> PageTable:
    """The table of clients, most exposed first; without the truth, in the order given."""
    columns: tuple[str, ...]
    cells: list[tuple[str, ...]]
    if truth is None:
        columns = ("Client", "Items shown", "Predicted interactions")
        order = list(range(len(clients)))
        cells = [(f"{len(g.decided):,}", f"{int(g.decided.sum()):,}") for g in guesses]
    else:
        columns = ("Client", "Items shown", "Interactions", "Recovered", "False positives")
        counts = [_item_counts(g, t) for g, t in zip(guesses, truth, strict=True)]
        order = sorted(range(len(clients)), key=lambda k: -counts[k][1] / max(1, counts[k][0]))
        cells = [
            (f"{len(t.acted):,}", *(f"{number:,}" for number in count))
            for t, count in zip(truth, counts, strict=True)
        ]
    names = words.shorten_names(clients, 64)
    rows = tuple((names[k], *cells[k]) for k in order[:MOST_ROWS])
    which = "Items are counted, and none is named"
    if truth is not None:
        which = f"The most exposed first; {which[0].lower()}{which[1:]}"
    if len(clients) > MOST_ROWS:
        which += f"; {MOST_ROWS} of {len(clients):,} clients, the others are in summary.json"
    return PageTable("clients", "Client by client", f"{which}.", columns, rows)


def _item_counts(guess: Reconstruction, truth: Interactions) -> tuple[int, int, int]:
    """How many items were acted on, of them recovered, and others said to be."""
    acted, decided = truth.acted, guess.decided
    return int(acted.sum()), int((acted & decided).sum()), int((decided & ~acted).sum())


def _client_details(guess: Guesses | None, truth: Truth | None) -> dict[str, JSON]:
    """Figures of each client, for programs."""
    decided = None if guess is None else [int(query.decided.sum()) for query in guess]
    if guess is None or truth is None:
        return {"said": decided, "recovered": None, "precision_at_count": None}
    pairs = list(zip(guess, truth, strict=True))
    return {
        "said": decided,
        "recovered": [int((g.decided & t.acted).sum()) for g, t in pairs],
        "precision_at_count": [
            interactions.precision_at_count(g.score, t.acted) if interactions.is_mixed(t) else None
            for g, t in pairs
        ],
    }


def _simulated_details(twins: uninformed.SimulatedClicks | None) -> dict[str, JSON]:
    return {"simulated_auc": None if twins is None else twins.auc.tolist()}


def _recovery_figure(
    first: int, findings: Sequence[Finding], guesses: Sequence[Guesses | None], truth: Truth
) -> Iterator[Figure]:
    """Clients by what was recovered of them: an area for the attack that speaks, lines beside."""
    from divulge.report import chart_style

    mixed = [k for k, user in enumerate(truth) if interactions.is_mixed(user)]
    if not mixed:
        return
    done = [first, *(k for k, guess in enumerate(guesses) if guess is not None and k != first)]
    done = done[: len(chart_style.COLOURS)]
    names = words.shorten_names([findings[k].label for k in done], 46)
    rows = [
        row
        for name, k in zip(names, done, strict=True)
        for row in _histogram(name, guesses[k], truth, mixed)
    ]
    yield Figure(
        "recovered",
        "How exposed clients are",
        _recovery_chart(names, rows),
        f"{words.format_count(len(mixed), 'client')} by their precision at the true count, in "
        "steps of 10 %: the further to the right, the more of its interactions are known.",
        "Histogram of clients by the share of their interactions that was recovered",
    )


def _histogram(
    name: str, guess: Guesses | None, truth: Truth, mixed: Sequence[int]
) -> list[dict[str, JSON]]:
    """Rows of the chart for one attack: how many of the mixed clients are in each bin."""
    assert guess is not None
    shares = [interactions.precision_at_count(guess[c].score, truth[c].acted) for c in mixed]
    count, _ = np.histogram(shares, _BINS)
    edges = [*pairwise(_BINS), (1.0, 1.0)]
    return [
        {"attack": name, "low": float(low), "high": float(high), "clients": int(number)}
        for (low, high), number in zip(edges, [*count, count[-1]], strict=True)
    ]


def _recovery_chart(names: Sequence[str], rows: list[dict[str, JSON]]) -> Any:
    import altair as alt

    from divulge.report import chart_style

    x = alt.X("low:Q", title="Precision at the true count")
    x = x.scale(domain=[0, 1]).axis(format="%", grid=False)
    y = alt.Y("clients:Q", title="Clients").axis(tickMinStep=1)
    scale = alt.Scale(domain=names, range=list(chart_style.COLOURS[: len(names)]))
    dashes = alt.Scale(
        domain=names, range=[list(dash) for dash in chart_style.DASHES[: len(names)]]
    )
    legend = alt.Legend(title=None, orient="top", columns=1)
    speaks = [row for row in rows if row["attack"] == names[0]]
    area = alt.Chart(chart_style.inline_data(speaks)).mark_area(
        interpolate="step-after", color=chart_style.ACCENT, opacity=0.25
    )
    lines = alt.Chart(chart_style.inline_data(rows)).mark_line(
        interpolate="step-after", strokeWidth=2
    )
    return chart_style.style_layers(
        area.encode(x=x, y=y),
        lines.encode(
            x=x,
            y=y,
            color=alt.Color("attack:N", legend=legend, scale=scale),
            strokeDash=alt.StrokeDash("attack:N", legend=legend, scale=dashes),
        ),
        height=220,
    )
