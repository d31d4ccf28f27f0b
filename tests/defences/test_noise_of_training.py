"""The noise that training, clients and servers really add: its size, and that none is used twice.

Each test has 80 rows of 1,000 numbers, one row a step, round or client, which are independent and
standard normal if the noise is what is stated. Secure noise cannot be seeded, so `LEVEL` is the
chance of a false alarm of one check, and all that are made of secure noise together raise one in a
million runs. Found with a chance of 90 % or more: a mean of 0.025 standard deviations, a scale that
is off by 2 %, a correlation of 0.025 at a lag, one of 0.35 of any two rows, also of one that is
turned, and one of 0.9 of any two columns.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("opacus")
pytest.importorskip("cryptography")

from torch import nn

from divulge.core import (
    ClientContext,
    ClientUpdates,
    NoiseKind,
    Records,
    RoundContext,
    Update,
    UpdateSum,
)
from divulge.defences.noise import SecureNoise
from divulge.defences.training.dp_sgd.clipping import Clipping
from divulge.defences.training.dp_sgd.trainer import DPSGD
from divulge.defences.updates import protocol
from divulge.defences.updates.compose import chain
from divulge.defences.updates.dp_fedavg import DPFedAvg
from divulge.defences.updates.local_dp import LocalNoise, Mechanism
from divulge.defences.updates.secure_aggregation import SecureSum
from divulge.training.recipe import Recipe

ROWS, ENTRIES = 80, 1_000
LAGS = (1, 2, 3, 5, 10, 20, 40)
CHECKS = 5 + 2 * len(LAGS)
SECURE_SAMPLES = 7
LEVEL = 1e-6 / (CHECKS * SECURE_SAMPLES)
SILENT: Update = {"w": np.zeros((40, 20)), "b": np.zeros(200)}

Rows = np.ndarray


def deviations(rows: Rows) -> list[str]:
    """What the rows are not, of what independent standard normal numbers are."""
    n = rows.size
    pvalues = {
        "mean": 2 * stats.norm.sf(abs(rows.sum()) / np.sqrt(n)),
        "variance": 2 * min(stats.chi2.cdf((rows**2).sum(), n), stats.chi2.sf((rows**2).sum(), n)),
        "law": stats.kstest(rows.ravel(), "norm").pvalue,
        "any two rows": pairs(rows),
        "any two columns": pairs(rows.T, shifted=False),
    }
    for lag in LAGS:
        pvalues[f"rows {lag} apart"] = correlation(rows[lag:], rows[:-lag])
        pvalues[f"entries {lag} apart"] = correlation(rows[:, lag:], rows[:, :-lag])
    assert len(pvalues) == CHECKS
    return [name for name, pvalue in pvalues.items() if pvalue < LEVEL]


def correlation(one: Rows, other: Rows) -> float:
    return float(stats.pearsonr(one.ravel(), other.ravel()).pvalue)


def pairs(rows: Rows, *, shifted: bool = True) -> float:
    """The p-value of the largest correlation of any two rows, for all of them (Bonferroni).

    Shifted, also of a row and another one that is turned by any number of entries: noise that is
    used again need not come to the same place. An independent row is so whatever it is turned by.
    """
    centred = rows - rows.mean(axis=1, keepdims=True)
    unit = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-300)
    one, other = np.triu_indices(len(rows), 1)
    if shifted:
        waves = np.fft.rfft(unit)
        found = np.fft.irfft(waves[one] * waves[other].conj(), rows.shape[1])
    else:
        found = (unit @ unit.T)[one, other]
    largest, free = min(float(np.abs(found).max()), 1 - 1e-15), rows.shape[1] - 2
    statistic = largest * np.sqrt(free / (1 - largest**2))
    return float(min(1.0, 2 * found.size * stats.t.sf(statistic, free)))


def flat(update: Update) -> np.ndarray:
    return np.concatenate([np.asarray(update[name], float).ravel() for name in sorted(update)])


# the checks themselves


def honest(seed: int) -> Rows:
    return np.random.default_rng(seed).normal(size=(ROWS, ENTRIES))


def reused(rows: Rows) -> Rows:
    """One draw for all steps."""
    return np.tile(rows[:1], (ROWS, 1))


def used_twice(rows: Rows) -> Rows:
    """The last row is the first one again: a generator that was seeded anew once."""
    return np.concatenate([rows[:-1], rows[:1]])


def half_used_twice(rows: Rows) -> Rows:
    """Half of each row is drawn again by the next row."""
    rows = rows.copy()
    rows[1:, ENTRIES // 2 :] = rows[:-1, : ENTRIES // 2]
    return rows


def two_models_alike(rows: Rows) -> Rows:
    return np.concatenate([rows[: ROWS // 2], rows[: ROWS // 2]])


def one_number_twice(rows: Rows) -> Rows:
    """Two weights always get the same noise."""
    rows = rows.copy()
    rows[:, 700] = rows[:, 3]
    return rows


def smoothed(rows: Rows) -> Rows:
    """A little of each step's noise is that of the step before."""
    return np.asarray(rows * np.sqrt(1 - 0.03**2) + 0.03 * np.roll(rows, 1, axis=0))


