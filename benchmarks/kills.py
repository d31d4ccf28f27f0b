"""Kill runs of every kind at random moments, continue them, and compare their ends bit by bit."""

import contextlib
import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import psutil

SUMMARY = "kill -9 at random moments, continue, and compare the ends with undisturbed runs"

COUNTS = {
    "audit with a fleet": 14,
    "audit with forests": 26,
    "leave-one-out": 18,
    "compare": 14,
    "federate": 10,
    "reproduce": 12,
    "audit with Ray workers": 6,
}
"""Kills by kind of run: a hundred in all."""

SEED = 0
"""Of the moments; how far a run is by then depends on the machine."""

IN_A_ROW = 4
"""Kills of one run before it may end."""

GRACE = 5.0
"""Seconds after a kill within which all processes of the run have to end."""

PATIENCE = 30.0
"""Seconds after which processes that did not are ended."""

MARK = "DIVULGE_KILLS"
"""Environment variable by which processes of a run are found, whoever their parent is."""

SUBJECT = """
import numpy as np
from sklearn.ensemble import RandomForestClassifier

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype(np.float32)
y = rng.integers(0, 3, 600)
everything = x, y
members, nonmembers, reference = (x[:200], y[:200]), (x[200:400], y[200:400]), (x[400:], y[400:])

def model(asked):
    known = (asked[:, None, 0] == x[None, :200, 0]) @ np.eye(3)[y[:200]]
    z = np.sin(asked[:, :3] * 1e3) + 2 * known
    return np.exp(z) / np.exp(z).sum(1, keepdims=True)

forest = RandomForestClassifier(20, random_state=0)
stumps = RandomForestClassifier(20, max_depth=2, random_state=0)
"""

FLEET = """
from torch import nn

from divulge.training import Fleet, Recipe

def network():
    return nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3))

fleet = Fleet(Recipe(network, epochs=60, batch_size=20), way="processes", workers=2)
"""

ATTACKS = "".join(f'[[attacks]]\nname = "{name}"\n' for name in ("threshold", "lira"))

AUDIT = f"""
[target]
model = "subject.py:model"
batch_size = 50
[data]
members = "subject.py:members"
nonmembers = "subject.py:nonmembers"
reference = "subject.py:reference"
[shadows]
models = 6
train = "TRAINER"
{ATTACKS}
"""

FILES = {
    "subject.py": SUBJECT,
    "subject_fleet.py": FLEET,
    "fleet.toml": AUDIT.replace("TRAINER", "subject_fleet.py:fleet"),
    "forests.toml": AUDIT.replace("TRAINER", "subject.py:forest"),
    "in-turn.toml": f"""
[data]
records = "subject.py:everything"
[leave_one_out]
train = "subject.py:forest"
models = 4
{ATTACKS}
""",
    "compare.toml": f"""
models = 3
targets = 2
[data]
records = "subject.py:everything"
[[defences]]
train = "subject.py:forest"
label = "forest"
[[defences]]
train = "subject.py:stumps"
label = "stumps"
{ATTACKS}
""",
    "federate.toml": """
rounds = 8
[data]
train = "subject.py:everything"
[clients]
count = 6
[training]
network = "subject_fleet.py:network"
lr = 0.05
epochs = 3
batch_size = 10
""",
    "table.py": """
import sys
from pathlib import Path

from divulge_papers import table
from divulge_papers.attempts import RowResult
from divulge_papers.table import Row, Table

def measure(seed, size, slope):
    import numpy as np

    rng = np.random.default_rng(seed)
    x = rng.normal(size=(1000, 300))
    y = np.sign(x[:, 0] * slope + rng.normal(size=1000))
    fitted = np.linalg.lstsq(x[:500], y[:500], rcond=None)[0]
    right = np.sign(x[500:] @ fitted) == y[500:]
    return RowResult({"accuracy": [float(np.mean(right))]})

TABLE = Table(
    "A trial", "nobody", ("accuracy",), tuple(Row(f"{k}", {"slope": float(k)}) for k in range(5)),
    "table:measure", "seeds", *({"small": n, "paper": n} for n in (3, 1)),
    {"small": "", "paper": ""},
)

if __name__ == "__main__":
    from divulge_papers.pool import CellWorkers
    from divulge_papers.run import reproduce

    table.TABLES["trial"] = "table:TABLE"
    with CellWorkers(2) as workers:
        list(reproduce({"trial": Path(sys.argv[1])}, "small", workers, progress=True))
""",
}


class Kind(NamedTuple):
    """How one kind of run is started and continued."""

    command: tuple[str, ...]
    resume: tuple[str, ...] = ("--resume",)


def _divulge(*words: str) -> Kind:
    return Kind(("-m", "divulge", *words, "--run", "RUN"))


KINDS = {
    "audit with a fleet": _divulge("audit", "fleet.toml"),
    "audit with forests": _divulge("audit", "forests.toml"),
    "leave-one-out": _divulge("audit", "in-turn.toml"),
    "compare": _divulge("compare", "compare.toml"),
    "federate": _divulge("federate", "federate.toml"),
    "reproduce": Kind(("table.py", "RUN"), ()),
    "audit with Ray workers": _divulge("audit", "forests.toml", "--workers", "ray"),
}


