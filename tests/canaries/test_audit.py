"""One look at the coins gives one verdict; what does not belong together is refused."""

import json
import math
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from click.testing import CliRunner

from divulge.canaries import audit, result
from divulge.canaries import plan as planning
from divulge.canaries.plan import gaussian_mu, plan_canaries
from divulge.canaries.result import CanaryAudit
from divulge.cli.main import main
from divulge.data import canary_files as files
from divulge.data.canary_scores import CanaryScores
from divulge.errors import DataError, SpecError, StoreError
from divulge.metrics.epsilon import epsilon_lower_bound
from divulge.metrics.epsilon.curves import gaussian_epsilon
from divulge.metrics.max_test import max_test
from tests.canaries import sets
from tests.uneven_tables import TABLES

CLAIM = {"epsilon": 1.0, "delta": 1e-5}


def judge(folder: Path, *scores: Path, epsilon: float = 1.0, **more: object) -> CanaryAudit:
    return audit.audit_canaries(folder, scores, epsilon=epsilon, delta=1e-5, **more)  # type: ignore[arg-type]


def test_a_leak_contradicts_and_noise_does_not(tmp_path: Path) -> None:
    leaky, calm = sets.make(tmp_path, seed=1), sets.make(tmp_path, seed=2)
    found = judge(leaky, sets.write_scores(leaky, sets.leak(leaky, 3.0)))
    assert found.verdict.level == "contradicted"
    assert found.bound > 1.5
    assert "contradicted: it is at least" in found.headline
    found = judge(calm, sets.write_scores(calm, sets.leak(calm, 0.0)))
    assert found.verdict.level == "consistent"
    assert found.bound == 0


def test_canaries_that_nothing_shows_may_have_been_left_out(tmp_path: Path) -> None:
    """Of these and of a small ε scores show the same, so that the reader has to look."""
    lost, seen = sets.make(tmp_path, seed=1), sets.make(tmp_path, seed=2)
    found = judge(lost, sets.write_scores(lost, sets.leak(lost, 0.0)), epsilon=2.0)
    assert found.verdict.level == "consistent"
    assert "were trained on, which nothing shows" in found.verdict.next_step
    found = judge(seen, sets.write_scores(seen, sets.leak(seen, 1.0)), epsilon=3.0)
    assert found.verdict.level == "consistent"
    assert "used up by this look" in found.verdict.next_step


@pytest.mark.parametrize("epsilon", [1.0, 8.0], ids=["could be decided", "undecidable"])
def test_scores_with_their_sign_reversed_make_the_inputs_doubtful(
    tmp_path: Path, epsilon: float
) -> None:
    folder = sets.make(tmp_path, seed=1)
    scores = sets.write_scores(folder, -sets.leak(folder, 3.0))
    found = judge(folder, scores, epsilon=epsilon, run=tmp_path / "run")
    assert found.verdict.level == "inputs doubtful"
    assert "inserted canaries score below the others (AUC 0.0" in found.headline
    assert found.verdict.next_step.startswith("Check the sign of the scores")
    assert found.gate().passes
    for word in ("contradicted", "undecidable"):
        ruling = found.gate(fail_on=[word])
        assert ruling.undecided
        assert not ruling.failed
    page = (tmp_path / "run" / "report.html").read_text()
    assert 'data-level="inputs doubtful"' in page
    assert "Here chance cannot explain how much lower they score" in page


def test_too_few_canaries_decide_nothing_and_are_told_how_many_would(tmp_path: Path) -> None:
    folder = sets.make(tmp_path, 100)
    found = judge(folder, sets.write_scores(folder, sets.leak(folder, 99.0)), epsilon=8.0)
    assert found.verdict.level == "undecidable"
    assert found.facts.needed is not None
    assert found.facts.needed > 1000
    assert f"{found.facts.needed:,} or more" in found.headline


def test_scores_are_compared_within_classes(tmp_path: Path) -> None:
    folder = sets.make(tmp_path)
    offset = 100.0 * files.read_candidates(folder).y
    found = judge(folder, sets.write_scores(folder, sets.leak(folder, 5.0) + offset))
    assert found.results[0].auc.value > 0.98


