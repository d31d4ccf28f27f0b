"""BASE compares the likelihood that the target gives a record with the mean over shadows."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.attacks.shared.shadow_signals import (
    Column,
    mean_over_queries,
    read_blocks,
    target_signals,
)
from divulge.attacks.shared.shadow_statistics import log_probability
from divulge.core import ModelView, Need, Scores, Shadows
from divulge.errors import SpecError


@check_arguments
@dataclass(frozen=True, slots=True)
class BASE:
    """Likelihood of the record over its mean over all shadow models: the Bayes-optimal score.

    Online the score is log p_target(x) - log p(x), with the mean p(x) over all shadow models.
    Offline log p(x) is multiplied by ``scale``. `RMIA` orders records by the same ratio, but
    weights shadow models with and without x equally and chooses its parameters.

    Args:
        temperature: T of `RMIA`, above 0; 2 in the authors' code.
        scale: the factor of log p(x) offline, between 0 and 1; 0.33 in the authors' code.

    References:
        Lassila, Östman, Ngo and Graell i Amat (2025), Practical Bayes-optimal membership inference
        attacks, with the code in LeakPro. Departures: T divides φ and not each logit; if candidates
        are queried in several ways, p is the geometric mean.
    """

    temperature: float = 2.0
    scale: float = 0.33

    name: ClassVar[str] = "base"
    paper: ClassVar[str] = "Lassila et al. 2025"

    def __post_init__(self) -> None:
        if self.temperature <= 0 or not 0 <= self.scale <= 1:
            raise SpecError(
                "expected temperature above 0 and scale between 0 and 1, got "
                f"temperature={self.temperature}, scale={self.scale}"
            )

    @property
    def needs(self) -> Need:
        """The model's probabilities, and shadows."""
        return Need.PROBABILITIES | Need.LABELS | Need.SHADOWS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log likelihood of each candidate under the target, less what shadows expect."""
        del rng
        assert view.shadows is not None
        target = self._log_p(target_signals("scaled_logit", view))
        expected = self._log_mean(view.shadows)
        # offline no shadow knows the record: the authors' factor stands for those that would
        return Scores(target - (1.0 if view.shadows.online else self.scale) * expected)

    def _log_p(self, ways: tuple[np.ndarray, ...]) -> np.ndarray:
        return mean_over_queries([log_probability(phi / self.temperature) for phi in ways])

    def _log_mean(self, shadows: Shadows) -> Column:
        """The log of the mean likelihood over all shadows."""
        # the log of a mean, and not the mean of logs: Bayes' rule averages likelihoods
        parts = (np.logaddexp.reduce(self._log_p(b.phi), axis=1) for b in read_blocks(shadows))
        log_mean: Column = np.concatenate(list(parts)) - np.log(shadows.phi.shape[1])
        return log_mean
