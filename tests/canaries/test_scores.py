"""The scores of canaries: against slow twins, under Opacus, DPSGD and plain PyTorch."""

import errno
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from divulge.canaries import audit
from divulge.canaries.make import make_canaries
from divulge.canaries.recorder import CanaryRecorder
from divulge.canaries.trained import score_canaries, score_checkpoints
from divulge.data import canary_files as files
from divulge.defences import DPSGD
from divulge.errors import DataError, SpecError, StoreError
from divulge.metrics import membership
from divulge.training import Recipe
from tests.canaries import sets
from tests.golden import golden


def perceptron() -> nn.Module:
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(sets.FEATURES, 5), nn.Tanh(), nn.Linear(5, sets.CLASSES))


def train_plainly(
    folder: Path, network: nn.Module, watch: Callable[[nn.Module, Any], None], steps: int = 4
) -> list[dict[str, torch.Tensor]]:
    """Full batches without noise; the checkpoints before the first step and after each."""
    held = sets.pool(folder)
    x, y = torch.from_numpy(held.x.copy()), torch.from_numpy(held.y.copy())
    optimiser = torch.optim.SGD(network.parameters(), lr=0.5)
    watch(network, optimiser)
    saved = [{name: t.clone() for name, t in network.state_dict().items()}]
    for _ in range(steps):
        optimiser.zero_grad()
        torch.autograd.backward(cross_entropy(network(x), y))
        optimiser.step()
        saved.append({name: t.clone() for name, t in network.state_dict().items()})
    return saved


def naive(folder: Path, network: nn.Module, saved: list[dict[str, torch.Tensor]]) -> np.ndarray:
    """Inner products of moves and clipped gradients, canary by canary."""
    held = files.read_candidates(folder)
    score = np.zeros(len(held.y))
    for before, after in pairwise(saved):
        network.load_state_dict(before)
        for at in range(len(score)):
            network.zero_grad()
            x, y = torch.from_numpy(held.x[at : at + 1]), torch.from_numpy(held.y[at : at + 1])
            torch.autograd.backward(cross_entropy(network(x), y))
            own = {name: p.grad for name, p in network.named_parameters() if p.grad is not None}
            norm = float(sum((g**2).sum() for g in own.values()) ** 0.5)
            along = sum(float((own[n] * (before[n] - after[n])).sum()) for n in own)
            score[at] += along * min(1.0, 1.0 / norm)
    return score


def test_recorder_and_checkpoints_agree_with_the_slow_twin(tmp_path: Path) -> None:
    folder = sets.make(tmp_path, 30)
    recorder = CanaryRecorder(folder, perceptron(), tmp_path / "white.npz")
    saved = train_plainly(folder, perceptron(), recorder.watch)
    expected = naive(folder, perceptron(), saved)
    watched = np.load(recorder.save())
    np.testing.assert_allclose(0.5 * watched["score"], expected, rtol=1e-3, atol=1e-5)
    score_checkpoints(folder, perceptron(), saved, tmp_path / "points.npz")
    points = np.load(tmp_path / "points.npz")
    np.testing.assert_allclose(points["score"], expected, rtol=1e-3, atol=1e-5)
    assert recorder.steps == points["steps"][0] == 4
    assert (watched["about"] == points["about"]).all()


def test_a_training_continues_from_its_checkpoint_and_from_no_other(tmp_path: Path) -> None:
    folder, path = sets.make(tmp_path, 30), tmp_path / "white.npz"
    whole = CanaryRecorder(folder, sets.linear(), tmp_path / "whole.npz")
    train_plainly(folder, sets.linear(), whole.watch)
    first = CanaryRecorder(folder, sets.linear(), path)
    network = sets.linear()
    train_plainly(folder, network, first.watch, steps=2)
    first.save()
    with pytest.raises(StoreError, match="expected the weights that step 2 left"):
        train_plainly(
            folder,
            sets.linear(),
            CanaryRecorder(folder, sets.linear(), path, resume=True).watch,
        )
    copy = sets.linear()
    copy.load_state_dict(network.state_dict())
    second = CanaryRecorder(folder, sets.linear(), path, resume=True)
    train_plainly(folder, copy, second.watch, steps=2)
    np.testing.assert_allclose(
        np.load(second.save())["score"], np.load(whole.save())["score"], rtol=1e-6
    )
    with pytest.raises(StoreError, match="resume=True"):
        CanaryRecorder(folder, sets.linear(), path)
    with pytest.raises(StoreError, match="got others"):
        CanaryRecorder(sets.make(tmp_path, 30, 2), sets.linear(), path, resume=True)


