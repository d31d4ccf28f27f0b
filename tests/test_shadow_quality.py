"""The comparison of attacks with shadow models: what it stores, resumes, compares and writes."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import Bool
from scipy import stats

from benchmarks.shadow_quality import compare, measure, other_tools_page, rows
from benchmarks.shadow_quality.models import SEEDS, Games
from benchmarks.shadow_quality.rows import HALVES, METRICS, Heading, Mode, Row, TargetRows
from benchmarks.shadow_quality.tasks import TASKS, Task
from divulge.core import Records, Target
from divulge.targets.function import FunctionTarget

TARGETS = HALVES * SEEDS


class Memory:
    """Trains models that are surer of the label of what they were trained on; counts them."""

    trained = 0

    def many(
        self, pool: Records, subsets: Bool[np.ndarray, "models records"], seeds: Sequence[int]
    ) -> Iterator[Target]:
        for half, seed in zip(subsets, seeds, strict=True):
            Memory.trained += 1
            yield self._model(set(pool.x[half, 0].tolist()), seed)

    def _model(self, known: set[float], seed: int) -> Target:
        def answer(x: np.ndarray) -> np.ndarray:
            inside = np.isin(x[:, 0], list(known))
            noise = np.random.default_rng(seed).normal(size=5_000)[x[:, 0].astype(int)]
            logit = 1.5 * inside + noise + (x[:, 0] % 7) / 2
            p = 1 / (1 + np.exp(-logit))
            return np.stack([p, 1 - p], axis=1)

        return FunctionTarget(answer, "probabilities")


def numbered() -> Records:
    return Records(np.arange(4_500.0)[:, None], np.zeros(4_500, np.int64))


TASK = Task("memory", numbered, Memory, 2_000, 300, "a model of notes")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Two attacks with one shadow, offline too few for the second; answers are kept."""
    monkeypatch.setattr(measure, "shadow_attacks", lambda: ("calibrated", "shadow-stack"))
    monkeypatch.setattr(measure, "BUDGETS", (1,))
    monkeypatch.setenv(measure.KEPT, str(tmp_path / "kept"))
    Memory.trained = 0
    return tmp_path


