"""The report of an audit of a federation: shares by client, in a figure, words and numbers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import altair as alt
import jinja2
from markupsafe import Markup

from leakscope.core import Estimate, Finding, Proportions, Status
from leakscope.metrics import composition
from leakscope.report import figures, style, words
from leakscope.report.markdown import inert

UNEVEN = 0.05
"""P-values up to this are called uneven."""

_TITLES = {
    "l1": "L1",
    "l2": "L2",
    "linf": "L∞",
    "null_accuracy": "Null or not: right",
    "null_precision": "Declared null: right",
    "null_recall": "Null: declared",
}

_MOST = 3
"""Classes that a sentence names."""


@dataclass(frozen=True, slots=True)
class Told:
    """All that the report says."""

    name: str
    created: str
    clients: tuple[str, ...]
    class_names: tuple[str, ...]
    """Empty, or one a class."""
    truth: Sequence[Proportions] | None
    findings: tuple[Finding, ...]
    guesses: tuple[Sequence[Proportions] | None, ...]
    """By attack: one entry a client, or None where it is not done."""
    reproduction: Mapping[str, Any]

    @property
    def speaker(self) -> int | None:
        """The attack that figure and sentences are about: the first one that is done."""
        done = [k for k, finding in enumerate(self.findings) if finding.status is Status.DONE]
        return done[0] if done else None

    def class_name(self, label: int) -> str:
        """What a class is called."""
        names = self.class_names
        return words.plain(names[label]) if label < len(names) else f"class {label}"


def write_all(told: Told) -> dict[str, bytes]:
    """The files of the report: ``report.html``, ``summary.json``, ``summary.md``, the figure."""
    drawn = _figure(told)
    svg = None if drawn is None else figures.render(drawn, "svg").decode()
    files = {
        "report.html": _page(told, svg).encode(),
        "summary.json": json.dumps(_summary(told), indent=1).encode() + b"\n",
        "summary.md": "\n".join(f"- {inert(line)}" for line in lines(told)).encode() + b"\n",
    }
    if svg is not None:
        files["figures/shares.svg"] = svg.encode()
    return files


def sentences(told: Told) -> tuple[str, ...]:
    """One plain sentence a client."""
    guesses = None if told.speaker is None else told.guesses[told.speaker]
    if guesses is None:
        return ()
    return tuple(_sentence(told, k, guess) for k, guess in enumerate(guesses))


def _sentence(told: Told, client: int, guess: Proportions) -> str:
    order = sorted(range(len(guess.share)), key=lambda label: -guess.share[label])
    most = [label for label in order[:_MOST] if guess.share[label] > 0]
    named = [f"{told.class_name(k)} ({100 * guess.share[k]:.0f} %)" for k in most]
    parts = [f"Client {words.plain(told.clients[client])} seems to hold mostly {_and(named)}"]
    absent = [told.class_name(k) for k, null in enumerate(guess.null) if null]
    if absent:
        parts.append(f"and nothing of {_and(absent)}")
    text = " ".join(parts)
    if guess.even is not None and guess.even > UNEVEN:
        text += f"; there is no sign that its classes are uneven (p = {guess.even:.2g})"
    if told.truth is not None:
        off = composition.distance(guess, told.truth[client])["l1"] / 2
        text += f"; the guess puts {100 * off:.0f} % of its records into wrong classes"
    return f"{text}."


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def lines(told: Told) -> tuple[str, ...]:
    """The sentences, and how each attack ended."""
    found = sentences(told)
    notes = [_note(finding) for finding in told.findings]
    return (*found, *notes)


def _note(finding: Finding) -> str:
    """How an attack ended, with its mean distance where that is known."""
    said = [finding.status.value, *(part for part in (finding.reason, finding.how) if part)]
    if "l1" in finding.metrics:
        said.append(f"mean L1 distance {_estimate(finding.metrics['l1'])}")
    return words.plain(f"{finding.label}: {'; '.join(said)}")


def _figure(told: Told) -> alt.LayerChart | None:
    """A disc for each guessed share and a ring for the true one: where they match, it is right."""
    guesses = None if told.speaker is None else told.guesses[told.speaker]
    if guesses is None:
        return None
    names = words.shortened([words.plain(name) for name in told.clients], 24)
    labels = words.shortened([told.class_name(k) for k in range(len(guesses[0].share))], 16)
    x = alt.X("class:N", title=None, sort=None).axis(labelAngle=-40, domain=False, ticks=False)
    x = x.scale(domain=labels)  # in the order of the classes, whoever holds them
    y = alt.Y("client:N", title="client", sort=None).axis(domain=False, ticks=False)
    size = alt.Size("share:Q", legend=None).scale(domain=[0, 1], range=[0, 1400])
    layers = [
        alt.Chart(style.data(_dots(guesses, names, labels)))
        .mark_point(filled=True, color=style.ACCENT, opacity=0.75)
        .encode(x=x, y=y, size=size)
    ]
    if told.truth is not None:
        layers.append(
            alt.Chart(style.data(_dots(told.truth, names, labels)))
            .mark_point(filled=False, color=style.INK, strokeWidth=1.5, opacity=1)
            .encode(x=x, y=y, size=size)
        )
    return style.finished(*layers, height=alt.Step(40))


def _dots(
    mixes: Sequence[Proportions], names: Sequence[str], labels: Sequence[str]
) -> list[dict[str, Any]]:
    return [
        {"client": name, "class": label, "share": float(share)}
        for name, mix in zip(names, mixes, strict=True)
        for label, share in zip(labels, mix.share, strict=True)
        if share > 0
    ]


def _summary(told: Told) -> dict[str, Any]:
    """``summary.json``: all that the page says."""
    return words.plain_all(  # type: ignore[no-any-return]
        {
            "schema": 1,
            "name": told.name,
            "created": told.created,
            "clients": list(told.clients),
            "truth": None if told.truth is None else [t.share.tolist() for t in told.truth],
            "attacks": [
                {
                    "label": finding.label,
                    "status": finding.status.value,
                    "reason": finding.reason,
                    "how": finding.how,
                    "metrics": {name: asdict(one) for name, one in finding.metrics.items()},
                    "unmeasured": dict(finding.unmeasured),
                    "shares": None if guess is None else [g.share.tolist() for g in guess],
                    "null": None if guess is None else [g.null.tolist() for g in guess],
                    "even": None if guess is None else [g.even for g in guess],
                }
                for finding, guess in zip(told.findings, told.guesses, strict=True)
            ],
            "sentences": list(sentences(told)),
            "reproduction": dict(told.reproduction),
        }
    )


def _page(told: Told, svg: str | None) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("leakscope.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["measured"] = _measured
    return environment.get_template("clients.html.j2").render(
        name=words.plain(told.name),
        created=words.plain(told.created),
        findings=words.plain_all([asdict(finding) for finding in told.findings]),
        titles=_TITLES,
        sentences=sentences(told),
        speaker=None if told.speaker is None else words.plain(told.findings[told.speaker].label),
        truth=told.truth is not None,
        figure=None if svg is None else Markup(svg),  # noqa: S704 - drawn by us
        reproduction=json.dumps(words.plain_all(told.reproduction), indent=2, ensure_ascii=False),
    )


def _measured(finding: Mapping[str, Any], name: str) -> str:
    one = finding["metrics"].get(name)
    return "not measured" if one is None else _estimate(Estimate(**one))


def _estimate(one: Estimate) -> str:
    return f"{one.value:.3f} ({one.low:.3f} to {one.high:.3f})"
