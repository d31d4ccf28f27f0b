"""DP-SGD: what it clips, what it adds, whom it samples, and what that is worth."""

import itertools
import math
import subprocess
import sys
from dataclasses import replace
from typing import Any, ClassVar, get_args

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import softmax
from torch import nn
from torch.nn.functional import linear as linear_function

from divulge.attacks.membership.lira import LiRA
from divulge.audits.api import audit
from divulge.audits.options import Access, Options, ShadowModels
from divulge.core import NoiseKind, PrivateTrainer, Records, Target, Trainer
from divulge.defences import noise
from divulge.defences.training.dp_sgd.accounting import dp_sgd_epsilon
from divulge.defences.training.dp_sgd.clipping import Clipping, set_clipped_sum
from divulge.defences.training.dp_sgd.loop import DPSGDPlan, _epoch_ends, layer_norm
from divulge.defences.training.dp_sgd.per_record import PerRecordGradients
from divulge.defences.training.dp_sgd.trainer import DPSGD
from divulge.errors import DataError, SpecError, TargetError
from divulge.federation.fedavg import Federation
from divulge.federation.simulation import simulate
from divulge.metrics import membership
from divulge.training.engine.loop import Job, build_network
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe

CLIPPINGS: list[Clipping] = ["per-record", "ghost"]
FEATURES, CLASSES = 6, 3


def draw(records: int, features: int = FEATURES) -> Records:
    rng = np.random.default_rng(0)
    return Records(rng.normal(size=(records, features)), rng.integers(0, CLASSES, records))


def everybody(pool: Records, models: int = 1) -> np.ndarray:
    return np.ones((models, len(pool)), np.bool_)


def test_an_epoch_ends_when_as_many_records_were_seen_as_there_are() -> None:
    plan = DPSGDPlan(25, 0.25, 10, 1.0, 1.0, "seeded")
    assert [step for step in range(10) if _epoch_ends(step, plan)] == [3, 7, 9]


def linear() -> nn.Module:
    return nn.Linear(FEATURES, CLASSES, dtype=torch.float64)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, CLASSES))


