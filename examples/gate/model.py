"""The model that audit.toml names: a forest on tumour records. Put your own in its place."""

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

MAX_DEPTH = None  # deep trees memorise single records; 2 is enough for these

x, y = load_breast_cancer(return_X_y=True)
x_train, x_rest, y_train, y_rest = train_test_split(x, y, train_size=200, random_state=0)
members = x_train, y_train
nonmembers = x_rest[:200], y_rest[:200]
reference = x_rest[200:], y_rest[200:]


def model() -> RandomForestClassifier:
    """The trained model."""
    return RandomForestClassifier(max_depth=MAX_DEPTH, random_state=0).fit(x_train, y_train)
