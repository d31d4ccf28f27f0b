"""The check of batches: exact probabilities, few false alarms, and what it must find."""

import math
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

pytest.importorskip("opacus")

from opacus import PrivacyEngine

from divulge.canaries import audit
from divulge.canaries.batches import check_batches
from divulge.canaries.recorder import CanaryRecorder
from divulge.data.canary_scores import read_arrays
from divulge.data.sampling import SeenBatches, StatedSampling
from divulge.defences import DPSGD
from divulge.defences.training.dp_sgd.clipping import Clipping
from divulge.errors import SpecError, StoreError
from divulge.training import Recipe
from tests.canaries import sets

STATED = StatedSampling(40, 0.3, 12)


def poisson(rng: np.random.Generator, stated: StatedSampling = STATED) -> SeenBatches:
    return SeenBatches(rng.binomial(stated.records, stated.rate, stated.steps), stated)


def batches_of(path: Path) -> SeenBatches:
    found = SeenBatches.from_arrays(read_arrays(path, "batches", more=True))
    assert found is not None
    return found


def pmf(n: int, q: float, k: int) -> float:
    return math.comb(n, k) * q**k * (1 - q) ** (n - k)


def test_probabilities_are_those_of_the_slow_twin() -> None:
    sizes = np.array([9, 9, 14, 11, 12, 12, 10, 13, 8, 8, 15, 12])
    found = check_batches(SeenBatches(sizes, STATED))
    n, q, total = 40 * 12, 0.3, int(sizes.sum())
    below = sum(pmf(n, q, k) for k in range(total + 1))
    above = sum(pmf(n, q, k) for k in range(total, n + 1))
    assert found.p_mean == pytest.approx(min(1.0, 2 * min(below, above)))
    alike = sum(pmf(40, q, k) ** 2 for k in range(41))
    assert (found.pairs, found.alike) == (6, 3)
    assert found.p_alike == pytest.approx(sum(pmf(6, alike, k) for k in range(3, 7)))
    assert found.faults == ()


@pytest.mark.slow
def test_batches_that_are_drawn_as_stated_are_hardly_ever_accused() -> None:
    rng = np.random.default_rng(0)
    for stated in (STATED, StatedSampling(1500, 0.25, 20), StatedSampling(200, 0.004, 50)):
        accused = sum(bool(check_batches(poisson(rng, stated)).faults) for _ in range(500))
        # binomial with 500 and 2 * LEVEL: 6 or more have a probability of 1 in 70,000
        assert accused <= 5


def test_full_batches_are_drawn_as_stated() -> None:
    assert not check_batches(SeenBatches(np.full(5, 40), StatedSampling(40, 1.0, 5))).faults


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ([12] * 12, "6 of 6 pairs of batches have one size"),
        ([12] * 11 + [4], "5 of 6 pairs"),
        (
            [20, 22, 19, 21, 18, 23, 20, 17, 21, 19, 22, 18],
            "20.0 records a batch, where 12.0 ± 0.8 are expected of 12",
        ),
        ([9, 14, 11, 12, 10, 13, 8, 15, 12, 11, 14, 9, 13], "13 steps, where 12 are stated"),
    ],
    ids=["shuffled", "with a rest", "too large", "too many steps"],
)
def test_others_are_found(sizes: list[int], says: str) -> None:
    (fault,) = check_batches(SeenBatches(np.array(sizes), STATED)).faults
    assert re.search(says, fault)


def train(folder: Path, path: Path, steps: int, *, shuffled: bool, resume: bool = False) -> Path:
    """A plain loop that says its accountant was told of Poisson sampling by a third."""
    held = sets.pool(folder)
    x, y = torch.from_numpy(held.x.copy()), torch.from_numpy(held.y.copy())
    sampling, network = StatedSampling(len(y), 1 / 3, 24), sets.linear()
    recorder = CanaryRecorder(folder, network, path, sampling=sampling, resume=resume)
    if resume:
        recorder._place = None  # another checkpoint, for the sake of this test
    optimiser = torch.optim.SGD(network.parameters(), lr=1e-6)
    recorder.watch(network, optimiser)
    rng, noise = np.random.default_rng(steps), torch.Generator().manual_seed(steps)
    for _ in range(steps):
        one_of_three = rng.permutation(len(y)) < len(y) // 3
        rows = torch.from_numpy(one_of_three if shuffled else rng.random(len(y)) < 1 / 3)
        optimiser.zero_grad()
        torch.autograd.backward(cross_entropy(network(x[rows]), y[rows]))
        sets.add_noise(network, 1.0, noise)
        optimiser.step()
        network.eval()(x)  # a look at the accuracy is no batch
        network.train()
    return recorder.save()