@pytest.mark.parametrize("name", TABLES)
def test_of_a_score_the_median_of_its_class_is_taken_off_where_classes_are_large(name: str) -> None:
    table = TABLES[name]
    classes = len(set(table.label.tolist()))
    for score in table.scores:
        expected = [
            one - np.median(score[table.label == y]) * (len(score) >= 20 * classes)
            for one, y in zip(score, table.label, strict=True)
        ]
        np.testing.assert_allclose(audit.centre_by_class(score, table.label), expected, rtol=1e-12)


@pytest.mark.parametrize(("count", "centred"), [(40, True), (39, False)])
def test_twenty_canaries_a_class_are_enough_to_compare_within(count: int, centred: bool) -> None:
    y = np.arange(count, dtype=np.int64) % 2
    score = np.arange(count) + 100.0 * y
    found = audit.centre_by_class(score, y)
    expected = score - np.where(y, np.median(score[y == 1]), np.median(score[y == 0]))
    np.testing.assert_array_equal(found, expected if centred else score)


def test_an_epsilon_that_is_reached_and_not_exceeded_needs_more_canaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("divulge.metrics.epsilon.records_needed", lambda *_, **__: 1234)
    for reach, needed in ((1.0, 1234), (1.01, 100)):
        monkeypatch.setattr(
            "divulge.metrics.epsilon.largest_bound", lambda *_, reach=reach, **__: reach
        )
        folder = sets.make(tmp_path / str(reach), 100)
        facts = judge(folder, sets.write_scores(folder, sets.leak(folder, 0.0))).facts
        assert facts.needed == needed
        assert facts.level == ("undecidable" if needed == 1234 else "consistent")


def test_scores_are_reversed_from_one_in_forty_on(tmp_path: Path) -> None:
    """One tail of 2.5 %, as of any audit: between that and 5 % nothing is doubted."""
    seen = set()
    for seed in range(1, 60):
        folder = sets.make(tmp_path, 60, seed)
        inserted = sets.coins(folder)
        score = np.random.default_rng(seed).normal(size=60) - 0.45 * inserted
        below = max_test(audit.centre_by_class(score, files.read_candidates(folder).y)[None],
                         inserted).p_below  # fmt: skip
        if (kind := float(below[0]) <= 0.025) in seen or not 0.005 < below[0] <= 0.05:
            continue
        found = judge(folder, sets.write_scores(folder, score))
        assert found.results[0].backwards == kind
        seen.add(kind)
        if len(seen) == 2:
            break
    assert len(seen) == 2


def test_a_plan_has_a_row_for_each_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_chance", lambda *_: 0.5)
    plan = plan_canaries(1.0, 1e-5, canaries=50)
    assert [one.epsilon for one in plan.faults] == [1.5, 2.0, 4.0, math.inf]


@pytest.mark.slow
def test_false_contradictions_are_as_rare_as_promised(tmp_path: Path) -> None:
    """The scores of Gaussian noise that keeps ε = 1 exactly; 200 draws of coins."""
    folder, mu = sets.make(tmp_path, 200), gaussian_mu(1.0, 1e-5)
    y, rng = files.read_candidates(folder).y, np.random.default_rng(0)
    wrong = 0
    for _ in range(200):
        coins = rng.random(200) < 0.5
        score = audit.centre_by_class(rng.normal(size=200) + mu * coins, y)
        bound = epsilon_lower_bound(score, coins, 1e-5, drawn="coins", noise="independent-gaussian")
        wrong += bound.value > 1.0
    assert wrong <= 16  # the 97.5 % quantile of a binomial of 200 at 5 %


def test_two_boxes_share_the_error(tmp_path: Path) -> None:
    folder = sets.make(tmp_path)
    score = sets.leak(folder, 3.0)
    white = sets.write_scores(folder, score)
    black = sets.write_scores(folder, score, "black.npz", box="black")
    both = judge(folder, white, black)
    (folder / files.OPENED).unlink()
    alone = judge(folder, white)
    assert both.facts.reach < alone.facts.reach