def convolutional() -> nn.Module:
    body = [nn.Conv1d(1, 4, 3), nn.GroupNorm(1, 4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten()]
    return nn.Sequential(nn.Unflatten(1, (1, FEATURES)), *body, nn.Linear(16, CLASSES))


def train(how: DPSGD, pool: Records, seed: int = 1) -> nn.Module:
    (target,) = how.many(pool, everybody(pool), [seed])
    return target.module  # type: ignore[attr-defined, no-any-return]


def flat(module: nn.Module) -> np.ndarray:
    return np.concatenate([p.detach().numpy().ravel() for p in module.parameters()])


def start(seed: int) -> nn.Module:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return linear()


def clipped_sum(pool: Records, module: nn.Module, norm: float) -> np.ndarray:
    """The sum of the clipped gradients of softmax regression, record by record."""
    weight, bias = (p.detach().numpy() for p in module.parameters())
    total = np.zeros(weight.size + bias.size)
    for x, y in zip(pool.x, pool.y, strict=True):
        error = softmax(weight @ x + bias) - np.eye(CLASSES)[y]
        gradient = np.concatenate([np.outer(error, x).ravel(), error])
        total += gradient * min(1.0, norm / np.linalg.norm(gradient))
    return total


def one_step(clipping: Clipping, multiplier: float, norm: float) -> DPSGD:
    """All records in one batch."""
    recipe = Recipe(linear, lr=1.0, epochs=1, batch_size=1000)
    return DPSGD(recipe, 1e-5, multiplier, max_grad_norm=norm, clipping=clipping, jobs=1)


@pytest.mark.parametrize("clipping", CLIPPINGS)
@pytest.mark.parametrize("norm", [0.5, 2.0, 100.0])  # all, some and no records are clipped
def test_a_step_takes_off_the_mean_of_the_clipped_gradients(
    clipping: Clipping, norm: float
) -> None:
    pool = draw(50)
    moved = flat(start(1)) - flat(train(one_step(clipping, 1e-6, norm), pool))
    wanted = clipped_sum(pool, start(1), norm) / len(pool)
    # noise: 1e-6 norm / 50 each, six deviations; Opacus adds 1e-6 to every norm
    tolerance = 6e-6 * norm / len(pool) + 1e-6
    np.testing.assert_allclose(moved, wanted, atol=tolerance, rtol=1e-5)
    assert np.linalg.norm(moved) <= norm + tolerance * len(moved)


@pytest.mark.parametrize("clipping", CLIPPINGS)
def test_the_noise_has_the_deviation_that_the_accountant_counts(clipping: Clipping) -> None:
    assert_standard_normal(drawn_noise(clipping, "seeded"))


def drawn_noise(clipping: Clipping, source: NoiseKind) -> np.ndarray:
    """What 40 trainings of one step add to the clipped sum, in the deviation that is counted."""
    pool, multiplier, norm = draw(50), 3.0, 0.5
    how = replace(one_step(clipping, multiplier, norm), noise=source)
    rest = []
    for seed in range(40):
        moved = flat(start(seed)) - flat(train(how, pool, seed))
        rest.append(moved * len(pool) - clipped_sum(pool, start(seed), norm))
    return np.concatenate(rest) / (multiplier * norm)


def assert_standard_normal(drawn: np.ndarray) -> None:
    """Two tests that fail for one of a thousand choices of seeds or keys each; these are fixed."""
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    square = stats.chi2(len(drawn)).cdf((drawn**2).sum())
    assert 5e-4 < square < 1 - 5e-4


@pytest.fixture
def fixed_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secure noise under keys 0, 1, 2, ...: a test of a distribution must not depend on luck."""
    numbers = itertools.count()
    monkeypatch.setattr(noise, "fresh_key", lambda: next(numbers).to_bytes(32, "little"))


@pytest.mark.parametrize("clipping", CLIPPINGS)
def test_secure_noise_has_the_same_deviation(clipping: Clipping, fixed_keys: None) -> None:
    assert_standard_normal(drawn_noise(clipping, "secure"))


@pytest.mark.parametrize("clipping", CLIPPINGS)
@pytest.mark.parametrize("size", [1000, 12])
def test_a_seed_gives_secure_noise_and_batches_away_to_nobody(
    clipping: Clipping, size: int
) -> None:
    """With next to no noise, only the batches differ; with one batch for all, nothing does."""
    pool = draw(50)
    recipe = Recipe(perceptron, lr=1.0, epochs=1, batch_size=size)
    quiet = DPSGD(recipe, 1e-5, 1e-6, clipping=clipping, noise="secure", jobs=1)
    one, other = (flat(train(quiet, pool)) for _ in range(2))
    alike = np.allclose(one, other, atol=1e-4)
    assert alike == (size == 1000)
    loud = replace(quiet, noise_multiplier=1.0)
    one, other = (flat(train(loud, pool)) for _ in range(2))
    assert not np.allclose(one, other, atol=1e-4)
    seeded = replace(loud, noise="seeded")
    np.testing.assert_array_equal(flat(train(seeded, pool)), flat(train(seeded, pool)))


def test_the_kind_of_noise_is_said_with_the_promise() -> None:
    how = one_step("ghost", 2.0, 1.0)
    for kind in get_args(NoiseKind):
        promised = replace(how, noise=kind).guarantee(50)
        assert promised is not None
        assert f", {kind} noise, noise multiplier 2, 1 Poisson batches" in promised.mechanism


@pytest.mark.parametrize("network", [linear, perceptron, convolutional])
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_both_ways_of_clipping_train_the_same_network(network: Any, optimiser: Any) -> None:
    recipe = Recipe(network, optimiser, lr=0.05, epochs=3, batch_size=8, schedule="cosine")
    pool = draw(40)
    one, other = (
        flat(train(DPSGD(recipe, 1e-5, 0.8, clipping=clipping, jobs=1), pool))
        for clipping in CLIPPINGS
    )
    # float32 sums in another order over 15 steps; Adam divides by the root of small squares
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


class Watching(nn.Module):
    """Notes how large its batches are while it is trained."""

    sizes: ClassVar[list[int]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.sizes.append(len(x))
        return x


class TiedToItself(nn.Module):
    """A layer whose weights a function uses, too."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.last = nn.Linear(FEATURES, 4), nn.Linear(FEATURES, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = self.last(linear_function(self.one(x), self.one.weight.t()))
        return answers


NOTE = "per-record clipping, since weight 'one.weight' has another gradient in PyTorch's autograd"


def test_a_network_that_ghost_clipping_is_wrong_for_is_clipped_per_record() -> None:
    """`check`, the guarantee and the settings of the training say so."""
    how = DPSGD(Recipe(TiedToItself, epochs=1, batch_size=10), 1e-5, 1.0, jobs=1)
    assert how.check(draw(20)) == NOTE
    promised = how.guarantee(20)
    assert promised is not None
    assert f"at rate 0.5, {NOTE}, add or remove" in promised.mechanism
    assert how.training_settings(20)["clipping"] == NOTE
    usual = DPSGD(Recipe(perceptron, epochs=1, batch_size=10), 1e-5, 1.0, jobs=1)
    assert usual.check(draw(20)) == ""
    assert usual.training_settings(20)["clipping"] == "ghost"


def test_the_progress_of_a_run_says_how_gradients_are_clipped() -> None:
    texts = []

    def track(items: Any, text: str, done: int = 0) -> Any:
        texts.append(text)
        return items

    pool = draw(24)
    how = DPSGD(Recipe(TiedToItself, epochs=1, batch_size=10), 1e-5, 1.0, jobs=1)
    federation = Federation(pool, (np.arange(12), np.arange(12, 24)), how.recipe, trainer=how)
    simulate(federation, 1, progress=track)
    halves = Records(pool.x[:12], pool.y[:12]), Records(pool.x[12:], pool.y[12:])
    finding = audit(
        train(how, halves[0]),
        members=halves[0],
        nonmembers=halves[1],
        attacks=[LiRA()],
        access=Access(output="logits"),
        shadows=ShadowModels(2, train=how),
        options=Options(progress=track),
    )
    assert f"Federating ({NOTE})" in texts
    assert f"Training shadows ({NOTE})" in texts
    (claim,) = finding.claims
    assert claim is not None
    assert NOTE in claim.mechanism


def test_the_way_of_clipping_does_not_depend_on_records() -> None:
    """An odd record must not change the way, or stop the training."""
    ways = []
    for odd in (0.0, 1e20, 3e38):
        pool = Records(np.full((5, FEATURES), odd, np.float32), np.arange(5) % CLASSES)
        how = DPSGD(Recipe(perceptron, epochs=1, batch_size=5), 1e-5, 1.0, jobs=1)
        ways.append(how._clipping_way(pool))
        assert np.isfinite(flat(train(how, pool))).all()
    assert len(set(ways)) == 1


def images_network() -> nn.Module:
    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(64, CLASSES)).double()


