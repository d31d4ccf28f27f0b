"""Many shadows: flat memory, growing numbers, candidates seen otherwise, a bar that resumes."""

import dataclasses
import io
import tracemalloc
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import divulge
from divulge._util import progress
from divulge.core import Finding, ModelView, Records, Shadows
from divulge.data import augmentation
from divulge.metrics import signals
from divulge.targets.function import FunctionTarget
from divulge.testing import forests
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.train import train_shadows
from divulge.training.trainers import FunctionTrainer


def model(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """Answers that depend on the seed, on what was learned, and on the record."""
    learned = float(np.sum(x))

    def answer(asked: np.ndarray) -> np.ndarray:
        p = (1 + np.sin(asked.reshape(len(asked), -1)[:, 0] + seed + learned)) / 2
        return np.column_stack([p, 1 - p])

    return answer


def view(records: int, *ways: Any, reference: int = 5) -> ModelView:
    rng = np.random.default_rng(0)
    candidates = Records(rng.normal(size=(records, 2, 3)), rng.integers(0, 2, records))
    others = Records(rng.normal(size=(reference, 2, 3)), rng.integers(0, 2, reference))
    return ModelView(
        FunctionTarget(model(candidates.x, candidates.y, 0)),
        candidates,
        others if reference else None,
        augmented=augmentation.augment(candidates, ways),
    )


def plan(models: int, pool: Records | None = None) -> ShadowPlan:
    return ShadowPlan(FunctionTrainer(model), models, pool, fingerprint="model")


def same(a: Shadows, b: Shadows) -> None:
    np.testing.assert_array_equal(a.phi, b.phi)
    np.testing.assert_array_equal(a.member, b.member)
    np.testing.assert_array_equal(a.reference_phi, b.reference_phi)
    for one, other in zip(a.augmented_phi, b.augmented_phi, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("reference", [0, 5])
def test_each_matrix_holds_what_the_models_say(reference: int) -> None:
    seen = view(20, "mirror", lambda x: x + 1, reference=reference)
    shadows = train_shadows(seen, plan(3), seed=7)
    for k, seed in enumerate(plan(3).seeds(7)):
        half = plan(3).subsets(seen.records, 7)[k]
        answer = model(seen.records.x[half], seen.records.y[half], seed)
        np.testing.assert_array_equal(shadows.member[:, k], half)
        groups = (seen.records, *seen.augmented, *([seen.reference] if seen.reference else []))
        matrices = (
            shadows.phi,
            *shadows.augmented_phi,
            *([shadows.reference_phi] * bool(reference)),
        )
        for group, matrix in zip(groups, matrices, strict=True):
            expected = signals.compute_signal("scaled_logit", answer(group.x), group.y)
            np.testing.assert_array_equal(matrix[:, k], expected)
    assert shadows.reference_phi.shape == (reference, 3)


def test_more_models_keep_those_that_are_there(tmp_path: Path) -> None:
    trained: list[tuple[int, int]] = []

    def track(items: Sequence[Any], text: str, done: int = 0) -> Iterable[Any]:
        trained.append((len(items), done))
        return items

    seen = view(30, "mirror")
    for models in (3, 8, 5):
        grown = train_shadows(seen, plan(models), run=tmp_path, track=track)
        same(grown, train_shadows(seen, plan(models)))
    assert trained == [(3, 0), (5, 3), (0, 5)]


@pytest.mark.parametrize("change", ["seed", "trainer", "records", "ways", "pool", "reference"])
def test_no_other_models_are_taken_for_these(tmp_path: Path, change: str) -> None:
    seen, what, seed = view(30), plan(2), 0
    train_shadows(seen, what, seed, tmp_path)
    if change == "seed":
        seed = 1
    elif change == "trainer":
        what = dataclasses.replace(what, fingerprint="another")
    elif change == "records":
        seen = dataclasses.replace(seen, records=Records(seen.records.x + 1, seen.records.y))
    elif change == "ways":
        seen = view(30, "mirror")
    elif change == "pool":
        what = plan(2, seen.records)
    else:
        seen = view(30, reference=0)
    train_shadows(seen, what, seed, tmp_path)
    assert len(list((tmp_path / "shadows").glob("*.npy"))) == 2


def test_offline_shadows_learn_no_candidate() -> None:
    shadows = train_shadows(view(30), plan(2, view(44).records))
    assert not shadows.online
    assert shadows.member.shape == shadows.phi.shape == (30, 2)


def test_offline_shadows_are_asked_about_their_own_pool_too() -> None:
    """What they say of it is what online shadows of that pool say, and who was in is known."""
    pool = view(44)
    mirrored = Records(-pool.records.x, pool.records.y)
    offline = train_shadows(
        view(30), dataclasses.replace(plan(3, pool.records), pool_otherwise=(mirrored,))
    )
    online = train_shadows(dataclasses.replace(pool, augmented=(mirrored,)), plan(3))
    assert offline.pool is not None
    assert online.pool is None
    np.testing.assert_array_equal(offline.pool.y, pool.records.y)
    np.testing.assert_array_equal(offline.pool.phi, online.phi)
    np.testing.assert_array_equal(offline.pool.member, online.member)
    np.testing.assert_array_equal(offline.pool.augmented_phi, online.augmented_phi)
    assert not np.array_equal(offline.pool.phi, offline.pool.augmented_phi[0])


def test_memory_stays_flat(tmp_path: Path) -> None:
    """50,000 records under 128 models are 51 MB of numbers; less than half is ever held."""
    rng = np.random.default_rng(0)
    records = Records(rng.normal(size=(50_000, 1)), rng.integers(0, 2, 50_000))
    seen = ModelView(FunctionTarget(model(records.x, records.y, 0)), records)
    tracemalloc.start()
    try:
        shadows = train_shadows(seen, plan(128), run=tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert shadows.phi.shape == (50_000, 128)
    assert peak < shadows.phi.nbytes / 2
    same(
        dataclasses.replace(shadows, phi=shadows.phi[:, :2], member=shadows.member[:, :2],
                            reference_phi=shadows.reference_phi[:, :2]),
        train_shadows(seen, plan(2)),
    )  # fmt: skip


def test_growing_an_audit_reuses_models_and_measures_anew(tmp_path: Path) -> None:
    members, others = forests.draw(80, 0), forests.draw(80, 1)
    calls: list[int] = []

    def learn(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
        from sklearn.tree import DecisionTreeClassifier

        calls.append(seed)
        return DecisionTreeClassifier(random_state=seed).fit(x, y)

    def audit(shadows: int, run: Path | None, *, resume: bool) -> tuple[Finding, ...]:
        found = divulge.audit(
            learn(members.x, members.y, 0),
            members=members,
            nonmembers=others,
            attacks=(divulge.attack("calibrated"), divulge.attack("gap")),
            shadows=divulge.ShadowModels(shadows, learn),
            run=run,
            options=divulge.Options(resume=resume),
        )
        return tuple(dataclasses.replace(finding, seconds=0.0) for finding in found.findings)

    four = audit(4, tmp_path / "run", resume=False)
    six = audit(6, tmp_path / "run", resume=True)
    assert len(calls) == 2 + 6
    assert six != four
    assert six == audit(6, None, resume=False)
    assert four == audit(4, tmp_path / "run", resume=True)
    assert divulge.load(tmp_path / "run").findings[0].metrics == four[0].metrics


def test_further_ways_are_asked_and_paid_for() -> None:
    asked: list[np.ndarray] = []
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 4, 4)), rng.integers(0, 2, 40)

    def target(batch: np.ndarray) -> np.ndarray:
        asked.append(batch)
        answers: np.ndarray = model(x, y, 0)(batch)
        return answers

    given: dict[str, Any] = {
        "members": (x[:20], y[:20]), "nonmembers": (x[20:], y[20:]),
        "attacks": (divulge.attack("calibrated"),),
    }  # fmt: skip
    divulge.audit(
        target,
        shadows=divulge.ShadowModels(2, model, augment=["mirror"]),
        access=divulge.Access(budget=80),
        **given,
    )
    assert sum(map(len, asked)) == 80
    with pytest.raises(divulge.BudgetSpent):
        divulge.audit(
            target,
            shadows=divulge.ShadowModels(2, model, augment=["mirror", "shift-up"]),
            access=divulge.Access(budget=80),
            **given,
        )
    with pytest.raises(divulge.SpecError, match="shadows beside augment"):
        divulge.audit(target, shadows=divulge.ShadowModels(0, augment=["mirror"]), **given)


def test_the_bar_starts_at_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=100)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    bar = iter(progress.track_with_bar([10, 11, 12], "Training shadows", 5))
    assert next(bar) == 10
    console.file.flush()
    assert list(bar) == [11, 12]
    assert " 62%" in shown.getvalue()  # 5 of 8, before any was trained now
