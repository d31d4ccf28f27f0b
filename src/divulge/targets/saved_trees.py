"""Decision trees and forests from a .skops file, which are followed only once they are checked.

skops does not trust scikit-learn's tree, a compiled object: its prediction follows the numbers of
child nodes in the file without looking whether there are such nodes, so that a made-up file could
read foreign memory, or walk in a circle for ever.
"""

from typing import Any, Final

import numpy as np

from divulge.errors import TargetError

TREE: Final = "sklearn.tree._tree.Tree"
"""The type as skops names it."""


def check_trees(model: Any, path: object) -> None:
    """Refuse a model whose trees cannot be followed safely.

    Args:
        model: as skops loaded it.
        path: its file, for the message.

    Raises:
        TargetError: it is neither a tree nor a forest of scikit-learn, or a tree in it is damaged.
    """
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

    single = (DecisionTreeClassifier, ExtraTreeClassifier)
    if type(model) in (RandomForestClassifier, ExtraTreesClassifier):
        parts = list(model.estimators_)
    elif type(model) in single:
        parts = [model]
    else:
        raise TargetError(
            f"expected a tree or a forest where {TREE} stands in {path}, got "
            f"{type(model).__name__}: if you trust it, load the file yourself and pass the model"
        )
    width = model.n_features_in_
    if not all(
        type(part) in single and part.n_features_in_ == width and _is_sound(part.tree_, width)
        for part in parts
    ):
        raise TargetError(
            f"expected trees whose nodes follow each other in {path}, got others: save the model "
            "again with skops.io.dump"
        )


def _is_sound(tree: Any, features: int) -> bool:
    """Whether each branch leads to later nodes, and compares a feature that records have."""
    nodes = tree.node_count
    if not 0 < nodes <= tree.capacity or tree.n_features != features:
        return False
    number = np.arange(nodes)
    left, right, feature = tree.children_left, tree.children_right, tree.feature
    branch = left != -1
    children = np.stack([left[branch], right[branch]])
    return bool(
        (children > number[branch]).all()
        and (children < nodes).all()
        and (feature[branch] >= 0).all()
        and (feature[branch] < features).all()
    )
