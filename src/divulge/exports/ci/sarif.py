"""SARIF 2.1.0: what is wrong with a run, as code scanning shows it beside the settings file.

References:
    OASIS (2020), Static Analysis Results Interchange Format (SARIF) version 2.1.0.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from divulge._util.digest import digest
from divulge._util.json import JSON
from divulge.core import Status
from divulge.exports.ci.cases import RunCases, VerdictCase

_Severity = Literal["error", "warning", "note"]

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)

_RULES: dict[str, tuple[_Severity, str, str]] = {
    "leak": (
        "error",
        "The model or the federation leaks its training data",
        "One exact test of all attacks together found a leak at the 5 % level.",
    ),
    "expected-leak": (
        "warning",
        "A leak of the federation is expected",
        "The truth is unknown. Simulated clients, whose truth is known, are read by their updates.",
    ),
    "leak-or-shift": (
        "warning",
        "Members stand out, by a leak or by a difference of the two sets",
        "The features of the records are not known, so nothing tells the two apart.",
    ),
    "confounded": (
        "warning",
        "Members and non-members differ without the model",
        "Figures measure more than what the model remembers, so no verdict can be given.",
    ),
    "instrument-failed": (
        "warning",
        "An attack failed its controls",
        "The deciding attack failed a control, so its figures mean nothing.",
    ),
    "inputs-doubtful": (
        "warning",
        "The inputs of the audit are doubtful",
        "Members and non-members look exchanged, or rows, answers or labels contradict others.",
    ),
    "undecided": (
        "warning",
        "There are too few records, or people, for a verdict",
        "The audit could not detect even a perfect leak, so it shows nothing.",
    ),
    "nothing-measured": (
        "warning",
        "No attack finished",
        "Nothing was measured, so nothing was shown.",
    ),
    "gate-failed": (
        "error",
        "The gate failed",
        "A metric exceeds its ceiling, or another condition of the gate does not hold.",
    ),
    "gate-undecided": (
        "warning",
        "The gate could not be decided",
        "What cannot be decided does not pass.",
    ),
    "attack-failed": (
        "warning",
        "An attack ended with an error",
        "The audit is complete without it, and shows less.",
    ),
    "control-untested": (
        "note",
        "A control of an attack could not be run",
        "Nothing shows that the figures of this attack are sound.",
    ),
    "check": (
        "note",
        "A check of the audit itself gave a warning",
        "The figures have to be read with this in mind.",
    ),
    "contradicted": (
        "error",
        "The stated ε is contradicted",
        "What the canaries show of the training is more than the stated guarantee allows.",
    ),
    "undecidable": (
        "warning",
        "The stated ε cannot be tested",
        "The canaries are too few: not even a training that gives away all of them would show it.",
    ),
    "over-limits": (
        "warning",
        "No setting within the limits was found",
        "The setting that was found gives away more than was allowed.",
    ),
}
"""By id: how serious it is, in a few words, and in a sentence."""

_RULE_OF_LEVEL = {rule.replace("-", " "): rule for rule in _RULES}
"""Of levels that are a result. Names of other rules are no levels."""


_OF_THE_VERDICT = frozenset(
    f"fail-on {word}"
    for word in (
        "leak",
        "leak-or-shift",
        "confounded",
        "control-failed",
        "undecided",
        "contradicted",
        "undecidable",
    )
)
"""What a gate asks of the verdict, which has a result of its own."""


@dataclass(frozen=True, slots=True)
class _Result:
    rule: str
    subject: str
    """What it is about, in words that stay the same when figures change."""
    text: str
    severity: _Severity | None = None


def render(run: RunCases, settings: str) -> bytes:
    """Render what is wrong as one SARIF file; a run in which all is well has no result.

    Args:
        run: what is told of the run.
        settings: path of the settings, relative to the root of the repository.
    """
    driver = {"name": "divulge", "version": run.divulge, "rules": [*_rules()]}
    described: JSON = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"divulge/{run.name}/"},
        "columnKind": "unicodeCodePoints",
        "results": [_describe(result, run, settings) for result in _results(run)],
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [described]}
    return json.dumps(log, indent=1, ensure_ascii=False).encode() + b"\n"


def _rules() -> Iterator[JSON]:
    for name, (severity, title, sentence) in _RULES.items():
        yield {
            "id": f"divulge/{name}",
            "name": "".join(word.capitalize() for word in name.split("-")),
            "shortDescription": {"text": title},
            "fullDescription": {"text": sentence},
            "help": {"text": f"{sentence} The report of the run says what to do next."},
            "defaultConfiguration": {"level": severity},
            "properties": {"tags": ["security", "privacy"]},
        }


def _results(run: RunCases) -> Iterator[_Result]:
    results = [case.result for case in run.gate if case.condition in _OF_THE_VERDICT]
    for verdict in run.verdicts:
        if verdict.level in _RULE_OF_LEVEL:
            severity: _Severity | None = "error" if "failed" in results else None
            text = _verdict_text(verdict, run.report)
            yield _Result(_RULE_OF_LEVEL[verdict.level], verdict.about, text, severity)
    for case in run.gate:
        shown = case.condition in _OF_THE_VERDICT and any(
            verdict.level in _RULE_OF_LEVEL for verdict in run.verdicts
        )
        if case.result != "passed" and not shown:
            sentences = " ".join([*case.sentences, f"Report: {run.report}"])
            yield _Result(f"gate-{case.result}", case.condition, sentences)
    for attack in run.attacks:
        subject = f"{attack.about}: {attack.label}" if attack.about else attack.label
        if attack.status is Status.FAILED:
            yield _Result("attack-failed", subject, f"{subject}: {attack.reason}")
        if attack.untested:
            text = f"The controls of {subject} could not be run: {attack.untested}"
            yield _Result("control-untested", subject, text)
    for name, text in run.warnings.items():
        yield _Result("check", name, f"{name.capitalize()}: {text}")


def _verdict_text(verdict: VerdictCase, report: str) -> str:
    about = f"{verdict.about}: " if verdict.about else ""
    sentences = [f"{about}{verdict.headline}.", *verdict.sentences]
    sentences += [f"{verdict.deciding}."] if verdict.deciding else []
    return " ".join([*sentences, f"Next: {verdict.next_step}", f"Report: {report}"])


def _describe(result: _Result, run: RunCases, settings: str) -> JSON:
    subject = digest("\n".join([result.rule, run.name, settings, result.subject]))
    location = {
        "artifactLocation": {"uri": quote(settings), "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 1},
    }
    return {
        "ruleId": f"divulge/{result.rule}",
        "ruleIndex": list(_RULES).index(result.rule),
        "level": result.severity or _RULES[result.rule][0],
        "message": {"text": _escape(result.text)},
        "locations": [{"physicalLocation": location}],  # type: ignore[dict-item]
        # the one fingerprint that GitHub compares: else all results on line 1 would be one
        "partialFingerprints": {"primaryLocationLineHash": f"{subject[:16]}:1"},
    }


def _escape(text: str) -> str:
    """Take what messages of SARIF give a meaning: embedded links, and placeholders in braces."""
    return text.replace("](", "] (").replace("{", "{{").replace("}", "}}")
