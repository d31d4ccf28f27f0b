"""Running statistics that a training keeps without noise contradict what it states."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from divulge.canaries.audit import audit_canaries
from divulge.canaries.recorder import CanaryRecorder
from divulge.canaries.result import CanaryAudit
from divulge.canaries.trained import score_checkpoints
from divulge.errors import StoreError
from tests.canaries import sets


def network() -> nn.Module:
    torch.manual_seed(2)
    norm = nn.BatchNorm1d(4, affine=False)
    return nn.Sequential(nn.Linear(sets.FEATURES, 4), norm, nn.ReLU(), nn.Linear(4, sets.CLASSES))


def train(folder: Path, path: Path, model: nn.Module, *, resume: bool = False) -> Path:
    """Two steps of a plain loop, with noise."""
    held = sets.pool(folder)
    x, y = torch.from_numpy(held.x.copy()), torch.from_numpy(held.y.copy())
    recorder = CanaryRecorder(folder, model, path, resume=resume)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-6)
    recorder.watch(model, optimiser)
    for _ in range(2):
        optimiser.zero_grad()
        torch.autograd.backward(cross_entropy(model(x), y))
        for p in model.parameters():
            assert p.grad is not None
            p.grad += torch.randn_like(p)
        optimiser.step()
    return recorder.save()


def judge(folder: Path, scores: Path, run: Path | None = None) -> CanaryAudit:
    return audit_canaries(folder, [scores], epsilon=1.0, delta=1e-5, run=run)


def test_statistics_that_are_kept_contradict(tmp_path: Path) -> None:
    folder = sets.make(tmp_path, 40)
    found = judge(folder, train(folder, tmp_path / "w.npz", network()), tmp_path / "run")
    assert found.verdict.level == "contradicted"
    assert found.bound < 1
    assert "is not this training's: it keeps statistics without noise" in str(found)
    assert "1 layer keeps running statistics of records ('1')" in str(found)
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "1 layer keeps running statistics of records" in page


def test_statistics_that_stay_do_not(tmp_path: Path) -> None:
    folder, frozen = sets.make(tmp_path, 40), network()
    frozen[1].eval()  # type: ignore[index]
    assert judge(folder, train(folder, tmp_path / "w.npz", frozen)).facts.faults == ()


def test_checkpoints_show_statistics_too(tmp_path: Path) -> None:
    folder, model = sets.make(tmp_path, 40), network()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    train(folder, tmp_path / "w.npz", model)
    scores = score_checkpoints(folder, network(), [before, model.state_dict()], tmp_path / "c.npz")
    assert judge(folder, scores).facts.faults


def test_a_training_that_continues_keeps_what_was_seen(tmp_path: Path) -> None:
    folder, model, path = sets.make(tmp_path, 40), network(), tmp_path / "w.npz"
    train(folder, path, model)
    model[1].eval()  # type: ignore[index]
    train(folder, path, model, resume=True)
    assert judge(folder, path).results[0].statistics == ("1",)


def test_damaged_names_are_refused(tmp_path: Path) -> None:
    folder = sets.make(tmp_path, 30)
    path = sets.write_scores(folder, np.arange(30.0))
    np.savez(path, **dict(np.load(path)), statistics=np.zeros(2))
    with pytest.raises(StoreError, match=r"scores\.npz"):
        judge(folder, path)
