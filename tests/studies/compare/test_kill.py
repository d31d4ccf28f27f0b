"""kill -9 in the middle of a comparison: what was finished is kept, and the rest is the same."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SUBJECT = """
import os
from pathlib import Path

from tests import memorising

records = (memorising.draw(300).x, memorising.draw(300).y)
LOG = Path(__file__).parent / "trained.txt"

def train(x, y, seed):
    with open(LOG, "a") as log:
        log.write(f"{seed}\\n")
    if len(LOG.read_text().split()) == int(os.environ["KILL_AT"]):
        os.kill(os.getpid(), 9)
    return memorising.train(x, y, seed)

def again(x, y, seed):
    return train(x, y, seed)
"""

SETTINGS = """
models = 3
targets = 2
[data]
records = "subject.py:records"
[[defences]]
train = "subject.py:train"
label = "plain"
[[defences]]
train = "subject.py:again"
label = "rounded"
answers = {name = "rounding", digits = 1}
[[attacks]]
name = "calibrated"
[[attacks]]
name = "gap"
"""

ALL = 2 * (3 + 1)
"""Models: two fleets, and one of each alone."""


def run(folder: Path, kill_at: int, *more: str) -> int:
    folder.mkdir(exist_ok=True)
    (folder / "subject.py").write_text(SUBJECT)
    (folder / "compare.toml").write_text(SETTINGS)
    line = [sys.executable, "-m", "divulge", "compare", str(folder / "compare.toml"),
            "--run", str(folder / "run"), *more]  # fmt: skip
    environment = os.environ | {"KILL_AT": str(kill_at)}
    return subprocess.run(line, capture_output=True, env=environment, check=False).returncode


def kept(folder: Path) -> tuple[dict[str, bytes], list[Any]]:
    """Findings, scores and what models said, bit for bit; figures without times."""
    root = folder / "run" / "defences"
    files = [*root.glob("*/shadows/*.npy"), *root.glob("*/targets/*/findings/*.[jn]*")]
    rows = json.loads((folder / "run" / "summary.json").read_text())["rows"]
    figures = [{key: row[key] for key in row if key != "seconds"} for row in rows]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}, figures


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    assert run(folder, 0) == 0
    assert len((folder / "trained.txt").read_text().split()) == ALL
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "kill_at", [pytest.param(2, id="first fleet"), pytest.param(7, id="second fleet")]
)
def test_a_killed_comparison_goes_on_where_it_was(
    tmp_path: Path, uninterrupted: Path, kill_at: int
) -> None:
    folder = tmp_path / "killed"
    assert run(folder, kill_at) == -signal.SIGKILL
    assert run(folder, 0, "--resume") == 0
    trained = (folder / "trained.txt").read_text().split()
    assert len(trained) == ALL + 1  # the one in training was lost
    assert kept(folder) == kept(uninterrupted)
