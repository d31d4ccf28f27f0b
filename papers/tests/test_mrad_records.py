"""The rows of the tables on partly known records; on synthetic records, as real ones take long."""

import json
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from divulge.core import Records
from divulge.data.known_features import KnownFeatures
from divulge.errors import TargetError
from divulge.training.recipe import Recipe
from divulge_papers.papers.mrad import data, fills, records, study
from divulge_papers.papers.mrad.data import AuditedModel
from divulge_papers.papers.mrad.records import Data
from divulge_papers.papers.mrad.study import ACCURACY, measure_auc
from divulge_papers.table import Size, find_table
from tests.slow import thin

torch: Any = pytest.importorskip("torch")

from divulge_papers.papers.mrad import dlg  # noqa: E402 (needs torch)

CACHED = (
    data.train_target,
    data._train_shadows,
    data._split_records,
    data._hide_unknown_features,
    data._hide_pool_features,
    data.choose_fill,
    data.rebuild,
    data._phi_of_candidates,
)
FEW = {"10 % missing": 0.1, "60 % missing": 0.6}
ROWS = {
    f"{row.settings['data']}: {row.name}": row
    for name in ("mrad-cifar-10", "mrad-fashion-mnist", "mrad-questions")
    for row in find_table(name).rows
}
KINDS_OF_ROWS = {
    json.dumps({**row.settings, "data": "", "standardised": ""}, sort_keys=True, default=dict): name
    for name, row in reversed(ROWS.items())
}
"""One row of each kind; the data are synthetic whatever the row says."""


def _synthetic(data: Data, size: Size, standardised: bool) -> Records:
    del size, standardised
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 300)
    x = (random.normal(size=(300, 12)) + y[:, None]).astype(np.float32)
    return Records(x.reshape(300, 3, 2, 2) if data == "cifar10" else x, y)


def _recipe(audited: AuditedModel) -> Recipe:
    from divulge_papers import networks

    network = {
        "perceptron": networks.perceptron(12, 8, 3),
        "resnet": networks.resnet((2, 3), 3),
        "vit": networks.vit(2, 1, 4, 1, 3),
    }
    return Recipe(network[audited.model], epochs=2)


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "load_records", _synthetic)
        patch.setattr(data, "GRIDS", {})
        patch.setattr(data, "_recipe", _recipe)
        patch.setattr(data, "_SIZE", 50)
        patch.setattr(study, "_SHARES", FEW)
        for remembered in CACHED:
            remembered.cache_clear()
        yield
    for remembered in CACHED:
        remembered.cache_clear()


@pytest.mark.parametrize("name", thin(4, sorted(KINDS_OF_ROWS.values())))
def test_every_row_gives_an_auc_for_each_share(name: str) -> None:
    settings: dict[str, Any] = dict(ROWS[name].settings)
    found, entries = measure_auc(0, "small", **settings)
    assert tuple(found) == (*FEW, ACCURACY)
    for (value,) in found.values():
        assert 0 <= value <= 1
    assert [entry.finding.metrics["auc"].value for entry in entries] == [found[c][0] for c in FEW]
    if "rebuild" in settings:  # from the model itself, whatever it would answer
        assert all(entry.untested for entry in entries)
    else:
        assert all(entry.control is not None for entry in entries)


def test_the_same_seed_gives_the_same_figures() -> None:
    settings: dict[str, Any] = dict(ROWS["location30: one step, 6 questions"].settings)
    before = measure_auc(0, "small", **settings).values
    for remembered in CACHED:
        remembered.cache_clear()
    assert measure_auc(0, "small", **settings).values == before


def test_nobody_meets_a_record_in_two_parts() -> None:
    world = data.train_target(0, AuditedModel("location30"))
    parts = [{row.tobytes() for row in part.x} for part in world.parts]
    assert len(set.union(*parts)) == sum(map(len, parts)) == 300
    shadow = data.white_box_shadow(0, AuditedModel("location30"), KnownFeatures(share=0.5))
    assert world.member.sum() == shadow.member.sum() == 50