def test_a_disk_that_is_full_leaves_the_last_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = sets.make(tmp_path, 30)
    recorder = CanaryRecorder(folder, sets.linear(), tmp_path / "out" / "white.npz")
    (tmp_path / "out").mkdir()
    train_plainly(folder, sets.linear(), recorder.watch, steps=1)
    before = recorder.save().read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StoreError, match="the disk is full"):
        recorder.save()
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["white.npz"]
    assert (tmp_path / "out" / "white.npz").read_bytes() == before


def test_what_cannot_be_watched_is_refused(tmp_path: Path) -> None:
    folder = sets.make(tmp_path, 30)
    recorder = CanaryRecorder(folder, sets.linear(), tmp_path / "white.npz")
    with pytest.raises(SpecError, match="no step"):
        recorder.save()
    with pytest.raises(SpecError, match="with other weights"):
        recorder.watch(perceptron(), torch.optim.SGD(perceptron().parameters()))
    with pytest.raises(SpecError, match="optimiser of PyTorch"):
        recorder.watch(sets.linear(), object())
    train_plainly(folder, sets.linear(), recorder.watch, steps=1)
    with pytest.raises(SpecError, match="got a second"):
        train_plainly(folder, sets.linear(), recorder.watch)
    with pytest.raises(SpecError, match="two checkpoints"):
        score_checkpoints(folder, sets.linear(), [sets.linear().state_dict()], tmp_path / "p.npz")
    both = [perceptron().state_dict()] * 2
    with pytest.raises(SpecError, match="state dictionaries of the network"):
        score_checkpoints(folder, sets.linear(), both, tmp_path / "p.npz")


def test_losses_are_compared_with_those_of_the_reference(tmp_path: Path) -> None:
    folder = sets.make(tmp_path, 30)
    network = sets.linear()
    train_plainly(folder, network, lambda *_: None)
    held = files.read_candidates(folder)
    x, y = torch.from_numpy(held.x.copy()), torch.from_numpy(held.y.copy())
    losses = [
        cross_entropy(one(x).double(), y, reduction="none").detach().numpy()
        for one in (sets.linear(), network)
    ]
    before = sets.linear()
    score_canaries(folder, network, tmp_path / "b.npz", output="logits", reference=before)
    found = np.load(tmp_path / "b.npz")["score"]
    np.testing.assert_allclose(found, losses[0] - losses[1], rtol=1e-4, atol=1e-5)


def test_a_model_of_other_classes_is_refused(tmp_path: Path) -> None:
    folder = make_canaries((sets.records().x, np.arange(60) % 4), tmp_path / "c", 30).folder
    with pytest.raises(DataError, match="expected answers about 4 classes or more, got 2"):
        score_canaries(folder, sets.linear(), tmp_path / "c.npz", output="logits")


