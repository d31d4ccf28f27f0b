"""DAP's models by their number of records: on few images, with one epoch."""

import numpy as np
import pytest

from divulge.core import Records
from divulge.metrics import utility

pytest.importorskip("torch")

from divulge_papers.papers.dap import by_records
from divulge_papers.papers.dap.by_records import Head, measure_by_records


@pytest.fixture(autouse=True)
def _few_images(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 300)
    x = rng.random(size=(300, 1, 28, 28), dtype=np.float32) / 10
    x[:, 0, 0, :20] += 0.04 * y[:, None]
    monkeypatch.setattr(by_records, "load_images", lambda _: Records(x, y))
    monkeypatch.setattr(by_records, "EPOCHS", {160: 1})


@pytest.mark.parametrize(("linear", "head"), [(True, "pooled"), (False, "pooled"), (False, "flat")])
def test_aop_is_that_of_accuracy_and_auc(linear: bool, head: Head) -> None:
    found = measure_by_records(
        0, "small", data="fashion_mnist", records=160, linear=linear, head=head
    )
    ((accuracy,), (auc,), (aop,)) = found.values.values()
    assert aop == utility.aop(accuracy, auc)
    assert [entry.finding.attack for entry in found.entries] == ["threshold"]


def test_larger_numbers_of_records_are_left_out_of_size_small() -> None:
    found = measure_by_records(0, "small", data="fashion_mnist", records=4800)
    assert not found.values


def test_the_records_that_test_are_the_same_for_every_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(by_records, "_TEST", 50)
    few, many = (by_records._draw(0, "fashion_mnist", records) for records in (80, 160))
    np.testing.assert_array_equal(few.pool.x[~few.own], many.pool.x[~many.own])
    assert few.own.sum() == 100
    assert many.own.sum() == 200
