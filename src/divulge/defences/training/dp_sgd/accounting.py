"""Account for DP-SGD: compute ε from the noise, and the noise from ε.

The neighbouring relation is *add or remove one record*. Each record enters each batch by a coin of
its own (Poisson sampling), and the rate of the coins counts as public.
"""

from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from divulge._util.extras import name_missing_extra
from divulge.errors import SpecError

_ORDERS = (*range(2, 33), *range(36, 65, 4), *range(80, 257, 16))
"""Orders of Rényi's divergence: integers, whose closed form always converges.

The time grows with their sum.
"""

_LOOSE_EPSILON = 1e4
"""The ε above which the looser accountant is enough: exact or not, it promises nothing."""

_GRID = 1e-4
"""Step of the grid of privacy losses, which rounds against the claim."""


@lru_cache(maxsize=10_000)
def dp_sgd_epsilon(noise_multiplier: float, rate: float, steps: int, delta: float) -> float:
    """The ε of DP-SGD at this δ; infinite if nothing is guaranteed.

    By the privacy-loss distribution of the Poisson-sampled Gaussian mechanism; by Rényi
    differential privacy where that says less, or more than 10,000.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm.
        rate: probability of each record to enter a batch.
        steps: how many batches a model is trained with.
        delta: the δ of the guarantee, above 0: Gaussian noise has no pure ε.

    References:
        Koskela, Jälkö and Honkela (2020), Computing tight differential privacy guarantees using
        FFT; Doroshenko et al. (2022), Connect the dots; Mironov, Talwar and Zhang (2019), Rényi
        differential privacy of the sampled Gaussian mechanism; all computed by dp-accounting.

    Raises:
        MissingExtra: dp-accounting is not installed.
    """
    accounting = _dp_accounting()
    event = _sampled_gaussian(noise_multiplier, rate, steps)
    with np.errstate(divide="ignore"):  # where noise drowns everything
        # integer orders alone: their closed form always converges (Mironov, Talwar and Zhang)
        renyi = accounting.rdp.RdpAccountant(_ORDERS).compose(event).get_epsilon(delta)
    if not renyi <= _LOOSE_EPSILON:
        return float(renyi)
    grid = _GRID * max(1.0, renyi)  # the distribution's width grows with ε
    losses = accounting.pld.PLDAccountant(value_discretization_interval=grid).compose(event)
    # both are upper bounds, so the smaller holds; below the grid it is not known
    return max(_GRID, min(float(renyi), float(losses.get_epsilon(delta))))


@lru_cache(maxsize=10_000)
def calibrate_noise(epsilon: float, rate: float, steps: int, delta: float) -> float:
    """The noise multiplier that keeps ε at this δ; at most a hundredth more than the least one.

    Raises:
        SpecError: no noise multiplier does.
        MissingExtra: dp-accounting is not installed.
    """
    accounting = _dp_accounting()
    grid = max(_GRID, epsilon / 10_000)  # its error grows with the number of steps
    try:
        noise = accounting.calibrate_dp_mechanism(
            lambda: accounting.pld.PLDAccountant(value_discretization_interval=grid),
            lambda noise: _sampled_gaussian(float(noise), rate, steps),
            epsilon,
            delta,
            tol=1e-3,
        )
    except (ValueError, accounting.mechanism_calibration.NoBracketIntervalFoundError) as error:
        raise SpecError(
            f"expected an epsilon that some noise keeps at delta={delta}, got {epsilon}: {error}"
        ) from error
    return float(noise)


def _sampled_gaussian(noise: float, rate: float, steps: int) -> Any:
    accounting = _dp_accounting()
    batch = accounting.PoissonSampledDpEvent(rate, accounting.GaussianDpEvent(noise))
    return accounting.SelfComposedDpEvent(batch, steps)


def _dp_accounting() -> ModuleType:
    with name_missing_extra():
        import dp_accounting
        import dp_accounting.pld
        import dp_accounting.rdp
    module: ModuleType = dp_accounting
    return module
