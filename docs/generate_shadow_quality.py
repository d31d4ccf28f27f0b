"""The tables of `shadow-quality.md` and `shadow-peers.md`, and their CSV files, from stored rows.

``generate.py`` calls `pages`.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.resolve().parent))  # others ship a package `benchmarks` too

from benchmarks.shadow_quality import compare, other_tools_page, rows  # noqa: E402
from benchmarks.shadow_quality.tasks import TASKS  # noqa: E402

PAGE = HERE / "results" / "shadow-quality.md"
PEERS = HERE / "results" / "shadow-peers.md"
MARKS = (
    "<!-- written by docs/generate.py from benchmarks/shadow_quality/measured -->\n",
    "<!-- end of what is written -->\n",
)


def pages() -> dict[Path, str]:
    """The pages with the tables of what is stored between their marks, and all figures as CSV."""
    measured = list(rows.read_all(list(TASKS)))
    missing = [name for name in TASKS if name not in {one.heading.target for one in measured}]
    lines = compare.page(measured)
    if missing:
        lines[0] += f" Not measured yet: {', '.join(missing)}."
    beside = other_tools_page.read_all(list(TASKS))
    stored = {one.heading.target: one.rows for one in measured}
    tables = other_tools_page.page(beside)
    tables += ["", "### In single precision", "", *other_tools_page.precision(beside, stored)]
    return {
        PAGE: _between_marks(PAGE, lines),
        PAGE.with_suffix(".csv"): compare.to_csv(measured),
        PEERS: _between_marks(PEERS, tables),
        PEERS.with_suffix(".csv"): other_tools_page.to_csv(beside),
    }


def _between_marks(page: Path, lines: list[str]) -> str:
    before, rest = page.read_text(encoding="utf-8").split(MARKS[0])
    _, after = rest.split(MARKS[1])
    return before + MARKS[0] + "\n" + "\n".join(lines) + "\n" + MARKS[1] + after
