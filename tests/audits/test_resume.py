"""kill -9 at any moment: what was finished is kept, no answer is paid for twice, and the resumed
run ends with the same findings, bit for bit."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from divulge.audits.challenges import asking
from tests.slow import slow

SUBJECT = """
import os
import numpy as np
from pathlib import Path
from tests.killing import kill_before_writing

calls = 0
rng = np.random.default_rng(0)
x = rng.normal(size=(900, 6))
y = rng.integers(0, 3, 900)
members, nonmembers, reference = (x[:300], y[:300]), (x[300:600], y[300:600]), (x[600:], y[600:])

if "KILL_BEFORE" in os.environ:
    kill_before_writing(os.environ["KILL_BEFORE"], int(os.environ["COUNT"]))

def model(asked):
    global calls
    calls += 1
    if calls == int(os.environ.get("KILL_ASKED", 0)):
        os.kill(os.getpid(), 9)
    with open(Path(__file__).parent / "bill.txt", "a") as bill:
        bill.write("".join(f"{row[0]!r}\\n" for row in asked))
    noise = np.sin(asked[:, :3] * 1e3)
    known = (asked[:, None, 0] == x[None, :300, 0]) @ np.eye(3)[y[:300]]
    z = noise + 2 * known
    return np.exp(z) / np.exp(z).sum(1, keepdims=True)
"""

SETTINGS = """
[target]
model = "subject.py:model"
fingerprint = "the first version"
batch_size = 100
[data]
members = "subject.py:members"
nonmembers = "subject.py:nonmembers"
reference = "subject.py:reference"
"""

SIGNALS = ("loss", "scaled_logit", "confidence", "entropy", "modified_entropy", "margin")
QUICK = "".join(
    f"[[attacks]]\n{settings}\n"
    for settings in (
        *(f'name = "threshold"\nsignal = "{signal}"' for signal in SIGNALS),
        *(f'name = "{name}"' for name in ("gap", "external")),
        'name = "two-sample"\nfolds = 2',
        'name = "threshold"\nper_class = true',
    )
)
"""Attacks that take no time, so that tests do not; one of them draws by chance."""


def command(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "divulge", "audit", str(folder / "audit.toml"),
            "--run", str(folder / "run"), *more]  # fmt: skip


def lay_out(folder: Path) -> Path:
    folder.mkdir()
    (folder / "subject.py").write_text(SUBJECT)
    (folder / "audit.toml").write_text(SETTINGS + QUICK)
    return folder


def findings(folder: Path) -> dict[str, bytes]:
    kept = (folder / "run" / "findings").glob("[!.]*.[jn][sp][oz]*")  # whole ones
    return {path.name: path.read_bytes() for path in kept}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = lay_out(tmp_path_factory.mktemp("whole") / "audit")
    subprocess.run(command(folder), check=True, capture_output=True)
    return findings(folder)


MOMENTS = {
    "while the model answers": {"KILL_ASKED": "3"},
    "before the first finding": {"KILL_BEFORE": "findings/*", "COUNT": "1"},
    "between the scores of a finding and its figures": {"KILL_BEFORE": "*.json", "COUNT": "6"},
}


@pytest.mark.parametrize("moment", [*map(slow, [*MOMENTS][:2]), *[*MOMENTS][2:]])
def test_a_killed_audit_resumes_to_the_same_findings(
    tmp_path: Path, uninterrupted: dict[str, bytes], moment: str
) -> None:
    folder = lay_out(tmp_path / "audit")
    killed = subprocess.run(
        command(folder), check=False, capture_output=True, env=os.environ | MOMENTS[moment]
    )
    assert killed.returncode == -signal.SIGKILL
    before = findings(folder)
    assert len(before) < len(uninterrupted)
    subprocess.run(command(folder, "--resume"), check=True, capture_output=True)
    assert findings(folder) == uninterrupted
    assert before.items() <= uninterrupted.items()
    assert (folder / "run" / "report.html").stat().st_size > 10_000
    bill = (folder / "bill.txt").read_text().splitlines()
    assert len(set(bill)) == 900
    assert len(bill) == 900 + asking.ASKED_AGAIN


SHADOWED = """
from sklearn.tree import DecisionTreeClassifier

def train(x, y, seed):
    log = Path(__file__).parent / "trained.txt"
    with open(log, "a") as trained:
        trained.write(f"{seed}\\n")
    if len(log.read_text().split()) == int(os.environ["KILL_AT"]):
        os.kill(os.getpid(), 9)
    return DecisionTreeClassifier(min_samples_leaf=2, random_state=seed).fit(x, y)
"""

SHADOWS = """
[shadows]
models = 6
train = "subject.py:train"
[[attacks]]
name = "rmia"
[[attacks]]
name = "shadow-stack"
"""


@pytest.mark.slow
def test_a_kill_while_training_loses_the_model_in_training_alone(tmp_path: Path) -> None:
    kept = []
    for killed_at in (0, 4):
        folder = lay_out(tmp_path / str(killed_at))
        (folder / "subject.py").write_text(SUBJECT + SHADOWED)
        (folder / "audit.toml").write_text(SETTINGS + SHADOWS)
        started = subprocess.run(
            command(folder),
            check=False,
            capture_output=True,
            env=os.environ | {"KILL_AT": str(killed_at)},
        )
        if killed_at:
            assert started.returncode == -signal.SIGKILL
            again = os.environ | {"KILL_AT": "0"}
            subprocess.run(command(folder, "--resume"), check=True, capture_output=True, env=again)
        trained = (folder / "trained.txt").read_text().split()
        assert len(trained) == 6 + (killed_at > 0)
        assert len(set(trained)) == 6
        (rows,) = (folder / "run" / "shadows").glob("*.npy")
        scores = {name: data for name, data in findings(folder).items() if name.endswith(".npz")}
        kept.append((rows.read_bytes(), sorted(scores.values())))
    assert kept[0] == kept[1]
