"""Records that a model object holds, and leaves made from few of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import divulge
from divulge.attacks import catalog
from divulge.checks.contents import LEAVES, ROWS, check_contents
from divulge.core import Verdict
from divulge.targets import model_contents
from divulge.targets.files import open_target
from divulge.targets.model_contents import look_into
from divulge.targets.model_process import IsolatedTarget
from divulge.targets.wrap import as_target

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(200, 5)), RNG.integers(0, 3, 200)
MEMBER = RNG.permutation(200) < 90


def look(model: Any, x: np.ndarray = X) -> model_contents.ModelContents:
    found = look_into(as_target(model), x, MEMBER)
    assert found is not None
    return found


def fit(model: Any) -> Any:
    return model.fit(X[MEMBER], Y[MEMBER])


@pytest.mark.parametrize(
    "model",
    [
        KNeighborsClassifier(3),
        GaussianProcessClassifier(),
        make_pipeline(StandardScaler(), KNeighborsClassifier(3)),
        CalibratedClassifierCV(KNeighborsClassifier(3), cv=3),
    ],
    ids=["neighbours", "gaussian process", "pipeline", "calibrated"],
)
def test_models_that_keep_their_training_set_contain_every_member(model: Any) -> None:
    found = look(fit(model))
    assert (found.members, found.nonmembers) == (90, 0)


def test_support_vectors_are_the_members_that_a_machine_keeps() -> None:
    model = fit(SVC(C=1.0))
    assert look(model)[:3] == (len(model.support_), len(model.support_), 0)
    bound = look_into(as_target(model.decision_function, output="logits"), X, MEMBER)
    assert bound is not None
    assert bound.members == len(model.support_)


def test_float32_copies_of_members_are_recognised() -> None:
    model = KNeighborsClassifier(3).fit(X[MEMBER].astype(np.float32), Y[MEMBER])
    assert look(model).members == 90


def test_models_without_rows_contain_none() -> None:
    for model in (LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())):
        assert look(fit(model)) == model_contents.ModelContents()
    assert look_into(as_target(lambda x: np.full((len(x), 2), 0.5)), X, MEMBER) is None


def test_a_row_that_is_in_the_model_by_chance_is_no_training_record() -> None:
    x = np.zeros((200, 5))
    x[:, 0] = np.arange(200) % 2
    model = LogisticRegression().fit(x[MEMBER], Y[MEMBER])
    model.coef_[0] = 0.0  # as a record of zeros
    assert look(model, x).members == 0


def test_hashes_of_rows_agree_where_rows_do_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_contents, "_AT_ONCE", 64)
    rows = np.vstack([X, X[:20] + 1e-3, -X[:20]])
    rows[5, 2] = rows[7, 0] = np.nan
    table = X[:50].copy()
    table[7, 0], table[:, 4] = np.nan, np.inf
    rows[:30, 4] = np.inf
    naive = [any(np.array_equal(row, one, equal_nan=True) for one in table) for row in rows]
    np.testing.assert_array_equal(model_contents._stand_in(rows, table), naive)
    assert 0 < sum(naive) < 30


def leaf_sizes(tree: DecisionTreeClassifier, x: np.ndarray) -> np.ndarray:
    return np.unique(tree.apply(x), return_counts=True)[1]


def test_leaves_of_a_tree_are_counted_as_by_its_naive_twin() -> None:
    tree = fit(DecisionTreeClassifier(min_samples_leaf=1, random_state=0))
    sizes, found = leaf_sizes(tree, X[MEMBER]), look(tree)
    assert (found.trees, found.leaves) == (1, tree.get_n_leaves())
    assert (found.single, found.small) == ((sizes == 1).sum(), (sizes < 10).sum())
    assert found.pure == tree.get_n_leaves()  # grown to the end
    coarse = look(fit(DecisionTreeClassifier(min_samples_leaf=12, random_state=0)))
    assert (coarse.single, coarse.small) == (0, 0)


def test_all_trees_of_large_ensembles_are_counted() -> None:
    forest = fit(RandomForestClassifier(150, bootstrap=False, random_state=0))
    found = look(forest)
    assert found.trees == 150
    sizes = [leaf_sizes(tree, X[MEMBER]) for tree in forest.estimators_]
    assert found.single == sum(int((one == 1).sum()) for one in sizes)
    boosted = fit(HistGradientBoostingClassifier(max_iter=120, min_samples_leaf=5))
    assert look(boosted).trees == 3 * 120
    assert look(boosted).single == 0


def test_leaves_of_lightgbm_and_xgboost_are_counted() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    xgboost = pytest.importorskip("xgboost")
    light = fit(lightgbm.LGBMClassifier(n_estimators=4, min_child_samples=3, verbose=-1, n_jobs=1))
    sizes = light.predict(X[MEMBER], pred_leaf=True)
    naive = [np.unique(column, return_counts=True)[1] for column in np.asarray(sizes).T]
    assert look(light).leaves == sum(map(len, naive))
    assert look(light).small == sum(int((one < 10).sum()) for one in naive)
    extreme = fit(xgboost.XGBClassifier(n_estimators=4, n_jobs=1))
    places = extreme.apply(X[MEMBER])
    naive = [np.unique(column, return_counts=True)[1] for column in places.reshape(90, -1).T]
    assert look(extreme)[3:7] == (
        12, sum(map(len, naive)),
        sum(int((one < 10).sum()) for one in naive), sum(int((one == 1).sum()) for one in naive),
    )  # fmt: skip


def test_leaves_of_catboost_are_counted() -> None:
    catboost = pytest.importorskip("catboost")
    settings = {"iterations": 3, "depth": 3, "verbose": 0, "allow_writing_files": False}
    model = fit(catboost.CatBoostClassifier(**settings, loss_function="MultiClass"))
    places = np.asarray(model.calc_leaf_indexes(X[MEMBER]))
    naive = [np.unique(column, return_counts=True)[1] for column in places.T]
    found = look(model)
    assert (found.trees, found.leaves) == (3, sum(map(len, naive)))
    assert found.single == sum(int((one == 1).sum()) for one in naive)


def test_a_file_is_looked_into_in_its_own_process(tmp_path: Path) -> None:
    skops = pytest.importorskip("skops.io")
    model, path = fit(SVC()), tmp_path / "model.skops"
    skops.dump(model, path)
    apart = look_into(IsolatedTarget(path, {}, 1024, 60.0), X, MEMBER)
    assert apart == look_into(open_target(path), X, MEMBER)
    assert apart is not None
    assert apart.members == len(model.support_)


@pytest.mark.parametrize("numbers", [{}, {"rows": -1}, {"rows": "9"}])
def test_counts_from_another_process_are_checked(numbers: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no counts"):
        model_contents.read_contents(numbers)


def test_only_a_lone_tree_with_a_leaf_of_one_record_warns() -> None:
    for model, verdict in (
        (DecisionTreeClassifier(random_state=0), Verdict.WARNING),
        (DecisionTreeClassifier(min_samples_leaf=10), Verdict.PASS),
        (RandomForestClassifier(5, random_state=0), Verdict.PASS),
    ):
        (check,) = check_contents(as_target(fit(model)), X, MEMBER)
        assert (check.name, check.verdict) == (LEAVES, verdict)


def test_an_audit_says_how_many_records_the_model_contains(tmp_path: Path) -> None:
    x, y = load_digits(return_X_y=True)
    model = SVC().fit(x[:300], y[:300])
    found = divulge.audit(
        model, members=(x[:300], y[:300]), nonmembers=(x[300:600], y[300:600]),
        attacks=[catalog.attack("gap")], run=tmp_path / "run",
    )  # fmt: skip
    kept = len(model.support_)
    (check,) = [check for check in found.checks if check.name == ROWS]
    said = f"This model contains {kept} of its 300 training records"
    assert said in check.text
    assert said in " ".join(found.summary.verdict.warnings)
    assert said in (tmp_path / "run" / "report.html").read_text()