class Words(nn.Module):
    """Classifies a text by the mean of its words' embeddings."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.words = nn.Embedding(1000, 16)
        self.out = nn.Linear(16, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        seen = (tokens > 0)[..., None]
        mean = (self.words(tokens) * seen).sum(-2) / seen.sum(-2).clamp(min=1)
        found: torch.Tensor = self.out(mean)
        return found


def tokens(texts: list[str]) -> torch.Tensor:
    """Numbers of words, w1 to w999, with zeros behind the last one."""
    rows = [[int(word[1:]) for word in text.split()][:8] for text in texts]
    return torch.tensor([row + [0] * (8 - len(row)) for row in rows])


def test_texts_are_scored_by_their_gradients(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{n}" for n in rng.integers(1, 1000, 8)) for _ in range(60)]
    made = make_canaries((texts, ["a", "b"] * 30), tmp_path / "canaries", 80, seed=1)
    with np.load(made.folder / files.TRAIN) as train:
        x = tokens(texts + train["x"].tolist())
        y = torch.from_numpy(np.concatenate([np.arange(60) % 2, train["y"] == "b"]).astype(int))
    with pytest.raises(SpecError, match="expected prepare for canaries of texts"):
        CanaryRecorder(made.folder, Words(), tmp_path / "white.npz")
    network = Words()
    recorder = CanaryRecorder(made.folder, network, tmp_path / "white.npz", prepare=tokens)
    optimiser = torch.optim.SGD(network.parameters(), lr=5.0)
    recorder.watch(network, optimiser)
    for _ in range(40):
        optimiser.zero_grad()
        torch.autograd.backward(cross_entropy(network(x), y))
        optimiser.step()
    score = np.load(recorder.save())["score"]
    # without noise they show
    assert membership.auc(score, sets.coins(made.folder)).value == golden(0.7523)


def test_texts_are_asked_as_texts(tmp_path: Path) -> None:
    texts = (["a red fox", "the blue sky"] * 10, ["x", "y"] * 10)
    folder = make_canaries(texts, tmp_path / "c", 20).folder

    def ask(rows: list[str]) -> np.ndarray:
        assert all(isinstance(row, str) for row in rows)
        return np.tile([0.25, 0.75], (len(rows), 1))

    score_canaries(folder, ask, tmp_path / "b.npz")
    y = files.read_candidates(folder).y
    expected = np.log(np.array([0.25, 0.75]))[y]
    np.testing.assert_allclose(np.load(tmp_path / "b.npz")["score"], expected)
    with pytest.raises(SpecError, match="expected prepare for canaries of texts"):
        CanaryRecorder(folder, sets.linear(), tmp_path / "w.npz")


def private(noise: float, steps: int = 8) -> DPSGD:
    recipe = Recipe(sets.linear, lr=0.1, epochs=steps, batch_size=10**6)
    return DPSGD(recipe, 1e-5, noise_multiplier=noise, jobs=1)


def test_noise_that_is_missing_is_found_and_honest_noise_is_not(tmp_path: Path) -> None:
    for seed, (noise, verdict) in enumerate([(1e-3, "contradicted"), (12.0, "consistent")]):
        folder = sets.make(tmp_path, 50, seed)
        stated = private(12.0).guarantee(len(sets.pool(folder)))
        assert stated is not None
        recorder = CanaryRecorder(folder, sets.linear(), tmp_path / f"{seed}.npz")
        model = private(noise).train(sets.pool(folder), seed, recorder.watch)
        score_canaries(folder, model, tmp_path / f"{seed}-b.npz", output="logits")
        found = audit.audit_canaries(
            folder,
            [recorder.save(), tmp_path / f"{seed}-b.npz"],
            epsilon=stated.epsilon,
            delta=1e-5,
        )
        assert found.verdict == verdict


def test_a_watched_training_is_the_training(tmp_path: Path) -> None:
    folder = sets.make(tmp_path, 50)
    held = sets.pool(folder)
    recorder = CanaryRecorder(folder, sets.linear(), tmp_path / "w.npz")
    watched = private(1.0).train(held, 5, recorder.watch)
    (usual,) = private(1.0).networks(held, np.ones((1, len(held)), bool), [5])
    for one, other in zip(watched.parameters(), usual.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.filterwarnings("ignore")
def test_the_engine_of_opacus_is_watched(tmp_path: Path) -> None:
    from opacus import PrivacyEngine

    folder = sets.make(tmp_path, 50)
    held = sets.pool(folder)
    data = torch.utils.data.TensorDataset(
        torch.from_numpy(held.x.copy()), torch.from_numpy(held.y.copy())
    )
    model, engine = sets.linear(), PrivacyEngine(accountant="rdp")
    recorder = CanaryRecorder(folder, model, tmp_path / "w.npz")
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimiser, batches = engine.make_private(
        module=model,
        optimizer=optimiser,
        data_loader=torch.utils.data.DataLoader(data, batch_size=20),
        noise_multiplier=0.01,
        max_grad_norm=1.0,
    )
    recorder.watch(model, optimiser)
    for _ in range(4):
        for x, y in batches:
            optimiser.zero_grad()
            torch.autograd.backward(cross_entropy(model(x), y))
            optimiser.step()
    assert recorder.steps == 4 * len(batches)
    assert engine.get_epsilon(1e-5) > 100  # its own hook still counts
    score = np.load(recorder.save())["score"]
    centred = audit.centre_by_class(score, files.read_candidates(folder).y)
    assert membership.auc(centred, sets.coins(folder)).value == golden(0.9020)
