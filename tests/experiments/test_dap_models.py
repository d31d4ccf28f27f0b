"""DAP's tables: what a row measures, on a few images of noise, and how long DP-SGD may train."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from leakscope.core import Records
from leakscope.defences.accounting import epsilon_of
from leakscope.experiments import dap_models
from leakscope.experiments.dap_making import DELTA, NOISE, epochs_for
from leakscope.experiments.dap_rows import rows
from leakscope.experiments.table import find

ATTACKED = {"AUC, adaptive", "TPR at 1 % FPR, adaptive", "AOP(2), adaptive"}


@pytest.fixture(autouse=True)
def _few_images(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 800)
    x = rng.normal(size=(800, 1, 4, 4)).astype(np.float32)
    x[:, 0, 0, 0] += y
    sizes = dap_models._Scale(200, 2, 3, {"fashion_mnist": 4}, 0, (0.01,), (0.5,))
    monkeypatch.setattr(dap_models, "images", lambda *_: Records(x, y))
    monkeypatch.setattr(dap_models, "_SCALES", {"small": sizes})
    yield
    dap_models._world.cache_clear()
    dap_models._records.cache_clear()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"defence": "regularise", "select": "aop"},
        {"defence": "dap", "public": "test", "settings": {"samples": "all"}},
        {"defence": "epochs", "settings": {"epsilon": 2.0}},
    ],
    ids=repr,
)
def test_a_row_is_measured_for_all_four_tables(settings: dict[str, Any]) -> None:
    found = dap_models.measured(0, "small", data="fashion_mnist", **settings)
    columns = {column for k in "1234" for column in find(f"dap-table{k}").columns}
    private = settings.get("defence") == "epochs"
    assert set(found) == columns - (ATTACKED if private else set())
    for column, (value,) in found.items():
        assert 0 <= value <= (np.inf if "epoch" in column or "whole" in column else 1)


def test_epochs_are_as_many_as_epsilon_allows() -> None:
    epochs = epochs_for(2.0, 0.1)
    spent = [epsilon_of(NOISE, 0.1, round(n / 0.1), DELTA) for n in (epochs, epochs + 1)]
    assert spent[0] <= 2.0 < spent[1]


def test_the_paper_stands_beside_its_own_rows_alone() -> None:
    paper = {"CIFAR-10": {"Baseline": 0.1}, "CIFAR-100": {}, "Fashion-MNIST": {"DAP_v": 0.2}}
    beside = {row.name: row.paper for row in rows("accuracy", paper) if row.paper}
    assert beside == {
        "CIFAR-10: baseline": {"accuracy": 0.1},
        "Fashion-MNIST: DAP_v": {"accuracy": 0.2},
    }