def test_what_was_measured_before_a_kill_is_not_measured_again(
    few: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = rows.append
    written: list[Heading | Row] = []

    def killed(path: Path, line: Heading | Row) -> None:
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(line)
        append(path, line)

    monkeypatch.setattr(rows, "append", killed)
    with pytest.raises(KeyboardInterrupt):
        measure.measure(TASK, 2, few)
    monkeypatch.setattr(rows, "append", append)
    with (few / "memory.jsonl").open("a") as stream:
        stream.write('{"target": "mem')  # cut by the kill
    measure.measure(TASK, 2, few)
    found = rows.read(few / "memory.jsonl")
    assert found is not None
    assert [row.key for row in found.rows] == list(measure._wanted("memory", 2))
    assert found.rows[:2] == tuple(written[1:])
    assert Memory.trained == 2 + 2 * TARGETS
    calibrated, stack = (found.rows[k] for k in (1, 5))
    assert stack.reason.startswith("expected 2 or more offline shadows")
    assert not stack.values
    assert all(0.6 < auc < 0.99 for auc in calibrated.values["AUC"])
    assert len(calibrated.values["AUC"]) == TARGETS
    assert len(calibrated.agreement) == HALVES


def test_rows_of_another_training_are_refused(few: Path) -> None:
    rows.append(few / "memory.jsonl", heading("memory"))
    with pytest.raises(SystemExit, match="delete the file"):
        measure.measure(TASK, 2, few)


def test_offline_shadows_know_no_candidate(tmp_path: Path) -> None:
    games = Games(TASK, 3, tmp_path)
    games.train()
    for mode in ("online", "offline"):
        for one in games.views(mode):
            view = one.of(2)
            assert view.shadows is not None
            assert view.shadows.online == (mode == "online")
            assert one.learned.sum() == 1_000
            own = view.target.predict(view.records.x)[:, 0]
            assert own[one.learned].mean() > own[~one.learned].mean() + 0.1
            phi = view.shadows.phi
            if view.shadows.pool is None:
                known, phi = view.shadows.member, phi
                assert phi[known].mean() > phi[~known].mean() + 1
            else:
                pool = view.shadows.pool
                assert pool.phi[pool.member].mean() > pool.phi[~pool.member].mean() + 1
                assert not set(view.records.x[:, 0].tolist()) & set(range(2_000))


def test_no_more_than_the_share_of_non_members_is_flagged() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(2_000) < 1_000
    score = rng.normal(size=2_000) + member
    flagged = measure.flag(score, member, 0.01)
    assert flagged[~member].sum() == 10
    assert flagged[member].sum() == np.sum(score[member] > np.sort(score[~member])[-11])
    assert measure.flag(np.round(score), member, 0.01)[~member].mean() <= 0.01
    assert not measure.flag(np.zeros(2_000), member, 0.01).any()


def heading(target: str) -> Heading:
    accuracy = {side: [0.9, 0.8] * TARGETS for side in ("members", "others")}
    return Heading(target, "some model", 2_000, 300, accuracy, "2 cores", "2026-11-23")


def row(target: str, attack: str, aucs: Sequence[float], *, shadows: int = 4) -> Row:
    """A row whose three metrics are alike."""
    values = {metric: [*aucs] for metric in METRICS}
    mode: Mode = "online"
    return Row(target, mode, shadows, attack, values, [0.5, None, 0.7, 0.9], 0.5, 2.0 * shadows)


BETTER = {"one": 0.9, "two": 0.7, "three": 0.75, "four": 0.8}


def test_differences_are_paired_over_targets() -> None:
    rng = np.random.default_rng(1)
    first = {name: rng.normal(value, 0.01, TARGETS) for name, value in BETTER.items()}
    other = {name: values - 0.02 + rng.normal(0, 0.005, TARGETS) for name, values in first.items()}
    told = [row(name, "a", values.tolist()) for name, values in first.items()]
    told += [row(name, "b", values.tolist()) for name, values in other.items()]
    measured = [
        TargetRows(heading(name), tuple(r for r in told if r.target == name)) for name in BETTER
    ]
    differences = [first[name].mean() - other[name].mean() for name in BETTER]
    low, high = stats.t.interval(0.95, 3, np.mean(differences), stats.sem(differences))
    (line,) = (x for x in lines_of(measured) if (x["target"], x["attack"]) == ("all", "b"))
    told_lead = [float(line[f"AUC lead{end}"]) for end in ("", " low", " high")]
    assert told_lead == pytest.approx([np.mean(differences), low, high], rel=1e-3)
    assert float(line["AUC"]) == pytest.approx(
        np.mean([v.mean() for v in other.values()]), rel=1e-3
    )
    assert "* With 4 shadows `a` is first in all three metrics." in compare.page(measured)


def lines_of(measured: Sequence[TargetRows]) -> list[dict[str, str]]:
    """The CSV file as lines."""
    return list(csv.DictReader(compare.to_csv(measured).splitlines()))


def test_a_target_where_the_first_is_behind_is_named() -> None:
    told = {
        name: [row(name, "a", [value] * TARGETS), row(name, "b", [value - 0.1] * TARGETS)]
        for name, value in BETTER.items()
    }
    noise = np.repeat(np.random.default_rng(2).normal(0, 0.001, HALVES), SEEDS)
    told["two"][1] = row("two", "b", (0.75 + noise).tolist())
    told["two"].append(row("two", "c", [0.2] * TARGETS))
    attacks = compare._by_attack([one for of in told.values() for one in of])
    assert set(attacks) == {"a", "b"}  # c was not measured on every target
    assert compare.first_attack(attacks, "AUC") == "a"
    (behind,) = compare.find_behind(attacks, "a", "AUC")
    assert (behind.target, behind.attack) == ("two", "b")
    assert behind.difference.startswith(f"{0.05 + noise.mean():+.3f} [+0.04")
    measured = [TargetRows(heading(name), tuple(of)) for name, of in told.items()]
    text = compare.page(measured)
    (line,) = (
        x for x in text if x.startswith("* With 4 shadows `a` is first in all three metrics")
    )
    assert f", in {METRICS[1]} not clearly ahead of `b`; another finds more on two in AUC" in line
    (line,) = (x for x in text if x.startswith("| `c` |"))
    assert line == "| `c` | not on all targets |"
    told_leads = {
        (x["target"], x["attack"]): float(x["AUC lead"] or "nan") for x in lines_of(measured)
    }
    assert told_leads["one", "b"] == pytest.approx(0.1)
    assert told_leads["two", "b"] == pytest.approx(-0.05 - noise.mean(), rel=1e-3)
    assert told_leads["all", "a"] == 0
    assert ("all", "c") not in told_leads


def test_the_mean_over_these_targets_is_covered() -> None:
    """Targets differ in what is true of them, and in how far their halves scatter."""
    dice = np.random.default_rng(3)
    truth, spread = np.array([0.0, 0.3, -0.1, 0.02, 0.5]), np.array([0.1, 0.02, 0.3, 0.05, 0.1])
    runs, covered = 1_000, 0
    for _ in range(runs):
        low, high = compare.mean_of_these(
            dice.normal(truth, spread, (HALVES, len(truth))).T.tolist()
        )
        covered += low <= truth.mean() <= high
    assert stats.binomtest(covered, runs, 0.95).pvalue > 0.001
    assert compare.mean_of_these([[0.5] * HALVES, [0.7] * HALVES]) == pytest.approx((0.6, 0.6))


def test_the_first_with_few_shadows_stands_beside_lira_with_16() -> None:
    told = []
    for name, value in BETTER.items():
        told.append(row(name, "lira", [value] * TARGETS, shadows=16))
        told.append(row(name, "a", [value + 0.01] * TARGETS))
        told.append(replace(row(name, "b", []), values={}, reason="too few"))
    lines = compare._against_lira(told)
    share = (4 * 2.0 + 0.5) / (16 * 2.0 + 0.5)
    assert lines[2].startswith("| 4 | `a` | +0.010 [+0.010, +0.010] | +0.010 [+0.010, +0.010] |")
    assert lines[2].endswith(f"| {share:.3f} [{share:.3f}, {share:.3f}] |")


def test_other_tools_are_compared_on_the_same_targets() -> None:
    told = [row("x", name, [value] * HALVES) for name, value in (
        ("divulge, shadow-stack", 0.8), ("tool, a", 0.7), ("divulge, rmia", 0.1),
    )]  # fmt: skip
    told += [row("y", "divulge, shadow-stack", [0.8] * HALVES), row("z", "tool, a", [0.9] * HALVES)]
    told.append(row("y", "tool, a", [0.81] * HALVES))
    found = list(other_tools_page.compare(told))
    assert {one.attack for one in found} == {"tool, a"}
    assert found[0].differences == pytest.approx({"x": 0.1, "y": -0.01})
    lines = other_tools_page.page(told)
    counted = "3 of 6 comparisons are lost by more than 0.005 (3 with 4 shadows). The largest: y"
    assert counted in lines[1]
    assert len(list(csv.DictReader(other_tools_page.to_csv(told).splitlines()))) == 9


def test_stored_rows_are_complete_and_of_todays_targets() -> None:
    stored = sorted(rows.STORED.glob("*.jsonl"))
    assert stored
    for path in stored:
        found = rows.read(path)
        assert found is not None
        assert found.heading.trained == TASKS[path.stem].trained
        keys = [one.key for one in found.rows]
        assert len(keys) == len(set(keys))
        for one in found.rows:
            assert bool(one.reason) != bool(one.values)
            assert all(len(values) == TARGETS for values in one.values.values())
        assert json.loads(path.read_text().splitlines()[0])["target"] == path.stem