@pytest.mark.parametrize("seed", range(20))
def test_honest_noise_passes(seed: int) -> None:
    assert deviations(honest(seed)) == []


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda rows: rows + 0.03, "mean"),
        (lambda rows: rows * 1.025, "variance"),
        (lambda rows: rows * 0.975, "variance"),
        (lambda rows: np.sqrt(3) * np.sign(rows) * stats.norm.cdf(abs(rows)), "law"),
        (reused, "rows 1 apart"),
        (used_twice, "any two rows"),
        (half_used_twice, "any two rows"),
        (two_models_alike, "rows 40 apart"),
        (one_number_twice, "any two columns"),
        (smoothed, "rows 1 apart"),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_noise_that_is_spoilt_is_found(spoil: Callable[[Rows], Rows], what: str, seed: int) -> None:
    assert deviations(honest(seed)) == []
    assert what in deviations(spoil(honest(seed)))


# DP-SGD

QUIET = Records(np.zeros((16, 50), np.float32), np.arange(16) % 20)
NOISE, NORM, SIZE = 1.7, 0.3, 8


def without_bias() -> nn.Module:
    """Its gradient at features of 0 is 0: what it learns is noise."""
    return nn.Linear(50, 20, bias=False)


def noise_of_steps(kind: NoiseKind, clipping: Clipping, seeds: Sequence[int]) -> Rows:
    """What the optimiser gets in each of 40 steps of a model a seed, in units of what is stated."""
    steps: list[np.ndarray] = []

    def watch(module: nn.Module, optimiser: Any) -> None:
        def note(*_: Any) -> None:
            (weight,) = module.parameters()
            assert weight.grad is not None
            steps.append(weight.grad.double().numpy().ravel())

        optimiser.original_optimizer.register_step_pre_hook(note)

    recipe = Recipe(without_bias, lr=0.1, epochs=20, batch_size=SIZE)
    train = DPSGD(recipe, 1e-5, noise_multiplier=NOISE, max_grad_norm=NORM, clipping=clipping,
                  noise=kind, jobs=1)  # fmt: skip
    for seed in seeds:
        train.train(QUIET, seed, watch=watch)
    return np.array(steps) / (NOISE * NORM / SIZE)


@pytest.mark.parametrize("clipping", ["ghost", "per-record"])
@pytest.mark.parametrize("kind", ["seeded", "secure"])
def test_each_step_of_two_models_has_noise_of_its_own(kind: NoiseKind, clipping: Clipping) -> None:
    rows = noise_of_steps(kind, clipping, [5, 6])
    assert rows.shape == (ROWS, ENTRIES)
    assert deviations(rows) == []


