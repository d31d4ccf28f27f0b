"""What attacks on assignment find after how many rounds of a federation."""

from collections.abc import Iterator, Sequence

from divulge._util import showable
from divulge.core import Finding
from divulge.report import words
from divulge.report.federation.story import PageTable, rate_cells

_AFTER = "after_rounds"
"""The setting of an attack that was carried out before the last round."""

_SHOWN = {"accuracy": "Accuracy", "recall": "Recall of members"}


def rounds_seen(finding: Finding, played: int | None) -> int | None:
    """After how many rounds an attack was carried out; None if it saw no rounds.

    Args:
        finding: finding of the attack.
        played: number of rounds in all; None if only models' answers are known.
    """
    after = finding.settings.get(_AFTER, played)
    return after if isinstance(after, int) else None


def round_tables(findings: Sequence[Finding], played: int | None) -> Iterator[PageTable]:
    """Accuracy and recall by number of rounds; no table if all attacks saw all rounds.

    Args:
        findings: finding of each attack.
        played: as of `rounds_seen`.
    """
    if not any(_AFTER in finding.settings for finding in findings):
        return
    repeated = {
        _settings(finding) for finding in findings if _AFTER in finding.settings and finding.metrics
    }
    whole = [
        finding
        for finding in findings
        if _AFTER not in finding.settings and _settings(finding) in repeated
    ]
    names = words.shorten_names([showable.make_showable(finding.label) for finding in whole], 40)
    by_round = {(_settings(finding), rounds_seen(finding, played)): finding for finding in findings}
    after = sorted({played_rounds for _, played_rounds in by_round if played_rounds is not None})
    for metric, title in _SHOWN.items():
        yield PageTable(
            f"rounds-{metric}",
            f"{title} by round",
            "Each attack with what the server had after so many rounds: the updates until then, "
            "and each client’s last model of them. Which row is best is chosen by the "  # noqa: RUF001
            "truth; the test behind the verdict counts every row.",
            ("After rounds", *names),
            tuple(
                (
                    str(n),
                    *(_cell(by_round.get((_settings(finding), n)), metric) for finding in whole),
                )
                for n in after
            ),
        )


def _settings(finding: Finding) -> tuple[str, str]:
    """What an attack has in common with itself after fewer rounds."""
    rest = sorted((name, value) for name, value in finding.settings.items() if name != _AFTER)
    return finding.attack, repr(rest)


def _cell(finding: Finding | None, metric: str) -> str:
    return "" if finding is None else rate_cells(finding, (metric,))[0]
