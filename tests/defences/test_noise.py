"""Secure noise: its distribution, its grid, and that nobody ever draws it twice."""

import multiprocessing
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("cryptography")
pytest.importorskip("torch")

import torch

from divulge.core import NoiseSource
from divulge.defences import noise
from divulge.defences.answers.noise import AnswerNoise
from divulge.defences.noise import SecureNoise, SeededNoise, add_on_grid, grid_step
from divulge.errors import SpecError

KEY = bytes(range(32))
MANY = 400_001  # odd, and more than one chunk


def drawn(draw: Callable[..., Any], scale: float = 1.0, count: int = MANY) -> np.ndarray:
    """Noise that follows from a fixed key: these tests see the same numbers in every run."""
    return add_on_grid(np.zeros(count), scale, KEY, draw)


@pytest.mark.parametrize("scale", [1.0, 0.37, 1e-6, 250.0])
@pytest.mark.parametrize(
    ("draw", "law"), [(noise.normal, stats.norm), (noise.laplace, stats.laplace)]
)
def test_the_distribution_is_the_promised_one(
    draw: Callable[..., Any], law: Any, scale: float
) -> None:
    """Kolmogorov and Smirnov's test at a level of 1 %; it sees a scale that is off by 1 %."""
    found = drawn(draw, scale)
    assert stats.kstest(found / scale, law.cdf).pvalue > 0.01
    assert stats.kstest(found / scale * 1.01, law.cdf).pvalue < 0.01


def test_the_tails_and_the_middle_are_as_often_reached_as_they_must_be() -> None:
    """Counts far out and close to 0, each within the 99.9 % range of a binomial."""
    found = np.abs(drawn(noise.normal, count=4_000_000))
    for low, high in ((4.0, np.inf), (4.5, np.inf), (0.0, 1e-3), (0.0, 1e-4)):
        share = 2 * (stats.norm.sf(low) - stats.norm.sf(high))
        few, most = stats.binom.interval(0.999, len(found), share)
        assert few <= ((found >= low) & (found < high)).sum() <= most


def test_two_numbers_of_a_pair_and_neighbours_do_not_depend_on_each_other() -> None:
    """Of independent numbers a correlation is within 4 / sqrt(n) but for one case in 15,000."""
    found = drawn(noise.normal, count=65_536)
    first, second = found[::2], found[1::2]
    pairs = noise._CHUNK
    halves = found[:pairs], found[pairs : 2 * pairs]  # cosines and sines of the same angles
    for one, other in ((first, second), halves):
        for power in (1, 2):
            assert abs(np.corrcoef(one**power, other**power)[0, 1]) < 4 / np.sqrt(len(one))


def test_uniform_and_exponential_numbers_and_coins() -> None:
    assert stats.kstest(noise.uniform(MANY, KEY), "uniform").pvalue > 0.01
    assert stats.kstest(noise.exponential(MANY, KEY), "expon").pvalue > 0.01
    heads = int(SecureNoise().coins(100_000, 0.2).sum())
    # two coins in a hundred million, of an honest generator, fall outside
    assert stats.binom.sf(heads, 100_000, 0.2) > 1e-8
    assert stats.binom.cdf(heads, 100_000, 0.2) > 1e-8


@pytest.mark.parametrize("scale", [1.0, 0.3, 3e-5, 1e4])
@pytest.mark.parametrize("draw", [noise.normal, noise.laplace])
def test_sums_lie_on_the_grid_and_are_rounded_values_plus_rounded_noise(
    draw: Callable[..., Any], scale: float
) -> None:
    step = grid_step(scale)
    assert scale * 2.0**-29 < step <= scale * 2.0**-28
    values = np.random.default_rng(0).normal(0, 10 * scale, 1001)
    found = add_on_grid(values, scale, KEY, draw)
    alone = add_on_grid(np.zeros(1001), scale, KEY, draw)
    np.testing.assert_array_equal(found / step, np.rint(values / step) + alone / step)
    assert (found / step == np.rint(found / step)).all()


def test_all_last_digits_of_noise_are_reached_from_any_value() -> None:
    """Mironov's attack looks for sums that one value can give and its neighbour cannot."""
    step = grid_step(1.0)
    for value in (0.0, 1 / 3, 7.1):
        last = (add_on_grid(np.full(MANY, value), 1.0, KEY, noise.normal) / step) % 256
        seen = np.bincount(last.astype(int), minlength=256)
        assert stats.chisquare(seen).pvalue > 0.01


