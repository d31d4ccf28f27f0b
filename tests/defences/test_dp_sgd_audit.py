"""An audit whose shadows are trained with differential privacy, from the command line."""

from pathlib import Path

import pytest

from ..kinds import audit_model

SUBJECT = """
import numpy as np
from torch import nn
from divulge import Records
from divulge.defences.training.dp_sgd.trainer import DPSGD
from divulge.training.recipe import Recipe

rng = np.random.default_rng(0)
x, y = rng.normal(size=(600, 6)).astype(np.float32), rng.integers(0, 3, 600)
members, nonmembers = (x[:300], y[:300]), (x[300:], y[300:])

def network():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

train = DPSGD(Recipe(network, epochs=2, batch_size=50), delta=1e-5, epsilon=2.0, jobs=2)

def model():
    return next(train.many(Records(*members), np.ones((1, 300), bool), [0]))
"""

SETTINGS = """
[target]
model = "subject.py:model"
[data]
members = "subject.py:members"
nonmembers = "subject.py:nonmembers"
[shadows]
models = 2
train = "subject.py:train"
[[attacks]]
name = "calibrated"
"""


@pytest.mark.slow
def test_the_guarantee_of_the_shadows_is_the_claim(tmp_path: Path) -> None:
    """The network's code stands in a file that other processes cannot import."""
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "audit.toml").write_text(SETTINGS)
    found = audit_model(tmp_path / "audit.toml")
    claim = found.summary.claim
    assert claim is not None
    assert (claim.epsilon, claim.delta, claim.derived) == (2.0, 1e-5, True)
    assert claim.outcome == "consistent"
    assert "300 records" in claim.mechanism
    assert found.facts.delta == 1e-5
