"""Publish run folders of `divulge reproduce`, or unpack published ones to go on with them.

::

    python docs/publish_results.py unpack runs/paper raifle-table15
    divulge reproduce raifle-table15 --size paper --run runs/paper/raifle-table15 --budget 2h
    python docs/publish_results.py pack runs/paper/raifle-table15
    make docs

``pack`` writes ``papers/results``, and the CSV file of each table beside the pages.
"""

from pathlib import Path

import click

from divulge_papers import published
from divulge_papers.cells import PIECES_FILE
from divulge_papers.result import RESULT_FILE, read_outcome
from divulge_papers.table_csv import to_csv

ROOT = Path(__file__).resolve().parents[1]
PACKED = ROOT / "papers" / "results"
PAGES = ROOT / "docs" / "results"


@click.group()
def main() -> None:
    """Publish run folders of `divulge reproduce`, or unpack published ones to go on with them."""


@main.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
def pack(folders: tuple[Path, ...]) -> None:
    """Pack run FOLDERS, and write the CSV file of each table."""
    for folder in folders:
        published.pack(folder, PACKED)
    for name in dict.fromkeys(read_outcome(folder / RESULT_FILE).table for folder in folders):
        sizes = (published.read_published(PACKED, name, size) for size in ("paper", "small"))
        text = to_csv([outcome for outcome in sizes if outcome is not None])
        (PAGES / f"{name}.csv").write_text(text, encoding="utf-8")


@main.command()
@click.argument("runs", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1, required=True)
def unpack(runs: Path, names: tuple[str, ...]) -> None:
    """Write the pieces of the tables NAMES into run folders in RUNS."""
    for name in names:
        (runs / name).mkdir(parents=True)
        packed = published.published_file(PACKED, name, "paper")
        (runs / name / PIECES_FILE).write_bytes(published.unpack(packed))


if __name__ == "__main__":
    main()
