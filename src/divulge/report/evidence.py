"""Each attack has its evidence in the one test of all attacks; one attack decides the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from divulge.attacks.catalog import ATTACKS_WITH_SHADOWS
from divulge.core import Measurements
from divulge.metrics.max_test import LEVEL, LEVEL_BELOW, MaxTest
from divulge.report.schema import AttackRow, Limits


@dataclass(frozen=True, slots=True)
class Evidence:
    """One done attack, as the verdict sees it."""

    row: AttackRow
    p_value: float
    """P-value, corrected for all attacks."""
    statistic: int
    """Index in `STATISTICS` of the statistic that the verdict speaks of."""
    deviation: float
    """Largest deviation of its statistics, in standard deviations."""
    shift: float
    """Deviation of its AUC, in standard deviations."""
    p_below: float
    """Probability, corrected for all attacks, of an AUC so far below chance."""

    @property
    def leaks(self) -> bool:
        """Whether chance fails to explain its evidence."""
        return self.p_value <= LEVEL

    @property
    def backwards(self) -> bool:
        """Whether chance fails to explain that it ranks members below non-members."""
        return self.p_below <= LEVEL_BELOW


def weigh_evidence(row: AttackRow, test: MaxTest, k: int) -> Evidence:
    """Collect the evidence of the k-th attack in the test."""
    statistic = _telling_statistic(test.deviation[k], test.critical)
    return Evidence(
        row=row,
        p_value=float(test.p[k]),
        statistic=statistic,
        deviation=float(test.deviation[k].max()),
        shift=float(test.deviation[k, 0]),
        p_below=float(test.p_below[k]),
    )


def _telling_statistic(deviation: Float64[np.ndarray, " statistics"], critical: float) -> int:
    """The statistic to speak of: the AUC if it shows a leak, else the most telling top.

    Of tops that are equally telling, as where scores tie, the largest says most.
    """
    if deviation[0] > critical or not (deviation > critical).any():
        return 0
    tops = np.round(deviation[1:], 6)
    return len(tops) - int(np.argmax(tops[::-1]))


def choose_deciding(evidence: Sequence[Evidence]) -> Evidence:
    """Choose the deciding attack.

    A sound attack that shows a leak comes first. Failing that, the sound attack that ranks members
    furthest below non-members, if chance cannot explain it. Failing that, an unsound one that shows
    a leak: it forbids to say that nothing was found. Failing all, the sound attack with the highest
    AUC.
    """
    sound = [item for item in evidence if item.row.sound]
    if backwards := choose_backwards(evidence):
        return backwards[0]
    leaking = [item for item in sound if item.leaks]
    alarming = [item for item in evidence if item.leaks]
    if leaking or alarming:
        return max(leaking or alarming, key=lambda item: item.deviation)
    return max(sound or evidence, key=lambda item: item.shift)


def choose_backwards(evidence: Sequence[Evidence]) -> Sequence[Evidence]:
    """Choose the sound attacks that rank members below non-members, the furthest below first.

    None is chosen where a sound attack shows a leak: sets that were exchanged reverse all
    attacks, while a single one may rank members low for reasons of its own. So a leak stands.
    """
    sound = [item for item in evidence if item.row.sound]
    if any(item.leaks for item in sound):
        return []
    return sorted((item for item in sound if item.backwards), key=lambda item: item.shift)


def limits_by_metric(together: Mapping[str, Measurements]) -> Mapping[str, Limits]:
    """For each metric the attack with the highest lower limit, and the highest upper limit.

    Args:
        together: metrics by attack, with intervals that hold for all attacks at once.
    """
    limits = {}
    for name in dict.fromkeys(name for measured in together.values() for name in measured.metrics):
        those = {
            k: measured.metrics[name]
            for k, measured in together.items()
            if name in measured.metrics
        }
        best = max(those, key=lambda label: (those[label].low, those[label].value))
        highs = [estimate.high for estimate in those.values() if estimate.high is not None]
        limits[name] = Limits(
            attack=best,
            estimate=those[best],
            most=max(estimate.value for estimate in those.values()),
            highest=max(highs, default=None),
            undecided=together[best].unmeasured.get(name, ""),
        )
    return limits


def leave_out_shadows(item: Evidence) -> Evidence:
    """The evidence, which counts for nothing if it comes from a comparison with shadow models."""
    return replace(item, p_value=1.0) if item.row.attack in ATTACKS_WITH_SHADOWS else item
