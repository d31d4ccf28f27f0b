"""The tables of `shadow-quality.md`, from the rows that its benchmark stored.

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
    "<!-- written by docs/generate.py from docs/results/shadow-quality -->\n",
    "<!-- end of what is written -->\n",
)


def pages() -> dict[Path, str]:
    """The page with the tables of what is stored between its marks."""
    before, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
    _, after = rest.split(MARKS[1])
    measured = list(rows.read_all(list(TASKS)))
    missing = [name for name in TASKS if name not in {one.heading.target for one in measured}]
    lines = compare.page(measured)
    if missing:
        lines[0] += f" Not measured yet: {', '.join(missing)}."
    return {PAGE: before + MARKS[0] + "\n" + "\n".join(lines) + "\n" + MARKS[1] + after}
