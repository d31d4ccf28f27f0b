"""What the report of a search shows, as Markdown and CSV."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass

from divulge._util import showable
from divulge._util.json import Settings
from divulge.report.markdown import make_inert


@dataclass(frozen=True, slots=True)
class SearchPage:
    """What the report of a search shows, whatever was searched for."""

    kind: str
    """What was searched for, in words."""
    name: str
    created: str
    outcome: str
    """``under`` or ``within``, ``over``, or ``undecided``."""
    headline: str
    sentences: tuple[str, ...]
    next_step: str
    """What to do after reading this."""
    numbers: tuple[tuple[str, str], ...]
    """The figures that decide, with their titles."""
    note: str
    """What was run last, and how."""
    audit: str
    """Where the page of the final audit is; empty without one."""
    toml: str
    """What belongs into the user's settings; empty without any."""
    rows: tuple[tuple[str, ...], ...]
    """The trials as cells, with their headings on top; the last cell says which is chosen."""
    basis: str
    """What the figures of trials stand on."""
    refused: Mapping[str, str]
    """By defence, or by setting, why it could not be tried."""
    settings: Settings
    environment: Mapping[str, str]

    def refusals(self) -> list[str]:
        """A sentence for each reason why defences or settings could not be tried."""
        names: dict[str, list[str]] = {}
        for name, why in self.refused.items():
            names.setdefault(why, []).append(name)
        return [
            f"{'; '.join(each)} could not be tried: {showable.make_showable(why)}"
            for why, each in names.items()
        ]

    def as_markdown(self) -> str:
        """Outcome and trials as Markdown; every text from outside is escaped."""
        heads, *rows = [tuple(map(make_inert, row)) for row in self.rows]
        return "\n".join([
            f"**{make_inert(self.headline)}**",
            "",
            " ".join(map(make_inert, self.sentences)),
            "",
            f"Next: {make_inert(self.next_step)}",
            "",
            *(f"| {' | '.join(row)} |" for row in (heads, ("---",) * len(heads), *rows)),
            "",
            self.basis,
            *(f"\n{make_inert(line)}" for line in self.refusals()),
        ])  # fmt: skip

    def as_files(self) -> dict[str, bytes]:
        """``summary.md`` and ``trials.csv``."""
        table = io.StringIO()
        csv.writer(table).writerows(
            [[showable.make_showable(cell) for cell in row] for row in self.rows]
        )
        text = f"# {make_inert(self.name)}\n\n{self.as_markdown()}\n"
        if self.toml:
            text += f"\nFor your federate.toml:\n\n```toml\n{self.toml}\n```\n"
        return {"summary.md": text.encode(), "trials.csv": table.getvalue().encode()}