@pytest.mark.parametrize("source", get_args(NoiseKind))
@pytest.mark.parametrize("clipping", CLIPPINGS)
def test_weights_of_images_move_by_their_own_gradient(
    clipping: Clipping, source: NoiseKind
) -> None:
    """Their channels are last in memory, where those of a gradient need not be."""
    rng = np.random.default_rng(0)
    pool = Records(rng.normal(size=(20, 3, 5, 5)), rng.integers(0, CLASSES, 20))
    recipe = Recipe(images_network, lr=1.0, epochs=1, batch_size=20)
    trained = train(DPSGD(recipe, 1e-5, 1e-6, clipping=clipping, noise=source, jobs=1), pool)
    module = build_network(recipe, Job(np.arange(20), 1))
    x, y = torch.tensor(pool.x), torch.tensor(pool.y)
    set_clipped_sum(PerRecordGradients(module, vectorised=False), x, y, 1.0)
    for before, after in zip(module.parameters(), trained.parameters(), strict=True):
        assert before.grad is not None
        # the noise: six deviations
        torch.testing.assert_close(after, before - before.grad / 20, rtol=0, atol=6e-6 / 20)


def test_each_record_enters_each_batch_by_a_coin() -> None:
    recipe = Recipe(lambda: nn.Sequential(Watching(), linear()), epochs=500, batch_size=10)
    how = DPSGD(recipe, 1e-5, 1.0, clipping="ghost", jobs=1)
    how.check(draw(40))
    Watching.sizes.clear()  # of the trial of the network
    train(how, draw(40))
    assert len(Watching.sizes) == 2000
    counts = np.bincount(Watching.sizes, minlength=41)
    kinds = [slice(0, 6), *(slice(k, k + 1) for k in range(6, 15)), slice(15, 41)]
    coins = stats.binom(40, 0.25).pmf(np.arange(41))
    seen, wanted = ([part[kind].sum() for kind in kinds] for part in (counts, 2000 * coins))
    assert stats.chisquare(seen, wanted).pvalue > 1e-3  # the seed is fixed


