"""Canaries in one training: planted faults found, false contradictions, and the share of ε seen."""

import time
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from benchmarks import epsilon_bounds
from benchmarks.peers.side import Missing
from benchmarks.timing import environment, require_packages
from divulge.core import NoiseAssumption
from divulge.metrics.epsilon import epsilon_lower_bound

if TYPE_CHECKING:
    from benchmarks.canary_trainings import Scores, Setting

SUMMARY = "canaries in one training: faults found, false contradictions, share of ε seen"

_NOISES: tuple[NoiseAssumption, ...] = ("any", "independent-gaussian")
_THEIRS = ("one run", "one run, f-DP of Gaussian noise", "Clopper-Pearson", "GDP")
"""Methods of jax_privacy; the last promises nothing for a finite number of canaries."""

_DELTA = 1e-5
_PLANNED: tuple[tuple[NoiseAssumption, float, float], ...] = (
    ("any", 2.0, 8.0),
    ("any", 1.0, 4.0),
    ("independent-gaussian", 4.0, 8.0),
)
"""What is supposed, the ε that is stated, and the true one."""


def run(quick: bool) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print four tables.

    Raises:
        MissingPeer: Opacus or dp-accounting is not installed.
    """
    require_packages(("opacus", "dp_accounting"), "dp")
    import torch

    torch.set_num_threads(1)
    start = time.process_time()
    print(environment(("divulge", "torch", "opacus", "dp-accounting")))
    runs = _faults(1 if quick else 20) + _honest(2 if quick else 40) + _shares(1 if quick else 8)
    runs += _plans(2 if quick else 40)
    print(f"\n{runs} trainings, {(time.process_time() - start) / 60:.1f} minutes of one core")


def _faults(repeats: int) -> int:
    from benchmarks.canary_trainings import FAULTS, train

    print("\n| fault | library | stated ε | any | independent-gaussian | recorder |")
    print("|---|---|---:|---:|---:|---:|")
    for fault in FAULTS:
        for library in fault.libraries:
            setting = _setting(library, fault.hidden)._replace(canaries=fault.canaries)
            contradictions = [
                _contradicts(setting, train(setting, k, fault)) for k in range(repeats)
            ]
            cells = " | ".join(
                f"{sum(each)} of {repeats}" for each in zip(*contradictions, strict=True)
            )
            print(f"| {fault.name} | {library} | {setting.stated:.2f} | {cells} |", flush=True)
    return sum(len(fault.libraries) for fault in FAULTS) * repeats


def _honest(repeats: int) -> int:
    from benchmarks.canary_trainings import train

    print("\n| correct training | canaries | stated ε | any | independent-gaussian | recorder |")
    print("|---|---:|---:|---:|---:|---:|")
    total = np.zeros(3, int)
    kinds = {
        "DPSGD, full batches": ("DPSGD", 1, 16, 6.0),
        "DPSGD, a quarter by Poisson sampling": ("DPSGD", 4, 5, 2.0),
        "Opacus, a quarter by Poisson sampling": ("Opacus", 4, 5, 2.0),
        "plain PyTorch, a quarter by Poisson sampling": ("plain PyTorch", 4, 5, 2.0),
    }
    for name, (library, batches, epochs, noise) in kinds.items():
        for canaries in (200, 500):
            setting = _setting(library)._replace(
                batches=batches, epochs=epochs, noise=noise, canaries=canaries
            )
            contradictions = [
                _contradicts(setting, train(setting, 1000 + k)) for k in range(repeats)
            ]
            each = np.sum(contradictions, axis=0)
            total += each
            cells = " | ".join(f"{count} of {repeats}" for count in each)
            print(f"| {name} | {canaries} | {setting.stated:.2f} | {cells} |", flush=True)
    runs = 2 * len(kinds) * repeats
    for supposed, wrong in zip((*_NOISES, "recorder"), total, strict=True):
        low, high = stats.binomtest(int(wrong), runs).proportion_ci()
        print(f"{supposed}: {wrong} of {runs} false, {low:.3f}-{high:.3f}")
    return runs


def _shares(repeats: int) -> int:
    from benchmarks.canary_trainings import train
    from divulge.canaries.plan import gaussian_mu

    columns = (*_NOISES, *(f"jax_privacy, {method}" for method in _THEIRS))
    print(f"\n| network | true ε | box | {' | '.join(columns)} |")
    print(f"|---|---:|---|{'---:|' * len(columns)}")
    epochs = 10
    for hidden in (0, 16):
        for epsilon in (4.0, 8.0):
            noise = epochs**0.5 / gaussian_mu(epsilon, _DELTA)  # full batches: one Gaussian
            setting = _setting("DPSGD", hidden)._replace(
                canaries=1000, batches=1, epochs=epochs, noise=noise
            )
            _compare(hidden, epsilon, [train(setting, 2000 + k) for k in range(repeats)])
    return 4 * repeats


def _compare(hidden: int, epsilon: float, trained: "list[Scores]") -> None:
    """Print a row a box: the mean bound of each method, and how often it exceeds ε."""
    name = f"{hidden} hidden units" if hidden else "linear"
    for box in ("white", "black"):
        audits = [(getattr(scores, box), scores.inserted) for scores in trained]
        ours = [
            np.array(
                [
                    epsilon_lower_bound(*audit, _DELTA, drawn="coins", noise=noise).value
                    for audit in audits
                ]
            )
            for noise in _NOISES
        ]
        peer_bounds = epsilon_bounds.ask_peer(audits)
        if isinstance(peer_bounds, Missing):
            print(f"jax_privacy: {peer_bounds.reason}")
        theirs = (
            [] if isinstance(peer_bounds, Missing) else [peer_bounds[method] for method in _THEIRS]
        )
        cells = " | ".join(_describe(each, epsilon) for each in (*ours, *theirs))
        print(f"| {name} | {epsilon:g} | {box} | {cells} |", flush=True)


def _describe(bounds: np.ndarray, epsilon: float) -> str:
    above = int((bounds > epsilon).sum())
    mean = f"{bounds.mean():.2f} ({bounds.mean() / epsilon:.0%})"
    return f"{mean}, {above} of {len(bounds)} exceed" if above else mean


def _plans(repeats: int) -> int:
    """How often a fault is found with as many canaries as were planned for 80 %."""
    from benchmarks.canary_trainings import train
    from divulge.canaries.plan import gaussian_mu, plan_canaries

    print("\n| supposed | stated ε | true ε | canaries | planned | found |")
    print("|---|---:|---:|---:|---:|---:|")
    for noise, stated, true in _PLANNED:
        plan = plan_canaries(stated, _DELTA, noise=noise)
        (fault,) = (fault for fault in plan.faults if fault.epsilon == true)
        assert fault.canaries is not None
        setting = _setting("DPSGD")._replace(
            canaries=fault.canaries,
            batches=1,
            epochs=10,
            noise=10**0.5 / gaussian_mu(true, _DELTA),
        )
        each = [train(setting, 3000 + k) for k in range(repeats)]
        detections = sum(
            epsilon_lower_bound(
                scores.white, scores.inserted, _DELTA, drawn="coins", noise=noise
            ).value
            > stated
            for scores in each
        )
        print(
            f"| {noise} | {stated:g} | {true:g} | {fault.canaries} | {fault.chance:.0%} "
            f"| {detections} of {repeats} |",
            flush=True,
        )
    return len(_PLANNED) * repeats


def _setting(library: str, hidden: int = 0) -> "Setting":
    from benchmarks.canary_trainings import Setting

    return Setting(library, hidden, 500, 4, 5, 2.0)  # type: ignore[arg-type]


def _contradicts(setting: "Setting", scores: "Scores") -> list[bool]:
    """Whether one look contradicts the stated ε: scores of both boxes, and the recorder."""
    by_scores = [
        any(
            epsilon_lower_bound(
                score, scores.inserted, _DELTA, drawn="coins", noise=noise, tries=2
            ).value
            > setting.stated
            for score in (scores.white, scores.black)
        )
        for noise in _NOISES
    ]
    return [*by_scores, scores.accused]
