"""Every attack from files, where all that may go to other processes goes there at once.

In earnest work goes to processes after seconds of training, which no test has.
"""

from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save_file
from sklearn.tree import DecisionTreeRegressor
from torch import nn

import divulge
from divulge._util.imports import load_object
from divulge._util.processes import parallel_calls
from divulge.attacks import catalog
from divulge.core import Need, Status
from divulge.defences.updates.compose import no_defence
from divulge.federation import prediction_tables
from divulge.federation.transcript import writer
from divulge.testing.clients import draw_game
from divulge.training import trainers
from divulge.training.engine import choose, client_training, processes
from divulge.training.shadows import workers

from .test_interactions import recommender

SUBJECT = """
import numpy as np
from sklearn.datasets import load_digits
from torch import nn
from sklearn.tree import DecisionTreeRegressor
import divulge
from divulge.federation.recommender.model import NeuralCF
from divulge.training import Fleet, Recipe
x, y = load_digits(return_X_y=True)
x = x.astype(np.float32) / 16
def cut(first, last):
    return divulge.Records(x[first:last], y[first:last])
train, held_out, auxiliary = cut(0, 160), cut(160, 320), cut(320, 600)
def network():
    return nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
shadows = Fleet(Recipe(network, epochs=2, batch_size=20))
sums = [(part.x, part.x.sum(1)) for part in (train, held_out, auxiliary)]
numbers, other_numbers, known_numbers = sums
regressors = DecisionTreeRegressor(min_samples_leaf=2)
def films(handed):
    return NeuralCF(width=16, hidden=(32, 16))
"""

FEDERATE = """
rounds = 2
[data]
train = "subject.py:train"
[clients]
sizes = [30, 30, 30]
truth = "owners.csv"
[training]
network = "subject.py:network"
epochs = 2
batch_size = 10
"""

RECORDS = """
[data]
members = "subject.py:train"
nonmembers = "subject.py:held_out"
reference = "subject.py:auxiliary"
known_members = 60
[shadows]
train = "subject.py:shadows"
models = 4
cascade = 2
"""

MEMBERSHIP = """
[target]
model = "model.safetensors"
factory = "subject.py:network"
output = "logits"
checkpoints = ["model.safetensors"]
"""

BLACK_BOX = """
[target]
model = "FILE"
output = "logits"
"""

PARTIAL = (
    (MEMBERSHIP + RECORDS)
    .replace("known_members = 60\n", "")
    .replace("cascade = 2", 'pool = "subject.py:auxiliary"\n[known]\nshare = 0.5')
)

REGRESSION = """
[target]
model = "tree.skops"
[data]
members = "subject.py:numbers"
nonmembers = "subject.py:other_numbers"
reference = "subject.py:known_numbers"
[shadows]
train = "subject.py:regressors"
models = 4
"""

UPDATES = """
[updates]
transcript = "federation"
network = "subject.py:network"
reference = "subject.py:auxiliary"
"""

INTERACTIONS = """
[interactions]
transcript = "films"
learner = "subject.py:films"
"""

ASSIGNMENT = """
[assignment]
transcript = "federation"
network = "subject.py:network"
candidates = "subject.py:train"
external = "subject.py:held_out"
truth = "owners.csv"
"""


SCORES = """
[predictions]
file = "scores.csv"
score = "score"
"""

TABLES = """
[assignment]
colluder = "cat"
truth = "tables/owners.csv"
predictions = {ann = "tables/ann.csv", bob = "tables/bob.csv", cat = "tables/cat.csv"}
"""

SETTINGS = {
    "decaf": "clients = 24",
    "ldia": "clients = 48",
    "iha": "damping = 2.0",
    "stacking": 'protocol = "published"',
}
"""Of attacks that would train for long, or cannot read a network that was never trained."""


class World(NamedTuple):
    """An audit from files, and the attacks of the catalogue that it can run."""

    settings: str
    attacks: list[str]
    processes: bool
    """Whether some attack trains models."""


