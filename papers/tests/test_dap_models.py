"""DAP's tables: what a row measures, on a few images of noise, and how long DP-SGD may train."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from divulge.audits.challenges.model import MembershipChallenge, pose_view
from divulge.core import Membership, ModelView, Records, Shadows
from divulge.defences.training.dp_sgd.accounting import dp_sgd_epsilon
from divulge.errors import StoreError
from divulge.training.engine.loop import Job
from divulge.training.recipe import Recipe
from divulge_papers.papers.dap import data, networks, study, training
from divulge_papers.papers.dap.data import DataSizes
from divulge_papers.papers.dap.networks import (
    ClassifierNetwork,
    MixedPrecisionNetwork,
    TrainedNetwork,
)
from divulge_papers.papers.dap.study import TrainingScale
from divulge_papers.papers.dap.tables import rows
from divulge_papers.papers.dap.training import DELTA, NOISE, PoolTrainer, epochs_for
from divulge_papers.table import find_table
from tests.slow import slow

CACHES = (
    data.split_records,
    data._load_records,
    training._train_discriminator,
    study._pool_trainer,
    study._train_undefended,
    study._measure_undefended,
)


SCALE = TrainingScale(
    DataSizes(0, 200, 4), 4, 16, 2, None, 64, 4e-3, 2, (0.0, 0.5, 1.0), (0.01,), stored=False
)


@pytest.fixture(autouse=True)
def _few_images(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 800)
    x = rng.random(size=(800, 1, 28, 28), dtype=np.float32) / 10
    x[:, 0, 0, :20] += 0.04 * y[:, None]
    # what the pretrained network would see
    monkeypatch.setattr(
        data, "_extract_features", lambda _data, pixels, _folder: pixels[:, 0, 0, :20]
    )
    monkeypatch.setattr(data, "load_images", lambda *_: Records(x, y))
    monkeypatch.setattr(study, "SCALES", {"small": SCALE})
    monkeypatch.setattr(study, "_FEW_R", (0.0, 0.5))
    yield
    clear()


def measured(**settings: Any) -> dict[str, Sequence[float]]:
    found, entries = study.measure_defence(0, "small", Path(), data="fashion_mnist", **settings)
    assert len(entries) == 4 * 3  # three attacks on each model
    assert all(entry.control is not None and entry.control.blind is not None for entry in entries)
    return dict(found)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        slow({"defence": "regularise", "select": "aop"}),
        {"defence": "dap", "settings": {"discriminator": "random", "public": "test"}},
        slow({"defence": "epochs", "settings": {"epsilon": 1.0}}),
        {"defence": "dp-sgd", "linear": True, "select": "aop", "settings": {"epsilon": 4.0}},
    ],
    ids=repr,
)
def test_a_row_is_measured_for_all_tables_of_defences(settings: dict[str, Any]) -> None:
    found = measured(**settings)
    tables = [
        find_table(f"dap-{name}") for name in ("table1", "table2", "table3", "table4", "figure2")
    ]
    columns = {column for table in tables for column in table.columns}
    assert set(found) == columns - {"TPR at 0.1 % FPR, adaptive"}  # of 200 records
    for table in tables:
        for column in columns.intersection(table.columns, found):
            (value,) = found[column]
            assert table.smallest.get(column, 0) <= value <= table.largest.get(column, 1)
    if not settings:
        assert {value for column, (value,) in found.items() if "less" in column} == {0.0}


def test_shadows_do_not_tell_by_their_number_which_records_the_target_was_trained_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    posed: list[tuple[Shadows, np.ndarray]] = []

    def spy(view: ModelView, truth: Membership) -> MembershipChallenge:
        assert view.shadows is not None
        posed.append((view.shadows, truth.member))
        return pose_view(view, truth)

    drawn = data.draw_halves(0, SCALE.models, 400)
    monkeypatch.setattr(study, "pose_view", spy)
    monkeypatch.setattr(Recipe, "split_rows", lambda _self, rows, _seed: (rows, rows[:0]))
    jobs = tuple(Job(np.flatnonzero(half), k) for k, half in enumerate(drawn))
    network = ClassifierNetwork(0, 4, 4, 10, linear=True)
    recipe = Recipe(network, "adam")
    parts = data.split_records(0, "fashion_mnist", SCALE.sizes, Path())
    study._measure_models([network() for _ in jobs], parts, jobs, recipe)
    assert len(posed) == SCALE.models
    for shadows, member in posed:
        assert member.sum() == 200
        assert (shadows.member.sum(axis=1) == SCALE.models // 2 - 1).all()


@pytest.mark.slow
def test_a_discriminator_is_shared_by_rows_and_its_time_is_counted_in_each() -> None:
    told: dict[str, Any] = {"defence": "dap", "settings": {"discriminator": "random"}}
    first = measured(**told)
    after = training._train_discriminator.cache_info()
    assert after.misses == 4  # one a model
    second = measured(**told, select="aop")
    assert training._train_discriminator.cache_info().misses == after.misses
    whole = "whole training, times the baseline's"
    assert second[whole][0] > first[whole][0] / 3
    measured(defence="dap", settings={"discriminator": "random", "public": "others"})
    assert (
        training._train_discriminator.cache_info().misses == after.misses + 1
    )  # one for all models


def clear() -> None:
    for cache in CACHES:
        cache.cache_clear()


@pytest.mark.slow
def test_stored_networks_are_taken_up_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "SCALES", {"small": replace(SCALE, stored=True)})
    recipe = study._recipe(study.SCALES["small"], "fashion_mnist", "accuracy", linear=False)

    def train_all() -> list[torch.Tensor]:
        clear()
        trainer = study._pool_trainer(0, "small", tmp_path, "fashion_mnist")
        made = trainer.train_all(recipe, "dap", {})
        seconds.append(made.whole)
        return [torch.cat([p.flatten() for p in one.parameters()]) for one in made.modules]

    trained: list[int | None] = []
    train_by = PoolTrainer._train_by

    def train(self: PoolTrainer, trainer: Any, job: Job, epochs: int | None) -> TrainedNetwork:
        trained.append(epochs)
        return train_by(self, trainer, job, epochs)

    seconds: list[float] = []
    monkeypatch.setattr(PoolTrainer, "_train_by", train)
    first = train_all()
    assert trained.count(None) == 3 + 3 * 2  # all r for the first model, two for each other
    trained.clear()
    again = train_all()
    assert None not in trained  # epochs are timed, and no whole model is trained
    assert all(map(torch.equal, first, again))
    assert seconds[0] == seconds[1]
    for path in (tmp_path / "networks").iterdir():
        path.write_bytes(b"")
    with pytest.raises(StoreError):
        train_all()


def test_each_r_is_measured_on_the_first_model() -> None:
    found = {
        r: study.measure_r(0, "small", Path(), data="fashion_mnist", r=r, select="aop").values
        for r in (0.0, 1.0)
    }
    table = find_table("dap-r")
    assert len(table.rows) == 3 * 41
    for values in found.values():
        assert set(values) == set(table.columns)
    assert found[0.0] != found[1.0]


@pytest.mark.parametrize("can", [False, True])
def test_the_papers_network_rounds_in_its_convolutions_alone_and_where_processors_can(
    can: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(networks, "multiplies_bfloat16", lambda: can)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        network = ClassifierNetwork(3, 3 * 8 * 8, 4, 5, linear=False)()
        x = torch.randn(6, 3, 8, 8)
    assert isinstance(network, MixedPrecisionNetwork)
    logits = network(x)
    assert logits.dtype == torch.float32
    exact = network.last(network.features(x)).detach()
    # three convolutions round what they get, their weights and what they give to 8 bits
    atol = 3 * 3 * 2.0**-9 * exact.abs().max().item()
    torch.testing.assert_close(logits.detach(), exact, rtol=0, atol=atol)
    assert torch.equal(logits, exact) != can
    logits.sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in network.parameters())


def test_records_of_a_seed_are_apart_and_the_attackers_turn_the_axes() -> None:
    sizes = DataSizes(0, 200, 4)
    one, other = (data.split_records(seed, "fashion_mnist", sizes, Path()) for seed in (0, 1))
    assert [len(part) for part in one] == [400, 200, 100]
    assert not np.array_equal(one.pool.x, other.pool.x)
    together = np.concatenate([part.x for part in one])
    assert len(np.unique(together, axis=0)) == 700
    deviations = one.reference.x.std(axis=0)
    np.testing.assert_allclose(one.reference.x.mean(axis=0), 0, atol=1e-5)
    assert deviations[0] == pytest.approx(1, rel=1e-4)
    assert (np.diff(deviations) <= 0).all()
    halves = data.draw_halves(0, 4, 400)
    assert halves.sum(axis=1).tolist() == [200] * 4
    assert (halves.sum(axis=0) == 2).all()


def test_epochs_are_as_many_as_epsilon_allows() -> None:
    epochs = epochs_for(2.0, 0.1)
    spent = [dp_sgd_epsilon(NOISE, 0.1, round(n / 0.1), DELTA) for n in (epochs, epochs + 1)]
    assert spent[0] <= 2.0 < spent[1]


def test_the_paper_stands_beside_its_own_rows_alone() -> None:
    paper = {"CIFAR-10": {"Baseline": 0.1}, "CIFAR-100": {}, "Fashion-MNIST": {"DAP_v": 0.2}}
    beside = {row.name: row.paper for row in rows("accuracy", paper) if row.paper}
    assert beside == {
        "CIFAR-10: baseline": {"accuracy": 0.1},
        "Fashion-MNIST: DAP_v": {"accuracy": 0.2},
    }
