"""Damage files of every kind, and say what is neither read nor refused."""

import argparse
import sys
from pathlib import Path

from .formats import FORMATS
from .search import available, keep, search

CORPUS = Path(__file__).parent / "corpus"


def _show(text: str) -> None:
    sys.stdout.write(text.encode("ascii", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100, help="files of each kind")
    parser.add_argument("--kind", action="append", choices=FORMATS, help="repeatable; default: all")
    parser.add_argument("--keep", action="store_true", help=f"write findings into {CORPUS.name}/")
    asked = parser.parse_args()
    names = asked.kind or available()
    for name in FORMATS.keys() - set(names) if not asked.kind else ():
        _show(f"{name}: left out, {' or '.join(FORMATS[name].packages)} is not installed")
    found = search(asked.seed, asked.count, names, _show)
    if asked.keep:
        for finding in found.findings.values():
            _show(f"kept {keep(finding, CORPUS)}")
    _show(f"{sum(found.outcomes.values())} files, {len(found.findings)} faults: ")
    _show(", ".join(f"{number} {what}" for what, number in found.outcomes.most_common()))
    return 1 if found.findings else 0


if __name__ == "__main__":
    sys.exit(_main())
