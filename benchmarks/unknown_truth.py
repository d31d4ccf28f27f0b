"""Whether simulated clients say rightly how far off guesses of class shares are."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from sklearn.datasets import load_digits
from torch import nn

from benchmarks.means import format_mean
from divulge._util.random import stream
from divulge.attacks import Decaf
from divulge.core import LocalTraining, Proportions, Records, UpdateView
from divulge.federation import Federation, exact, simulate
from divulge.metrics.expected import largest_error
from divulge.metrics.intervals import clustered_proportion
from divulge.report.federation.verdicts.expected_shares import ExpectedShares
from divulge.training.recipe import Recipe

SUMMARY = "expected errors of decaf without the truth, beside the true ones"

CLASSES, SIZE, EVEN, UNEVEN, REFERENCE, ROUNDS = 10, 40, 6, 8, 40, 3
"""Classes; records of a client; even and uneven clients; reference records of a class; rounds."""

LEVEL = 0.05


def _network() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, CLASSES))


SGD = Recipe(_network, "sgd", lr=0.1, epochs=2, batch_size=10)
ADAM = Recipe(_network, "adam", lr=0.01, epochs=5, batch_size=10)


class Case(NamedTuple):
    """Federations of one kind."""

    recipe: Recipe
    """By which clients train."""
    stated: LocalTraining = LocalTraining()
    """What the server is told of it wrongly."""
    level: str = "virtual"
    federations: int = 3
    inverted: bool = False
    """Whether the reference records are of another population: images with light and dark
    exchanged."""


CASES = {
    "virtual, SGD": Case(SGD, federations=8),
    "virtual, Adam": Case(ADAM, federations=8),
    "SGD, half the rate was told": Case(SGD, LocalTraining(lr=0.05)),
    "SGD, a rate 20 % too low was told": Case(SGD, LocalTraining(lr=0.08)),
    "SGD, 1 epoch of 2 was told": Case(SGD, LocalTraining(epochs=1)),
    "SGD, batches of 20 and not 10 were told": Case(SGD, LocalTraining(batch_size=20)),
    "Adam, half the rate was told": Case(ADAM, LocalTraining(lr=0.005)),
    "SGD, another population": Case(SGD, inverted=True),
    "refined, Adam": Case(ADAM, level="refined", federations=2),
}


class FederationOutcome(NamedTuple):
    """What one federation showed."""

    truth: list[Proportions]
    guess: Sequence[Proportions]
    by: ExpectedShares

    @property
    def off(self) -> np.ndarray:
        """True L1 distances."""
        pairs = zip(self.guess, self.truth, strict=True)
        return np.array([np.abs(guess.share - truth.share).sum() for guess, truth in pairs])

    @property
    def even(self) -> np.ndarray:
        """Which clients are even."""
        return np.array([np.ptp(truth.share) == 0 for truth in self.truth])


def run(quick: bool) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print a block a case: errors and their limits, null classes, evenness, likeness."""
    for name, case in CASES.items():
        many = 2 if quick else case.federations
        print(f"\n{name}, {many} federations of {EVEN} even and {UNEVEN} uneven clients")
        _report([_play(case, seed) for seed in range(many)])


def _report(every: Sequence[FederationOutcome]) -> None:
    limits = [
        np.array([largest_error(error.l1) for error in outcome.by.errors]) for outcome in every
    ]
    within = [outcome.off <= limit for outcome, limit in zip(every, limits, strict=True)]
    expected = [
        float(np.mean([error.l1.mean() for error in outcome.by.errors])) for outcome in every
    ]
    true = [float(outcome.off.mean()) for outcome in every]
    equal = [_of_equal_shares(outcome.truth) for outcome in every]
    means = {"expected": expected, "true": true, "equal shares": equal}
    print("mean L1: " + ", ".join(f"{name} {format_mean(of)}" for name, of in means.items()))
    print(f"true L1 within the 90 % limit: {_share(within)}")
    for which, kind in ((True, "even"), (False, "uneven")):
        of = [part[outcome.even == which] for outcome, part in zip(every, within, strict=True)]
        print(f"  of {kind} clients: {_share(of)}")
    null = [np.array([guess.null for guess in outcome.guess]) for outcome in every]
    lacks = [np.array([truth.null for truth in outcome.truth]) for outcome in every]
    pairs = list(zip(null, lacks, strict=True))
    print(f"declared null, but there: {_share([~lack[declared] for declared, lack in pairs])}")
    print(f"null, but not declared: {_share([~declared[lack] for declared, lack in pairs])}")
    expects = [
        np.sum([error.null for error in outcome.by.errors], axis=(0, 1)) for outcome in every
    ]
    counts = np.sum(expects, axis=0)
    print(f"  expected: {counts[1] / counts[0]:.3f} and {counts[3] / counts[2]:.3f}")
    low = [np.array([guess.even for guess in outcome.guess]) <= LEVEL for outcome in every]
    named = [outcome.by.even <= LEVEL for outcome in every]
    for which, kind in ((True, "even"), (False, "uneven")):
        raw, uneven = (
            [part[outcome.even == which] for outcome, part in zip(every, parts, strict=True)]
            for parts in (low, named)
        )
        print(f"{kind} clients with p <= 0.05: {_share(raw)}; named uneven: {_share(uneven)}")
    far = [np.array([error.far for error in outcome.by.errors]) <= LEVEL for outcome in every]
    unlike = sum(outcome.by.unlike <= LEVEL or bool(outcome.by.strange.all()) for outcome in every)
    print(f"clients unlike simulated ones, p <= 0.05: {_share(far)}; whole federations: {unlike}")
    levels = [outcome.by.judge("decaf").level for outcome in every]
    print(f"expected leak: {levels.count('expected leak')} of {len(levels)}", flush=True)


