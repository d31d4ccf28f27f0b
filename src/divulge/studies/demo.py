"""The demonstration: a small over-fitted network on real data that comes with scikit-learn."""

import warnings
from pathlib import Path

import numpy as np

from divulge._util.arguments import FilePath, check_arguments
from divulge._util.folders import numbered_folder
from divulge._util.progress import Progress, as_track
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.audits.api import audit_subject
from divulge.audits.result import Audit
from divulge.audits.runner import RunHeading
from divulge.audits.subject import AuditInputs
from divulge.data import bundled
from divulge.finished_runs.run_folder import open_run_folder
from divulge.targets.sklearn import SklearnTarget

MEMBERS, NONMEMBERS = 200, 800
DESCRIPTION = (
    "scikit-learn's digits; 200 for training, 800 non-members, the other 797 as reference; "
    "a network of 64-256-10 units trained 400 epochs without regularisation"
)


def train_network() -> AuditInputs:
    """The network, trained now, with its records."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits

    digits = bundled.digits()
    order = stream(0, "demo").permutation(len(digits))
    members = digits.take(order[:MEMBERS])
    # tol=0 and no early stop: it goes on fitting what it already gets right, as over-fitting does
    network = MLPClassifier(
        (256,), alpha=0.0, max_iter=400, tol=0.0, n_iter_no_change=400, random_state=0
    )
    with warnings.catch_warnings(), threadpool_limits(1):  # its matrices are small
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(members.x.astype(np.float64), members.y)
    return AuditInputs(
        target=SklearnTarget(network),
        members=members,
        nonmembers=digits.take(order[MEMBERS : MEMBERS + NONMEMBERS]),
        reference=digits.take(order[MEMBERS + NONMEMBERS :]),
        class_names=tuple("0123456789"),
        fingerprint="demo",
    )


@check_arguments
def demo(run: FilePath | None = None, *, progress: Progress = False) -> Audit:
    """Train a small over-fitted network on scikit-learn's digits, and audit it.

    Args:
        run: the run folder; by default the next free ``runs/demo-001``.
        progress: True shows how far the work is; see `divulge.Options`.
    """
    track = as_track(progress)
    place = numbered_folder(Path("runs") / "demo") if run is None else run
    heading = RunHeading("digits demonstration", 0, {"demo": DESCRIPTION})
    with open_run_folder(place, resume=False) as folder:
        with track.step("Training a network on digits"):
            loaded = train_network()
        return audit_subject(loaded, catalog.default_attacks(), heading, 0.0, folder, track)
