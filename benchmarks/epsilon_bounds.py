"""Compare lower bounds on ε from one training run with jax_privacy's: tightness and validity."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from benchmarks import epsilon_mechanisms as mechanisms
from benchmarks.epsilon_mechanisms import DELTA, Cell
from benchmarks.peers import side
from benchmarks.peers.peers import JAX_PRIVACY
from benchmarks.peers.side import Missing, Side
from divulge._util.random import stream
from divulge.core import MembershipDraw, NoiseAssumption
from divulge.metrics.epsilon import epsilon_lower_bound

SUMMARY = "lower bounds on ε: tightness beside jax_privacy, and validity on many mechanisms"

_PEER = Side("jax_privacy", "jax_epsilon", JAX_PRIVACY)
_ERROR = 0.05
_COMPARED = (4.0, 1000)
"""ε and the number of records of the last line."""


class _Ours(NamedTuple):
    name: str
    drawn: MembershipDraw
    noise: NoiseAssumption


_OURS = (
    _Ours("coins", "coins", "any"),
    _Ours("coins, Gaussian", "coins", "gaussian"),
    _Ours("coins, independent Gaussian", "coins", "independent-gaussian"),
    _Ours("fixed halves", "fixed", "any"),
    _Ours("fixed halves, Gaussian", "fixed", "gaussian"),
    _Ours("fixed halves, independent Gaussian", "fixed", "independent-gaussian"),
)


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print mean bounds on Gaussian mechanisms, ours and theirs, then how often ours exceed."""
    print("Gaussian mechanism, δ = 1e-5: mean bound, and in how many audits it exceeds ε")
    print("| ε | records | audits | bound | mean | exceed |\n|---:|---:|---:|---|---:|---:|")
    ours = theirs = float("nan")
    for epsilon in (1.0, 4.0, 10.0):
        for records in (200, 1000) if quick else (200, 1000, 10_000):
            means = _compare(epsilon, records, 10 if quick else 100)
            if (epsilon, records) == _COMPARED:
                ours = means["divulge, coins"]
                theirs = means.get("jax_privacy, one run", theirs)
    print("\nvalidity: bounds of divulge that exceed the true ε; promised: 5 % at most")
    print("| mechanism | noise | ε | δ | mean bound | exceed | 95 %, exact |")
    print("|---|---|---:|---:|---:|---:|---|")
    broken = [cell.name for cell in mechanisms.cells() if not _valid(cell, 60 if quick else 600)]
    print(f"significantly above 5 % (one test in 10,000): {', '.join(broken) or 'none'}")
    print(f"epsilon-bounds ours={ours:.4f} theirs={theirs:.4f} ratio={ours / theirs:.2f}")


def _compare(epsilon: float, records: int, audits: int) -> Mapping[str, float]:
    """The mean bound of each method on the same scores, printed as well."""
    mu = mechanisms.mu_of(epsilon)
    coins, halves = (
        [_audit(records, mu, drawn, k) for k in range(audits)] for drawn in ("coins", "fixed")
    )
    bounds = {
        f"divulge, {name}": np.array([
            epsilon_lower_bound(*audit, DELTA, drawn=drawn, noise=noise).value
            for audit in (coins if drawn == "coins" else halves)
        ])
        for name, drawn, noise in _OURS
    }  # fmt: skip
    peer_bounds = ask_peer(coins)
    if isinstance(peer_bounds, Missing):
        print(f"jax_privacy: {peer_bounds.reason}")
    else:
        bounds |= {f"jax_privacy, {name}": each for name, each in peer_bounds.items()}
    for name, each in bounds.items():
        above = int((each > epsilon).sum())
        print(
            f"| {epsilon:g} | {records:,} | {audits} | {name} | {each.mean():.2f} | {above} |",
            flush=True,
        )
    return {name: float(each.mean()) for name, each in bounds.items()}


def _audit(records: int, mu: float, drawn: str, k: int) -> mechanisms.Audit:
    rng = stream(k, "compared", drawn, str(mu), records)
    half = records // 2
    member = (
        mechanisms.coins(rng, records)
        if drawn == "coins"
        else mechanisms.fixed(rng, half, records - half)
    )
    return mechanisms.gaussian(rng, member, mu), member


def ask_peer(
    audits: list[mechanisms.Audit], peer: Side = _PEER
) -> Mapping[str, np.ndarray] | Missing:
    """Bounds of a peer at δ = 1e-5 by method, one an audit; audits are of one size."""
    with tempfile.TemporaryDirectory() as scratch:
        task = Path(scratch, "task")
        task.mkdir()
        (task / "settings.json").write_text(json.dumps({"delta": DELTA}))
        score, member = (np.stack(part) for part in zip(*audits, strict=True))
        np.savez(task / "audits.npz", score=score, member=member)
        result = side.run(peer, task, Path(scratch))
    return result if isinstance(result, Missing) else result.scores


def _valid(cell: Cell, audits: int) -> bool:
    """Print one row; whether more than 5 % exceed significantly."""
    path = ("cell", cell.name, cell.noise, str(cell.epsilon), str(cell.delta))
    bounds = np.array([
        epsilon_lower_bound(
            *cell.audit(stream(k, *path)),
            cell.delta,
            drawn=cell.drawn,
            noise=cell.noise,
        ).value
        for k in range(audits)
    ])  # fmt: skip
    above = int((bounds > cell.epsilon).sum())
    test = stats.binomtest(above, audits, _ERROR, alternative="greater")
    low, high = stats.binomtest(above, audits).proportion_ci()
    print(
        f"| {cell.name} | {cell.noise} | {cell.epsilon:.2f} | {cell.delta:g} | {bounds.mean():.2f} "
        f"| {above / audits:.3f} | {low:.3f}-{high:.3f} |",
        flush=True,
    )
    return bool(test.pvalue > 1e-4)
