"""DP-SGD and canaries for language models: the loss of a text, its gradient, silent faults."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divulge
from divulge.errors import DataError, SpecError

torch = pytest.importorskip("torch")

from divulge.defences import DPSGD, TextLoss  # noqa: E402
from divulge.training import Recipe  # noqa: E402

SIGNS, FILL = 12, 0
RNG = np.random.default_rng(0)
TEXTS = [" ".join(map(str, RNG.integers(2, SIGNS, size))) for size in RNG.integers(4, 9, 60)]


class Tied(torch.nn.Module):  # type: ignore[misc, name-defined]
    """From a token to the next; the table of tokens is read and written with, as in GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(SIGNS, 6)
        self.write = torch.nn.Linear(6, SIGNS, bias=False)
        self.write.weight = self.table.weight

    def forward(self, ids: Any) -> Any:
        return self.write(self.table(ids).tanh())


class Adapted(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A model that stays, and two small matrices that are learned (LoRA)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.base = Tied().requires_grad_(requires_grad=False)
        self.down, self.up = (
            torch.nn.Linear(6, 2, bias=False),
            torch.nn.Linear(2, SIGNS, bias=False),
        )
        torch.nn.init.zeros_(self.up.weight)

    def forward(self, ids: Any) -> Any:
        return self.base(ids) + self.up(self.down(self.base.table(ids)))


def encode(texts: list[str]) -> Any:
    rows = [[1, *map(int, text.split())] for text in texts]
    return torch.tensor([(row + [FILL] * 10)[:10] for row in rows])


def canaries(folder: Path) -> tuple[Path, Any]:
    """A folder of canaries, and all texts to train on."""
    divulge.make_canaries(TEXTS, folder / "canaries", 40, seed=0)
    with np.load(folder / "canaries" / "for-trainer" / "train.npz") as train:
        return folder / "canaries", encode(TEXTS + train["x"].tolist())


def test_the_loss_and_its_gradient_are_those_of_the_tokens_of_a_text() -> None:
    model, ids = Tied(), encode(TEXTS[:5])
    network = TextLoss(model, FILL)
    labels = torch.zeros(5, dtype=torch.long)
    mine = torch.nn.functional.cross_entropy(network(ids), labels, reduction="none")
    for row, loss in zip(ids, mine, strict=True):
        length = int((row != FILL).sum())
        usual = torch.nn.functional.cross_entropy(model(row[: length - 1]), row[1:length])
        assert loss.item() == pytest.approx(usual.item(), rel=1e-5)
        (one,) = torch.autograd.grad(loss, [model.table.weight], retain_graph=True)
        (other,) = torch.autograd.grad(usual, [model.table.weight])
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("model", [Tied, Adapted])
def test_a_private_fine_tune_is_watched_and_audited_beside_what_it_states(
    model: Any, tmp_path: Path
) -> None:
    pytest.importorskip("opacus")
    folder, ids = canaries(tmp_path)

    def build() -> Any:
        return TextLoss(model(), FILL)

    recorder = divulge.CanaryRecorder(folder, build(), tmp_path / "white.npz", prepare=encode)
    train = DPSGD(Recipe(build, lr=0.5, epochs=2, batch_size=20), delta=1e-5, noise_multiplier=2.0)
    records = divulge.Records(ids.numpy(), np.zeros(len(ids), np.int64))
    trained = train.train(records, 0, watch=recorder.watch)
    recorder.save()
    stated = train.guarantee(len(ids))
    assert stated is not None
    for name, p in build().named_parameters():
        moved = dict(trained.named_parameters())[name]
        assert bool((moved != p).any()) == p.requires_grad, name
    found = divulge.audit_canaries(
        folder, [tmp_path / "white.npz"], epsilon=stated.epsilon, delta=1e-5
    )
    assert found.verdict.level in ("consistent", "undecidable")
    assert found.results[0].exposure is not None


def step(model: Any, optimiser: Any, ids: Any) -> None:
    labels = torch.zeros(len(ids), dtype=torch.long)
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(model(ids), labels).backward()
    optimiser.step()


def replace_weights(model: Any) -> None:
    """What some moves to a device do: the weights in the model are new objects."""
    for layer in model.modules():
        for name, p in list(layer.named_parameters(recurse=False)):
            if p.requires_grad:
                setattr(layer, name, torch.nn.Parameter(p.detach().clone()))


def test_an_optimiser_of_other_copies_of_the_weights_is_refused_before_the_first_step(
    tmp_path: Path,
) -> None:
    """Opacus' issue 820: adapters that stay as they were, while ε is counted as ever."""
    folder, _ = canaries(tmp_path)
    model = TextLoss(Adapted(), FILL)
    recorder = divulge.CanaryRecorder(folder, model, tmp_path / "white.npz", prepare=encode)
    optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1)
    replace_weights(model)
    with pytest.raises(SpecError, match="2 of the 2 tensors that it changes are not in the model"):
        recorder.watch(model, optimiser)


def test_a_training_that_left_every_weight_as_it_was_gives_no_scores(tmp_path: Path) -> None:
    folder, ids = canaries(tmp_path)
    model = TextLoss(Adapted(), FILL)
    recorder = divulge.CanaryRecorder(folder, model, tmp_path / "white.npz", prepare=encode)
    optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1)
    recorder.watch(model, optimiser)
    before = copy.deepcopy(model.state_dict())
    replace_weights(model)  # at the first call, behind what is watched
    step(model, optimiser, ids)
    with pytest.raises(SpecError, match="after 1 steps every weight is as before"):
        recorder.save()
    states = [before, model.state_dict(), before]
    with pytest.raises(SpecError, match="3 with the same trained weights"):
        divulge.score_checkpoints(
            folder, TextLoss(Adapted(), FILL), states, tmp_path / "p.npz", prepare=encode
        )


def test_a_model_that_answers_as_before_the_training_is_refused(tmp_path: Path) -> None:
    from tests.targets.test_causal_target import fitted

    folder, _ = canaries(tmp_path)
    target = divulge.targets.CausalTarget(fitted([], 0))
    with pytest.raises(DataError, match="exactly what the reference says"):
        divulge.score_canaries(folder, target, tmp_path / "black.npz", reference=target)
