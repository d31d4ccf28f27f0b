"""Small tables of scores with a known truth: members score higher, or like everybody."""

from typing import ClassVar

import numpy as np

from divulge.core import Membership, ModelView, Need, Records
from divulge.targets.recorded import TableTarget
from divulge.testing.membership import Models, gives_one_finite_score_a_record
from divulge.testing.properties import GameSet, Property

SIZE = 120


def _game(seed: int, shift: float) -> GameSet:
    rng = np.random.default_rng([seed, 7])
    member = rng.permutation(2 * SIZE) < SIZE
    score = rng.normal(size=2 * SIZE) + shift * member
    records = Records(np.arange(2 * SIZE)[:, None], np.zeros(2 * SIZE, np.int64))
    view = ModelView(TableTarget(score[:, None], Need.SCORES), records)
    return GameSet((view,), (Membership(member),))


class ScoreTables(Models):
    """Games on scores that somebody computed."""

    own: ClassVar[tuple[Property, ...]] = (gives_one_finite_score_a_record,)

    def leaky(self, seed: int = 0) -> GameSet:
        """Members score higher by one standard deviation."""
        return _game(seed, 1.0)

    def silent(self, seed: int) -> GameSet:
        """Scores have nothing to do with membership."""
        return _game(seed, 0.0)
