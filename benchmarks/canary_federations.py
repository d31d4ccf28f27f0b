"""Canary clients in one federation: planted faults found, and false contradictions."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
from scipy import stats

from benchmarks.timing import environment
from divulge.canaries.clients import Sees, make_canary_clients, score_transcript
from divulge.canaries.noise import check_noise
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
DELTA = 1e-5
_ROUNDS, _FEATURES, _OWN = 4, 2000, 4
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
    Mechanism("central, dp-fedavg", DPFedAvg(4.0, 1.0, DELTA)),
    Mechanism("distributed, dp-fedavg", DPFedAvg(4.0, 1.0, DELTA, "clients")),
    Mechanism("local, local-noise", LocalNoise(0.93, DELTA, 1.0), "replace", "messages"),
)
FAULTS = (
    Fault("noise off", scale=0.0),
    Fault("noise for a quarter of the sensitivity", scale=0.25),
    Fault("noise for half of the sensitivity", scale=0.5),
    Fault("clipping off", clipped=False),
    Fault("noise of a repeated seed", repeated=True),
)


class FederationOutcome(NamedTuple):
    """What one federation shows."""

    stated: float
    wrong: tuple[bool, ...]
    """Whether the stated ε is contradicted, by what is supposed."""
    estimate: float
    noise: bool
    """Whether the noise of rounds is seen to repeat, or to be too small."""

    @property
    def alarms(self) -> tuple[bool, ...]:
        """By canaries, by what is supposed; and by the noise of rounds."""
        return (*self.wrong, self.noise)


Play = Callable[[int, int, Fault | None], FederationOutcome]
"""Plays a federation with so many canaries, a seed, and a fault."""


def run(quick: bool) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print two tables."""
    import torch

    torch.set_num_threads(1)
    start = time.process_time()
    print(environment(("divulge", "torch")))
    plays = {mechanism.name: partial(_play, mechanism) for mechanism in MECHANISMS}
    runs = print_faults(plays, FAULTS, 1 if quick else 20)
    runs += print_correct(plays, (100, 200), 1 if quick else 34)
    print(f"\n{runs} federations, {(time.process_time() - start) / 60:.1f} minutes of one core")


def print_faults(plays: Mapping[str, Play], faults: Sequence[Fault], repeats: int) -> int:
    """Print a row for each fault and mechanism; the number of federations.

    Args:
        plays: a function for each mechanism, by its name.
        faults: what is planted.
        repeats: federations of each.
    """
    print("\n| fault | mechanism | stated ε | found, any | found, independent-gaussian | noise |")
    print("|---|---|---:|---:|---:|---:|")
    for fault in faults:
        for at, (name, play) in enumerate(plays.items()):
            outcomes = [play(200, _seed(at, k), fault) for k in range(repeats)]
            wrong = np.sum([each.alarms for each in outcomes], axis=0)
            rates = " | ".join(share(int(count), repeats) for count in wrong)
            print(f"| {fault.name} | {name} | {outcomes[0].stated:.2f} | {rates} |", flush=True)
    return len(faults) * len(plays) * repeats


def print_correct(plays: Mapping[str, Play], sizes: Sequence[int], repeats: int) -> int:
    """Print a row for each mechanism and number of canaries; the number of federations."""
    columns = " | ".join((*_NOISES, "noise", "estimate"))
    print(f"\n| correct federation | canaries | stated ε | {columns} |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    total = np.zeros(len(_NOISES) + 1, int)
    for at, (name, play) in enumerate(plays.items()):
        for canaries in sizes:
            outcomes = [play(canaries, _seed(at, 1000 + k), None) for k in range(repeats)]
            wrong = np.sum([each.alarms for each in outcomes], axis=0)
            total += wrong
            counts = " | ".join(f"{k} of {repeats}" for k in wrong)
            estimates = [each.estimate for each in outcomes]
            error = np.std(estimates, ddof=1) / len(estimates) ** 0.5 if repeats > 1 else np.nan
            mean = f"{np.mean(estimates):.2f} ± {1.96 * error:.2f}"
            print(
                f"| {name} | {canaries} | {outcomes[0].stated:.2f} | {counts} | {mean} |",
                flush=True,
            )
    runs = len(plays) * len(sizes) * repeats
    for supposed, wrong in zip((*_NOISES, "noise of rounds"), total, strict=True):
        print(f"{supposed}: false {share(int(wrong), runs)}")
    return runs


def _seed(mechanism: int, repeat: int) -> int:
    """Of its own for each row: two mechanisms of one noise are not to show the same."""
    return 10_000 * mechanism + repeat


def share(count: int, runs: int) -> str:
    """So many of so many, with the 95 % interval of Clopper and Pearson."""
    low, high = stats.binomtest(count, runs).proportion_ci()
    return f"{count} of {runs} ({low:.2f} to {high:.2f})"


def _play(how: Mechanism, canaries: int, seed: int, fault: Fault | None) -> FederationOutcome:
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
        return judge(folder, score_transcript(folder, place / "run", place / "s.npz", sees=sees))


def judge(folder: Path, path: Path, stated: tuple[float, float] | None = None) -> FederationOutcome:
    """Whether scores contradict an ε.

    Args:
        folder: of the canaries.
        path: of the scores.
        stated: the ε and its δ; by default what the transcript states.
    """
    scores = read_scores(path, canary_files.read_clients(folder))
    inserted = np.load(folder / canary_files.SEALED)["inserted"]
    epsilon, delta = stated or scores.stated or (np.nan, np.nan)
    wrong = tuple(_bound(scores, inserted, delta, each) > epsilon for each in _NOISES)
    round_noise = scores.noise
    noise = bool(round_noise and check_noise(round_noise, scores.steps, "round").faults)
    estimate = gaussian_estimate(scores.score, inserted, delta).value
    return FederationOutcome(epsilon, wrong, estimate, noise)


def _bound(
    scores: CanaryScores, inserted: np.ndarray, delta: float, noise: NoiseAssumption
) -> float:
    """As an audit has it: all rounds together with half of the error, each one with the rest."""
    looks = [(scores.score, 1)]
    if scores.rounds is not None:
        looks = [(scores.score, 2), *((each, 2 * len(scores.rounds)) for each in scores.rounds)]
    return max(
        epsilon_lower_bound(score, inserted, delta, drawn="coins", noise=noise, tries=tries).value
        for score, tries in looks
    )


@contextmanager
def _broken(fault: Fault) -> Iterator[None]:
    add_normal = SeededNoise.add_normal

    def noise(self: SeededNoise, values: np.ndarray, scale: float) -> np.ndarray:
        source = SeededNoise(np.random.default_rng(7)) if fault.repeated else self
        return add_normal(source, values, fault.scale * scale)

    with mock.patch.object(SeededNoise, "add_normal", noise):
        if fault.clipped:
            yield
            return
        with (
            mock.patch.object(dp_fedavg, "clip_to_norm", lambda vector, _: vector),
            mock.patch.object(LocalNoise, "clip_to_norm", lambda _, vector: vector),
        ):
            yield
