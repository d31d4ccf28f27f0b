"""The evidence of each attack under the one test of all of them, and which attack decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from divulge.core import Measured
from divulge.metrics.max_test import LEVEL, MaxTest
from divulge.report.schema import AttackRow, Limits


@dataclass(frozen=True, slots=True)
class Evidence:
    """One done attack, as the verdict sees it."""

    row: AttackRow
    p_value: float
    """Corrected for all attacks."""
    statistic: int
    """Which of `STATISTICS` is spoken of."""
    deviation: float
    """The largest of them, in standard deviations."""
    shift: float
    """The deviation of its AUC."""
    backwards: bool
    """Its AUC lies as far below chance as would be a find above it."""

    @property
    def leaks(self) -> bool:
        """Chance does not explain what it shows."""
        return self.p_value <= LEVEL


def weigh(row: AttackRow, test: MaxTest, k: int) -> Evidence:
    """What the test says of its k-th attack."""
    statistic = _telling(test.deviation[k], test.critical)
    return Evidence(
        row=row,
        p_value=float(test.p[k]),
        statistic=statistic,
        deviation=float(test.deviation[k].max()),
        shift=float(test.deviation[k, 0]),
        backwards=float(test.deviation[k, 0]) < -test.critical,
    )


def _telling(deviation: Float64[np.ndarray, " statistics"], critical: float) -> int:
    """The statistic to speak of: the AUC if it shows a leak, else the most telling top.

    Of tops that are equally telling, as where scores tie, the largest says most.
    """
    if deviation[0] > critical or not (deviation > critical).any():
        return 0
    tops = np.round(deviation[1:], 6)
    return len(tops) - int(np.argmax(tops[::-1]))


def deciding(evidence: Sequence[Evidence]) -> Evidence:
    """The deciding attack.

    A sound attack that shows a leak comes first. Failing that, an unsound one that does: it
    forbids to say that nothing was found. Failing both, the sound attack with the highest AUC.
    """
    sound = [item for item in evidence if item.row.sound]
    leaking = [item for item in sound if item.leaks]
    alarming = [item for item in evidence if item.leaks]
    if leaking or alarming:
        return max(leaking or alarming, key=lambda item: item.deviation)
    return max(sound or evidence, key=lambda item: item.shift)


def limits_of(together: Mapping[str, Measured]) -> Mapping[str, Limits]:
    """For each metric the attack with the highest lower limit, and the highest upper limit.

    Args:
        together: by attack, metrics with intervals that hold for all of them at once.
    """
    found = {}
    for name in dict.fromkeys(name for one in together.values() for name in one.metrics):
        those = {k: one.metrics[name] for k, one in together.items() if name in one.metrics}
        best = max(those, key=lambda label: (those[label].low, those[label].value))
        highs = [estimate.high for estimate in those.values() if estimate.high is not None]
        found[name] = Limits(
            attack=best,
            estimate=those[best],
            most=max(estimate.value for estimate in those.values()),
            highest=max(highs, default=None),
            undecided=together[best].unmeasured.get(name, ""),
        )
    return found
