"""Compare divulge's bounds on ε with those of Xiang et al. and of opake-auditing, which uses them.

Their bound supposes that records leak independently of each other. So it is held against the two
of divulge: "independent-gaussian", which supposes the same, and "any", which does not.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks import epsilon_mechanisms as mechanisms
from benchmarks import order_statistics
from benchmarks.epsilon_bounds import ask_peer
from benchmarks.epsilon_mechanisms import DELTA, Audit, Cell
from benchmarks.order_statistics import Family
from benchmarks.peers.peers import OPAKE
from benchmarks.peers.side import Missing, Side
from divulge._util.random import stream
from divulge.core import MembershipDraw, NoiseAssumption
from divulge.metrics.epsilon import epsilon_lower_bound

SUMMARY = "lower bounds on ε: divulge's beside those of Xiang et al. and of opake-auditing"

_OPAKE = Side("opake", "opake_epsilon", OPAKE)
_SHARES = (0.05, 0.1, 0.25, 0.5)
"""Shares of all records that Xiang et al.'s attack guesses about."""
_SHARE = 0.25
"""The share in their own examples."""
_SIZES = (200, 1000, 10_000)


class _Bounds(NamedTuple):
    """The bounds of one method in all audits of a mechanism."""

    values: np.ndarray

    def mean(self) -> str:
        return f"{self.values.mean():.2f} ± {self.values.std() / len(self.values) ** 0.5:.2f}"

    def exceed(self, epsilon: float) -> str:
        """The share of audits whose bound exceeds the truth, with its standard error."""
        rate = float(np.mean(self.values > epsilon))
        return f"{rate:.3f} ± {(rate * (1 - rate) / len(self.values)) ** 0.5:.3f}"


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print four tables: how tight, valid or not with independent records, with others, opake."""
    _compare_sizes(10 if quick else 100)
    _compare_independent(10 if quick else 200)
    _compare_dependent(20 if quick else 400)
    _compare_opake(10 if quick else 400)


def _compare_sizes(audits: int) -> None:
    released = [f"Xiang, (ε, δ), {share:.0%}" for share in _SHARES]
    columns = ["Xiang, Gaussian, 50 %", "independent-gaussian", *released, "any"]
    print(f"\nGaussian mechanism, coins, {audits} audits: mean bound ± standard error")
    print(f"| ε | records | {' | '.join(columns)} |\n|---:|---:|{'---:|' * len(columns)}")
    for epsilon in (1.0, 4.0):
        for records in _SIZES:
            cell = _independent("Gaussian", epsilon, records, "coins")
            bounds = [
                _theirs(cell, audits, "gaussian", 0.5),
                _ours(cell, audits, "independent-gaussian"),
                *(_theirs(cell, audits, "approximate", share) for share in _SHARES),
                _ours(cell, audits, "any"),
            ]
            means = " | ".join(each.mean() for each in bounds)
            print(f"| {epsilon:g} | {records:,} | {means} |", flush=True)


def _compare_independent(audits: int) -> None:
    columns = "Xiang, (ε, δ) | any | Xiang, Gaussian | independent-gaussian"
    print(f"\nindependent records, {audits} audits: share whose bound exceeds ε")
    print(
        f"| mechanism | drawn | ε | records | {columns} |\n|---|---|---:|---:|---:|---:|---:|---:|"
    )
    for name in ("randomised response", "Laplace", "Gaussian"):
        for drawn in ("coins", "fixed"):
            for epsilon in (1.0, 4.0):
                for records in _SIZES:
                    cell = _independent(name, epsilon, records, drawn)
                    rates = " | ".join(_rates(cell, audits, gaussian=name == "Gaussian"))
                    print(f"| {name} | {drawn} | {epsilon:g} | {records:,} | {rates} |", flush=True)


def _rates(cell: Cell, audits: int, *, gaussian: bool) -> list[str]:
    bounds = [_theirs(cell, audits, "approximate", _SHARE), _ours(cell, audits, "any")]
    if gaussian:  # the others have no Gaussian curve
        bounds += [
            _theirs(cell, audits, "gaussian", _SHARE),
            _ours(cell, audits, "independent-gaussian"),
        ]
    return [each.exceed(cell.epsilon) for each in bounds] + ["" for _ in range(4 - len(bounds))]


def _compare_dependent(audits: int) -> None:
    columns = " | ".join(f"Xiang, {share:.0%}" for share in _SHARES)
    print(f"\nrecords that leak together, coins, {audits} audits: share whose bound exceeds ε")
    print(f"| mechanism | ε | δ | records | supposed | {columns} | divulge |")
    print(f"|---|---:|---:|---:|---|{'---:|' * (len(_SHARES) + 1)}")
    for family, noise, cell in _dependent():
        bounds = [_theirs(cell, audits, family, share) for share in _SHARES]
        bounds.append(_ours(cell, audits, noise))
        rates = " | ".join(each.exceed(cell.epsilon) for each in bounds)
        print(
            f"| {cell.name} | {cell.epsilon:g} | {cell.delta:g} | 1,000 | {noise} | {rates} |",
            flush=True,
        )


def _compare_opake(audits: int) -> None:
    print(f"\nnothing leaks, coins, {audits} audits: mean bound, and the share above 0")
    print("| records | bound | mean | above 0 |\n|---:|---|---:|---:|")
    for records in (200, 1000):
        cell = _independent("Gaussian", 0.0, records, "coins")
        peer = ask_peer([_audit(cell, k) for k in range(audits)], _OPAKE)
        if isinstance(peer, Missing):
            print(f"opake-auditing: {peer.reason}")
            return
        bounds = {f"opake-auditing, {name}": _Bounds(each) for name, each in peer.items()}
        for noise in ("any", "independent-gaussian"):
            bounds[f"divulge, {noise}"] = _ours(cell, audits, noise)
        for name, each in bounds.items():
            print(f"| {records:,} | {name} | {each.mean()} | {each.exceed(0.0)} |", flush=True)


def _independent(name: str, epsilon: float, records: int, drawn: MembershipDraw) -> Cell:
    leak, delta = {
        "randomised response": (partial(mechanisms.response, epsilon=epsilon), 0.0),
        "Laplace": (partial(mechanisms.laplace, epsilon=epsilon), 0.0),
        "Gaussian": (
            partial(mechanisms.gaussian, mu=mechanisms.mu_of(epsilon) if epsilon else 0.0),
            DELTA,
        ),
    }[name]
    half = records // 2
    coins = (
        partial(mechanisms.coins, records=records)
        if drawn == "coins"
        else partial(mechanisms.fixed, members=half, others=half)
    )
    return Cell(f"{name}, {records}, {drawn}", epsilon, delta, coins, leak, drawn)


def _dependent() -> list[tuple[Family, NoiseAssumption, Cell]]:
    coins, mu = partial(mechanisms.coins, records=1000), mechanisms.mu_of(4.0)
    alike = partial(mechanisms.alike, mu=mu)
    rarely = partial(mechanisms.rarely, leaks=0.2, odds=mechanisms.rare_odds(0.2, mu))
    # each record is published with probability .01
    together = partial(mechanisms.together, epsilon=1.0, delta=0.2, share=0.05)
    return [
        ("gaussian", "gaussian", Cell("one size of noise for all", 4.0, DELTA, coins, alike)),
        ("gaussian", "gaussian", Cell("all at once in a fifth of runs", 4.0, DELTA, coins, rarely)),
        ("approximate", "any",
         Cell("5 % published in a fifth of runs", 1.0, 0.01, coins, together)),
    ]  # fmt: skip


def _audit(cell: Cell, k: int) -> Audit:
    return cell.audit(stream(k, "order statistics", cell.name, str(cell.epsilon)))


def _theirs(cell: Cell, audits: int, family: Family, share: float) -> _Bounds:
    bounds = []
    for k in range(audits):
        score, member = _audit(cell, k)
        ties = stream(k, "ties", cell.name)
        released = round(share * len(score))
        bounds.append(order_statistics.bound(score, member, cell.delta, released, family, ties))
    return _Bounds(np.array(bounds))


def _ours(cell: Cell, audits: int, noise: NoiseAssumption) -> _Bounds:
    return _Bounds(
        np.array(
            [
                epsilon_lower_bound(
                    *_audit(cell, k), cell.delta, drawn=cell.drawn, noise=noise
                ).value
                for k in range(audits)
            ]
        )
    )
