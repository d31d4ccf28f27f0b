"""Rebuilding unknown features: all candidates in one batch, against one candidate at a time."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from benchmarks.timing import Contender, Outcome, Timing, environment, interleaved, table
from divulge._util.random import stream
from divulge.attacks.membership.mrad.reconstruction import Access, Descent
from divulge.core import Need, Target
from divulge.data import known_features

SUMMARY = "stage 1 of MRAD for 1,000 candidates: one batch, and one by one"


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Time both ways to rebuild features, by gradients and by queries; compare by gradients."""
    records = 50 if quick else 1_000
    print(environment(("divulge", "torch")))
    print(
        f"{records:,} synthetic records of 784 features, half of them unknown; a perceptron of 256 "
        "and 64; one step\n"
    )
    outcomes: dict[Access, Outcome] = {}
    # questions take seconds, which one run measures well enough
    times: tuple[tuple[Access, int], ...] = (("gradients", 1 if quick else 5), ("answers", 1))
    for access, repeats in times:
        timings = _timed(access, records, repeats)
        ours = timings[0]
        outcomes[access] = Outcome(ours, timings[1])
        asked = Descent(1000.0, 1, access=access).count_queries(1)
        print(f"{access}: {asked} a record; {1e3 * ours.best / records:.3f} ms a record in a batch")
        print(table(timings, ours), "\n")
    return outcomes["gradients"]


def _timed(access: Access, records: int, repeats: int) -> list[Timing]:
    rng = stream(0, "synthetic records")
    x = rng.random((records, 784)).astype(np.float32)
    y = rng.integers(0, 10, records)
    known = known_features.random_mask(x.shape, 0.5, rng)
    target, descent = _target(), Descent(1000.0, 1, access=access)

    def together() -> Float64[np.ndarray, "records features"]:
        return descent(target, x, y, known, stream(0, "directions"))

    def one_by_one() -> Float64[np.ndarray, "records features"]:
        draws = stream(0, "directions")
        rows = [slice(k, k + 1) for k in range(records)]
        return np.concatenate([descent(target, x[r], y[r], known[r], draws) for r in rows])

    def question_by_question() -> Float64[np.ndarray, "records features"]:
        draws, alone = stream(0, "directions"), _OneAtATime(target)
        rows = [slice(k, k + 1) for k in range(records)]
        return np.concatenate([descent(alone, x[r], y[r], known[r], draws) for r in rows])

    contenders = [Contender(f"{access}, one batch", together), Contender("one by one", one_by_one)]
    if access == "answers":
        # The algorithm as it is written: a loop over directions, for each record.
        contenders.append(Contender("one question at a time", question_by_question))
    else:
        # The same work: what differs is the order in which floating-point sums are taken. A step
        # of 1000 enlarges float32's rounding of gradients, of about 1e-7, to 1e-4.
        worst = float(np.abs(together() - one_by_one()).max())
        print(f"{access}: largest difference between the two {worst:.1e}")
    return interleaved(contenders, repeats)


class _OneAtATime(NamedTuple):
    """A model that is asked about one record at a time."""

    target: Target

    @property
    def offers(self) -> Need:
        return self.target.offers

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate([self.target.predict(x[k : k + 1]) for k in range(len(x))])


def _target() -> Target:
    import torch
    from torch import nn

    from divulge.targets.torch import TorchTarget

    torch.manual_seed(0)
    layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10)]
    return TorchTarget(nn.Sequential(*layers), "logits", batch_size=8192)