def test_shuffled_batches_are_not_what_the_accountant_was_told(tmp_path: Path) -> None:
    for seed, shuffled in enumerate((False, True)):
        folder = sets.make(tmp_path, 60, seed)
        scores = train(folder, tmp_path / f"{seed}.npz", 24, shuffled=shuffled)
        found = audit.audit_canaries(
            folder, [scores], epsilon=3.0, delta=1e-5, run=tmp_path / f"run-{seed}"
        )
        assert found.bound < 3
        assert found.verdict.level == ("contradicted" if shuffled else "undecidable")
        page = (tmp_path / f"run-{seed}" / "report.html").read_text("utf-8")
        assert ("is not this training" in page) == shuffled
        assert ("as the accountant was told" in page) != shuffled
        assert ("pairs of batches have one size" in str(found)) == shuffled


@pytest.mark.parametrize("clipping", get_args(Clipping))
def test_the_private_trainer_draws_as_it_states(tmp_path: Path, clipping: Clipping) -> None:
    folder = sets.make(tmp_path, 60)
    held = sets.pool(folder)
    recipe = Recipe(sets.linear, lr=0.1, epochs=6, batch_size=20)
    trainer = DPSGD(recipe, 1e-5, noise_multiplier=4.0, clipping=clipping, jobs=1)
    steps = 6 * math.ceil(len(held) / 20)
    sampling = StatedSampling(len(held), 20 / len(held), steps)
    recorder = CanaryRecorder(folder, sets.linear(), tmp_path / "w.npz", sampling=sampling)
    trainer.train(held, 5, recorder.watch)
    seen = batches_of(recorder.save())
    assert len(seen.sizes) == recorder.steps <= steps
    assert check_batches(seen).faults == ()
    assert len(set(seen.sizes.tolist())) > 5


def test_a_training_that_continues_states_the_same(tmp_path: Path) -> None:
    folder, path = sets.make(tmp_path, 60), tmp_path / "w.npz"
    train(folder, path, 10, shuffled=False)
    first = batches_of(path)
    with pytest.raises(SpecError, match="state for the rest of a training"):
        CanaryRecorder(folder, sets.linear(), path, resume=True)
    train(folder, path, 4, shuffled=True, resume=True)
    both = batches_of(path)
    assert len(both.sizes) == 14
    assert np.array_equal(both.sizes[:10], first.sizes)


def test_a_training_past_the_network_is_refused(tmp_path: Path) -> None:
    folder, network = sets.make(tmp_path, 30), sets.linear()
    recorder = CanaryRecorder(
        folder, network, tmp_path / "w.npz", sampling=StatedSampling(40, 0.5, 2)
    )
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
    recorder.watch(network, optimiser)
    network.weight.grad, network.bias.grad = (torch.zeros_like(p) for p in network.parameters())
    optimiser.step()
    with pytest.raises(SpecError, match="expected batches that go through the network"):
        recorder.save()