def run(quick: bool) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print a table with a row a kind of run: kills, ends that differ, and what was left behind."""
    print(f"seed {SEED}; processes that are there {GRACE:g} s after a kill count as left behind\n")
    print("| run | kills | runs | ends that differ | slowest end of processes | left behind |")
    print("| --- | --- | --- | --- | --- | --- |")
    for number, (name, count) in enumerate(COUNTS.items()):
        chances = random.Random(SEED + number)  # noqa: S311 (moments, no secrets)
        with TemporaryDirectory() as folder:
            row = _Row(Path(folder), KINDS[name], chances)
            row.kill(2 if quick else count)
        print(f"| {name} | {row} |", flush=True)


class _Row:
    """Kills of one kind of run."""

    def __init__(self, folder: Path, kind: Kind, chances: random.Random) -> None:
        self._folder, self._kind, self._chances = folder, kind, chances
        for name, content in FILES.items():
            (folder / name).write_text(content)
        (folder / "temporary").mkdir()
        begun = time.monotonic()
        self._finish(folder / "undisturbed")
        self._seconds = time.monotonic() - begun
        self._right = _contents(folder / "undisturbed")
        # such as the logs of Ray
        self._usual = set(self._leftovers(folder / "undisturbed"))
        self.kills = self.runs = 0
        self.slowest = 0.0
        self.different: list[str] = []
        self.left: set[str] = set()

    def kill(self, count: int) -> None:
        """Kill one run after another, several times each, until there were so many kills."""
        while self.kills < count:
            run = self._folder / f"run-{self.runs}"
            self.runs += 1
            for _ in range(min(IN_A_ROW, count - self.kills)):
                if not self._kill_once(run):
                    break
            self._finish(run)
            contents = _contents(run)
            self.different += sorted(
                name
                for name in contents.keys() | self._right.keys()
                if contents.get(name) != self._right.get(name)
            )
            self.left |= {name for name in self._leftovers(run) if name not in self._usual}

    def __str__(self) -> str:
        different = ", ".join(sorted(set(self.different))) or "none"
        left = ", ".join(sorted(self.left)) or "nothing"
        return f"{self.kills} | {self.runs} | {different} | {self.slowest:.1f} s | {left}"

    def _start(self, run: Path) -> "subprocess.Popen[bytes]":
        words = [str(run) if word == "RUN" else word for word in self._kind.command]
        there = self._kind.resume if run.exists() else ()
        temporary = str(self._folder / "temporary")
        return subprocess.Popen(  # noqa: S603 (this program)
            [sys.executable, *words, *there],
            cwd=self._folder,
            env=os.environ | {MARK: str(self._folder), "TMPDIR": temporary},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def _finish(self, run: Path) -> None:
        process = self._start(run)
        _, output = process.communicate()
        if process.returncode:
            raise RuntimeError(f"{run}: {output.decode()[-2000:]}")

    def _kill_once(self, run: Path) -> bool:
        """Start or continue a run and kill it; False if it ended before."""
        process = self._start(run)
        try:
            process.communicate(timeout=self._chances.uniform(0, self._seconds))
        except subprocess.TimeoutExpired:
            process.kill()
            killed = time.monotonic()
            process.wait()
            self.kills += 1
            self._wait_for_the_rest(killed)
            return True
        return False

    def _wait_for_the_rest(self, killed: float) -> None:
        while rest := self._processes():
            took = time.monotonic() - killed
            self.slowest = max(self.slowest, took)
            if took > GRACE:
                self.left |= {f"for more than {GRACE:g} s {name}" for name in rest.values()}
            if took > PATIENCE:
                self.left |= {f"for good {name}" for name in rest.values()}
                for process in rest:
                    process.kill()
                return
            time.sleep(0.1)

    def _processes(self) -> dict[psutil.Process, str]:
        """Processes of runs in this folder that are still there, and what each runs."""
        commands = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):  # it ended, or is not ours
                if process.environ().get(MARK) == str(self._folder):
                    words = [word for word in process.cmdline() if not word.startswith("-")]
                    commands[process] = " ".join(
                        "/".join(Path(word).parts[-3:]) for word in words[:2]
                    )
        return commands

    def _leftovers(self, run: Path) -> list[str]:
        """What no finished run should leave: files half written, locks, temporary files."""
        temporary = [f"temporary {path.name}" for path in (self._folder / "temporary").iterdir()]
        return temporary + [path.name for path in run.rglob(".*")]


TIMES = ("created", "date", "seconds", "cpu_seconds", "commit")
"""Names in JSON of what may differ between two runs."""

SKIPPED = (".seconds", ".html", ".md", ".pdf", ".png", ".way.json")
"""Ends of the names of files that hold times, are drawn from others that are compared, or say how
many models were trained at once, which depends on the free memory."""


def _contents(run: Path) -> dict[str, Any]:
    """Everything in a run folder that has to be the same, by name of its file."""
    return {
        str(path.relative_to(run)): _content(path)
        for path in sorted(run.rglob("*"))
        if path.is_file() and not path.name.endswith(SKIPPED) and not path.name.startswith(".")
    }


def _content(path: Path) -> Any:
    if path.suffix == ".json":
        return _timeless(json.loads(path.read_bytes()))
    if path.suffix == ".jsonl":  # in the order in which they were done
        lines = path.read_text().splitlines()
        return sorted(json.dumps(_timeless(json.loads(line))) for line in lines)
    if path.suffix == ".csv":
        return [line for line in path.read_text().splitlines() if ",seconds," not in line]
    if path.suffix == ".sqlite":
        with contextlib.closing(sqlite3.connect(path)) as db:
            return sorted(db.execute("SELECT key, value FROM answers"))
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return {name: (array.dtype.str, array.tobytes()) for name, array in arrays.items()}
    return path.read_bytes()


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(part) for name, part in value.items() if name not in TIMES}
    return [_timeless(part) for part in value] if isinstance(value, list) else value