def test_a_fill_is_chosen_by_shadows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target is never asked, and the fill that tells the shadows' members best is taken."""
    audited, known = AuditedModel("cifar10"), KnownFeatures(share=0.5)

    def forbid(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(data, "train_target", forbid)
    fills = [replace(known, fill=fill) for fill in audited.fills]
    found = {fill: data._rehearse(0, audited, fill) for fill in fills}
    assert data.choose_fill(0, audited, known) == max(found, key=lambda fill: found[fill])
    assert "gaussian" not in audited.fills
    for completions in (1, data.DRAWS):
        local = replace(known, fill="local", completions=completions)
        found[local] = data._rehearse(0, audited, local)
    best = max(found, key=lambda fill: found[fill])
    assert data.choose_fill(0, audited, known, near=True) == best


def test_all_completions_count_where_shadows_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    """In whichever order they come; a sum of two does not depend on it."""
    audited = AuditedModel("cifar10")
    pool = data._split_records(0, audited).pool
    blank = Records(np.zeros_like(pool.x), pool.y)

    def rehearse(*ways: Records) -> float:
        shown = SimpleNamespace(candidates=ways)
        monkeypatch.setattr(data, "_hide_pool_features", lambda *_: shown)
        return data._rehearse(0, audited, KnownFeatures(share=0.0))

    assert rehearse(blank, pool) == rehearse(pool, blank)
    assert len({rehearse(blank), rehearse(pool), rehearse(blank, pool)}) == 3


def test_standardised_inputs_have_mean_0_and_deviation_1_by_channel_or_feature() -> None:
    random = np.random.default_rng(0)
    images = records.standardise(random.random((50, 3, 4, 4)).astype(np.float32))
    np.testing.assert_allclose(images.mean(axis=(0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(images.std(axis=(0, 2, 3)), 1, atol=1e-5)
    assert np.ptp(images.mean(axis=0)) > 0.1
    flat = random.random((50, 5)).astype(np.float32)
    flat[:, 2] = 7
    np.testing.assert_allclose(records.standardise(flat)[:, [0, 1, 3, 4]].std(axis=0), 1, atol=1e-5)
    np.testing.assert_array_equal(records.standardise(flat)[:, 2], 0)


def test_gradient_matching_takes_the_length_of_the_parameters_gradient() -> None:
    from divulge_papers import networks

    torch.manual_seed(0)
    module = networks.perceptron(4, 5, 3)()
    layers = [layer for layer in module.modules() if isinstance(layer, torch.nn.Linear)]
    x, y = torch.rand(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    found = dlg.squared_gradients(module, layers, x, y).detach()
    for row in range(6):
        module.zero_grad()
        torch.nn.functional.cross_entropy(module(x[row : row + 1]), y[row : row + 1]).backward()
        slow = sum(float(w.grad.square().sum()) for w in module.parameters() if w.grad is not None)
        assert float(found[row]) == pytest.approx(slow, rel=1e-5)
    known = np.arange(4) < np.array([[2]] * 6)
    rebuilt = dlg.match_gradients(module, Records(x.numpy(), y.numpy()), known, 0.05)
    np.testing.assert_array_equal(rebuilt.x[known], x.numpy()[known])
    after = dlg.squared_gradients(module, layers, torch.tensor(rebuilt.x), y).detach()
    assert bool((after < found).all())
    with pytest.raises(TargetError, match="linear layers"):
        dlg.match_gradients(networks.resnet((2, 3), 3)(), Records(x.numpy(), y.numpy()), known, 0.1)


@pytest.mark.parametrize("name", ["MRAD from zeros, no shadow", "local, then RMIA"])
def test_a_fill_is_measured_from_whole_records_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of whole records MRAD has nothing to say; others have the whole model's leak there."""
    monkeypatch.setattr(fills, "SHARES", {"0 % missing": 0.0, "60 % missing": 0.6})
    monkeypatch.setattr(data, "GRIDS", {("fashion_mnist", "small"): (3, 4)})
    (row,) = (r for r in find_table("mrad-fills").rows if r.name == f"Fashion-MNIST: {name}")
    settings: Any = row.settings
    found = fills.measure_fill(0, "small", **settings)
    shares = {"60 % missing"} if "MRAD" in name else {"0 % missing", "60 % missing"}
    assert set(found.values) == shares | {fills.TRAINING, ACCURACY}
    assert len(found.entries) == len(shares)
    if "MRAD" not in name:
        zeros = fills.measure_fill(0, "small", **{**settings, "fill": "zero"})
        assert found.values["0 % missing"] == zeros.values["0 % missing"]
        assert found.values["60 % missing"] != zeros.values["60 % missing"]