@pytest.mark.parametrize("rounds", [1, 5])
@pytest.mark.parametrize("boxes", [1, 2])
def test_all_scores_and_all_rounds_together_err_as_often_as_one_bound(
    tmp_path: Path, rounds: int, boxes: int
) -> None:
    """Each file of scores has a part of the 5 %, and all rounds together have another."""
    folder = sets.make(tmp_path)
    score = sets.leak(folder, 3.0)
    each = np.stack([sets.leak(folder, 3.0, seed=k) for k in range(rounds)])
    paths = [sets.write_scores(folder, score, rounds=each)]
    if boxes == 2:
        paths.append(sets.write_scores(folder, score, "black.npz", box="black"))
    found = judge(folder, *paths)
    (one, *others) = found.results
    part, inserted = 0.05 / (boxes + 1), sets.coins(folder)

    def bound(score: np.ndarray, error: float) -> float:
        confidence = 1 - error
        return epsilon_lower_bound(
            score, inserted, 1e-5, drawn="coins", confidence=confidence
        ).value

    centred = audit.centre_by_class(score, files.read_candidates(folder).y)
    assert one.bound.value == pytest.approx(bound(centred, part), rel=1e-9)
    assert [box.bound.value for box in others] == [one.bound.value] * (boxes - 1)
    by_hand = [bound(row, part / rounds) for row in each]
    assert [row.bound.value for row in one.rounds] == pytest.approx(by_hand, rel=1e-9)
    assert min(by_hand) > 0


