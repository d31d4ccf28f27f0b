"""Canaries of a language model: texts without labels, and how exposed they are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divulge.canaries.audit import audit_canaries
from divulge.canaries.make import make_canaries
from divulge.canaries.trained import score_canaries
from divulge.cli.main import main
from divulge.data import canary_files as files
from divulge.errors import DataError, SpecError
from divulge.metrics.exposure import UNLEARNED, measure_exposure
from divulge.targets import CausalTarget
from tests.canaries import sets

pytest.importorskip("torch")

from tests.targets import test_causal_target as causal
from tests.tiny_language_model import WORDS

RNG = np.random.default_rng(3)
TEXTS = [" ".join(map(str, RNG.integers(2, WORDS, 8))) for _ in range(300)]


def test_an_exposure_is_that_of_a_loop_over_canaries() -> None:
    score, inserted = RNG.normal(size=60).round(1), RNG.random(60) < 0.4
    outside = score[~inserted]
    each = [
        np.log2(len(outside) + 1) - np.log2(1 + (outside > one).sum() + (outside == one).sum() / 2)
        for one in score[inserted]
    ]
    assert measure_exposure(score, inserted).value == pytest.approx(np.mean(each))


def test_its_variance_is_that_of_leaving_out_one_canary_after_another() -> None:
    rng = np.random.default_rng(5)
    score, inserted = rng.normal(size=40).round(1), np.arange(40) < 15
    found = measure_exposure(score, inserted)
    variance = 0.0
    for kind in (inserted, ~inserted):
        left = []
        for at in np.flatnonzero(kind):
            kept = np.arange(40) != at
            each = measure_exposure(score[kept], inserted[kept]).value
            left.append(each - np.log2((~inserted[kept]).sum() + 1))
        variance += (len(left) - 1) * np.var(left)
    width = 1.95996 * np.sqrt(variance)
    assert found.high == pytest.approx(found.value + width, abs=1e-4)


def test_its_interval_covers_the_mean_of_many_sets() -> None:
    """Of 400 sets of 100 + 100 that a normal shift of 1 tells apart; .94 in 10,000 of them."""
    rng, inserted = np.random.default_rng(0), np.arange(200) < 100
    found = [
        measure_exposure(rng.normal(np.where(inserted, 1.0, 0.0)), inserted) for _ in range(400)
    ]
    middle = np.mean([one.value for one in found])
    covered = np.mean([one.low <= middle <= (one.high or np.inf) for one in found])
    assert abs(covered - 0.94) <= 3 * np.sqrt(0.94 * 0.06 / 400)
    silent = [measure_exposure(rng.normal(size=200), inserted).value for _ in range(400)]
    uniform = np.log2(101) - np.log2(np.arange(1, 102)).mean()  # of ranks 1 to 101
    assert abs(np.mean(silent) - uniform) <= 3 * np.std(silent) / 20
    stirling = np.log2(2 * np.pi * 101) / (2 * 101)  # how far it is from what it tends to
    assert uniform == pytest.approx(UNLEARNED - stirling, abs=1e-4)


def test_held_out_texts_become_canaries_themselves(tmp_path: Path) -> None:
    made = make_canaries(TEXTS, tmp_path / "c", 200, kind="in-distribution")
    held = files.read_candidates(made.folder)
    assert set(held.x.tolist()) <= set(TEXTS)
    assert len(set(held.x.tolist())) == 200
    drawn = files.read_candidates(make_canaries(TEXTS, tmp_path / "d", 200).folder)
    assert not set(drawn.x.tolist()) & set(TEXTS)
    with pytest.raises(DataError, match="at least as many records as canaries"):
        make_canaries(TEXTS, tmp_path / "e", 301, kind="in-distribution")
    with pytest.raises(SpecError, match="nothing to label otherwise"):
        make_canaries(TEXTS, tmp_path / "f", 20, kind="mislabelled")


@pytest.mark.parametrize("trains", [True, False])
def test_a_training_that_learns_its_canaries_exposes_them(tmp_path: Path, trains: bool) -> None:
    folder = make_canaries(TEXTS, tmp_path / "c", 200, seed=1).folder
    with np.load(folder / files.TRAIN) as train:
        inserted = train["x"].tolist()
    before = CausalTarget(causal.fitted([], 0))
    after = CausalTarget(causal.fitted(inserted if trains else TEXTS[:150], 3))
    scores = score_canaries(folder, after, tmp_path / "s.npz", reference=before)
    found = audit_canaries(folder, [scores], epsilon=0.5, delta=1e-5)
    (box,) = found.results
    assert box.exposure is not None
    if trains:
        assert box.exposure.low > UNLEARNED + 1
        assert found.verdict.level == "contradicted"
    else:
        assert found.verdict.level != "contradicted"
    assert "Exposure: mean exposure" in str(found)
    assert "Mean exposure" in found.render()["report.html"].decode()


def test_the_command_makes_them_of_a_column_of_texts(tmp_path: Path, capsys: Any) -> None:
    table = tmp_path / "texts.csv"
    table.write_text("text\n" + "\n".join(TEXTS) + "\n")
    asked = ["canary", "make", str(table), str(tmp_path / "c"), "--count", "50", "--texts"]
    with pytest.raises(SystemExit) as ended:
        main(asked)
    assert ended.value.code == 0
    assert sets.coins(tmp_path / "c").shape == (50,)
    assert "kind out-of-distribution" in capsys.readouterr().out
