"""Attacks on regression models beside ART's attack on their losses, on the same answers.

ART is told the membership of one half of the candidates, which it learns from, and all attacks are
judged on the other half. Ours are told nothing of either; they have reference records and 16 shadow
models that were trained on random halves of all candidates.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy import stats

from benchmarks import art_attacks, data
from divulge.attacks import catalog
from divulge.core import Membership, ModelView, Records, Scores
from divulge.metrics.measure import measure
from divulge.secrets import wrapped
from divulge.targets.sklearn import SklearnRegressor
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.train import train_shadows
from divulge.training.trainers import FunctionTrainer

SUMMARY = "attacks on regression models beside ART's attack on losses"

KINDS = ("nn", "rf", "gb", "lr")
"""Attack models of ART, its default first."""

METRICS = ("auc", "tpr@0.1")

SHADOWS, TARGETS = 16, 10


class Task(NamedTuple):
    """Records, how many of them are candidates, and how a model is trained."""

    load: Callable[[], Records]
    candidates: int
    train: Callable[[np.ndarray, np.ndarray, int], Any]


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print the mean of each metric over targets, with Student's interval, for each task."""
    art_attacks.require()
    for name, task in TASKS.items():
        records = task.load()
        rows_by_attack: dict[str, list[list[float]]] = {}
        spent: dict[str, list[float]] = {}
        for seed in range(3 if quick else TARGETS):
            for attack, score, judged, seconds in _attack_target(task, records, seed):
                metrics = measure(Scores(score), Membership(judged)).metrics
                rows_by_attack.setdefault(attack, []).append(
                    [metrics[metric].value for metric in METRICS]
                )
                spent.setdefault(attack, []).append(seconds)
        print(f"\n{name}: {task.candidates // 4} members and as many others judged\n")
        print(f"| attack | {' | '.join(METRICS)} | seconds |\n|---|{'---|' * len(METRICS)}---:|")
        for attack, rows in rows_by_attack.items():
            cells = [_mean_with_interval(column) for column in np.array(rows).T]
            print(
                f"| {attack} | {' | '.join(cells)} | {np.median(spent[attack]):.3f} |", flush=True
            )


def _attack_target(
    task: Task, records: Records, seed: int
) -> Iterator[tuple[str, Float[np.ndarray, " judged"], Bool[np.ndarray, " judged"], float]]:
    """Each attack's scores of the judged half, their membership, and the attack's own seconds."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(records))
    candidates = records.take(order[: task.candidates])
    reference = records.take(order[task.candidates : 2 * task.candidates])
    # as many members in either half, which ART needs to learn from
    member = np.arange(task.candidates) % 2 == 0
    judged = np.arange(task.candidates) >= task.candidates // 2
    model = task.train(candidates.x[member], candidates.y[member], seed)
    for kind in KINDS:
        begun = time.perf_counter()
        score = _art(kind, model, candidates, member, judged)
        yield f"art {kind}", score, member[judged], time.perf_counter() - begun
    view = ModelView(SklearnRegressor(model), candidates, reference)
    plan = ShadowPlan(FunctionTrainer(task.train), SHADOWS)
    view = ModelView(view.target, candidates, reference, train_shadows(view, plan, seed))
    for attack in catalog.default_attacks(shadows=True, regression=True):
        begun = time.perf_counter()
        score = attack(view, np.random.default_rng(seed)).score[judged]
        name = wrapped.attack_label(attack)
        yield f"divulge {name}", score, member[judged], time.perf_counter() - begun


def _art(
    kind: str,
    model: Any,
    candidates: Records,
    member: Bool[np.ndarray, " records"],
    judged: Bool[np.ndarray, " records"],
) -> Float[np.ndarray, " judged"]:
    from art.attacks.inference.membership_inference import MembershipInferenceBlackBox
    from art.estimators.regression.scikitlearn import ScikitlearnRegressor

    x, y = candidates.x, candidates.y
    attack = MembershipInferenceBlackBox(
        ScikitlearnRegressor(model), input_type="loss", attack_model_type=kind
    )
    inside, outside = member & ~judged, ~member & ~judged
    attack.fit(x[inside], y[inside], x[outside], y[outside])
    score = attack.infer(x[judged], y[judged], probabilities=True)
    return np.asarray(score, dtype=np.float64).ravel()


def _mean_with_interval(values: Float[np.ndarray, " targets"]) -> str:
    mean, error = values.mean(), values.std(ddof=1) / np.sqrt(len(values))
    margin = stats.t.ppf(0.975, len(values) - 1) * error
    return f"{mean:.3f} ({mean - margin:.3f} to {mean + margin:.3f})"


def _forest(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(100, random_state=seed).fit(x, y)


def _ridge(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """Ridge regression as plant breeders use it, for a trait of which genes make up one half."""
    from sklearn.linear_model import Ridge

    del seed
    return Ridge(alpha=float(x.var(axis=0).sum())).fit(x, y)


def _diabetes() -> Records:
    from sklearn.datasets import load_diabetes

    return Records(*load_diabetes(return_X_y=True))


TASKS = {
    "diabetes, a forest of 100 trees": Task(_diabetes, 220, _forest),
    "SoyNAM, height by 4,240 SNPs, ridge regression": Task(data.soynam_heights, 1200, _ridge),
}
