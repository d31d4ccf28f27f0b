"""Noise that repeats, or is smaller than stated, is found; fresh noise is not accused."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, one_hot
from torch.utils.data import DataLoader, TensorDataset

from divulge.canaries import audit, entries
from divulge.canaries.gradients import CanaryGradients
from divulge.canaries.noise import check_noise
from divulge.canaries.recorder import CanaryRecorder
from divulge.canaries.steps import Step, StepNoise
from divulge.data import canary_files as files
from divulge.data.canary_scores import CanaryScores, read_scores, write_scores
from divulge.data.noise import SeenNoise
from divulge.defences import DPSGD, noise
from divulge.errors import StoreError
from divulge.training import Recipe
from tests.canaries import sets

Draw = Callable[[int, np.random.Generator, list[np.ndarray]], np.ndarray]
"""From the number of a step, a generator and what was drawn before to the noise of a step."""

WIDTH, SUMS = 300, 100


def fresh(_: int, rng: np.random.Generator, before: list[np.ndarray]) -> np.ndarray:
    del before
    return rng.normal(size=WIDTH + SUMS)


def again(period: int) -> Draw:
    def draw(step: int, rng: np.random.Generator, before: list[np.ndarray]) -> np.ndarray:
        return fresh(step, rng, before) if step < period else before[step - period]

    return draw


def mixed(share: float) -> Draw:
    def draw(step: int, rng: np.random.Generator, before: list[np.ndarray]) -> np.ndarray:
        new = fresh(step, rng, before)
        return share * before[-1] + (1 - share**2) ** 0.5 * new if before else new

    return draw


def watch(
    draw: Draw,
    seed: int,
    *,
    steps: int = 24,
    sums: int = SUMS,
    deviation: float | None = 0.1,
    scale: float = 1.0,
) -> SeenNoise:
    """Steps of gradients that persist, with noise of standard deviation 0.1."""
    rng = np.random.default_rng(seed)
    noise, before = StepNoise({"a": 200, "b": 100}, sums), list[np.ndarray]()
    persists = 0.3 * rng.normal(size=WIDTH)
    for step in range(steps):
        before.append(draw(step, rng, before))
        drawn = 0.1 * scale * before[-1]
        gradient = 0.95**step * persists + 0.03 * rng.normal(size=WIDTH) + drawn[:WIDTH]
        noise.add(Step(gradient, drawn[WIDTH : WIDTH + sums], 1.0, deviation))
    return noise.seen()


def faults(seen: SeenNoise) -> str:
    return "; ".join(check_noise(seen, seen.steps).faults)


@pytest.mark.parametrize("deviation", [0.1, None])
@pytest.mark.parametrize("sums", [SUMS, 0])
def test_fresh_noise_is_accused_as_rarely_as_promised(deviation: float | None, sums: int) -> None:
    accused = sum(
        bool(faults(watch(fresh, seed, steps=12, sums=sums, deviation=deviation)))
        for seed in range(150)
    )
    # binomial with 150 and 0.001: 3 or more have a probability of 1 in 2,000
    assert accused <= 2


def test_each_p_is_even_where_there_is_nothing_but_noise() -> None:
    smallest = []
    for seed in range(100):
        seen = watch(fresh, seed, steps=8)
        looks = check_noise(seen, 8).looks
        smallest += [one.p for one in looks if one.look.kind != "predicted"]
    # mean of 200 even numbers: a standard deviation of 0.0204
    assert abs(np.mean(smallest) - 0.5) < 0.08


@pytest.mark.parametrize("deviation", [0.1, None])
@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (again(1), "the same"),
        (again(2), "the same"),
        (again(10), "repeats|the same|correlated"),
        (mixed(-0.97), "the same"),
        (mixed(0.6), "correlated"),
    ],
    ids=["drawn once", "two in turn", "seeded again each epoch", "turned around", "correlated"],
)
def test_noise_that_repeats_is_found(draw: Draw, says: str, deviation: float | None) -> None:
    for seed in range(5):
        assert re.search(f"noise.* is ({says})", faults(watch(draw, seed, deviation=deviation)))


def test_noise_that_repeats_is_found_without_directions_where_its_scale_is_stated() -> None:
    for draw in (again(1), again(2), again(10)):
        assert "is the same as that of earlier ones" in faults(watch(draw, 1, sums=0))
    unknown = check_noise(watch(again(1), 1, sums=0, deviation=None), 24)
    assert not unknown.faults
    assert "cannot be said without its scale: give the recorder" in unknown.sentence


def test_an_epoch_of_any_length_is_seen_by_the_first_steps() -> None:
    assert "noise" in faults(watch(again(400), 1, steps=410))


@pytest.mark.parametrize("scale", [0.0, 1 / 8, 1 / 2, 0.8])
def test_noise_smaller_than_stated_is_found(scale: float) -> None:
    found = faults(watch(fresh, 1, scale=scale))
    assert "too small" in found or "have no noise" in found
    assert ("24 of 24 steps have no noise" in found) == (scale == 0)


def test_noise_that_is_missing_needs_no_scale() -> None:
    assert "24 of 24 steps have no noise" in faults(watch(fresh, 1, scale=0, deviation=None))


def test_noise_larger_than_stated_is_no_fault() -> None:
    assert not faults(watch(fresh, 1, scale=3))


def test_steps_that_continue_are_held_against_those_before() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 60))
    whole, first, second = (StepNoise({"a": 40}, 20) for _ in range(3))
    for row in rows:
        whole.add(Step(row[:40], row[40:], 1.0, 1.0))
    for row in rows[:280]:
        first.add(Step(row[:40], row[40:], 1.0, 1.0))
    second.restore(first.seen(), first.as_arrays())
    for row in rows[280:]:
        second.add(Step(row[:40], row[40:], 1.0, 1.0))
    assert second.seen() == whole.seen()
    assert np.array_equal(second.as_arrays()["noise_steps"], whole.as_arrays()["noise_steps"])
    with pytest.raises(ValueError, match="not those of this network"):
        StepNoise({"a": 41}, 20).restore(first.seen(), first.as_arrays())


def test_what_is_kept_does_not_grow_with_the_steps() -> None:
    noise = StepNoise({"a": 40}, 20)
    for _ in range(300):
        noise.add(Step(np.zeros(40), np.zeros(20), 1.0, 1.0))
    assert noise.as_arrays()["noise_steps"].size == 256 * 60


class _Tied(nn.Module):
    """The last layer's weights are used in the first one, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(sets.FEATURES, 7)
        self.last = nn.Linear(7, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(x))
        made: torch.Tensor = self.last(torch.nn.functional.linear(hidden, self.last.weight))
        return made


