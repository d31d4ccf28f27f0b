"""One command for canaries: plan, make, train by the user's own script, and audit.

Each step leaves what the separate commands leave, and is skipped where that is there: after a
failure the same call goes on.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from divulge._util.folders import numbered_folder
from divulge._util.progress import say, track_visibly
from divulge.canaries.audit import audit_canaries
from divulge.canaries.make import make_canaries
from divulge.canaries.plan import TIMES, plan_canaries
from divulge.canaries.result import CanaryAudit
from divulge.core import NoiseAssumption
from divulge.data import canary_files as files
from divulge.data.records import load_record_sets
from divulge.errors import SpecError

_STDERR = 2
_TIMES = 4.0
"""Where nobody names the number of canaries: as many as contradict ε when so much more leaks."""


def audit_script(
    script: Path,
    records: str,
    canaries: Path,
    scores: Sequence[Path],
    *,
    epsilon: float,
    delta: float,
    count: int | None,
    noise: NoiseAssumption,
    label: str,
    run: Path | None,
) -> CanaryAudit:
    """Plan, make, train and audit, and show progress; what is there is not done again.

    Args:
        script: trains on the records and ``CANARIES/for-trainer/train.npz``, and writes the scores,
            with `CanaryRecorder` or `score_canaries`. It runs by this Python, here.
        records: the training data, a file or ``FILE.py:NAME``, which canaries resemble.
        canaries: the folder of the canaries.
        scores: the files of scores that the script writes.
        epsilon: the ε that is stated.
        delta: its δ.
        count: of canaries; None takes as many as contradict ε where four times as much leaks.
        noise: what is supposed about the training, as of `audit_canaries`.
        label: the column of a table's classes.
        run: the run folder of the audit; a new one in ``runs/`` unless given.

    Raises:
        SpecError: no number of canaries would do, or the script failed or wrote no scores.
        DivulgeError: see `make_canaries` and `audit_canaries`.
    """
    if not script.is_file():
        raise SpecError(f"expected a script that trains at {script}, there is none: correct it")
    if (canaries / files.SEALED).exists():
        say(f"Canaries: those of {canaries}")
    else:
        many = count or _plan_count(epsilon, delta, noise)
        with track_visibly.step("Making canaries"):
            (found,) = load_record_sets([records], label, Path())
            made = make_canaries(found, canaries, many)
        say(f"Canaries: {made.canaries:,} in {canaries}, of which {made.inserted:,} are inserted")
    if all(path.exists() for path in scores):
        say(f"Scores: those of {', '.join(map(str, scores))}; without these files it trains again")
    else:
        with track_visibly.step(f"Training by {script.name}"):
            _train(script, scores)
    with track_visibly.step("Opening the coins"):
        place = run or numbered_folder(Path("runs") / "canaries")
        return audit_canaries(
            canaries, scores, epsilon=epsilon, delta=delta, noise=noise, run=place
        )


def _plan_count(epsilon: float, delta: float, noise: NoiseAssumption) -> int:
    plan = plan_canaries(epsilon, delta, noise=noise, progress=True)
    say(str(plan))
    count = plan.faults[TIMES.index(_TIMES)].canaries
    if count is None:
        raise SpecError(
            f"expected a number of canaries that contradicts ε = {epsilon:g} where {_TIMES:g} "
            "times as much leaks, found none: name one (--count), or suppose more of the noise "
            "(--noise)"
        )
    return count


def _train(script: Path, scores: Sequence[Path]) -> None:
    """Run the script in a process of its own, which may print what it likes.

    Raises:
        SpecError: it failed, or the scores are not there.
    """
    command = [sys.executable, str(script)]
    # what it prints goes to where progress does: the command itself prints the verdict
    done = subprocess.run(command, stdout=_STDERR, check=False)  # noqa: S603 (what was asked for)
    if done.returncode:
        raise SpecError(
            f"expected {script} to end well, its exit code is {done.returncode}: read what it says "
            "above, mend it, and give the same command again; the canaries stay"
        )
    if missing := [str(path) for path in scores if not path.exists()]:
        raise SpecError(
            f"expected {script} to write {', '.join(missing)}, it did not: let CanaryRecorder save "
            "there, or name its file (--scores)"
        )
