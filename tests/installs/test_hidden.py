"""What an extra promises works with its own packages alone, and without them its name is said.

Packages of all other extras are hidden. ``make installs`` runs all tests on real installs, which
takes a night; this takes seconds.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from divulge.testing.relations import subjects
from tests.relations import entries
from tests.slow import slow
from tests.targets import tiny_models as tiny

from .hiding import hide
from .lacking import lacking
from .names import ROOT

AUDIT = """
import numpy as np, divulge
from scipy.special import softmax
rng = np.random.default_rng(0)
x = rng.normal(size=(60, 4)).astype(np.float32)
y = rng.integers(3, size=60)
def audit(model, output=None):
    found = divulge.audit(model, members=(x[:30], y[:30]), nonmembers=(x[30:], y[30:]),
        attacks=[divulge.attack("threshold")], access=divulge.Access(output))
    assert found.findings[0].metrics["auc"].value > 0, found.findings[0].reason
    return found
"""

TORCH = """
import torch
torch.set_num_threads(1)
from torch import nn
def network():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
"""

FEDERATION = """
from divulge.federation import Federation, Transcript, exact, simulate
from divulge.training.recipe import Recipe
from divulge.core import Records
pool = Records(x, np.arange(60) % 3)
clients = exact(pool, np.array([[10, 5, 5], [5, 10, 5]]))
transcript = simulate(Federation(pool, clients, Recipe(network, lr=0.1, epochs=1), workers=1), 1)
from divulge.attacks.composition.decaf.attack import Decaf
for attack in (Decaf(level="bias"), Decaf(level="virtual", clients=24, rounds=1)):
    guess = attack(transcript.view("0", network, pool), rng)
    assert np.isfinite(guess.share).all()
"""

WORKS: dict[str, dict[str, str]] = {
    "base": {
        "function": "audit(lambda x: softmax(x[:, :3], axis=1))",
        "CSV": 'divulge.audit_predictions("table.csv").verdict',
        "page": 'audit(lambda x: softmax(x[:, :3], axis=1)).report("page.html")',
    },
    "files": {
        "Parquet": 'divulge.audit_predictions("table.parquet").verdict',
        "ONNX": 'audit("model.onnx")',
        "skops": 'audit("model.skops")',
        "frame": "audit(lambda x: softmax(x[:, :3], axis=1)).to_frame()",
    },
    "torch": {
        "module": 'audit(network(), "logits")',
        "federation": FEDERATION,
    },
}
"""By install: what works with it, each as code after `AUDIT`."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of all kinds, written where every package is there."""
    folder = tmp_path_factory.mktemp("hidden")
    columns = entries.table(subjects.memorised())
    entries.write_csv(columns, folder / "table.csv")
    entries.write_parquet(columns, folder / "table.parquet", 1024)
    pytest.importorskip("skops")
    tiny.save_onnx(folder / "model.onnx")
    tiny.save_skops(folder / "model.skops", tiny.estimator())
    return folder


def _run(place: Path, folder: Path, install: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python, and in those that it starts, which find no package of other extras."""
    hide(lacking(install), folder)
    paths = os.pathsep.join([str(folder), str(ROOT / "src"), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=place,
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


QUICK = ("base",)


@pytest.mark.parametrize("install", [*QUICK, *(slow(name) for name in WORKS if name not in QUICK)])
def test_an_install_does_what_it_promises_without_all_others(
    install: str, place: Path, tmp_path: Path
) -> None:
    if install == "torch":
        pytest.importorskip("torch")
    head = AUDIT + (TORCH if install == "torch" else "")
    done = _run(place, tmp_path, install, "\n".join([head, *WORKS[install].values()]))
    assert done.returncode == 0, done.stderr[-2000:]


def test_without_an_extra_its_name_is_said(place: Path, tmp_path: Path) -> None:
    tries = [
        f"try:\n    {code}\nexcept divulge.MissingExtra as error:\n"
        f"    assert '[files]' in str(error), str(error)\nelse:\n    print({name!r})"
        for name, code in WORKS["files"].items()
    ]
    done = _run(place, tmp_path, "base", "\n".join([AUDIT, *tries]))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-2000:]
