"""Hold each round of a federation against the rounds before it: is its noise new, and as large?"""

from collections.abc import Sequence

import numpy as np

from divulge.canaries.entries import EntrySample, Places
from divulge.canaries.steps import Step, StepNoise
from divulge.core import Round
from divulge.data.noise import SeenNoise
from divulge.federation.canaries import DEVIATION, floating
from divulge.federation.transcript.reader import Transcript


def watch_rounds(transcript: Transcript, rounds: Sequence[int], seed: int) -> SeenNoise:
    """What the new weights of rounds show of the noise in them.

    Clients' updates have a part in every direction, so nothing is said where no round states how
    large its noise is.

    Args:
        transcript: the transcript.
        rounds: the numbers of those that made new weights.
        seed: draws the entries that are looked at.
    """
    first = floating(transcript.rounds[rounds[0]].sent)
    sizes = {name: value.size for name, value in sorted(first.items())}
    sample = EntrySample(sizes, np.random.default_rng(seed))
    noise = StepNoise(sample.parts, 0)
    for done in (transcript.rounds[number] for number in rounds):
        deviation = done.metrics.get(DEVIATION)
        noise.add(Step(_moved(done, sample), np.zeros(0), 0.0, deviation))
    return noise.seen()


def _moved(done: Round, sample: EntrySample) -> np.ndarray:
    def read(name: str, places: Places) -> np.ndarray:
        assert done.aggregated is not None
        new, old = (model[name].ravel()[places] for model in (done.aggregated, done.sent))
        return np.asarray(new.astype(np.float64) - old)

    return sample.take(read)
