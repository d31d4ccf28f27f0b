"""Hold the scores of canaries against a stated ε: one look, one verdict."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pydantic
from jaxtyping import Int64

from divulge._util import atomic
from divulge._util.arguments import FilePath, check_arguments
from divulge._util.folders import create_folder, take_folder
from divulge._util.json import JSON
from divulge.audits.canaries.plan import Epsilon
from divulge.audits.canaries.scores import Box, CanaryScores, read_arrays, read_scores
from divulge.core import Estimate, NoiseAssumption
from divulge.data.canary_files import Canaries, Coins, open_coins, read_candidates
from divulge.errors import DataError, SpecError
from divulge.metrics import epsilon as bounds
from divulge.metrics import membership
from divulge.metrics.difference import subtract
from divulge.metrics.intervals import CONFIDENCE, wilson
from divulge.metrics.membership import Score
from divulge.report import words

CanaryVerdict = Literal["contradicted", "consistent", "undecidable"]

_FEWEST_A_CLASS = 20

REPORT, SUMMARY = "report.html", "summary.json"


@dataclass(frozen=True, slots=True)
class BoxResult:
    """What one file of scores shows."""

    box: Box
    bound: Estimate
    """Lower bound on ε, at the δ stated; bounds of all files hold at once."""
    auc: Estimate
    """How well the scores tell inserted canaries from the others, with its 95 % interval."""
    steps: int
    """How many steps were seen; 0 for the black box."""
    model: str
    """Fingerprint of the trained model."""


@dataclass(frozen=True, slots=True)
class CanaryAudit:
    """Whether a stated ε is kept, by the canaries of one training."""

    epsilon: float
    delta: float
    noise: NoiseAssumption
    canaries: int
    inserted: int
    commitment: str
    """SHA-256 digest of salt, coins and canaries, as in the trainer's files."""
    results: tuple[BoxResult, ...]
    reach: float
    """The bound of a training that gives away every canary: the largest ε that can be
    contradicted."""
    needed: int | None
    """A number of canaries with which a bound can exceed the stated ε: this one, if it does; None
    above ten million."""
    utility: Estimate | None
    """Change of the accuracy by the canaries, with its 95 % interval; None where not given."""

    @property
    def bound(self) -> float:
        """The ε that the training has at least, with 95 % confidence."""
        return max(one.bound.value for one in self.results)

    @property
    def verdict(self) -> CanaryVerdict:
        """Contradicted, consistent with what was measured, or undecidable with so few canaries."""
        if self.bound > self.epsilon:
            return "contradicted"
        return "consistent" if self.reach > self.epsilon else "undecidable"

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        stated = f"ε = {self.epsilon:g} at δ = {self.delta:g}"
        if self.verdict == "contradicted":
            least = words.format_lower_bound(self.bound)
            return f"{stated} is contradicted: it is at least {least}"
        if self.verdict == "consistent":
            return f"The canaries do not contradict {stated}"
        many = "more than 10 million" if self.needed is None else f"{self.needed:,} or more"
        return f"{stated} cannot be tested with {self.canaries:,} canaries: make {many}"

    @property
    def sentence(self) -> str:
        """What the canaries do to utility."""
        if self.utility is None or self.utility.high is None:
            return "What the canaries cost in accuracy was not measured."
        one = self.utility
        return (
            f"With the canaries accuracy changed by {100 * one.value:+.1f} points "
            f"({100 * one.low:+.1f} to {100 * (one.high or 0):+.1f})."
        )

    def __str__(self) -> str:
        lines = [self.headline]
        for one in self.results:
            least = words.format_lower_bound(one.bound.value)
            lines.append(f"  {one.box} box: ε is at least {least}, AUC {words.format_auc(one.auc)}")
        return "\n".join([*lines, self.sentence])

    def as_json(self) -> dict[str, JSON]:
        """The whole audit as plain data."""
        return {
            "kind": "canaries",
            **asdict(self),
            "bound": self.bound,
            "verdict": self.verdict,
            "headline": self.headline,
        }

    @check_arguments
    def report(self, path: FilePath) -> Path:
        """Write the page, one self-contained HTML file; returns its path.

        Raises:
            StoreError: it cannot be written.
        """
        from divulge.report import canary_page  # only pages need templates

        atomic.write(Path(path), canary_page.render(self).encode())
        return Path(path)

    def fails(self, fail_on: Collection[str]) -> bool | None:
        """Whether a gate on verdicts fails; None where it asks for more than can be decided."""
        if self.verdict in fail_on:
            return True
        return None if "contradicted" in fail_on and self.verdict == "undecidable" else False


