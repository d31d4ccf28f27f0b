"""All signals of the threshold attack against one pass over the same array."""

from collections.abc import Callable
from typing import get_args

import numpy as np

from benchmarks.answers import Answers, synthetic
from benchmarks.timing import Contender, Outcome, environment, interleaved, table
from divulge.metrics.signals import SignalName, compute_signal

SUMMARY = "all signals of the threshold attack, and one pass of NumPy over the same answers"

_SIGNALS: tuple[SignalName, ...] = get_args(SignalName)


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Print the time of all signals, of each, and of three kinds of pass."""
    answers = synthetic(5_000 if quick else 50_000, 100)
    contenders = [
        Contender("divulge: all six signals", _each(answers, _SIGNALS)),
        Contender("numpy: one logarithm of the array, and a sum", lambda: np.log(answers.p).sum()),
        Contender("numpy: one sum over the array", answers.p.sum),
        Contender("numpy: one copy of the array", answers.p.copy),
        *(Contender(f"divulge: {name}", _each(answers, (name,))) for name in _SIGNALS),
    ]
    timings = interleaved(contenders, 5 if quick else 21)
    print(f"{len(answers.y):,} synthetic answers over 100 classes, float64")
    print(environment(("divulge", "numpy")))
    print(table(timings, base=timings[1]))
    print("ours: all six signals; theirs: the logarithm, the least that an entropy needs")
    return Outcome(ours=timings[0], theirs=timings[1])


def _each(answers: Answers, names: tuple[SignalName, ...]) -> Callable[[], object]:
    return lambda: [compute_signal(name, answers.p, answers.y) for name in names]