@pytest.mark.parametrize(
    ("network", "names"),
    [
        (nn.Linear(sets.FEATURES, 3), ["weight", "bias"]),
        (nn.Sequential(nn.Linear(sets.FEATURES, 5), nn.Linear(5, 2)), ["1.weight", "1.bias"]),
        (nn.Sequential(nn.Linear(sets.FEATURES, 5), nn.Dropout(), nn.LayerNorm(5)), ["2.bias"]),
        (_Tied(), ["last.bias"]),
    ],
)
def test_directions_without_gradients_are_those_of_the_logits(
    tmp_path: Path, network: nn.Module, names: list[str]
) -> None:
    held = files.read_candidates(sets.make(tmp_path, 30))
    before = torch.get_rng_state()
    found = CanaryGradients(network, held.x, held.y, 1.0, None).sums_to_zero()
    assert [one for one in found if one in names] == names
    assert set(found) <= {*names, "2.weight"}
    assert torch.equal(before, torch.get_rng_state())


def train(
    folder: Path, path: Path, draw: Draw, *, steps: int = 20, loss: str = "cross", **more: Any
) -> CanaryScores:
    """A plain loop of full batches, with noise of deviation 0.05 on each entry."""
    held, network = sets.pool(folder), sets.linear()
    x, y = torch.from_numpy(held.x.copy()), torch.from_numpy(held.y.copy())
    recorder = CanaryRecorder(folder, network, path, **more)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.5)
    recorder.watch(network, optimiser)
    rng, drawn = np.random.default_rng(1), list[np.ndarray]()
    for step in range(steps):
        optimiser.zero_grad()
        if loss == "cross":
            value = cross_entropy(network(x), y)
        else:
            value = binary_cross_entropy_with_logits(network(x), one_hot(y, 2).float())
        torch.autograd.backward(value)
        drawn.append(draw(step, rng, drawn))
        noise = torch.from_numpy(0.05 * drawn[-1]).float()
        for at, p in enumerate(network.parameters()):
            assert p.grad is not None
            p.grad += noise[at : at + p.numel()].view_as(p)
        optimiser.step()
    return read_scores(recorder.save(), files.read_candidates(folder))


