"""Hold the scores of canaries against a stated ε: one look, one verdict."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pydantic
from jaxtyping import Int64

from divulge._util.arguments import FilePath, check_arguments
from divulge._util.folders import take_folder
from divulge.canaries.batches import check_batches
from divulge.canaries.facts import BoxResult, CanaryFacts, RoundResult
from divulge.canaries.noise import check_noise
from divulge.canaries.plan import Epsilon, promise_to_canary
from divulge.canaries.result import SUMMARY, CanaryAudit, audit_of, begin_run
from divulge.core import Estimate, Guarantee, NoiseAssumption
from divulge.data.canary_files import Canaries, Coins, read_candidates
from divulge.data.canary_scores import CanaryScores, read_arrays, read_scores
from divulge.data.sealed_coins import open_coins
from divulge.errors import DataError, SpecError
from divulge.finished_runs.run_json import HEAD
from divulge.finished_runs.stored import PAGE
from divulge.metrics import epsilon as bounds
from divulge.metrics import membership, people
from divulge.metrics.difference import subtract
from divulge.metrics.exposure import measure_exposure
from divulge.metrics.intervals import CONFIDENCE, wilson
from divulge.metrics.max_test import LEVEL_BELOW, max_test
from divulge.metrics.membership import Score

_FEWEST_A_CLASS = 20


@check_arguments
def audit_canaries(
    canaries: FilePath,
    scores: Sequence[FilePath],
    *,
    epsilon: Epsilon | None = None,
    delta: Annotated[float, pydantic.Field(gt=0, lt=1)] | None = None,
    unit: Literal["record", "person"] = "record",
    noise: NoiseAssumption = "any",
    utility: FilePath | None = None,
    run: FilePath | None = None,
) -> CanaryAudit:
    """Test the stated ε of one training: compare its scores with the secret coins.

    There is one look for each set of canaries: once the coins were used for some scores, others
    are refused. Bounds of several files hold at once (Bonferroni), and so do the numbers of
    guesses that a bound tries.

    Args:
        canaries: the folder of `make_canaries`, with the auditor's part.
        scores: files of scores by `CanaryRecorder`, `score_checkpoints`, `score_canaries` or
            `score_transcript`, of one model.
        epsilon: the ε that is stated for adding or removing one record, or for what the canary
            clients' coins decide. By default what the transcript of a federation states.
        delta: its δ; give both or none.
        unit: whether they are stated for one record or for one person. Where canaries are people,
            what is stated for one record is turned into what it promises a person with as many
            records, see `divulge.Guarantee.for_group`.
        noise: what is supposed about the training, see `metrics.epsilon`: ``any`` nothing;
            ``gaussian`` that its trade-off curve is that of Gaussian noise, as with full batches;
            ``independent-gaussian`` that canaries do not interact besides: the bound is far higher,
            and can exceed ε where this does not hold.
        utility: an ``.npz`` file with two arrays of booleans, ``with_canaries`` and
            ``without_canaries``: whether each record of a test set is classified correctly by the
            trained model, and by one trained without canaries.
        run: a new folder for ``report.html``, ``summary.json`` and ``run.json``; or one in which
            the same audit was killed.

    Raises:
        StoreError: canaries or coins were changed, or were opened before for other scores; or a
            file cannot be read or written.
        DataError: a score is missing, or scores are of other canaries or of different models.
        SpecError: no scores, two files of one kind, no ε and δ, here or in the transcript, or what
            is stated promises a canary nothing.
    """
    candidates = read_candidates(Path(canaries))
    canary_scores = [read_scores(Path(path), candidates) for path in scores]
    _check_together(canary_scores)
    claim = promise_to_canary(
        *_find_claim(epsilon, delta, canary_scores),
        noise,
        candidates.records_each if unit == "record" else 1,
    )
    change = None if utility is None else _utility_change(Path(utility))
    libraries = dict(sorted(pair for file in canary_scores for pair in file.libraries.items()))
    if run is None:
        return audit_of(
            _open_and_judge(Path(canaries), candidates, canary_scores, claim, change), libraries
        )
    folder = Path(run)
    with take_folder(folder, (HEAD, SUMMARY, PAGE)):
        return begin_run(
            folder,
            lambda: _open_and_judge(Path(canaries), candidates, canary_scores, claim, change),
            libraries,
        )


def _check_together(scores: Sequence[CanaryScores]) -> None:
    boxes = [file.box for file in scores]
    if not boxes or len(set(boxes)) < len(boxes):
        raise SpecError(
            "expected one file of scores, or one of the white and one of the black box, got "
            f"{', '.join(boxes) or 'none'}: a verdict is one look"
        )
    models = sorted({file.model for file in scores if file.model})
    if len(models) > 1:
        raise DataError(
            "expected scores of one model, got those of two (fingerprints "
            f"{models[0][:12]}... and {models[1][:12]}...): score the model that was watched"
        )


def _find_claim(
    epsilon: float | None, delta: float | None, scores: Sequence[CanaryScores]
) -> tuple[float, float]:
    stated = {file.stated for file in scores}
    if epsilon is not None and delta is not None:
        return epsilon, delta
    (guarantee,) = stated if len(stated) == 1 else (None,)
    if epsilon is not None or delta is not None or guarantee is None:
        given = "one of them" if (epsilon, delta) != (None, None) else "neither"
        source = "" if guarantee else ", and the scores come from no transcript that states them"
        if len(stated) > 1:
            source = ", and the files of scores do not state the same"
        raise SpecError(f"expected epsilon and delta, got {given}{source}: give both")
    return guarantee


def _open_and_judge(
    folder: Path,
    canaries: Canaries,
    scores: Sequence[CanaryScores],
    claim: Guarantee,
    change: Estimate | None,
) -> CanaryFacts:
    epsilon, delta, noise, count = claim.epsilon, claim.delta, claim.noise, canaries.count
    tries = sum(1 if file.rounds is None else 2 for file in scores)
    inserted = open_coins(folder, canaries, [file.digest for file in scores], noise)
    reach = bounds.largest_bound(count, delta, drawn="coins", noise=noise, tries=tries)
    centred = [combine_by_canary(canaries, file) for file in scores]
    below = max_test(np.stack(centred), inserted).p_below <= LEVEL_BELOW
    needed: int | None = count
    if reach <= epsilon:
        needed = bounds.records_needed(epsilon, delta, drawn="coins", noise=noise, tries=tries)
    return CanaryFacts(
        epsilon, delta, noise, count, int(inserted.sum()), canaries.commitment,
        tuple(
            replace(_measure(file, canaries, inserted, (delta, noise, tries)), backwards=bool(low))
            for file, low in zip(scores, below, strict=True)
        ),
        reach,
        needed,
        change,
        canaries.flipped,
        canaries.records_each,
        claim.mechanism,
    )  # fmt: skip


def _measure(
    scores: CanaryScores,
    canaries: Canaries,
    inserted: Coins,
    how: tuple[float, NoiseAssumption, int],
) -> BoxResult:
    """All scores together, and those of each round; rounds share a part of the error."""
    delta, noise, tries = how
    score = combine_by_canary(canaries, scores)
    texts = canaries.x.dtype.kind == "U" and canaries.neighbours is None

    def bound(score: Score, tries: int) -> Estimate:
        return bounds.epsilon_lower_bound(
            score, inserted, delta, drawn="coins", noise=noise, tries=tries
        )

    def estimate(score: Score) -> Estimate:
        return bounds.gaussian_estimate(score, inserted, delta)

    return BoxResult(
        scores.box,
        bound(score, tries),
        membership.auc(score, inserted),
        scores.steps,
        scores.model,
        None if canaries.neighbours is None else estimate(score),
        tuple(
            RoundResult(bound(each, tries * len(scores.rounds)), estimate(each))
            for each in scores.rounds
        )
        if scores.rounds is not None
        else (),
        scores.rounding,
        None if scores.batches is None else check_batches(scores.batches),
        scores.statistics,
        None
        if scores.noise is None
        else check_noise(
            scores.noise, scores.steps, "step" if canaries.neighbours is None else "round"
        ),
        exposure=measure_exposure(score, inserted) if texts else None,
    )


def combine_by_canary(canaries: Canaries, scores: CanaryScores) -> Score:
    """One score a canary, less what training shows of its class; of people the mean of records."""
    score, y, person = scores.score, canaries.y, canaries.person
    if canaries.records_each > 1:
        score, y = people.combine(score, person, "mean"), people.first_of_each(y, person)
    return centre_by_class(score, y)


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
    medians = np.array([np.median(score[y == label]) for label in classes])
    return np.asarray(score - medians[np.searchsorted(classes, y)])


def _utility_change(path: Path) -> Estimate:
    """The difference of two accuracies on the same records."""
    arrays = read_arrays(path, "with_canaries", "without_canaries")
    after, before = arrays["with_canaries"], arrays["without_canaries"]
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