def test_an_empty_batch_is_noise_alone() -> None:
    pool, norm = draw(2), 0.5
    recipe = Recipe(linear, lr=1.0, epochs=1, batch_size=1)  # two batches, empty in 1 of 4 cases
    for clipping in CLIPPINGS:
        how = DPSGD(recipe, 1e-5, 1e-6, max_grad_norm=norm, clipping=clipping, jobs=1)
        moved = [np.abs(flat(start(s)) - flat(train(how, pool, s))).max() for s in range(100)]
        still = np.array(moved) < 1e-5
        # both are empty in 1 of 16: never, or more than 16 times, in less than one of 500
        assert 0 < still.sum() < 17
        assert (np.array(moved) > 0).all()


def test_a_seed_fixes_everything_and_the_global_stream_is_left_alone() -> None:
    how = DPSGD(Recipe(convolutional, epochs=2, batch_size=8), 1e-5, 1.0, jobs=1)
    pool = draw(40)
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first = flat(train(how, pool, 1))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(8)
    np.testing.assert_array_equal(first, flat(train(how, pool, 1)))
    assert not np.allclose(first, flat(train(how, pool, 2)))


@pytest.mark.slow
def test_processes_train_the_same_models_each_on_its_own_records() -> None:
    pool = draw(60)
    halves = np.random.default_rng(0).random((3, 60)) < 0.5
    recipe = Recipe(perceptron, lr=0.5, epochs=2, batch_size=10)
    models = {
        jobs: list(DPSGD(recipe, 1e-5, epsilon=4.0, jobs=jobs).many(pool, halves, [1, 2, 3]))
        for jobs in (1, 2)
    }
    for one, other in zip(models[1], models[2], strict=True):
        np.testing.assert_array_equal(one.predict(pool.x), other.predict(pool.x))
    assert list(DPSGD(recipe, 1e-5, 1.0).many(pool, halves[:0], [])) == []
    own = train(DPSGD(recipe, 1e-5, epsilon=4.0, jobs=1), pool.take(halves[1]), 2)
    np.testing.assert_array_equal(flat(own), flat(models[1][1].module))  # type: ignore[attr-defined]


def memorising() -> nn.Module:
    return nn.Sequential(nn.Linear(60, 128), nn.ReLU(), nn.Linear(128, CLASSES))


def auc(target: Target, pool: Records, member: np.ndarray) -> Any:
    right = target.predict(pool.x)[np.arange(len(pool)), pool.y]
    return membership.auc(right, member)


@pytest.mark.parametrize("clipping", CLIPPINGS)
def test_a_private_model_gives_away_less_than_the_same_recipe_without_noise(
    clipping: Clipping,
) -> None:
    pool = draw(400, features=60)  # labels without a rule: what is learned is memory
    member = np.random.default_rng(1).random(400) < 0.5
    recipe = Recipe(memorising, lr=0.1, momentum=0.9, epochs=20, batch_size=50)
    (open_,) = Fleet(recipe, way="one-by-one").many(pool, member[None], [1])
    private = DPSGD(recipe, 1e-5, epsilon=1.0, clipping=clipping, jobs=1)
    (closed,) = private.many(pool, member[None], [1])
    leaky, quiet = auc(open_, pool, member), auc(closed, pool, member)
    assert quiet.high < leaky.low
    assert leaky.low > 0.8