@pytest.mark.parametrize("loss", ["cross", "each class by itself"])
@pytest.mark.parametrize("deviation", [0.05, None])
def test_a_loop_of_ones_own_is_held_against_itself(
    tmp_path: Path, loss: str, deviation: float | None
) -> None:
    folder = sets.make(tmp_path, 40)
    for at, draw in enumerate((fresh, again(1))):
        path = tmp_path / f"{at}.npz"
        scores = train(folder, path, draw, loss=loss, noise_deviation=deviation)
        assert scores.noise is not None
        found = check_noise(scores.noise, scores.steps)
        decided = loss == "cross" or deviation is not None
        assert bool(found.faults) == (draw is not fresh and decided)
        assert ("cannot be said without its scale" in found.sentence) != decided
        assert not found.supposed


def test_verdict_page_and_gate_say_that_noise_repeats(tmp_path: Path) -> None:
    folder, run = sets.make(tmp_path, 400), tmp_path / "run"
    train(folder, tmp_path / "w.npz", again(1))
    found = audit.audit_canaries(folder, [tmp_path / "w.npz"], epsilon=1.0, delta=1e-5, run=run)
    assert found.bound < 1
    assert found.verdict.level == "contradicted"
    assert found.headline.endswith("is not this training's: its noise is not as stated")
    says = "noise of successive steps is the same (correlation 1.00): the difference of two steps"
    page = (run / "report.html").read_text("utf-8")
    assert says in str(found)
    assert says in page
    assert found.gate(fail_on=["contradicted"]).failed


def test_scores_from_before_noise_was_looked_at_say_so(tmp_path: Path) -> None:
    folder = sets.make(tmp_path, 400)
    path = sets.write_scores(folder, sets.leak(folder, 0.0))
    said = str(audit.audit_canaries(folder, [path], epsilon=1.0, delta=1e-5))
    assert "Noise: whether it repeats or is too small was not looked at." in said


def test_a_recorder_continues_what_it_saw_of_noise(tmp_path: Path) -> None:
    folder = sets.make(tmp_path, 40)
    path = tmp_path / "w.npz"
    train(folder, path, fresh, steps=1)
    with np.load(path) as held:
        kept = dict(held)
    recorder = CanaryRecorder(folder, sets.linear(), path, resume=True)
    assert recorder._noise.steps == 1
    assert np.array_equal(recorder._noise.as_arrays()["noise_steps"], kept["noise_steps"])
    del kept["noise"], kept["noise_looks"], kept["noise_steps"]  # as an older version wrote it
    np.savez(path, **kept)
    assert CanaryRecorder(folder, sets.linear(), path, resume=True)._noise.steps == 0


@pytest.mark.parametrize("damage", ["noise", "noise_looks", "noise_steps"])
def test_damaged_noise_is_refused(tmp_path: Path, damage: str) -> None:
    folder, path = sets.make(tmp_path, 40), tmp_path / "w.npz"
    scores = train(folder, path, fresh, steps=2)
    with np.load(path) as held:
        kept = dict(held)
    np.savez(path, **kept | {damage: kept[damage][:-1]})
    with pytest.raises(StoreError, match=r"w\.npz"):
        CanaryRecorder(folder, sets.linear(), path, resume=True)
    assert scores.noise is not None
    write_scores(path, scores)
    again_read = read_scores(path, files.read_candidates(folder))
    assert again_read.noise == scores.noise
    assert again_read.digest == scores.digest


