"""What of its training records a model object holds: whole rows, and leaves made from few of them.

Nobody has to ask such a model anything: whoever gets the object reads them. Checked are arrays that
Python shows, in the form in which each step of a pipeline sees records, and the leaves of trees of
scikit-learn, LightGBM, XGBoost and CatBoost.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Shaped
from scipy import sparse

from divulge.core import Target
from divulge.targets.boosters import is_catboost
from divulge.targets.defended import DefendedTarget
from divulge.targets.encoded import EncodedTarget
from divulge.targets.function import FunctionTarget
from divulge.targets.model_parts import walk_parts
from divulge.targets.model_process import IsolatedTarget
from divulge.targets.wider import WiderTarget

SMALL = 10
"""Records below which a count is not published, the usual threshold of statistical offices."""

_LARGEST = 10**9
"""Numbers of a table above which it is not compared."""

_AT_ONCE = 2**20
"""Numbers that are compared at a time."""

_NO_NUMBER = 2.0**61

Mask = Bool[np.ndarray, " records"]


class ModelContents(NamedTuple):
    """What was seen in a model object."""

    rows: int = 0
    """Rows of the arrays in which a record was recognised."""
    members: int = 0
    """How many of the members stand in them as they are."""
    nonmembers: int = 0
    """How many of the non-members do, which can only be chance: none of them was trained on."""
    trees: int = 0
    leaves: int = 0
    """Leaves of all trees whose records are counted."""
    small: int = 0
    """Leaves made from fewer than `SMALL` training records."""
    single: int = 0
    """Leaves made from one training record."""
    pure: int = 0
    """Leaves in which records of one class alone were seen, where the model says so."""


def look_into(target: Target, x: Any, member: Mask) -> ModelContents | None:
    """What a model holds of these records; None where the object is out of reach.

    Args:
        target: a target, around which there may be others.
        x: the candidates, in whatever the target takes.
        member: who of them was trained on.
    """
    match target:
        case DefendedTarget() | WiderTarget():
            return look_into(target.target, x, member)
        case EncodedTarget():
            return look_into(target.target, target.decode(x), member)
        case IsolatedTarget():
            return read_contents(target.look_into(x, member))
        case FunctionTarget(function=function):
            model = getattr(function, "__self__", None)
        case _:
            model = getattr(target, "estimator", None)
    return None if model is None else _look(model, x, member)


def read_contents(numbers: Mapping[str, Any]) -> ModelContents:
    """The contents that another process counted.

    Raises:
        ValueError: it sent something else.
    """
    counts = [numbers.get(name) for name in ModelContents._fields]
    if not all(isinstance(count, int) and 0 <= count < 2**53 for count in counts):
        raise ValueError("no counts")
    return ModelContents(*counts)  # type: ignore[arg-type]


def _look(model: Any, x: Any, member: Mask) -> ModelContents:
    shapes: dict[int, list[np.ndarray]] = {}
    with warnings.catch_warnings():  # of names of columns, which the model itself has seen
        warnings.simplefilter("ignore")
        for rows in _forms(model, x):
            shapes.setdefault(rows.shape[1], []).append(rows)
    known, rows_inside = np.zeros(len(member), np.bool_), 0
    for array in _arrays(model):
        matches = np.zeros(len(member), np.bool_)
        for rows in shapes.get(array.shape[1], []):
            matches |= _stand_in(rows, array)
        if matches.any() and matches[member].mean() > matches[~member].mean():
            known, rows_inside = known | matches, rows_inside + array.shape[0]
    leaves = _count_leaves(model, x, member)
    return leaves._replace(
        rows=rows_inside, members=int(known[member].sum()), nonmembers=int(known[~member].sum())
    )


def _forms(model: Any, x: Any) -> Iterator[np.ndarray]:
    """Records as they are given, and as each step of a pipeline hands them on."""
    form: Any = x
    lists = (getattr(part, "steps", None) for part in walk_parts(model))
    steps = [pair[1] for named in lists if isinstance(named, list) for pair in named]
    for step in (None, *steps):
        if step is not None and not hasattr(step, "transform"):
            continue
        try:
            form = form if step is None else step.transform(form)
            rows = _dense(form)
            rows = rows.reshape(len(rows), -1)
        except Exception:  # what a step of others cannot take is not compared
            return
        if rows.dtype.kind in "buif" and rows.size <= _LARGEST:
            yield rows


def _arrays(model: Any) -> Iterator[np.ndarray]:
    """Tables of numbers anywhere in the model."""
    for part in walk_parts(model):
        table: Any = part
        if not (isinstance(part, np.ndarray) or sparse.issparse(part)):
            continue
        if table.ndim == 2 and table.dtype.kind in "buif" and np.prod(table.shape) <= _LARGEST:
            yield _dense(table)


def _dense(table: Any) -> np.ndarray:
    return np.asarray(table.toarray() if hasattr(table, "toarray") else table)


def _stand_in(rows: np.ndarray, array: np.ndarray) -> Mask:
    """Which rows stand in the array, as exactly as its type of numbers says."""
    kind = np.dtype(np.float64) if array.dtype.kind in "bui" else array.dtype
    sizes = np.where(np.isfinite(array), np.abs(array), 0.0)
    scale = np.maximum(sizes.max(axis=0, initial=0.0), np.finfo(np.float32).tiny)
    # products of matrices differ in their last bits between batches
    step = scale * (1e-9 if kind.itemsize == 8 else 1e-5)
    return np.isin(_hash_rows(rows, kind, step), _hash_rows(array, kind, step))


def _hash_rows(
    table: np.ndarray, kind: np.dtype[Any], step: np.ndarray
) -> Shaped[np.ndarray, " rows"]:
    """One number a row, the same for rows that are the same in whole steps.

    A sum of products with random odd numbers, modulo 2**64: of a million rows in each table two
    different ones agree with a chance of 5e-8.
    """
    factors = np.random.default_rng(0).integers(2**63, size=table.shape[1], dtype=np.uint64)
    factors = factors * np.uint64(2) + np.uint64(1)
    hashes = np.empty(len(table), np.uint64)
    size = max(1, _AT_ONCE // max(1, table.shape[1]))
    for start in range(0, len(table), size):
        numbers = table[start : start + size].astype(kind).astype(np.float64)
        steps = np.rint(np.clip(numbers / step, -_NO_NUMBER / 2, _NO_NUMBER / 2))
        whole = np.where(np.isfinite(numbers), steps, _NO_NUMBER).astype(np.int64)
        hashes[start : start + size] = (whole.view(np.uint64) * factors).sum(axis=1)
    return hashes


def _count_leaves(model: Any, x: Any, member: Mask) -> ModelContents:
    """The leaves of all trees, by how many training records made each."""
    counts: list[Int[np.ndarray, " leaves"]] = []
    pure = 0
    for part in _with_all_trees(model):
        kind = type(part).__module__
        if kind.startswith("sklearn.tree._tree"):
            leaf = part.children_left == -1
            counts.append(part.n_node_samples[leaf])
            if part.max_n_classes > 1:
                pure += int(((part.value[leaf] > 0).sum(axis=2) == 1).all(axis=1).sum())
        elif kind.startswith("sklearn.ensemble._hist") and hasattr(part, "nodes"):
            nodes = part.nodes
            counts.append(nodes["count"][nodes["is_leaf"].astype(bool)].astype(np.int64))
        elif kind == "lightgbm.basic" and hasattr(part, "model_to_string"):
            counts += _lightgbm_counts(part.model_to_string())
        elif kind == "xgboost.core" and hasattr(part, "save_config"):
            counts += _xgboost_counts(part, x, member)
        elif is_catboost(part) and part.is_fitted():
            counts += _counts_of_members(part.calc_leaf_indexes, x, member)
    if not counts:
        return ModelContents()
    of_leaf = np.concatenate(counts)
    of_leaf = of_leaf[of_leaf > 0]
    return ModelContents(
        trees=len(counts),
        leaves=len(of_leaf),
        small=int((of_leaf < SMALL).sum()),
        single=int((of_leaf == 1).sum()),
        pure=pure,
    )


def _with_all_trees(model: Any) -> Iterator[Any]:
    """The parts of a model, each once, with all trees: `walk_parts` looks at the first alone."""
    visited = set[int]()
    for part in walk_parts(model):
        waiting = [part, getattr(part, "estimators_", None), getattr(part, "_predictors", None)]
        while waiting:
            inner = waiting.pop(0)
            if isinstance(inner, list | tuple | np.ndarray):
                waiting += [
                    inside for inside in inner if not isinstance(inside, np.generic | float | int)
                ]
            elif id(inner) not in visited:
                visited.add(id(inner))
                yield inner
                if hasattr(inner, "tree_"):
                    waiting.append(inner.tree_)


def _lightgbm_counts(text: str) -> list[Int[np.ndarray, " leaves"]]:
    """Of each tree in a model file of LightGBM."""
    name = "leaf_count="
    lines = (line for line in text.splitlines() if line.startswith(name))
    return [np.array(line.removeprefix(name).split(), np.int64) for line in lines]


def _xgboost_counts(booster: Any, x: Any, member: Mask) -> list[Int[np.ndarray, " leaves"]]:
    """Of each tree, by the members: XGBoost keeps sums of second derivatives, and no counts."""
    import xgboost

    names = {"feature_names": booster.feature_names, "feature_types": booster.feature_types}

    def leaves_of(x: Any) -> Any:
        known = {} if hasattr(x, "columns") else names
        matrix = xgboost.DMatrix(x, enable_categorical=True, **known)
        return booster.predict(matrix, pred_leaf=True)

    return _counts_of_members(leaves_of, x, member)


def _counts_of_members(
    leaves_of: Callable[[Any], Any], x: Any, member: Mask
) -> list[Int[np.ndarray, " leaves"]]:
    """Of each tree, how many members are in each of its leaves."""
    try:
        leaves = np.asarray(leaves_of(x), np.int64).reshape(len(member), -1)
    except Exception:  # behind a step that changes records, trees cannot be asked about these
        return []
    return [np.unique(column, return_counts=True)[1] for column in leaves[member].T]