NUMBERS = [name for name in catalog.CATALOGUE["membership"] if name.startswith("residual")]
SCORE = "given-score"
CLASSES = [
    name for name in catalog.CATALOGUE["membership"] if name not in (*NUMBERS, SCORE, "mrad")
]
INSIDE = Need.AUTOGRAD | Need.LOSS_TRACE
ANSWERS = [name for name in CLASSES if not catalog.attack(name).needs & INSIDE]
"""What needs no weights and no checkpoints, which a saved model does not show."""
WORLDS = {
    "membership": World(MEMBERSHIP + RECORDS, CLASSES, True),
    "pt2": World(BLACK_BOX.replace("FILE", "model.pt2") + RECORDS, ANSWERS, True),
    "onnx": World(BLACK_BOX.replace("FILE", "model.onnx") + RECORDS, ANSWERS, True),
    "partial": World(PARTIAL, ["mrad"], True),
    "regression": World(REGRESSION, NUMBERS, True),
    "scores": World(SCORES, [SCORE], False),
    "updates": World(UPDATES, [*catalog.CATALOGUE["composition"]], True),
    "interactions": World(INTERACTIONS, [*catalog.CATALOGUE["interactions"]], False),
    "assignment": World(
        ASSIGNMENT, [name for name in catalog.CATALOGUE["assignment"] if name != "stacking"], False
    ),
    "tables": World(TABLES, ["stacking"], False),
}


def save_pt2(network: nn.Module, path: Path) -> None:
    batch = {0: torch.export.Dim("batch")}
    exported = torch.export.export(network, (torch.zeros(5, 64),), dynamic_shapes=(batch,))
    torch.export.save(exported, path)


def save_onnx(network: nn.Module, path: Path) -> None:
    """Two dense layers with ReLU between them."""
    held = [
        numpy_helper.from_array(value.numpy(), name) for name, value in network.state_dict().items()
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "0.weight", "0.bias"], ["dense"], transB=1),
        helper.make_node("Relu", ["dense"], ["hidden"]),
        helper.make_node("Gemm", ["hidden", "2.weight", "2.bias"], ["logits"], transB=1),
    ]
    x, logits = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])
        for name, width in (("x", 64), ("logits", 10))
    )
    graph = helper.make_graph(nodes, "network", [x], [logits], held)
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), path)


def save_tree(folder: Path) -> None:
    import skops.io

    x, y = load_object("subject.py:numbers", folder)
    skops.io.dump(DecisionTreeRegressor(min_samples_leaf=2).fit(x, y), folder / "tree.skops")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("processes")
    (folder / "subject.py").write_text(SUBJECT)
    (folder / "federate.toml").write_text(FEDERATE)
    divulge.federate_file(folder / "federate.toml", run=folder / "federation")
    network = load_object("subject.py:network", folder)()
    save_file(network.state_dict(), folder / "model.safetensors")
    save_pt2(network, folder / "model.pt2")
    save_onnx(network, folder / "model.onnx")
    rows = [f"{k % 7 + 4 * (k % 2)},{k % 2}" for k in range(200)]
    (folder / "scores.csv").write_text("\n".join(["score,member", *rows]))
    played, _ = recommender().round(range(4), no_defence())
    writer.write(folder / "films", "film recommender", [played], items="items")
    game = draw_game(0, leak=1.0).challenge
    prediction_tables.write(folder / "tables", game.view, ("ann", "bob", "cat"), game.truth)
    return folder


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What began work in other processes, where two cores and no native code leave no other way."""
    monkeypatch.setattr(joblib, "cpu_count", lambda: 2)
    monkeypatch.setattr(client_training, "_SECONDS_BEFORE_PROCESSES", -1.0)
    monkeypatch.setattr(choose, "_MIN_WORK_SECONDS", -1.0)
    monkeypatch.setattr(choose, "_MIN_SAVED_SECONDS", -1.0)
    monkeypatch.setattr(workers, "MIN_SAVED_SECONDS", -1.0)
    for module in (client_training, choose):
        monkeypatch.setattr(module, "find_native", lambda: None)
    found = []
    for module in (client_training, processes, trainers, workers):

        def note(
            calls: Iterable[Any], count: int, name: str = module.__name__, **settings: Any
        ) -> Generator[Any]:
            found.append(name)
            return parallel_calls(calls, count, **settings)

        monkeypatch.setattr(module, "parallel_calls", note)
    return found


def test_every_attack_of_the_catalogue_is_in_a_world() -> None:
    every = [name for attacks in catalog.CATALOGUE.values() for name in attacks]
    assert {name for world in WORLDS.values() for name in world.attacks} == set(every)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_what_goes_to_another_process_can_go_there(
    name: str, place: Path, tmp_path: Path, begun: list[str]
) -> None:
    world = WORLDS[name]
    if name == "regression":
        save_tree(place)
    tables = (f'[[attacks]]\nname = "{one}"\n{SETTINGS.get(one, "")}\n' for one in world.attacks)
    (place / "audit.toml").write_text(world.settings + "".join(tables))
    found = divulge.audit_file(place / "audit.toml", tmp_path / "run")
    assert isinstance(found, divulge.Audit | divulge.FederationAudit)
    reasons = {one.label: one.reason for one in found.findings if one.status is not Status.DONE}
    assert not reasons
    assert bool(begun) == world.processes
