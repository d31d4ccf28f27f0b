"""The tables of `shadow-quality.md` and its CSV file, from the rows that its benchmark stored.

``generate.py`` calls `pages`.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.resolve().parent))  # others ship a package `benchmarks` too

from benchmarks.shadow_quality import compare, rows  # noqa: E402
from benchmarks.shadow_quality.tasks import TASKS  # noqa: E402

PAGE = HERE / "results" / "shadow-quality.md"
MARKS = (
    "<!-- written by docs/generate.py from benchmarks/shadow_quality/measured -->\n",
    "<!-- end of what is written -->\n",
)


def pages() -> dict[Path, str]:
    """The page with the tables of what is stored between its marks, and all figures as CSV."""
    before, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
    _, after = rest.split(MARKS[1])
    measured = list(rows.read_all(list(TASKS)))
    missing = [name for name in TASKS if name not in {one.heading.target for one in measured}]
    lines = compare.page(measured)
    if missing:
        lines[0] += f" Not measured yet: {', '.join(missing)}."
    text = before + MARKS[0] + "\n" + "\n".join(lines) + "\n" + MARKS[1] + after
    return {PAGE: text, PAGE.with_suffix(".csv"): compare.to_csv(measured)}
