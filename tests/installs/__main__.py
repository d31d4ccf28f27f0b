"""The tests on the installs that users have, each in an environment of its own: ``make installs``.

Arguments are installs (all of them without), and after ``--`` pytest's own.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from .names import DISTRIBUTIONS, FLOORS, ROOT, installs


def install(name: str, place: Path) -> str:
    """Make an environment with divulge, these extras and the tests' tools; its Python."""
    venv.create(place, with_pip=True)
    python = str(place / ("Scripts" if os.name == "nt" else "bin") / "python")
    chosen = [] if name == "base" else name.split(",")
    extras = ",".join([*(one for one in chosen if one not in DISTRIBUTIONS), "tests"])
    asked = ["--constraint", "constraints.txt", "--editable", f".[{extras}]"]
    asked += [word for one in chosen if one in DISTRIBUTIONS for word in ("--editable", f"./{one}")]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *asked], cwd=ROOT, check=True)
    return python


def test(name: str, arguments: list[str]) -> tuple[bool, str]:
    """Whether the tests of one install pass, and a row about them."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="divulge-install-") as folder:
        python = install(name, Path(folder) / "venv")
        counts = Path(folder) / "counts.json"
        chosen = any((ROOT / one.partition("::")[0]).exists() for one in arguments)
        floor = 0 if chosen else FLOORS[name]
        options = ["--install", name, "--counts", str(counts), "--at-least", str(floor)]
        line = [python, "-m", "pytest", "-p", "tests.installs.lacking", *options, *arguments]
        done = subprocess.run(line, cwd=ROOT, check=False)
        found = json.loads(counts.read_text("utf-8")) if counts.exists() else {}
    cells = [found.get(key, "-") for key in ("passed", "failed", "skipped", "files")]
    seconds = f"{time.monotonic() - began:.0f}"
    verdict = "ok" if done.returncode == 0 else "FAILED"
    return done.returncode == 0, ROW.format(name, *cells, seconds, verdict)


ROW = "{:<16}{:>8}{:>8}{:>9}{:>11}{:>9}  {}\n"


def main(arguments: list[str]) -> int:
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    names = arguments[:cut] or installs()
    if unknown := set(names) - set(installs()):
        sys.exit(f"expected some of {', '.join(installs())}, got {', '.join(unknown)}")
    rows = [ROW.format("install", "passed", "failed", "skipped", "no import", "seconds", "")]
    fine = []
    for name in names:
        sys.stdout.write(f"install: {name}\n")
        sys.stdout.flush()
        passed, row = test(name, arguments[cut + 1 :])
        fine.append(passed)
        rows.append(row)
    sys.stdout.writelines(rows)
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