def by_opacus(folder: Path, path: Path, spoil: Callable[[Any], None]) -> str:
    held, network = sets.pool(folder), sets.linear()
    loader = DataLoader(
        TensorDataset(torch.from_numpy(held.x.copy()), torch.from_numpy(held.y.copy())),
        batch_size=20,
    )
    recorder = CanaryRecorder(folder, network, path)
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
            spoil(optimiser)
            optimiser.zero_grad()
            torch.autograd.backward(cross_entropy(model(records), labels))
            optimiser.step()
    scores = read_scores(recorder.save(), files.read_candidates(folder))
    assert scores.noise is not None
    assert scores.noise.stated
    assert scores.noise.loss == "shift-invariant"
    return check_noise(scores.noise, scores.steps).sentence


def seed_again(optimiser: Any) -> None:
    optimiser.generator.manual_seed(5)


def halve(optimiser: Any) -> None:
    """Half of the noise that the optimiser says."""
    kept = type(optimiser).add_noise

    def add_noise() -> None:
        said = optimiser.noise_multiplier
        optimiser.noise_multiplier = said / 2
        kept(optimiser)
        optimiser.noise_multiplier = said

    optimiser.add_noise = add_noise


def move_the_norm(optimiser: Any) -> None:
    """Adaptive clipping has another norm for the next step before this one is made."""
    kept = type(optimiser).scale_grad

    def scale_grad() -> None:
        kept(optimiser)
        optimiser.max_grad_norm *= 1.2

    optimiser.scale_grad = scale_grad


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_under_opacus(tmp_path: Path) -> None:
    folder = sets.make(tmp_path, 60)
    said = by_opacus(folder, tmp_path / "right.npz", lambda _: None)
    assert re.fullmatch(r"new in each of \d+ steps and no smaller than stated", said)
    said = by_opacus(folder, tmp_path / "again.npz", seed_again)
    assert "the noise of successive steps is the same" in said
    said = by_opacus(folder, tmp_path / "half.npz", halve)
    # a half, of 60 entries in 15 steps or more: with a standard deviation of 0.012
    assert re.search(r"too small: its deviation is 0\.(4[5-9]|5[0-5]?) of the one stated", said)
    said = by_opacus(folder, tmp_path / "adaptive.npz", move_the_norm)
    assert said.startswith("new in each of")


@pytest.mark.parametrize("source", ["seeded", "secure"])
def test_under_the_private_trainer(
    tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = itertools.count()  # of secure noise: whether a fault is found must not depend on luck
    monkeypatch.setattr(noise, "fresh_key", lambda: next(keys).to_bytes(32, "little"))
    folder = sets.make(tmp_path, 60)
    held = sets.pool(folder)
    recipe = Recipe(sets.linear, lr=0.1, epochs=4, batch_size=20)
    trainer = DPSGD(recipe, 1e-5, noise_multiplier=2.0, jobs=1, noise=source)  # type: ignore[arg-type]
    for name, spoil in (("right", lambda _: None), ("again", seed_again)):
        if (name, source) == ("again", "secure"):
            continue  # there is no seed
        recorder = CanaryRecorder(folder, sets.linear(), tmp_path / f"{name}.npz")

        def look(
            model: nn.Module,
            optimiser: Any,
            spoil: Callable[[Any], None] = spoil,
            recorder: CanaryRecorder = recorder,
        ) -> None:
            model.register_forward_pre_hook(lambda *_: spoil(optimiser))
            recorder.watch(model, optimiser)

        trainer.train(held, 5, look)
        scores = read_scores(recorder.save(), files.read_candidates(folder))
        assert scores.noise is not None
        assert scores.noise.stated
        found = check_noise(scores.noise, scores.steps)
        assert any("is the same" in one for one in found.faults) == (name == "again")
        assert bool(found.faults) == (name == "again")


def test_tensors_share_the_entries_that_are_kept() -> None:
    sizes = {"a": 3000, "b": 5000, "c": 10}
    sample = entries.EntrySample(sizes, np.random.default_rng(0))
    share = entries.ENTRIES // 3
    assert sample.parts == {"a": share, "b": share, "c": 10}
    parts = np.split(sample.take(lambda _, places: places.astype(float)), [share, 2 * share])
    for size, part in zip(sizes.values(), parts, strict=True):
        assert len(np.unique(part)) == len(part)
        assert 0 <= part.min() <= part.max() < size
