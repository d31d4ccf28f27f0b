"""Seconds from a command to what it shows: the import, the help, the demo and its first finding."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.timing import Contender, Outcome, environment, interleaved, table

SUMMARY = "import, --help and the demo's first finding, beside the same training without divulge"

BARE = """
import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

x, y = load_digits(return_X_y=True)
network = MLPClassifier(
    (256,), alpha=0.0, max_iter=400, tol=0.0, n_iter_no_change=400, random_state=0
)
warnings.simplefilter("ignore")
with threadpool_limits(1):
    network.fit(x[:200] / 16, y[:200])
p = network.predict_proba(x[:1000] / 16)[np.arange(1000), y[:1000]]
print(roc_auc_score(np.arange(1000) < 200, p))
"""
"""The training of the demo, one thread, and the AUC of its loss."""


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Print wall seconds of each, with the start of Python in all of them."""
    contenders = [
        Contender("python", _python("-c", "pass")),
        Contender("import divulge", _python("-c", "import divulge")),
        Contender("divulge --help", _python("-m", "divulge", "--help")),
        Contender("divulge demo, until its first finding", _find_first),
        Contender("the same training and one AUC, by scikit-learn", _python("-c", BARE)),
        Contender("divulge demo, with its report", _demo),
    ]
    timings = interleaved(contenders, 1 if quick else 3)
    print(environment(("divulge", "numpy", "scikit-learn")))
    print(table(timings, base=timings[0]))
    print("ours: the demo until its first finding; theirs: the training and one AUC")
    return Outcome(ours=timings[3], theirs=timings[4])


def _python(*arguments: str) -> Callable[[], object]:
    return lambda: subprocess.run(  # noqa: S603 (our own code)
        [sys.executable, *arguments], check=True, capture_output=True
    )


def _demo() -> None:
    with TemporaryDirectory() as folder:
        _python("-m", "divulge", "demo", "--run", f"{folder}/run")()


def _find_first() -> None:
    """Start the demo, and end it once a finding is stored."""
    with TemporaryDirectory() as folder:
        demo = subprocess.Popen(  # noqa: S603 (our own code)
            [sys.executable, "-m", "divulge", "demo", "--run", f"{folder}/run"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not any(Path(folder, "run", "findings").glob("*.json")):
            if demo.poll() is not None:
                raise RuntimeError("expected the demo to store a finding, got none: run it by hand")
            time.sleep(0.01)
        demo.kill()
        demo.wait()
