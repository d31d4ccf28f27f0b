"""A model card, as on Hugging Face: the audit as a section, which a later audit replaces."""

from collections.abc import Mapping

from divulge.report import words
from divulge.report.markdown import make_inert

START, END = "<!-- divulge: privacy audit -->", "<!-- divulge: end -->"
"""What stands around the section. Nothing in it can look like either: texts of others are inert."""


def put_section(
    card: str, report: str, created: str, divulge: str, environment: Mapping[str, str]
) -> str:
    """The card with the section about a run: instead of an earlier one, or at the end.

    Args:
        card: the card's text with its front matter, which stays as it is; empty for a new card.
        report: the report in Markdown, every text of others made inert.
        created: when the run was made, UTC, ISO 8601; empty if its folder does not say.
        divulge: the version that made it.
        environment: by name, what figures may depend on besides, such as versions of libraries.

    Raises:
        ValueError: an earlier section has no end, or there are two.
    """
    origin = _origin(created, divulge, environment)
    section = "\n\n".join([START, "## Privacy audit", report.strip(), origin, END])
    if START not in card and END not in card:
        return f"{card.rstrip()}\n\n{section}\n".lstrip("\n")
    before, _, rest = card.partition(START)
    _, ended, after = rest.partition(END)
    if not ended or END in before or START in after or END in after:
        raise ValueError(f"not one {START} with one {END} after it")
    return f"{before}{section}{after}"


def _origin(created: str, divulge: str, environment: Mapping[str, str]) -> str:
    shown = words.format_moment(created)
    stamped = words.parse_moment(created) is not None  # which nothing of others is in
    made = f", {shown if stamped else make_inert(shown)}" if created else ""
    beside = ", ".join(make_inert(f"{name} {value}") for name, value in environment.items())
    return (
        f"Measured with divulge {make_inert(divulge)}{made}."
        + f" Environment: {beside}." * bool(beside)
    )
