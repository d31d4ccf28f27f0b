"""The page of an audit by canaries."""

from typing import Any

from divulge.report.page import template_environment

_LEVELS = {
    "contradicted": "leak",
    "inputs doubtful": "inputs doubtful",
    "consistent": "no leak found",
    "undecidable": "undecided",
}
"""How the page colours a verdict."""

_NOISE = {
    "any": "Nothing: the bounds hold for every training.",
    "gaussian": "Its trade-off curve is that of Gaussian noise. Where that is false, a bound can "
    "exceed the true ε.",
    "independent-gaussian": "Its trade-off curve is that of Gaussian noise, and canaries do not "
    "interact. Where that is false, a bound can exceed the true ε.",
}

_UNSEEN = {
    "adding or removing one record": "A statement that is false by less than about twice. "
    "Unless the recorder knows what the accountant was told: shuffled batches that are accounted "
    "as Poisson sampling, and a divisor that follows from the number of records. A layer in which "
    "canaries have little of their gradient, or which has fewer weights than there are canaries. "
    "Noise that repeats after more than 192 steps, and none of the first 64; or in another order.",
    "adding or removing one client": "A statement that is false by less than about twice. Noise "
    "that repeats from round to round, where its scale is not stated; --sees differences of "
    "divulge canary score looks for it. What the drawing of clients hides.",
    "replacing the update of one client": "A statement that is false by less than about twice. "
    "Noise that repeats from round to round, where its scale is not stated.",
}
"""By what ε is for, which faults canaries do not show (docs/attacks/canaries.md)."""


def render(facts: Any, created: str = "") -> str:
    """Render the page; every text is escaped.

    Args:
        facts: the audit, with the attributes of `canaries.facts.CanaryFacts`.
        created: when it was made, UTC; empty where that is not known.
    """
    clients = any(result.gaussian is not None for result in facts.results)
    of_records = facts.neighbours if facts.records_each == 1 else "adding or removing one record"
    return (
        template_environment("divulge.canaries")
        .get_template("canaries.html.j2")
        .render(
            facts=facts,
            created=created,
            clients=clients,
            level=_LEVELS[facts.level],
            noise=_NOISE[facts.noise],
            unseen=_UNSEEN.get(of_records, ""),
        )
    )
