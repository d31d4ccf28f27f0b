"""Nothing leaks, and the two sets differ: what is said of them, by the way to audit.

The slow tests hold the rates of `benchmarks.nulls` against their promise.
"""

from pathlib import Path

import pytest
from scipy import stats

from benchmarks import nulls

LEVEL = 0.05

FEW, MANY = 2, 40
"""Audits of a quick and of a slow test."""

DECIDED = {
    "4 copies of each record": "inputs doubtful",
    "fewer digits": "confounded",
    "larger true values": "confounded",
}
"""By scenario that a check sees: the verdict."""

SEEN_BY_THE_MODEL_ALONE = {"another temperature"}
"""What changes the answers of the audited model and of no other: nothing here tells it from memory
(decision 0019). Only a table alone says so, by *leak or shift*."""


@pytest.mark.parametrize("scenario", DECIDED)
@pytest.mark.parametrize("entry", nulls.ENTRIES)
def test_what_a_check_sees_is_never_a_leak(scenario: str, entry: str) -> None:
    (counts,) = nulls.verdicts(scenario, FEW, [entry]).values()
    assert set(counts) == {DECIDED[scenario]}


@pytest.mark.parametrize("scenario", nulls.SCENARIOS)
def test_a_table_alone_never_shows_a_leak(scenario: str, tmp_path: Path) -> None:
    assert nulls.judge_table(nulls.SCENARIOS[scenario](0), tmp_path) != "leak"


@pytest.mark.slow
@pytest.mark.parametrize("scenario", nulls.SCENARIOS)
def test_leaks_are_stated_as_rarely_as_promised(scenario: str) -> None:
    """More often than so by chance in one of 10,000 runs."""
    most = stats.binom.ppf(1 - 1e-4, MANY, LEVEL)
    counts = nulls.verdicts(scenario, MANY)
    too_often = {entry for entry, levels in counts.items() if levels["leak"] > most}
    excepted = set(nulls.ENTRIES) - {"table"} if scenario in SEEN_BY_THE_MODEL_ALONE else set()
    assert too_often == excepted
