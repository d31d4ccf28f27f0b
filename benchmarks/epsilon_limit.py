"""What no valid lower bound on ε can reach for a Gaussian mechanism, whatever it computes.

Cut the mechanism's likelihood ratios at e^e: that mechanism is e-private, so a valid bound exceeds
e there in 5 % of audits at most. On the Gaussian mechanism itself it then exceeds e no more often
than the most powerful test of 5 % tells the two apart (Neyman and Pearson 1933). The integral of
that power over e from 0 to the true ε is the most that the mean of such a bound, cut at ε, can be.
"""

import numpy as np
from jaxtyping import Float64
from scipy import special

from benchmarks.epsilon_mechanisms import mu_of
from divulge._util.random import stream

SUMMARY = "the most that any valid bound on ε can show of a Gaussian mechanism, by simulation"

_ERROR = 0.05
_STEP = 0.25
_AT_ONCE = 100


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print the limit for some numbers of records, each a member by a fair coin."""
    print(
        "| ε | records | simulations of each e | limit of the mean bound |\n|---:|---:|---:|---:|"
    )
    for epsilon, records, times in ((4.0, 1000, 2000), (4.0, 10_000, 600), (8.0, 1000, 2000)):
        times = 200 if quick else times
        most = limit(epsilon, records, times)
        print(f"| {epsilon:g} | {records:,} | {times} | {most:.2f} |", flush=True)


def limit(epsilon: float, records: int, times: int) -> float:
    """The integral of the most powerful test's power over e."""
    tested = np.arange(0.0, epsilon + _STEP / 2, _STEP)
    power = [_power(mu_of(epsilon), records, float(e), times) for e in tested]
    return float(np.trapezoid(power, tested))


def _power(mu: float, records: int, at: float, times: int) -> float:
    """How often the test of the cut mechanism rejects it where the whole one was at work."""
    cut, whole = (_log_ratios(mu, records, at, times, which) for which in ("cut", "whole"))
    return float(np.mean(whole > np.quantile(cut, 1 - _ERROR)))


def _log_ratios(
    mu: float, records: int, at: float, times: int, which: str
) -> Float64[np.ndarray, " times"]:
    """Log likelihood ratios of audits; by symmetry only the size of a record's odds counts."""
    rng = stream(0, "limit", which, records, str(at))
    ratios = []
    for start in range(0, times, _AT_ONCE):
        shape = min(_AT_ONCE, times - start), records
        noise = rng.standard_normal(shape) + mu * (rng.random(shape) < 0.5)
        odds = np.abs(mu * noise - mu * mu / 2)
        capped = np.minimum(odds, at)
        right = rng.random(shape) < special.expit(capped if which == "cut" else odds)
        sign = np.where(right, 1.0, -1.0)
        ratios.append((special.log_expit(sign * odds) - special.log_expit(sign * capped)).sum(1))
    return np.concatenate(ratios)