@check_arguments
def audit_canaries(
    canaries: FilePath,
    scores: Sequence[FilePath],
    *,
    epsilon: Epsilon,
    delta: Annotated[float, pydantic.Field(gt=0, lt=1)],
    noise: NoiseAssumption = "any",
    utility: FilePath | None = None,
    run: FilePath | None = None,
) -> CanaryAudit:
    """Open the coins, and hold the scores of one training against its stated ε.

    There is one look for each set of canaries: once the coins were used for some scores, others
    are refused. Bounds of several files hold at once (Bonferroni), and so do the numbers of
    guesses that a bound tries.

    Args:
        canaries: the folder of `make_canaries`, with the auditor's part.
        scores: files of scores by `CanaryRecorder`, `score_checkpoints` or `score_canaries`, of one
            model.
        epsilon: the ε that is stated for adding or removing one record.
        delta: its δ.
        noise: what is supposed about the training, see `metrics.epsilon`: ``any`` nothing;
            ``gaussian`` that its trade-off curve is that of Gaussian noise, as with full batches;
            ``independent-gaussian`` that canaries do not interact besides: the bound is far higher,
            and can exceed ε where this does not hold.
        utility: an ``.npz`` file with two arrays of booleans, ``with_canaries`` and
            ``without_canaries``: whether each record of a test set is classified correctly by the
            trained model, and by one trained without canaries.
        run: a new folder for ``report.html`` and ``summary.json``.

    Raises:
        StoreError: canaries or coins were changed, or were opened before for other scores; or a
            file cannot be read or written.
        DataError: a score is missing, or scores are of other canaries or of different models.
        SpecError: no scores, or two files of one kind.
    """
    held = read_candidates(Path(canaries))
    found = [read_scores(Path(path), held) for path in scores]
    _check_together(found)
    change = None if utility is None else _utility_change(Path(utility))
    if run is None:
        return _open_and_judge(Path(canaries), held, found, (epsilon, delta, noise), change)
    folder = Path(run)
    with take_folder(folder, (SUMMARY, REPORT)):
        create_folder(folder)
        judged = _open_and_judge(Path(canaries), held, found, (epsilon, delta, noise), change)
        summary = pydantic.TypeAdapter(dict).dump_json(judged.as_json(), indent=1)
        atomic.write(folder / SUMMARY, summary + b"\n")
        judged.report(folder / REPORT)
    return judged


def _check_together(found: Sequence[CanaryScores]) -> None:
    boxes = [one.box for one in found]
    if not boxes or len(set(boxes)) < len(boxes):
        raise SpecError(
            "expected one file of scores, or one of the white and one of the black box, got "
            f"{', '.join(boxes) or 'none'}: a verdict is one look"
        )
    models = sorted({one.model for one in found if one.model})
    if len(models) > 1:
        raise DataError(
            "expected scores of one model, got those of two (fingerprints "
            f"{models[0][:12]}... and {models[1][:12]}...): score the model that was watched"
        )


def _open_and_judge(
    folder: Path,
    canaries: Canaries,
    found: Sequence[CanaryScores],
    claim: tuple[float, float, NoiseAssumption],
    change: Estimate | None,
) -> CanaryAudit:
    epsilon, delta, noise = claim
    count, tries = len(canaries.y), len(found)
    inserted = open_coins(folder, canaries, [one.digest for one in found], noise)
    reach = bounds.largest_bound(count, delta, drawn="coins", noise=noise, tries=tries)
    needed: int | None = count
    if reach <= epsilon:
        needed = bounds.records_needed(epsilon, delta, drawn="coins", noise=noise, tries=tries)
    return CanaryAudit(
        epsilon, delta, noise, count, int(inserted.sum()), canaries.commitment,
        tuple(
            _measure(one, centre_by_class(one.score, canaries.y), inserted, (delta, noise, tries))
            for one in found
        ),
        reach,
        needed,
        change,
    )  # fmt: skip


def _measure(
    one: CanaryScores,
    score: Score,
    inserted: Coins,
    how: tuple[float, NoiseAssumption, int],
) -> BoxResult:
    delta, noise, tries = how
    bound = bounds.epsilon_lower_bound(
        score, inserted, delta, drawn="coins", noise=noise, tries=tries
    )
    return BoxResult(one.box, bound, membership.auc(score, inserted), one.steps, one.model)


def centre_by_class(score: Score, y: Int64[np.ndarray, " canaries"]) -> Score:
    """Scores less the median of their class: what training shows of a class is no canary's own.

    Coins play no part in it. With fewer than 20 canaries a class on average scores stay as they
    are.

    Args:
        score: one a canary.
        y: the classes.
    """
    classes = np.unique(y)
    if len(y) < _FEWEST_A_CLASS * len(classes):
        return score
    medians = np.array([np.median(score[y == one]) for one in classes])
    return np.asarray(score - medians[np.searchsorted(classes, y)])


def _utility_change(path: Path) -> Estimate:
    """The difference of two accuracies on the same records."""
    held = read_arrays(path, "with_canaries", "without_canaries")
    after, before = held["with_canaries"], held["without_canaries"]
    if not (after.dtype == before.dtype == bool and len(after) == len(before) > 0):
        raise DataError(
            f"expected two arrays of booleans of one length in {path}, got {after.dtype} of length "
            f"{len(after)} and {before.dtype} of length {len(before)}: say for each test record "
            "whether it is classified correctly"
        )
    spread = float(after.std() * before.std())
    together = float(((after - after.mean()) * (before - before.mean())).mean())
    return subtract(_share(after), _share(before), together / spread if spread else 0.0)


def _share(right: np.ndarray) -> Estimate:
    return Estimate(float(right.mean()), *wilson(int(right.sum()), len(right), CONFIDENCE))
