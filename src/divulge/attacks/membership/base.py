"""BASE compares the likelihood that the target gives a record with the mean over shadows."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.attacks.shared.shadow_signals import (
    Column,
    mean_over_queries,
    read_softened,
    ways_of_asking,
)
from divulge.core import ModelView, Need, Scores
from divulge.errors import NotApplicable, SpecError
from divulge.metrics.softened import softened_log_probability


@check_arguments
@dataclass(frozen=True, slots=True)
class BASE:
    """Likelihood of the record over its mean over all shadow models: the Bayes-optimal score.

    Online the score is log p_target(x) - log p(x), with the mean p(x) over all shadow models; p is
    the probability of the true class where each logit is divided by a temperature of 2. Offline log
    p(x) is multiplied by ``scale``. `RMIA` orders records by the same ratio.

    Args:
        scale: the factor of log p(x) offline, between 0 and 1; 0.33 in the authors' code.

    References:
        Lassila, Östman, Ngo and Graell i Amat (2025), Practical Bayes-optimal membership inference
        attacks, with the code in LeakPro. Departure: if candidates are queried in several ways, p
        is the geometric mean.
    """

    scale: float = 0.33

    name: ClassVar[str] = "base"
    paper: ClassVar[str] = "Lassila et al. 2025"

    def __post_init__(self) -> None:
        if not 0 <= self.scale <= 1:
            raise SpecError(f"expected scale between 0 and 1, got {self.scale}")

    @property
    def needs(self) -> Need:
        """The model's probabilities, and shadows."""
        return Need.PROBABILITIES | Need.LABELS | Need.SHADOWS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log likelihood of each candidate under the target, less what shadows expect.

        Raises:
            NotApplicable: of shadow models only φ was kept.
        """
        del rng
        shadows, ways = view.shadows, ways_of_asking(view)
        assert shadows is not None
        if len(shadows.softened) != len(ways):
            raise NotApplicable(
                "expected log probabilities of shadow models at temperature 2, got their φ alone, "
                "from which they do not follow: give softened in Shadows"
            )
        target = [softened_log_probability(view.target.predict(way.x), way.y) for way in ways]
        # offline no shadow knows the record: the authors' factor stands for those that would
        share = 1.0 if shadows.online else self.scale
        # the log of a mean, and not the mean of logs: Bayes' rule averages likelihoods
        blocks = (np.logaddexp.reduce(log_p, axis=1) for log_p in read_softened(shadows))
        expected: Column = np.concatenate(list(blocks)) - np.log(shadows.phi.shape[1])
        return Scores(mean_over_queries(target) - share * expected)