@pytest.mark.parametrize("count", [0, 1, 2, 3, 16_383, 16_384, 16_385])
@pytest.mark.parametrize("draw", [noise.normal, noise.laplace])
def test_any_number_of_numbers(draw: Callable[..., Any], count: int) -> None:
    found = drawn(draw, count=count)
    assert found.shape == (count,)
    # 0.6 pairs are expected on one point of the grid: no chunk is written twice
    assert len(np.unique(found)) > count - 8


def test_values_are_left_alone_and_may_be_read_only() -> None:
    values = np.ones(5)
    values.setflags(write=False)
    SecureNoise().add_normal(values, 1.0)
    assert (values == 1).all()


def test_both_kinds_are_sources_of_noise() -> None:
    seeded = SeededNoise(np.random.default_rng(3))
    assert isinstance(seeded, NoiseSource)
    assert isinstance(SecureNoise(), NoiseSource)
    assert (seeded.kind, SecureNoise().kind) == ("seeded", "secure")
    again = SeededNoise(np.random.default_rng(3))
    values = np.arange(4.0)
    np.testing.assert_array_equal(seeded.add_normal(values, 2.0), again.add_normal(values, 2.0))


def test_no_seed_reaches_it() -> None:
    source, seen = SecureNoise(), []
    for _ in range(3):
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        seen += [*source.add_normal(np.zeros(2), 1.0), *SecureNoise().add_laplace(np.zeros(2), 1.0)]
    assert len(set(seen)) == len(seen)
    with pytest.raises(SpecError):
        SecureNoise(0)  # type: ignore[call-arg]


def test_a_copy_of_it_draws_other_noise() -> None:
    source = SecureNoise()
    copy = pickle.loads(pickle.dumps(source))  # noqa: S301 (packed here)
    assert not (source.add_normal(np.zeros(9), 1.0) == copy.add_normal(np.zeros(9), 1.0)).any()


@pytest.mark.slow
def test_processes_that_are_forked_never_draw_the_same() -> None:
    """Each child inherits all of the parent's memory, after the parent has drawn."""
    program = """
import os, sys
import numpy as np
from divulge.defences.noise import SecureNoise
source = SecureNoise()
source.add_normal(np.zeros(4), 1.0)
for _ in range(3):
    if os.fork() == 0:
        sys.stdout.write(source.add_normal(np.zeros(4), 1.0).tobytes().hex() + "\\n")
        sys.stdout.flush()
        os._exit(0)
for _ in range(3):
    os.wait()
sys.stdout.write(source.add_normal(np.zeros(4), 1.0).tobytes().hex() + "\\n")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    lines = done.stdout.split()
    numbers = [line[k : k + 16] for line in lines for k in range(0, 64, 16)]
    assert len(lines) == 4
    assert len(set(numbers)) == 16


@pytest.mark.slow
def test_processes_that_are_started_anew_never_draw_the_same() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(_first_number, [SecureNoise()] * 4)
    assert len(set(found)) == 4


def _first_number(source: SecureNoise) -> float:
    return float(source.add_normal(np.zeros(1), 1.0)[0])


def test_keys_come_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same key it is the same noise: nothing else goes into it."""
    monkeypatch.setattr(os, "urandom", lambda size: KEY[:size])
    source = SecureNoise()
    np.testing.assert_array_equal(
        source.add_normal(np.zeros(50), 2.0), drawn(noise.normal, 2.0, count=50)
    )


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from divulge.errors import MissingExtra

    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    for make in (SecureNoise, partial(AnswerNoise, noise="secure")):
        with pytest.raises(MissingExtra, match="cryptography"):
            make()
    answers = np.full((2, 3), 1 / 3)
    assert AnswerNoise(noise="seeded").change(answers, np.zeros((2, 1)), 0).shape == (2, 3)


def test_logarithms_near_zero_are_as_fine_as_elsewhere() -> None:
    """Words of 63 zeros stand for numbers below 2^-63, which further bits tell apart."""
    stream = noise._Stream(KEY, 500)
    found = stream.logarithms(torch.zeros(500, dtype=torch.int64), torch.empty(500).double())
    shares = np.exp(found.numpy()) * 2.0**63
    assert len(np.unique(shares)) > 490
    assert stats.kstest(shares, "uniform").pvalue > 0.001
