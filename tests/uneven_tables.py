"""Tables of scores whose shape tells formulas apart that agree on two equal groups.

Whatever decides by a table of scores is tested on each of them: where groups are equal, where there
is one attack, or where no scores tie, a wrong formula may give the right figure.
"""

from typing import NamedTuple

import numpy as np


class ScoreTable(NamedTuple):
    """Scores of attacks on the same records, and the truth."""

    scores: np.ndarray
    """Shape (attacks, records)."""
    member: np.ndarray
    label: np.ndarray

    @property
    def members(self) -> int:
        """The number of members."""
        return int(self.member.sum())

    @property
    def nonmembers(self) -> int:
        """The number of non-members."""
        return int((~self.member).sum())

    def exchanged(self) -> "ScoreTable":
        """The table with members for non-members."""
        return self._replace(member=~self.member)


def draw(
    members: int,
    nonmembers: int,
    attacks: int,
    classes: int,
    shift: float = 0.0,
    decimals: int = 17,
    seed: int = 0,
) -> ScoreTable:
    """Normal scores of records in random order; the members' are higher by ``shift``."""
    rng = np.random.default_rng(seed)
    member = rng.permutation(np.arange(members + nonmembers) < members)
    scores = rng.normal(size=(attacks, len(member))) + shift * member
    return ScoreTable(scores.round(decimals), member, rng.integers(classes, size=len(member)))


TABLES = {
    "few members": draw(40, 160, 3, 2),
    "few non-members": draw(160, 40, 3, 2),
    "one attack": draw(50, 80, 1, 2),
    "40 attacks": draw(70, 90, 40, 2),
    "ties": draw(60, 100, 3, 2, decimals=0),
    "three classes and a leak": draw(50, 130, 4, 3, shift=1.0),
    "ties and a leak": draw(130, 50, 4, 2, shift=1.0, decimals=0),
    "one class": draw(50, 80, 3, 1),
    "one member": draw(1, 40, 2, 2),
    "one record of each": draw(1, 1, 2, 2),
}
LEAKY = ("three classes and a leak", "ties and a leak")
"""The tables in which members score higher."""
