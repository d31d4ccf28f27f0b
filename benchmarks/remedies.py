"""What each remedy of a report does for models of its kind: attack AUC and accuracy.

Both are measured on models that were trained on the same random halves of the same records, each
attacked with the others as shadow models, which are trained through the remedy too.
"""

import csv
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64
from lightgbm import LGBMClassifier
from scipy import stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from benchmarks import data, fine_tunes
from benchmarks.hardening import TASKS
from divulge.attacks import catalog
from divulge.core import (
    AnswerDefence,
    ModelView,
    Need,
    Records,
    Shadows,
    Trainer,
)
from divulge.defences import Rounding, TopOne
from divulge.defences.catalog import trained_defence
from divulge.defences.training.averaging import Averaging
from divulge.metrics import membership, signals
from divulge.targets.outputs import access_of
from divulge.targets.recorded import RecordedTarget
from divulge.training.fleet import Fleet
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.trainers import EstimatorTrainer

SUMMARY = "each remedy of a report, by kind of model: attack AUC and accuracy, before and after"

DATA = ("location-30", "digits")
OTHER_DATA = {"boosted trees": ("location-2", "digits"), "language model": ("verses", "verses-4")}
"""Sets of records; boosted trees take minutes for each model of 30 classes."""
QUICK_DATA = {
    "boosted trees": ("location-2",),
    "forest": ("digits",),
    "PyTorch": ("digits",),
    "language model": OTHER_DATA["language model"],
}
SLOW = ("selena", "dp-sgd")
"""What is left out where it has to be quick."""
RECORDS, VERSES, MODELS = 1200, 400, 4
QUICK, FULL = 3, 10
"""How many times records are drawn anew."""
ATTACKS = ("threshold", "gap", "calibrated", "lira")
COLUMNS = (
    *("kind", "remedy", "data", "draws", "auc", "auc_less", "auc_less_low", "auc_less_high"),
    *("accuracy", "accuracy_less", "accuracy_less_low", "accuracy_less_high", "times"),
)

Predictions = Float64[np.ndarray, "models records classes"]


class Remedy(NamedTuple):
    """One change of a way to train, or of the answers."""

    trainer: Trainer
    answers: AnswerDefence | None = None
    times: str = "1"
    """The work of one training, in undefended ones, where it is known beforehand."""


class Measured(NamedTuple):
    """Means over the targets of one draw of records."""

    auc: float
    accuracy: float


def run(quick: bool) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print a row a kind, remedy and data set, as CSV.

    Args:
        quick: draw records three times in place of ten, and leave out what takes long.
    """
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    for kind, make in KINDS.items():
        sets = OTHER_DATA.get(kind, DATA)
        for name in QUICK_DATA.get(kind, sets) if quick else sets:
            every = make(name)
            remedies = {k: one for k, one in every.items() if not (quick and k in SLOW)}
            found = {label: [] for label in remedies}  # type: dict[str, list[Measured]]
            for draw in range(QUICK if quick else FULL):
                for label, measured in _measure_all(name, remedies, draw):
                    found[label].append(measured)
            plain = found.pop("")
            for label, after in found.items():
                out.writerow((kind, label, name, *_compare(plain, after), remedies[label].times))
                sys.stdout.flush()


def _compare(plain: list[Measured], after: list[Measured]) -> Iterator[str]:
    """How many draws; then value before, and paired difference with Student's interval, of each."""
    yield str(len(plain))
    for field in Measured._fields:
        before, now = (np.array([getattr(one, field) for one in each]) for each in (plain, after))
        less = now - before
        half = stats.t.ppf(0.975, len(less) - 1) * less.std(ddof=1) / len(less) ** 0.5
        yield f"{before.mean():.3f}"
        yield from (f"{less.mean() + shift:.3f}" for shift in (0.0, -half, half))


def _measure_all(
    name: str, remedies: Mapping[str, Remedy], draw: int
) -> Iterator[tuple[str, Measured]]:
    """Each remedy on one draw of the records; remedies that train alike share their models."""
    records = _load(name)
    size = VERSES if records.unlabelled_texts else RECORDS
    rows = np.random.default_rng(draw).permutation(len(records))[:size]
    pool = records.take(rows)
    trained: list[tuple[Trainer, Predictions]] = []
    for label, remedy in remedies.items():
        known = [answers for trainer, answers in trained if trainer is remedy.trainer]
        if not known:
            known = [_train(remedy.trainer, pool, draw)]
            trained.append((remedy.trainer, known[0]))
        yield label, _measure(known[0], remedy.answers, pool, draw)


def _load(name: str) -> Records:
    """The records of a task; those of Location-30 also in two classes, of 15 groups each."""
    if name.startswith("verses"):
        return fine_tunes.further_verses()
    if name != "location-2":
        return TASKS[name].records()
    found = data.location_30()
    return Records(found.x, found.y % 2)


def _train(trainer: Trainer, pool: Records, draw: int) -> Predictions:
    """What models say of all records, each trained on its random half."""
    plan = ShadowPlan(trainer, MODELS)
    models = trainer.many(pool, plan.subsets(pool, draw), plan.seeds(draw))
    return np.stack([model.predict(pool.x) for model in models])