def _share(hits: Sequence[np.ndarray]) -> str:
    """A share, whose interval counts federations as groups."""
    some = [group for group in hits if group.size]
    if len(some) < 2:
        return "too few"
    right, trials = (np.array([int(np.sum(f)) for f in each]) for each in (
        some, [np.ones(group.size) for group in some]
    ))  # fmt: skip
    low, high = clustered_proportion(right, trials)
    return f"{right.sum() / trials.sum():.3f} ({low:.3f} to {high:.3f}) of {trials.sum()}"


def _of_equal_shares(truth: Sequence[Proportions]) -> float:
    return float(np.mean([np.abs(client.share - 1 / CLASSES).sum() for client in truth]))


def _play(case: Case, seed: int) -> FederationOutcome:
    views, truth = _federation(case, seed)
    guess = Decaf(level=case.level, rounds=ROUNDS).many(views, stream(seed, "attack"))  # type: ignore[arg-type]
    by = ExpectedShares.of(guess)
    assert by is not None
    return FederationOutcome(truth, guess, by)


def _federation(case: Case, seed: int) -> tuple[list[UpdateView], list[Proportions]]:
    rng = stream(seed, "unknown truth")
    x, y = load_digits(return_X_y=True)
    order = rng.permutation(len(y))
    records = Records((x[order] / 16).astype(np.float32), y[order].astype(np.int64))
    own = np.concatenate([np.flatnonzero(records.y == k)[:REFERENCE] for k in range(CLASSES)])
    pool, reference = records.take(np.setdiff1d(order, own)), records.take(own)
    if case.inverted:
        reference = replace(reference, x=1 - reference.x)
    counts = _counts(np.bincount(pool.y, minlength=CLASSES), rng)
    federation = Federation(pool, exact(pool, counts, seed), case.recipe, seed=seed, workers=1)
    transcript = simulate(federation, ROUNDS)
    rounds = tuple(
        replace(played, training=_mistaken(played.training, case.stated))
        for played in transcript.rounds
    )
    views = [UpdateView(str(k), rounds, _network, reference) for k in range(len(counts))]
    return views, [Proportions.of(row) for row in counts]


def _mistaken(training: LocalTraining, stated: LocalTraining) -> LocalTraining:
    return replace(
        training,
        lr=stated.lr or training.lr,
        epochs=stated.epochs or training.epochs,
        batch_size=stated.batch_size or training.batch_size,
    )


def _counts(most: Int[np.ndarray, " classes"], rng: np.random.Generator) -> np.ndarray:
    """Counts of all clients, drawn again until the records suffice."""
    while True:
        even = np.full((EVEN, CLASSES), SIZE // CLASSES)
        mixes = list(_mixes(rng))
        counts = np.concatenate([even, [rng.multinomial(SIZE, mix) for mix in mixes]])
        if (counts.sum(axis=0) <= most).all():
            return counts


def _mixes(rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Mixes of all kinds, drawn otherwise than those of virtual clients: by one concentration."""
    for _ in range(UNEVEN):
        there = int(rng.integers(2, CLASSES + 1))
        mix = np.zeros(CLASSES)
        mix[rng.permutation(CLASSES)[:there]] = rng.dirichlet(np.full(there, 0.8))
        yield mix
