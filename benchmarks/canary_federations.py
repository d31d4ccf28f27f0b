"""Canary clients in one federation: planted faults found, and false contradictions."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
from scipy import stats

from benchmarks.timing import environment
from divulge.audits.canaries.clients import Sees, make_canary_clients, score_transcript
from divulge.core import NoiseAssumption, Records, UpdateDefence
from divulge.data import canary_files
from divulge.data.canary_files import Neighbours
from divulge.data.canary_scores import CanaryScores, read_scores
from divulge.defences.noise import SeededNoise
from divulge.defences.updates import dp_fedavg
from divulge.defences.updates.dp_fedavg import DPFedAvg
from divulge.defences.updates.local_dp import LocalNoise
from divulge.federation.canaries import CanaryClients
from divulge.metrics.epsilon import epsilon_lower_bound, gaussian_estimate

SUMMARY = "canary clients in one federation: faults found, false contradictions"

_NOISES: tuple[NoiseAssumption, ...] = ("any", "independent-gaussian")
_DELTA, _ROUNDS, _FEATURES, _OWN = 1e-5, 4, 2000, 4
_NORM = 3.0


class Mechanism(NamedTuple):
    """A mechanism that states ε = 2 or so for four rounds, and the look that fits it."""

    name: str
    defence: UpdateDefence
    neighbours: Neighbours = "add-or-remove"
    sees: Sees = "rounds"


class Fault(NamedTuple):
    """What is done otherwise than stated."""

    name: str
    scale: float = 1.0
    """Factor of the noise."""
    clipped: bool = True
    repeated: bool = False
    """Whether each round draws the same noise; half of the clients are drawn then, and rounds are
    compared."""


MECHANISMS = (
    Mechanism("central, dp-fedavg", DPFedAvg(4.0, 1.0, _DELTA)),
    Mechanism("distributed, dp-fedavg", DPFedAvg(4.0, 1.0, _DELTA, "clients")),
    Mechanism("local, local-noise", LocalNoise(0.93, _DELTA, 1.0), "replace", "messages"),
)
FAULTS = (
    Fault("noise off", scale=0.0),
    Fault("noise for a quarter of the sensitivity", scale=0.25),
    Fault("noise for half of the sensitivity", scale=0.5),
    Fault("clipping off", clipped=False),
    Fault("noise of a repeated seed", repeated=True),
)


def run(quick: bool) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print two tables."""
    import torch

    torch.set_num_threads(1)
    start = time.process_time()
    print(environment(("divulge", "torch")))
    runs = _print_faults(1 if quick else 10) + _print_correct(1 if quick else 34)
    print(f"\n{runs} federations, {(time.process_time() - start) / 60:.1f} minutes of one core")


def _print_faults(repeats: int) -> int:
    print("\n| fault | mechanism | stated ε | found, any | found, independent-gaussian |")
    print("|---|---|---:|---:|---:|")
    for fault in FAULTS:
        for one in MECHANISMS:
            found = [_play(one, 200, seed, fault) for seed in range(repeats)]
            said = " | ".join(_share(sum(k.wrong[at] for k in found), repeats) for at in (0, 1))
            print(f"| {fault.name} | {one.name} | {found[0].stated:.2f} | {said} |", flush=True)
    return len(FAULTS) * len(MECHANISMS) * repeats


def _print_correct(repeats: int) -> int:
    print("\n| correct federation | canaries | stated ε | any | independent-gaussian | estimate |")
    print("|---|---:|---:|---:|---:|---:|")
    total = np.zeros(2, int)
    for one in MECHANISMS:
        for canaries in (100, 200):
            found = [_play(one, canaries, 1000 + seed) for seed in range(repeats)]
            wrong = np.sum([each.wrong for each in found], axis=0)
            total += wrong
            said = " | ".join(f"{k} of {repeats}" for k in wrong)
            estimates = [each.estimate for each in found]
            error = np.std(estimates, ddof=1) / len(estimates) ** 0.5 if repeats > 1 else np.nan
            mean = f"{np.mean(estimates):.2f} ± {1.96 * error:.2f}"
            print(
                f"| {one.name} | {canaries} | {found[0].stated:.2f} | {said} | {mean} |", flush=True
            )
    runs = len(MECHANISMS) * 2 * repeats
    for supposed, wrong in zip(_NOISES, total, strict=True):
        print(f"{supposed}: false {_share(int(wrong), runs)}")
    return runs


def _share(found: int, runs: int) -> str:
    low, high = stats.binomtest(found, runs).proportion_ci()
    return f"{found} of {runs} ({low:.2f} to {high:.2f})"


class Played(NamedTuple):
    """What one federation shows."""

    stated: float
    wrong: tuple[bool, ...]
    """Whether the stated ε is contradicted, by what is supposed."""
    estimate: float


def _play(how: Mechanism, canaries: int, seed: int, fault: Fault | None = None) -> Played:
    from torch import nn

    from divulge.federation.fedavg import Federation
    from divulge.federation.simulation import simulate
    from divulge.training.recipe import Recipe

    fault = fault or Fault("none")
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(8 * _OWN, _FEATURES)).astype(np.float32)
    pool = Records(x, rng.integers(0, 2, len(x)))
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        folder = make_canary_clients(
            place / "c", canaries, neighbours=how.neighbours, seed=seed
        ).folder
        federation = Federation(
            pool,
            np.split(np.arange(len(pool)), _OWN),
            Recipe(lambda: nn.Linear(_FEATURES, 2), lr=0.01, epochs=1, batch_size=8),
            defence=how.defence,
            participation=0.5 if fault.repeated else 1.0,
            canaries=CanaryClients(folder, _NORM),
            seed=seed,
            workers=1,
        )
        with _broken(fault):
            simulate(federation, _ROUNDS, place / "run")
        sees: Sees = "differences" if fault.repeated and how.sees == "rounds" else how.sees
        path = score_transcript(folder, place / "run", place / "s.npz", sees=sees)
        scores = read_scores(path, canary_files.read_clients(folder))
        inserted = np.load(folder / canary_files.SEALED)["inserted"]
    assert scores.stated is not None
    stated, delta = scores.stated
    wrong = tuple(_bound(scores, inserted, delta, noise) > stated for noise in _NOISES)
    return Played(stated, wrong, gaussian_estimate(scores.score, inserted, delta).value)


def _bound(
    scores: CanaryScores, inserted: np.ndarray, delta: float, noise: NoiseAssumption
) -> float:
    """As an audit has it: all rounds together with half of the error, each one with the rest."""
    assert scores.rounds is not None
    looks = [(scores.score, 2), *((each, 2 * len(scores.rounds)) for each in scores.rounds)]
    return max(
        epsilon_lower_bound(one, inserted, delta, drawn="coins", noise=noise, tries=tries).value
        for one, tries in looks
    )


@contextmanager
def _broken(fault: Fault) -> Iterator[None]:
    kept = SeededNoise.add_normal

    def noise(self: SeededNoise, values: np.ndarray, scale: float) -> np.ndarray:
        source = SeededNoise(np.random.default_rng(7)) if fault.repeated else self
        return kept(source, values, fault.scale * scale)

    with mock.patch.object(SeededNoise, "add_normal", noise):
        if fault.clipped:
            yield
            return
        with (
            mock.patch.object(dp_fedavg, "clip_to_norm", lambda vector, _: vector),
            mock.patch.object(LocalNoise, "clip_to_norm", lambda _, vector: vector),
        ):
            yield