def test_there_is_one_look(tmp_path: Path) -> None:
    folder = sets.make(tmp_path)
    first = sets.write_scores(folder, sets.leak(folder, 1.0))
    before = judge(folder, first).facts
    assert judge(folder, first).facts == before  # the same look again is none
    other = sets.write_scores(folder, sets.leak(folder, 1.0, seed=1), "other.npz")
    with pytest.raises(StoreError, match="a second look is no test"):
        judge(folder, other, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(StoreError, match="a second look is no test"):
        judge(folder, first, noise="gaussian")


def test_what_does_not_belong_together_is_refused_with_sealed_coins(tmp_path: Path) -> None:
    folder, others = sets.make(tmp_path, seed=1), sets.make(tmp_path, seed=2)
    score = sets.leak(folder, 1.0)
    good = sets.write_scores(folder, score)
    refused = {
        "score every canary": [sets.write_scores(folder, score[:-1], "few.npz")],
        "no low score": [sets.write_scores(folder, np.where(score > 0, score, np.nan), "nan.npz")],
        "score the canaries of this folder": [sets.write_scores(others, score)],
        "expected scores of one model": [
            good,
            sets.write_scores(folder, score, "b.npz", box="black", model="another"),
        ],
        "a verdict is one look": [good, sets.write_scores(folder, score, "again.npz")],
        "got none": [],
        "expected a file": [folder / "nowhere.npz"],
    }
    for said, scores in refused.items():
        with pytest.raises((DataError, SpecError, StoreError), match=said):
            judge(folder, *scores)
    assert not (folder / files.OPENED).exists()


@pytest.mark.parametrize("arrays", [{}, {"score": np.zeros(3)}, {"score": np.zeros((2, 2))}])
def test_a_file_that_holds_no_scores_is_refused(
    arrays: dict[str, np.ndarray], tmp_path: Path
) -> None:
    folder = sets.make(tmp_path)
    np.savez(folder / "odd.npz", allow_pickle=False, **arrays)
    with pytest.raises(StoreError, match=r"odd\.npz"):
        judge(folder, folder / "odd.npz")


def test_the_change_of_utility_is_said_with_its_interval(tmp_path: Path) -> None:
    folder = sets.make(tmp_path)
    scores = sets.write_scores(folder, sets.leak(folder, 1.0))
    without = np.arange(500) < 400
    path = tmp_path / "utility.npz"
    np.savez(path, with_canaries=without & (np.arange(500) >= 15), without_canaries=without)
    found = judge(folder, scores, utility=path)
    assert found.facts.utility is not None
    assert found.facts.utility.value == pytest.approx(-0.03)
    assert found.facts.utility.high is not None
    assert found.facts.utility.low < -0.03 < found.facts.utility.high < 0  # pairs make it sharp
    assert "-3.0 points" in found.facts.sentence
    np.savez(path, with_canaries=without, without_canaries=without[1:])
    with pytest.raises(DataError, match="two arrays of booleans"):
        judge(folder, scores, utility=path)


def test_a_run_folder_has_a_page_and_a_summary(tmp_path: Path) -> None:
    folder = sets.make(tmp_path)
    scores = sets.write_scores(folder, sets.leak(folder, 3.0), model="<script>")
    judge(folder, scores, run=tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "is contradicted" in page
    assert "400 canaries" in page
    assert page.count("<script") == 1  # divulge's own
    summary = json.loads((tmp_path / "run" / result.SUMMARY).read_text(encoding="utf-8"))
    assert summary["verdict"] == "contradicted"
    assert summary["results"][0]["bound"]["low"] > 1
    with pytest.raises(StoreError, match="expected a new folder"):
        judge(folder, scores, run=tmp_path / "run")


def test_the_commands_lead_from_records_to_an_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_RUNS", 2)
    given = sets.records()
    np.savez(tmp_path / "data.npz", x=given.x, y=given.y)
    folder = tmp_path / "c"

    def call(*words: object) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["canary", *map(str, words)])
        return done.exit_code, done.output

    code, said = call("make", tmp_path / "data.npz", folder, "--count", 400)
    assert code == 0, said
    assert "Sealed" in said
    scores = sets.write_scores(folder, sets.leak(folder, 3.0))
    claim = ("--epsilon", 1, "--delta", 1e-5, "--fail-on", "contradicted")
    code, said = call("audit", folder, scores, *claim, "--run", tmp_path / "run")
    assert (code, "is contradicted" in said) == (3, True), said
    high = ("--epsilon", 5, "--delta", 1e-5, "--fail-on", "contradicted")
    shape = ("--format", "json", "--run", tmp_path / "run-2")
    code, said = call("audit", folder, scores, *high, *shape)
    assert code == 4, said
    assert '"verdict": "undecidable"' in said
    code, said = call("audit", folder, tmp_path / "x.npz", *claim, "--run", tmp_path / "run-3")
    assert code == 2
    assert "expected a file" in said
    code, said = call("plan", "--epsilon", 1, "--delta", 1e-5, "--canaries", 200)
    assert code == 0
    assert "can contradict an ε up to" in said


def test_a_plan_keeps_its_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_RUNS", 5)
    monkeypatch.setattr(planning, "_MOST", 1000)
    monkeypatch.setattr(planning, "TIMES", (4.0, math.inf))
    plan = plan_canaries(1.0, 1e-5)
    counts = [one.canaries for one in plan.faults]
    assert 1000 >= (counts[0] or 0) > (counts[1] or 0) > 20
    assert all(one.chance >= 0.8 for one in plan.faults)
    monkeypatch.setattr(planning, "TIMES", (1.5,))
    (fault,) = plan_canaries(1.0, 1e-5).faults
    assert fault.canaries is None  # half as much more is not seen
    assert fault.chance < 0.8


def test_a_plan_says_what_no_number_finds() -> None:
    plan = plan_canaries(30.0, 1e-5, canaries=50)
    assert plan.reach is not None
    assert plan.reach < 30
    assert {one.chance for one in plan.faults} == {0.0}
    for odd in ({"power": 1.0}, {"delta": 0.0}):
        with pytest.raises(SpecError):
            plan_canaries(**({"epsilon": 1.0, "delta": 1e-5} | odd))  # type: ignore[arg-type]


def test_the_noise_of_an_epsilon_is_the_inverse_of_the_epsilon_of_noise() -> None:
    for epsilon in (0.1, 1.0, 8.0, 50.0):
        mu = gaussian_mu(epsilon, 1e-5)
        assert gaussian_epsilon(mu, 1e-5) == pytest.approx(epsilon, rel=1e-6)


STATED, OTHER = (2.0, 1e-5), (3.0, 1e-5)


@pytest.mark.parametrize(
    ("given", "stated", "claim"),
    [
        ((1.0, 1e-6), [None], (1.0, 1e-6)),
        ((1.0, 1e-6), [STATED, OTHER], (1.0, 1e-6)),  # what is said goes first
        ((None, None), [STATED], STATED),
        ((None, None), [STATED, STATED], STATED),
        ((None, None), [STATED, OTHER], "got neither, and the files of scores do not state"),
        ((None, None), [STATED, None], "got neither, and the files of scores do not state"),
        ((None, None), [None], "got neither, and the scores come from no transcript"),
        ((1.0, None), [STATED], "got one of them: give both"),
        ((None, 1e-6), [None], "got one of them, and the scores come from no transcript"),
    ],
)
def test_the_claim_is_what_is_said_or_what_all_scores_state(
    given: tuple[float | None, float | None], stated: list[Any], claim: Any
) -> None:
    scores = [Mock(spec=CanaryScores, stated=one) for one in stated]
    if isinstance(claim, str):
        with pytest.raises(SpecError, match="expected epsilon and delta, " + claim):
            audit._find_claim(*given, scores)
    else:
        assert audit._find_claim(*given, scores) == claim
