"""One command for canaries: plan, make, train by the user's own script, and audit.

Each step leaves what the separate commands leave, and is skipped where that is there: after a
failure the same call goes on. What was done with other records or another script is refused, or a
training that fails would pass by the scores of an earlier one.
"""

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from divulge._util import atomic
from divulge._util.folders import numbered_folder
from divulge._util.progress import say, track_visibly
from divulge.canaries.audit import audit_canaries
from divulge.canaries.make import make_canaries
from divulge.canaries.plan import TIMES, plan_canaries, promise_to_canary
from divulge.canaries.result import CanaryAudit
from divulge.core import Guarantee, NoiseAssumption
from divulge.data import canary_files as files
from divulge.data.canary_files import read_candidates
from divulge.data.records import load_record_sets
from divulge.errors import SpecError
from divulge.metrics.epsilon import largest_bound, records_needed

DONE = "pipeline.json"
"""What was done for the canaries of a folder, in it."""

_STDERR = 2
_TIMES = 4.0
"""Where nobody names the number of canaries: as many as contradict ε when so much more leaks."""


@dataclass(frozen=True, slots=True)
class CanaryOrder:
    """How many canaries to make, whether they are people, and who ε is stated for."""

    count: int | None = None
    """None takes as many as contradict ε where four times as much leaks."""
    records_each: int = 1
    """How many records each canary has, as of `make_canaries`."""
    unit: Literal["record", "person"] = "record"
    """As of `audit_canaries`."""


@dataclass(frozen=True, slots=True)
class Done:
    """What canaries were made by, and what trained with them."""

    records: str
    """Digest of the records."""
    count: int | None
    """The number that was asked for."""
    script: str = ""
    """Digest of the script; empty where it has not ended well."""


def audit_script(
    script: Path,
    records: str,
    canaries: Path,
    scores: Sequence[Path],
    *,
    epsilon: float,
    delta: float,
    of: CanaryOrder = CanaryOrder(),
    noise: NoiseAssumption = "any",
    label: str = "label",
    run: Path | None = None,
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
        of: what canaries to make.
        noise: what is supposed about the training, as of `audit_canaries`.
        label: the column of a table's classes.
        run: the run folder of the audit; a new one in ``runs/`` unless given.

    Raises:
        SpecError: so many canaries cannot contradict ε, no number would do, the script failed or
            wrote no scores, or what is there comes from other records, another count or another
            script.
        DivulgeError: see `make_canaries` and `audit_canaries`.
    """
    if not script.is_file():
        raise SpecError(f"expected a script that trains at {script}, there is none: correct it")
    done, count = _read_done(canaries), of.count
    stated = promise_to_canary(epsilon, delta, noise, of.records_each if of.unit == "record" else 1)
    if (canaries / files.SEALED).exists():
        candidates = read_candidates(canaries)
        _refuse_other(
            "records of each canary", candidates.records_each == of.records_each, canaries
        )
        if done is not None:  # who made them by `divulge canary make` knows of what
            _refuse_other("records", done.records == _digest(records), canaries)
            _refuse_other("count", count is None or done.count == count, canaries)
        if not all(path.exists() for path in scores):
            _say_reach(candidates.count, stated, len(scores))
        say(f"Canaries: those of {canaries}")
    else:
        if count is not None:
            _say_reach(count, stated, len(scores))
        many = count or _plan_count(stated)
        with track_visibly.step("Making canaries"):
            (examples,) = load_record_sets([records], label, Path())
            made = make_canaries(examples, canaries, many, records_each=of.records_each)
        done = Done(_digest(records), count)
        _write_done(canaries, done)
        say(f"Canaries: {made.canaries:,} in {canaries}, of which {made.inserted:,} are inserted")
    if all(path.exists() for path in scores):
        same = done is not None and done.script == _digest(str(script))
        _refuse_other("script", same, scores[0])
        say(f"Scores: those of {', '.join(map(str, scores))}; without these files it trains again")
    else:
        with track_visibly.step(f"Training by {script.name}"):
            _train(script, scores)
        done = done or Done(_digest(records), count)
        _write_done(canaries, replace(done, script=_digest(str(script))))
    with track_visibly.step("Opening the coins"):
        place = run or numbered_folder(Path("runs") / "canaries")
        return audit_canaries(
            canaries, scores, epsilon=epsilon, delta=delta, unit=of.unit, noise=noise, run=place
        )


def _digest(source: str) -> str:
    """SHA-256 digest of a file, and of the name in it; of the name alone where there is no file."""
    made = hashlib.sha256(source.encode())
    for path in (Path(source), Path(source.rpartition(":")[0])):  # FILE.py:NAME
        if path.is_file():
            made.update(path.read_bytes())
    return made.hexdigest()


def _read_done(canaries: Path) -> Done | None:
    path = canaries / DONE
    return atomic.from_json(atomic.read(path), Done, path) if path.exists() else None


def _write_done(canaries: Path, done: Done) -> None:
    atomic.write(canaries / DONE, atomic.to_json(done, Done).encode())


def _refuse_other(what: str, same: bool, there: Path) -> None:  # noqa: FBT001 (what is asked)
    """Refuse what another call left.

    Raises:
        SpecError: it comes from something else.
    """
    if not same:
        raise SpecError(
            f"expected {there} to come from the {what} that this command names, it comes from "
            "another one, or nobody knows: remove it to start again, or name another place"
        )


def _say_reach(count: int, stated: Guarantee, tries: int) -> None:
    """Say before the training what so many canaries can decide.

    Raises:
        SpecError: nothing: not even a training that gives away each of them contradicts ε.
    """
    epsilon, delta = stated.epsilon, stated.delta
    reach = largest_bound(count, delta, drawn="coins", noise=stated.noise, tries=tries)
    if reach <= epsilon:
        least = records_needed(epsilon, delta, drawn="coins", noise=stated.noise, tries=tries)
        enough = "no number of canaries does" if least is None else f"it takes {least:,} or more"
        raise SpecError(
            f"expected canaries that can contradict ε = {epsilon:g} at δ = {delta:g}, got "
            f"{count:,}, which contradict an ε up to {reach:.2f} at most, whatever the training "
            f"leaks: {enough}; divulge canary plan says how many find which fault"
        )
    say(
        f"{count:,} canaries can contradict ε = {epsilon:g}; the largest ε that they can show is "
        f"{reach:.2f}"
    )


def _plan_count(stated: Guarantee) -> int:
    epsilon, noise = stated.epsilon, stated.noise
    plan = plan_canaries(epsilon, stated.delta, noise=noise, progress=True)
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
    earlier = {path: path.stat().st_mtime_ns for path in scores if path.exists()}
    # what it prints goes to where progress does: the command itself prints the verdict
    done = subprocess.run(command, stdout=_STDERR, check=False)  # noqa: S603 (what was asked for)
    if done.returncode:
        raise SpecError(
            f"expected {script} to end well, its exit code is {done.returncode}: read what it says "
            "above, mend it, and give the same command again; the canaries stay"
        )
    # a file that was there before, and was not written again, is of another training
    written = {path for path in scores if path.exists()}
    written -= {path for path in written if path.stat().st_mtime_ns == earlier.get(path)}
    if missing := [str(path) for path in scores if path not in written]:
        raise SpecError(
            f"expected {script} to write {', '.join(missing)}, it did not: let CanaryRecorder save "
            "there, or name its file (--scores)"
        )
