"""Every defence that is trained in has every property of the table; bad ones do not."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim.optimizer import register_optimizer_step_pre_hook

from divulge.core import Records, Target
from divulge.defences import catalog
from divulge.defences.training.base import TrainingDefence
from divulge.defences.training.regularise import NetworkWithDropout
from divulge.errors import SpecError
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe
from divulge.training.tensors import PoolTensors
from tests.golden import golden

from . import trained_table as table

SETTINGS: dict[str, dict[str, Any]] = {
    "adversarial-regularisation": {"weight": 0.5},
    "dap": {"r": (0.1,), "shadows": 4, "samples": "all"},
    "mist": {"models": 3},
    "selena": {"models": 4, "left_out": 1},
    "complementary-distillation": {"folds": 3},
    "augmentation": {"mixup": 0.5, "noise": 0.2},
    "image-augmentation": {"shift": 1},
    "dp-sgd": {"delta": 1e-3, "epsilon": 60.0, "jobs": 1},
}
STRONG: dict[str, dict[str, Any]] = {
    "early-stopping": {"select": "aop", "held_out": 0.3},
    "regularise": {"dropout": 0.5, "l2": 0.5},
    "relaxloss": {"alpha": 0.8},
    "augmentation": {"mixup": 1.0, "noise": 1.0},
    "complementary-distillation": {"folds": 2},
    "mist": {"models": 4},
    "selena": {"models": 6, "left_out": 3},
    "dp-sgd": {"delta": 1e-3, "epsilon": 5.0, "jobs": 1},
}

OVERFIT = replace(table.RECIPE, select=None, epochs=40)


def defence(name: str, settings: dict[str, dict[str, Any]] = SETTINGS) -> Any:
    return built(name, table.RECIPE, settings.get(name, {}))


def built(name: str, recipe: Recipe, settings: dict[str, Any]) -> Any:
    """In this process, one model after another."""
    here = {} if name == "dp-sgd" else {"way": "one-by-one", "workers": 1}
    return catalog.trained_defence(name, recipe, **settings, **here)


@pytest.mark.parametrize("prove", table.PROPERTIES, ids=lambda prove: prove.__name__)
@pytest.mark.parametrize("name", catalog.TRAINED_DEFENCES)
def test_property(name: str, prove: table.Property, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "image-augmentation":
        for pool in ("POOL", "OTHERS"):
            monkeypatch.setattr(table, pool, as_images(getattr(table, pool)))
        monkeypatch.setattr(table, "RECIPE", replace(table.RECIPE, network=network_of_images))
    prove(defence(name))


def as_images(records: Records) -> Records:
    """Each feature is a channel of two by two pixels, the same however it is moved."""
    x = np.repeat(np.repeat(records.x[:, :, None, None], 2, axis=2), 2, axis=3)
    return Records(x, records.y)


def network_of_images() -> nn.Module:
    hidden = nn.Linear(4 * table.FEATURES, 32)
    return nn.Sequential(nn.Flatten(), hidden, nn.ReLU(), nn.Linear(32, table.CLASSES))


@pytest.fixture(scope="module")
def undefended() -> float:
    return table.leak(Fleet(OVERFIT, "one-by-one", 1))


@pytest.mark.parametrize("name", STRONG)
def test_less_leaks_than_without_it(name: str, undefended: float) -> None:
    assert undefended == golden(0.7124)
    assert table.leak(built(name, OVERFIT, STRONG[name])) < undefended - 0.03


@pytest.mark.parametrize(
    ("name", "settings"),
    [("label-smoothing", {"amount": 0.5}), ("hamp", {"entropy": 0.9, "weight": 0.5})],
)
def test_uncertain_labels_make_it_worse_as_their_pages_say(
    name: str, settings: dict[str, Any], undefended: float
) -> None:
    assert table.leak(built(name, OVERFIT, settings)) > undefended + 0.03


@dataclass(frozen=True)
class Careless(TrainingDefence):
    """Trains on the whole pool, with random numbers of its own, and writes into the pool."""

    name: ClassVar[str] = "careless"
    paper: ClassVar[str] = "Nobody 2026"

    def many(self, pool: Records, subsets: np.ndarray, seeds: Any) -> Iterator[Target]:
        torch.rand(1)
        everybody = np.ones_like(subsets)
        return Fleet(self.recipe, "one-by-one", 1).many(pool, everybody, [len(seeds)] * len(seeds))


@pytest.mark.parametrize(
    "prove",
    [
        table.reads_its_own_records_alone,
        table.repeats_itself_and_leaves_other_random_numbers_alone,
        table.refuses_an_empty_subset,
        table.refuses_unknown_settings_in_words,
    ],
    ids=lambda prove: prove.__name__,
)
def test_a_careless_defence_fails_the_table(prove: table.Property) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception, SpecError)):
        prove(Careless(table.RECIPE))


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("label-smothing", {}, "did you mean 'label-smoothing'"),
        ("label-smoothing", {"amount": 1.0}, "amount from 0 to below 1"),
        ("label-smoothing", {"amount": "much"}, "amount of LabelSmoothing to be a finite number"),
        ("relaxloss", {"alpha": -1.0}, "alpha from 0"),
        ("relaxloss", {"upper": 0.0}, "upper above 0"),
        ("regularise", {"dropout": 1.0}, "dropout from 0 to below 1"),
        (
            "early-stopping",
            {"select": "best"},
            "select of EarlyStopping to be one of",
        ),
        ("early-stopping", {"patience": 0}, "patience from 1"),
        ("adversarial-regularisation", {"weight": -1.0}, "weight from 0"),
        ("convex-concave", {"alpha": 0.0}, "alpha above 0"),
        ("convex-concave", {"alpha": 1.5}, "at most 1"),
        ("hamp", {"entropy": 1.0}, "entropy from 0 to below 1"),
        ("hamp", {"weight": -0.1}, "weight from 0"),
        ("augmentation", {"noise": -1.0}, "mixup and noise from 0"),
        ("augmentation", {"mixup": 0.0}, "nothing is augmented"),
        ("image-augmentation", {"shift": -1}, "shift from 1"),
        ("image-augmentation", {"shift": 0, "flip": False}, "from 0 with flip"),
        ("complementary-distillation", {"folds": 1}, "folds from 2"),
        ("complementary-distillation", {"temperature": 0.0}, "temperature above 0"),
        ("mist", {"models": 1}, "models from 2"),
        ("mist", {"weight": -1.0}, "weight from 0"),
        ("selena", {"models": 4, "left_out": 4}, "left_out from 1 to below models"),
        ("dap", {"r": ()}, "r from 0, one or more"),
        ("dap", {"shadows": 0}, "shadows from 1"),
        ("dap", {"samples": "some"}, "samples of DAP to be one of"),
        ("dp-sgd", {"epsilon": 1.0}, "a value for delta of dp-sgd"),
    ],
)
def test_wrong_settings_are_refused_in_words(
    name: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        catalog.trained_defence(name, table.RECIPE, **settings)


LOGITS = torch.tensor([[2.0, 0.5, -1.0], [0.1, 0.2, 0.3], [-1.0, 3.0, 0.0], [0.0, 0.0, 1.0]])
Y = torch.tensor([0, 1, 1, 2])


def loss(name: str, **settings: Any) -> Any:
    return catalog.trained_defence(name, table.RECIPE, **settings).defended_recipe().loss  # type: ignore[attr-defined]


def test_relaxloss_is_what_a_loop_over_records_computes() -> None:
    each = [float(cross_entropy(z, y)) for z, y in zip(LOGITS, Y, strict=True)]
    mean = sum(each) / 4
    below, above = loss("relaxloss", alpha=mean + 0.3, upper=0.3), loss("relaxloss", alpha=0.1)
    assert float(below(LOGITS, Y, 0)) == pytest.approx(0.3, abs=1e-6)  # the even epochs
    assert float(above(LOGITS, Y, 0)) == pytest.approx(mean - 0.1, abs=1e-6)
    assert float(above(LOGITS, Y, 1)) == pytest.approx(mean, abs=1e-6)  # the odd ones
    flattened = []
    for z, y, own in zip(LOGITS, Y, each, strict=True):
        p = z.softmax(0)
        true = min(float(p[y]), 0.3)
        soft = [true if c == y else (1 - true) / 2 for c in range(3)]
        pulled = -sum(s * float(p[c].log()) for c, s in enumerate(soft))
        flattened.append((pulled if int(z.argmax()) != int(y) else 0.0) - own)
    assert float(below(LOGITS, Y, 1)) == pytest.approx(sum(flattened) / 4, abs=1e-6)


def test_smooth_labels_and_small_answers_are_their_formulas() -> None:
    log_p = LOGITS.log_softmax(1)
    plain = -log_p[range(4), Y].mean()
    smooth = 0.7 * plain - 0.3 * log_p.mean(dim=1).mean()
    assert float(loss("label-smoothing", amount=0.3)(LOGITS, Y, 0)) == pytest.approx(float(smooth))
    small = plain + 0.1 * (LOGITS**2).sum() / 4
    assert float(loss("regularise", l2=0.1)(LOGITS, Y, 5)) == pytest.approx(float(small))


def test_the_convex_concave_loss_is_what_a_loop_over_records_computes() -> None:
    total = 0.0
    for z, y in zip(LOGITS, Y, strict=True):
        p = float(z.softmax(0)[y])
        total += 0.3 * -math.log(p) - 0.7 * math.exp(p)
    assert float(loss("convex-concave", alpha=0.3)(LOGITS, Y, 7)) == pytest.approx(total / 4)


def test_dropout_stands_before_each_layer_with_weights_but_the_first() -> None:
    def deep() -> nn.Module:
        head = nn.Sequential(nn.Flatten(), nn.Linear(8, 4))
        return nn.Sequential(nn.Conv1d(1, 2, 3), nn.ReLU(), nn.Conv1d(2, 2, 3), head)

    module = NetworkWithDropout(deep, 0.2)()
    kinds = [type(part).__name__ for part in module.modules() if not list(part.children())]
    assert kinds == ["Conv1d", "ReLU", "Dropout", "Conv1d", "Flatten", "Dropout", "Linear"]


@pytest.mark.parametrize("name", ["label-smoothing", "relaxloss", "convex-concave", "hamp"])
def test_a_stack_of_models_learns_the_same(name: str) -> None:
    recipe = replace(table.RECIPE, epochs=4)
    defended = catalog.trained_defence(name, recipe).defended_recipe()  # type: ignore[attr-defined]
    one, other = (
        [target.predict(table.OTHERS.x) for target in table.trained(Fleet(defended, way, 1))]
        for way in ("one-by-one", "stacked")
    )
    np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.slow
def test_processes_are_sent_the_code_of_a_changed_network() -> None:
    how = {"workers": 2}
    one, other = (
        catalog.trained_defence("regularise", replace(table.RECIPE, epochs=2), way=way, **how)
        for way in ("one-by-one", "processes")
    )
    for left, right in zip(table.trained(one), table.trained(other), strict=True):
        np.testing.assert_allclose(left.predict(table.POOL.x), right.predict(table.POOL.x), 1e-5)


@pytest.mark.parametrize("name", ["adversarial-regularisation", "dap"])
def test_who_learns_from_records_held_out_asks_for_them(name: str) -> None:
    with pytest.raises(SpecError, match=f"holds records out for {name}"):
        built(name, OVERFIT, {})


def test_the_attacker_beside_a_model_learns_from_one_batch_at_a_time() -> None:
    """Neither from batches before nor from what the model learned of it: rates are as good as 0."""
    data = PoolTensors(torch.tensor(table.POOL.x), torch.tensor(table.POOL.y), channels_last=False)
    rows, held_out = torch.arange(8), torch.arange(8, 16)
    gradients: list[list[torch.Tensor]] = []

    def keep(optimiser: Any, *_: Any) -> None:
        own = optimiser.param_groups[0]["params"]
        gradients.append([p.grad.clone() for p in own])

    watch = register_optimizer_step_pre_hook(keep)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        module = table.network()
        how = catalog.trained_defence(
            "adversarial-regularisation", table.RECIPE, attacker_lr=1e-30
        ).defended_recipe()  # type: ignore[attr-defined]
        loss = how.loss.against(module, data, held_out)(0)
        for _ in range(2):
            torch.manual_seed(1)
            loss(rows).backward()
    watch.remove()
    first, second = gradients
    assert any(gradient.any() for gradient in first)
    assert all(map(torch.equal, first, second))


def test_a_private_training_that_selects_promises_nothing_and_takes_no_other_loss() -> None:
    plain = replace(table.RECIPE, select=None)
    settings = {"delta": 1e-3, "noise_multiplier": 1.0}
    assert catalog.trained_defence("dp-sgd", plain, **settings).guarantee(80)  # type: ignore[attr-defined]
    selecting = catalog.trained_defence("dp-sgd", table.RECIPE, **settings)
    assert selecting.guarantee(80) is None  # type: ignore[attr-defined]
    with pytest.raises(SpecError, match="a recipe with the cross-entropy"):
        catalog.trained_defence("dp-sgd", Recipe(table.network, loss=loss("relaxloss")), **settings)