def _measure(
    answers: Predictions, defence: AnswerDefence | None, pool: Records, draw: int
) -> Measured:
    """Attack each model with the others as shadow models."""
    plan = ShadowPlan(_NEVER, MODELS)
    member, keys = plan.subsets(pool, draw), plan.seeds(draw)
    offers = access_of("probabilities")
    if defence is not None:
        pairs = zip(answers, keys, strict=True)
        answers = np.stack([defence.change(one, pool.x, key) for one, key in pairs])
        offers = defence.offers(offers)
    phi = np.stack([signals.compute_phi(one, pool) for one in answers])
    aucs: dict[str, list[float]] = {}
    for k in range(MODELS):
        others = [j for j in range(MODELS) if j != k]
        shadows = Shadows(phi[others].T, member[others].T, np.empty((0, len(others))))
        view = ModelView(RecordedTarget((pool,), answers[k], offers), pool, None, shadows)
        for name in ATTACKS:
            attack = catalog.attack(name)
            if attack.needs & ~(offers | Need.LABELS | Need.SHADOWS):
                continue
            score = attack(view, np.random.default_rng([draw, k])).score
            aucs.setdefault(name, []).append(membership.auc(score, member[k]).value)
    # of a language model the probability of a token stands in place of accuracy
    hits = answers[..., 0] if pool.unlabelled_texts else answers.argmax(axis=2) == pool.y
    strongest = max(float(np.mean(one)) for one in aucs.values())
    return Measured(strongest, float(hits[~member].mean()))


class _Never:
    def many(self, *_: object) -> Iterator[Any]:
        raise AssertionError


_NEVER: Any = _Never()


def _estimators(
    model: Callable[..., Any], changes: Mapping[str, Mapping[str, Any]], name: str
) -> dict[str, Remedy]:
    """A scikit-learn estimator, with changed settings, averaged, and behind defences of answers."""
    del name  # the same for all records
    plain = EstimatorTrainer(model(), jobs=1)
    averages = isinstance(plain.estimator, RandomForestClassifier)  # already
    return {
        "": Remedy(plain),
        **{
            label: Remedy(EstimatorTrainer(model(**settings), jobs=1))
            for label, settings in changes.items()
        },
        **({} if averages else _averaged(plain)),
        **_answers(plain),
    }


def _averaged(plain: Trainer) -> dict[str, Remedy]:
    return {"averaging (models=10, share=0.2)": Remedy(Averaging(plain, 10, 0.2), times="2")}


def _answers(plain: Trainer) -> dict[str, Remedy]:
    return {"top-1": Remedy(plain, TopOne()), "rounding (digits=1)": Remedy(plain, Rounding(1))}


def _networks(name: str) -> dict[str, Remedy]:
    """A network of PyTorch with defences as their authors set them."""
    recipe = TASKS[name].recipe
    plain, alone = Fleet(recipe, "one-by-one", 1), {"way": "one-by-one", "workers": 1}
    defended: dict[str, tuple[dict[str, Any], str]] = {
        "early-stopping": ({"patience": None, "select": "aop"} | alone, "1"),
        "relaxloss": ({"alpha": 0.5} | alone, "1.5"),
        "selena": ({"models": 10, "left_out": 4} | alone, "7"),
        "dp-sgd": ({"epsilon": 8.0, "delta": 1e-5, "jobs": 1}, "1.3 to 5"),
    }
    return {
        "": Remedy(plain),
        **{
            label: Remedy(trained_defence(label, recipe, **settings), times=times)
            for label, (settings, times) in defended.items()
        },
        **_averaged(plain),
        **_answers(plain),
    }


def _fine_tunes(name: str) -> dict[str, Remedy]:
    """A small language model; of the second set each text stands four times in the training."""
    if name == "verses-4":
        often, once = fine_tunes.trainer(repeated=4), fine_tunes.trainer()
        return {"": Remedy(often), "deduplication (once in place of 4 times)": Remedy(once)}
    plain = fine_tunes.trainer()
    changed = {
        label: Remedy(fine_tunes.trainer(**settings), times="2" if "epsilon" in settings else "1")
        for label, settings in fine_tunes.CHANGES.items()
    }
    return {"": Remedy(plain), **changed, **_averaged(plain)}


KINDS: Mapping[str, Callable[[str], dict[str, Remedy]]] = {
    "linear model": partial(
        _estimators,
        partial(LogisticRegression, max_iter=1000),
        {
            "stronger regularisation (C / 10)": {"C": 0.1},
            "stronger regularisation (C / 100)": {"C": 0.01},
        },
    ),
    "scikit-learn network": partial(
        _estimators,
        partial(MLPClassifier, max_iter=100),
        {
            "stronger regularisation (alpha = 1)": {"alpha": 1.0},
            "early stopping": {"early_stopping": True},
            "a smaller network (16 units)": {"hidden_layer_sizes": (16,)},
        },
    ),
    "nearest neighbours": partial(
        _estimators,
        KNeighborsClassifier,
        {"more neighbours (20)": {"n_neighbors": 20}, "more neighbours (50)": {"n_neighbors": 50}},
    ),
    "forest": partial(
        _estimators,
        RandomForestClassifier,
        {
            "fewer trees (a quarter)": {"n_estimators": 25},
            "shallower trees (depth 6)": {"max_depth": 6},
            "larger leaves (10 records)": {"min_samples_leaf": 10},
            "subsampling (20 % a tree)": {"max_samples": 0.2},
        },
    ),
    "boosted trees": partial(
        _estimators,
        partial(LGBMClassifier, n_estimators=60, n_jobs=1, verbose=-1),
        {
            "fewer trees (a quarter)": {"n_estimators": 15},
            "shallower trees (depth 3)": {"max_depth": 3},
            "larger leaves (100 records)": {"min_child_samples": 100},
            "subsampling (30 % a tree)": {"subsample": 0.3, "subsample_freq": 1},
        },
    ),
    "PyTorch": _networks,
    "language model": _fine_tunes,
}
"""By kind of model, its remedies for a data set; the empty name is the model without any."""