def test_a_guarantee_counts_the_records_epochs_and_noise() -> None:
    how = DPSGD(Recipe(linear, epochs=20, batch_size=100), 1e-5, 1.0)
    promised = how.guarantee(2000)
    assert promised is not None
    assert promised.epsilon == dp_sgd_epsilon(1.0, 0.05, 400, 1e-5)
    assert promised.delta == 1e-5
    assert "400 Poisson batches at rate 0.05" in promised.mechanism
    assert "add or remove one record" in promised.mechanism
    whole = how.guarantee(50)  # fewer records than a batch: everybody, every time
    assert whole is not None
    assert whole.epsilon == dp_sgd_epsilon(1.0, 1.0, 20, 1e-5)


def test_an_epsilon_asked_for_is_the_one_promised() -> None:
    promised = DPSGD(Recipe(linear, epochs=5), 1e-5, epsilon=2.0).guarantee(1000)
    assert promised is not None
    assert promised.epsilon == 2.0


def test_it_is_a_trainer_with_a_guarantee_and_others_are_not() -> None:
    how = DPSGD(Recipe(linear), 1e-5, 1.0)
    assert isinstance(how, Trainer)
    assert isinstance(how, PrivateTrainer)
    assert not isinstance(Fleet(Recipe(linear)), PrivateTrainer)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "either noise_multiplier or epsilon, got neither"),
        ({"noise_multiplier": 1.0, "epsilon": 1.0}, "got both"),
        ({"epsilon": 0.0}, "epsilon from 1e-6"),
        ({"epsilon": math.inf}, "epsilon of DPSGD to be a finite number"),
        ({"noise_multiplier": -1.0}, "noise_multiplier from 1e-6"),
        ({"noise_multiplier": math.nan}, "noise_multiplier of DPSGD to be a finite number"),
        ({"epsilon": 1.0, "max_grad_norm": 0.0}, "max_grad_norm from 1e-6"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta above 0"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta above 0"),
        ({"epsilon": 1.0, "jobs": 0}, "jobs from 1"),
    ],
)
def test_senseless_settings_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        DPSGD(Recipe(linear), **({"delta": 1e-5} | settings))


def test_an_unknown_way_of_clipping_is_refused_with_the_nearest_known_one() -> None:
    # in a process of its own: here the tests' type checker would refuse it first
    program = """
from divulge.defences.training.dp_sgd.trainer import DPSGD
from divulge.errors import SpecError
from divulge.training.recipe import Recipe
try:
    DPSGD(Recipe(list), 1e-5, 1.0, clipping="gost")
except SpecError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    assert said == (
        "expected clipping of DPSGD to be one of 'per-record', 'ghost', got 'gost': "
        "did you mean 'ghost'?\n"
    )


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.Linear(8, CLASSES))


class Mixing(nn.Linear):
    """Centres its batch, in no layer that a validator could know."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x - x.mean(dim=0))


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (normalised, "layer '1' .BatchNorm1d.*dp_sgd.loop.layer_norm.*ModuleValidator"),
        (lambda: Mixing(FEATURES, CLASSES), "depends on the others of its batch"),
    ],
)
def test_networks_without_a_gradient_for_one_record_are_refused(network: Any, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        train(DPSGD(Recipe(network), 1e-5, 1.0, jobs=1), draw(20))


@pytest.mark.parametrize("clipping", CLIPPINGS)
def test_a_converted_network_is_trained(clipping: Clipping) -> None:
    recipe = Recipe(lambda: layer_norm(normalised()), epochs=2, batch_size=10)
    assert np.isfinite(
        flat(train(DPSGD(recipe, 1e-5, 1.0, clipping=clipping, jobs=1), draw(20)))
    ).all()


def test_failures_are_explained() -> None:
    with pytest.raises(TargetError, match="private model to train"):
        train(DPSGD(Recipe(lambda: nn.Linear(2, 2)), 1e-5, 1.0, jobs=1), draw(20))
    with pytest.raises(DataError, match="empty one"):
        list(DPSGD(Recipe(linear), 1e-5, 1.0).many(draw(4), np.zeros((1, 4), np.bool_), [1]))
    with pytest.raises(SpecError, match="at least one record"):
        DPSGD(Recipe(linear), 1e-5, 1.0).guarantee(0)
