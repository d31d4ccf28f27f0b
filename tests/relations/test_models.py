"""Whatever way a model is audited, the same information gives the same figures.

Quick tests make all changes at once; slow ones make each alone, so that a failure names its cause.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import divulge
from divulge.testing.relations import subjects, ways
from divulge.testing.relations.figures import changed, differences
from tests.relations import entries
from tests.relations.entries import ALL, ENTRIES, MODELS, SCORES, TABLES, Columns

SAME_GATES: tuple[dict[str, object], ...] = (
    {"fail_on": ["leak"]},
    {"fail_on": ["leak", "leak-or-shift", "confounded", "undecided"]},
    {"fail_above": {"auc": 0.99}},
)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], divulge.Audit]:
    """The audit of the memorised model by one way, carried out once."""

    @cache
    def audit(entry: str) -> divulge.Audit:
        return ENTRIES[entry](subjects.memorised(), tmp_path_factory.mktemp("before"))

    return audit


@pytest.mark.parametrize("entry", MODELS | TABLES)
def test_every_way_gives_the_same_figures(
    entry: str, before: Callable[[str], divulge.Audit]
) -> None:
    assert before("function").verdict.level == "leak"
    assert not differences(before("function"), before(entry))


@pytest.mark.parametrize("entry", SCORES)
def test_a_table_of_one_number_has_the_figures_of_the_attack_that_computes_it(
    entry: str, before: Callable[[str], divulge.Audit]
) -> None:
    (given,), (computed, _) = before(entry).findings, before("function").findings
    assert computed.attack == "threshold"
    for name, estimate in given.metrics.items():
        if name in computed.metrics:
            assert estimate == computed.metrics[name], name


@pytest.mark.parametrize("entry", ENTRIES)
def test_another_order_other_types_and_small_batches_change_nothing(
    entry: str, before: Callable[[str], divulge.Audit], tmp_path: Path
) -> None:
    ways.require_same_figures(
        lambda subject: ENTRIES[entry](subject, tmp_path), subjects.memorised(), before(entry)
    )


@pytest.mark.slow
@pytest.mark.parametrize("entry", ALL)
@pytest.mark.parametrize("change", subjects.SAME)
@pytest.mark.parametrize("subject", [subjects.memorised, subjects.honest])
def test_each_change_alone_changes_nothing(
    entry: str, change: str, subject: Callable[[int], subjects.Subject], tmp_path: Path
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    one = subject(1)
    other = subjects.SAME[change](one)
    found = ALL[entry](one, before), ALL[entry](other, after)
    assert not changed(*found)
    # where nothing leaks, a verdict near its level may turn: trees that find members easier or
    # harder draw features by their order
    assert subject is subjects.honest or found[0].verdict.level == found[1].verdict.level


@pytest.mark.parametrize("entry", ENTRIES)
def test_exchanged_sets_turn_aucs_over_and_pass_no_gate(
    entry: str, before: Callable[[str], divulge.Audit], tmp_path: Path
) -> None:
    found = ENTRIES[entry](subjects.exchange(subjects.memorised()), tmp_path)
    ways.require_turned_figures(before(entry), found)
    for gate in SAME_GATES:
        assert not found.gate(**gate).passes  # type: ignore[arg-type]


RISING: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "stretched": lambda score: 1000 * score + 5,
    "exponential": np.exp,
    "cubed": lambda score: score**3,
    "bounded": np.arctan,
    "ranks": lambda score: np.unique(score, return_inverse=True)[1].astype(float),
}
"""Strictly rising, and so that no two of some hundred scores meet by rounding."""


def _score_table(path: Path, score: np.ndarray, blind: np.ndarray, member: np.ndarray) -> Path:
    columns: Columns = {"score": score.tolist(), "elsewhere": blind.tolist()}
    return entries.write_csv(columns | {"member": member.astype(int).tolist()}, path)


def _draw_scores(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, a number from elsewhere that is low where records are easy, and who is a member."""
    rng = np.random.default_rng([seed, 3])
    easy, member = rng.normal(size=size), np.arange(size) % 2 == 0
    noise = rng.normal(size=(2, size))
    return easy + noise[0] + 0.8 * member, 0.3 * noise[1] - easy, member


@pytest.mark.parametrize("change", RISING)
def test_scores_count_by_their_order_alone(change: str, tmp_path: Path) -> None:
    score, blind, member = _draw_scores(240)
    plain, turned = (
        divulge.audit_predictions(
            _score_table(tmp_path / f"{number}.csv", one, other, member),
            score="score",
            blind="elsewhere",
        )
        for number, (one, other) in enumerate(
            [(score, blind), (RISING[change](score), -RISING[change](blind))]
        )
    )
    assert plain.verdict.level == "leak"
    assert not differences(plain, turned)
    assert plain.verdict.p_value == turned.verdict.p_value


SAME_ANSWERS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "percentages": ("percentages", lambda p: 100 * p),
    "logits": ("logits", np.log),
    "logits of another level": ("logits", lambda p: np.log(p) + np.arange(len(p))[:, None] % 9),
    "single precision": ("probabilities", lambda p: p.astype(np.float32).astype(float)),
}


@pytest.mark.parametrize("form", SAME_ANSWERS)
def test_answers_in_another_form_give_the_same_figures(
    form: str, before: Callable[[str], divulge.Audit], tmp_path: Path
) -> None:
    subject = subjects.memorised()
    output, change = SAME_ANSWERS[form]
    answers = change(subject.probabilities)
    columns = entries.table(subject)
    columns |= {f"p_{name}": answers[:, k].tolist() for k, name in enumerate(subject.names)}
    found = divulge.audit_predictions(
        entries.write_csv(dict(reversed(columns.items())), tmp_path / "t.csv"),
        output=output,  # type: ignore[arg-type]
        options=entries.RANDOM,
        attacks=entries.attacks(),
    )
    assert not differences(before("CSV"), found)


@pytest.mark.parametrize("factor", [1e-3, -1.0, 1e12])
def test_true_values_in_other_units_give_the_same_figures(factor: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    member = np.arange(240) % 2 == 0
    values = rng.normal(size=240)
    answers = values + np.where(member, 0.4, 1) * rng.normal(size=240)
    found = [
        divulge.audit_predictions(
            entries.write_csv(
                {
                    "answer": (unit * answers).tolist(),
                    "label": (unit * values).tolist(),
                    "member": member.astype(int).tolist(),
                },
                tmp_path / f"{unit}.csv",
            ),
            output="values",
            probabilities="answer",
            options=entries.RANDOM,
        )
        for unit in (1.0, factor)
    ]
    assert found[0].verdict.level == "leak"
    assert not differences(*found)


def test_more_records_narrow_the_intervals(tmp_path: Path) -> None:
    """Of the same population; widths fall as the root of the size, by chance a little more."""
    names = ("auc", "tpr@0.1")
    widths = np.empty((2, 8, len(names)))
    for seed in range(8):
        score, blind, member = _draw_scores(480, seed)
        for row, size in enumerate((120, 480)):
            path = _score_table(tmp_path / "t.csv", score[:size], blind[:size], member[:size])
            found = divulge.audit_predictions(path, score="score").findings[0].metrics
            widths[row, seed] = [_width(found[name]) for name in names]
    assert (widths[1] < widths[0]).all(axis=0)[0]  # of AUCs in each draw
    # a quarter of the width in the mean of 8 draws is twice what the root of 4 leaves to chance
    assert (widths[1].mean(axis=0) < 0.75 * widths[0].mean(axis=0)).all()


def _width(estimate: divulge.Estimate) -> float:
    assert estimate.high is not None
    return estimate.high - estimate.low
