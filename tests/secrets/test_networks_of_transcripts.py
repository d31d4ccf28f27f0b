"""What does not fit the weights of a transcript is refused before an attack runs."""

from pathlib import Path

import numpy as np
import pytest

from divulge.core import LocalTraining, ReceivedUpdate, Round, Tensors
from divulge.errors import DataError, DivulgeError, TargetError
from divulge.federation.transcript import writer
from divulge.training.engine.networks import load_network

from ..kinds import audit_federation

SUBJECT = """
import numpy as np
import torch
from torch import nn
from divulge import Records
y = np.arange(12) % 3
x = np.eye(3)[y].astype(np.float32) + np.arange(12)[:, None].astype(np.float32) / 10
known, narrow, strange = Records(x, y), Records(x[:, :2], y), Records(x, y + 1)
def network():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
def wide():
    return nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 3))
def wrapped():
    return nn.ModuleDict({"module": network()})
def shallow():
    return nn.Sequential(nn.Linear(3, 4))
def deep():
    return nn.Sequential(*network(), nn.ReLU(), nn.Linear(3, 3))
def frozen():
    torch.manual_seed(0)
    return deep()
def nothing():
    return None
"""

UPDATES = """
[updates]
transcript = "transcript"
network = "subject.py:network"
reference = "subject.py:known"
[updates.counts]
a = [4, 0, 0]
b = [0, 4, 0]
[[attacks]]
name = "label-counts"
"""

ASSIGNMENT = """
[assignment]
transcript = "transcript"
network = "subject.py:network"
candidates = "subject.py:known"
external = "subject.py:known"
[[attacks]]
name = "sia"
"""

OTHER_NETWORKS = [
    ("wide", "size mismatch"),
    ("wrapped", "expected a network with the tensor '0.weight', it has module.0.weight"),
    ("shallow", "expected a network with the tensor '2.weight', it has 0.weight, 0.bias:"),
    ("deep", r"expected the tensor '4\.(weight|bias)' of the network in the transcript too"),
    ("nothing", "'NoneType' object has no attribute 'load_state_dict'"),
]


def weights(shift: float) -> Tensors:
    shapes = {"0.weight": (4, 3), "0.bias": (4,), "2.weight": (3, 4), "2.bias": (3,)}
    return {name: np.full(shape, shift, np.float32) for name, shape in shapes.items()}


def settings(folder: Path, text: str, *changes: tuple[str, str], other: float = 0.3) -> Path:
    (folder / "subject.py").write_text(SUBJECT)
    received = {"a": ReceivedUpdate(weights(0.2), 4), "b": ReceivedUpdate(weights(other), 4)}
    training = LocalTraining("sgd", 0.1, epochs=1, batch_size=2)
    sent = Round(0, "weights", weights(0.1), received, training=training)
    writer.write(folder / "transcript", "clinics", [sent])
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "audit.toml").write_text(text)
    return folder / "audit.toml"


@pytest.mark.parametrize("text", [UPDATES, ASSIGNMENT])
@pytest.mark.parametrize(("network", "says"), OTHER_NETWORKS)
def test_a_network_that_the_weights_do_not_belong_to_is_refused(
    tmp_path: Path, text: str, network: str, says: str
) -> None:
    file = settings(tmp_path, text, ("subject.py:network", f"subject.py:{network}"))
    with pytest.raises(DivulgeError, match=says):
        audit_federation(file, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_parts_of_a_network_that_no_client_trains_are_not_in_the_transcript(tmp_path: Path) -> None:
    file = settings(tmp_path, UPDATES, ("subject.py:network", "subject.py:frozen"))
    assert audit_federation(file, tmp_path / "run").findings[0].reason == ""


def test_weights_without_a_place_are_refused_wherever_a_network_is_loaded() -> None:
    import torch

    with pytest.raises(
        TargetError, match=r"a network with the tensor '0\.weight', it has weight, bias"
    ):
        load_network(lambda: torch.nn.Linear(3, 4), weights(0.0))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[4, 0, 0]", "[4, 0]", "expected 3 numbers in updates.counts of client 'a', got 2"),
        ("[updates.counts]", 'class_names = ["x", "y"]\n[updates.counts]', "expected 3 different"),
        ("[updates.counts]", 'class_names = ["x", "y", "y"]\n[updates.counts]', "x, y, y: give"),
        ("subject.py:known", "subject.py:narrow", "cannot be multiplied"),
        ("subject.py:known", "subject.py:strange", "below 3 in updates.reference, got 3"),
        (
            "[updates.counts]",
            'clients = ["a", "b", "a"]\n[updates.counts]',
            "expected each client once, got 'a' 2 times",
        ),
    ],
)
def test_settings_that_do_not_fit_the_classes_or_clients_are_refused(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    with pytest.raises(DivulgeError, match=says):
        audit_federation(settings(tmp_path, UPDATES, (old, new)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("text", [UPDATES, ASSIGNMENT])
def test_clients_who_all_sent_the_same_are_no_evidence_of_no_leak(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(DataError, match="got the same of all 2 clients in every round"):
        audit_federation(settings(tmp_path, text, other=0.2), tmp_path / "run")