def test_a_seed_gives_the_same_noise_where_it_is_seeded_and_other_noise_where_it_is_secure() -> (
    None
):
    one, two = (noise_of_steps("seeded", "ghost", [5]) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    secure = noise_of_steps("secure", "ghost", [5, 5])
    assert not np.isin(secure[:40], secure[40:]).all(axis=1).any()
    assert pairs(secure) > LEVEL


# clients and servers


def sent_by_clients(defence: Any, clients: int, kind: NoiseKind) -> Rows:
    """What each client sends in each round while all of them have learned nothing."""
    sent = []
    for number in range(ROWS // clients):
        contexts = protocol.begin_round(
            defence, number, SILENT, dict.fromkeys(range(clients), 1.0), 3
        )
        for context in contexts.values():
            if kind == "secure":
                context = ClientContext(context.round, context.client, SecureNoise())
            sent.append(flat(defence.on_client(SILENT, context)))
    return np.array(sent)


@pytest.mark.parametrize("mechanism", ["analytic-gaussian", "laplace"])
@pytest.mark.parametrize("kind", ["seeded", "secure"])
def test_each_client_has_local_noise_of_its_own_in_each_round(
    kind: NoiseKind, mechanism: Mechanism
) -> None:
    defence = LocalNoise(3.0, 0.0 if mechanism == "laplace" else 1e-5, 0.7, mechanism)
    rows = sent_by_clients(defence, 4, kind) / defence.scale
    if mechanism == "laplace":  # to the normal number that as many are below
        rows = np.sign(rows) * -stats.norm.ppf(stats.laplace.sf(np.abs(rows)))
    assert deviations(rows) == []


@pytest.mark.parametrize("kind", ["seeded", "secure"])
def test_each_client_has_its_part_of_distributed_noise(kind: NoiseKind) -> None:
    defence = DPFedAvg(2.0, 0.5, 1e-5, "clients")
    assert deviations(sent_by_clients(defence, 4, kind) / (2.0 * 0.5 / np.sqrt(4))) == []


@pytest.mark.parametrize("kind", ["seeded", "secure"])
def test_the_server_has_noise_of_its_own_in_each_round(kind: NoiseKind) -> None:
    defence, sums = DPFedAvg(2.0, 0.5, 1e-5), []
    for number in range(ROWS):
        context = protocol.begin_round(defence, number, SILENT, {0: 1.0, 1: 1.0}, 3)[0].round
        if kind == "secure":
            context = RoundContext(number, (0, 1), context.shapes, noise=SecureNoise())
        view = defence.on_server(ClientUpdates({0: SILENT, 1: SILENT}), context)
        assert isinstance(view, UpdateSum)
        sums.append(flat(view.total))
    assert deviations(np.array(sums) / (2.0 * 0.5 / 2)) == []


def test_the_parts_of_all_clients_sum_up_to_the_noise_that_is_stated() -> None:
    """Behind the secure sum, whose steps of 2^-32 are lost beside a scale of 0.2."""
    defence, sums = chain(DPFedAvg(2.0, 0.5, 1e-5, "clients"), SecureSum()), []
    for number in range(ROWS):
        contexts = protocol.begin_round(defence, number, SILENT, dict.fromkeys(range(5), 1.0), 3)
        messages = [protocol.send(defence, SILENT, context) for context in contexts.values()]
        view = protocol.receive(defence, messages, contexts[0].round)
        assert isinstance(view, UpdateSum)
        sums.append(flat(view.total))
    assert deviations(np.array(sums) / (2.0 * 0.5 / 5)) == []


def test_runs_of_other_seeds_share_no_noise() -> None:
    defence, rows = LocalNoise(3.0, 1e-5, 0.7), []
    for seed in range(ROWS // 4):
        contexts = protocol.begin_round(defence, 1, SILENT, dict.fromkeys(range(4), 1.0), seed)
        rows += [flat(defence.on_client(SILENT, context)) for context in contexts.values()]
    assert deviations(np.array(rows) / defence.scale) == []