def train_by_opacus(folder: Path, path: Path, spoil: Callable[[Any], None], **stated: float) -> str:
    """Three epochs of batches of 8 by Opacus; what an audit says of the batches."""
    held, network = sets.pool(folder), sets.linear()
    x, y = torch.from_numpy(held.x.copy()), torch.from_numpy(held.y.copy())
    loader = DataLoader(TensorDataset(x, y), batch_size=8)
    recorder = CanaryRecorder(
        folder, network, path, sampling=StatedSampling(len(y), 1 / len(loader), 99, **stated)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus', about its generator
        model, optimiser, batches = PrivacyEngine(accountant="rdp").make_private(
            module=network,
            optimizer=torch.optim.SGD(network.parameters(), lr=0.1),
            data_loader=loader,
            noise_multiplier=2.0,
            max_grad_norm=1.0,
            noise_generator=torch.Generator().manual_seed(5),
        )
        recorder.watch(model, optimiser)
        for _ in range(3):
            for records, labels in batches:
                spoil((optimiser, records))
                optimiser.zero_grad()
                torch.autograd.backward(cross_entropy(model(records), labels))
                optimiser.step()
    found = audit.audit_canaries(folder, [recorder.save()], epsilon=1.0, delta=1e-5)
    assert bool(found.facts.faults) == ("is not this training's" in str(found))
    return str(found)


def by_eight(step: Any) -> None:
    step[0].expected_batch_size = 8


def by_its_size(step: Any) -> None:
    step[0].expected_batch_size = max(1, len(step[1]))


@pytest.mark.parametrize(
    ("spoil", "stated", "says"),
    [
        (lambda _: None, {}, "Batches: as stated.\n    Gradients are divided by 7, the number of"),
        (by_eight, {}, "Batches: as stated.\nWhat"),
        (by_eight, {"divisor": 8}, "Batches: as stated.\nWhat"),
        (lambda _: None, {"divisor": 8}, "divided by 7, where 8 is stated; that is the number of"),
        (by_eight, {"divisor": 9}, "divided by 8, where 9 is stated."),
        (by_its_size, {}, r"divided by \d to \d+, where one number is expected for all steps"),
        (by_its_size, {"divisor": 7}, r"divided by \d to \d+, where one number is expected"),
    ],
    ids=["public", "chosen", "as stated", "rounded", "another", "its size", "its size, stated"],
)
def test_what_gradients_are_divided_by_is_held_against_what_is_stated(
    tmp_path: Path, spoil: Callable[[Any], None], stated: dict[str, float], says: str
) -> None:
    folder = sets.make(tmp_path, 41)
    assert len(sets.pool(folder)) % 8, "a rest to be rounded"
    assert re.search(says, train_by_opacus(folder, tmp_path / "w.npz", spoil, **stated))


def test_a_sum_is_divided_by_one(tmp_path: Path) -> None:
    folder = sets.make(tmp_path, 41)

    def add_up(step: Any) -> None:
        step[0].loss_reduction = "sum"

    said = train_by_opacus(folder, tmp_path / "w.npz", add_up, divisor=7)
    assert "divided by 1, where 7 is stated." in said


def test_the_private_trainer_divides_by_its_batch_size(tmp_path: Path) -> None:
    folder = sets.make(tmp_path, 60)
    held = sets.pool(folder)
    for size in (20, 17):
        recipe = Recipe(sets.linear, lr=0.1, epochs=1, batch_size=size)
        trainer = DPSGD(recipe, 1e-5, noise_multiplier=4.0, jobs=1)
        sampling = StatedSampling(len(held), size / len(held), 99, size)
        path = tmp_path / f"{size}.npz"
        recorder = CanaryRecorder(folder, sets.linear(), path, sampling=sampling)
        trainer.train(held, 5, recorder.watch)
        assert check_batches(batches_of(recorder.save())).divisors == (size, size)


def test_a_note_is_about_a_divisor_that_is_what_opacus_makes_of_the_records() -> None:
    stated = StatedSampling(40, 0.3, 12)  # a mean of 12
    sizes = np.array([9, 15])
    for divisors, noted in (((12.0, 12.0), True), ((11.0, 12.0), False), (None, False)):
        note = check_batches(SeenBatches(sizes, stated, divisors)).note
        assert note.startswith("Gradients are divided by 12, ") == noted
        assert bool(note) == noted


def test_a_divisor_that_cannot_be_seen_is_refused(tmp_path: Path) -> None:
    folder, network = sets.make(tmp_path, 30), sets.linear()
    sampling = StatedSampling(40, 0.5, 2, divisor=20)
    recorder = CanaryRecorder(folder, network, tmp_path / "w.npz", sampling=sampling)
    with pytest.raises(SpecError, match="expected an optimiser of Opacus beside a divisor"):
        recorder.watch(network, torch.optim.SGD(network.parameters(), lr=0.1))


def test_files_from_before_divisors_were_seen_are_the_same() -> None:
    sizes = np.array([9, 12])
    kept = SeenBatches(sizes, STATED).as_arrays()
    assert list(kept) == ["batches"]
    for seen in (
        SeenBatches(sizes, STATED),
        SeenBatches(sizes, StatedSampling(40, 0.3, 12, 7.5), (7.0, 7.5)),
        SeenBatches(sizes, STATED, (7.0, 7.5)),
    ):
        again = SeenBatches.from_arrays(seen.as_arrays())
        assert again is not None
        assert (again.stated, again.divisors) == (seen.stated, seen.divisors)
        assert np.array_equal(again.sizes, sizes)


@pytest.mark.parametrize("divisors", [[7.0], [0.0, 7.0, np.nan], [-1.0, 7.0, 7.0], [7, 7, 7]])
def test_damaged_divisors_are_refused(tmp_path: Path, divisors: list[float]) -> None:
    folder = sets.make(tmp_path, 30)
    path = sets.write_scores(folder, np.arange(30.0))
    batches = np.array([40.0, 0.5, 2.0, 3.0])
    held = dict(np.load(path)) | {"batches": batches, "divisors": np.array(divisors)}
    np.savez(path, **held, place=np.zeros(2))
    with pytest.raises(StoreError, match=r"scores\.npz"):
        audit.audit_canaries(folder, [path], epsilon=1.0, delta=1e-5)
    with pytest.raises(StoreError, match=r"scores\.npz"):
        CanaryRecorder(folder, sets.linear(), path, resume=True)


@pytest.mark.parametrize(
    "held",
    [
        [40.0, 0.5],
        [40.0, 0.5, 2.0],
        [40.0, 2.0, 2.0, 3.0],
        [40.5, 0.5, 2.0, 3.0],
        [40, np.nan, 2, 3],
    ],
)
def test_damaged_batches_are_refused(tmp_path: Path, held: list[float]) -> None:
    folder = sets.make(tmp_path, 30)
    path = sets.write_scores(folder, np.arange(30.0))
    np.savez(path, **dict(np.load(path)), batches=np.array(held))
    with pytest.raises(StoreError, match=r"scores\.npz"):
        audit.audit_canaries(folder, [path], epsilon=1.0, delta=1e-5)
