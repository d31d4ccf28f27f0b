"""ReCaLL: how much a text's log-likelihood falls behind texts that the model never saw."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import Count, check_arguments
from divulge.attacks.shared import token_prefixes, token_signals
from divulge.core import ModelView, Need, Scores
from divulge.errors import SpecError


@check_arguments
@dataclass(frozen=True, slots=True)
class ReCaLL:
    """Mean log-probability of a text behind known non-members, by that of the text alone.

    The texts before it are drawn from the reference records, which are no candidates: without
    these the attack does not run. Where the model cannot read all of them before the longest
    candidate, the first are left out.

    Args:
        shots: how many texts stand before a candidate; all where there are fewer.

    References:
        Xie et al. (2024), ReCaLL: membership inference via relative conditional log-likelihoods
        (arXiv 2406.15968), section 3. Departures: a space stands between texts, and the same
        tokens are averaged with the texts before and without.
    """

    shots: Count = 7

    name: ClassVar[str] = "recall"
    paper: ClassVar[str] = "Xie et al. 2024"
    needs: ClassVar[Need] = Need.TOKENS | Need.PREFIX | Need.REFERENCE

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The ratio of each text: above 1 where it is less likely behind others.

        Raises:
            NotApplicable: the model cannot read another text before the longest.
        """
        assert view.reference is not None
        own = token_signals.read_tokens(view, view.records)
        behind = token_prefixes.mean_behind(view, view.reference, self.shots, own, rng)
        return Scores(token_signals.ratio(behind, token_signals.mean_logprob(own)))


@check_arguments
@dataclass(frozen=True, slots=True)
class ConReCaLL:
    """ReCaLL, less a part of the same behind members that the attacker knows.

    The texts before a candidate are drawn from the reference records, and from the known members;
    none of either is a candidate.

    Args:
        shots: how many texts stand before a candidate; all where there are fewer.
        gamma: what part is taken off, from 0 (ReCaLL) to 1.

    References:
        Wang et al. (2025), Con-ReCall: detecting pre-training data in LLMs via contrastive decoding
        (arXiv 2409.03363), section 3. Departures: those of ReCaLL; ``gamma`` is a setting, and not
        chosen by who is a member.
    """

    shots: Count = 7
    gamma: float = 0.5

    name: ClassVar[str] = "con-recall"
    paper: ClassVar[str] = "Wang et al. 2025"
    needs: ClassVar[Need] = Need.TOKENS | Need.PREFIX | Need.REFERENCE | Need.KNOWN_MEMBERS

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise SpecError(f"expected gamma from 0 to 1, got {self.gamma:g}: the default is 0.5")

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The contrast of each text.

        Raises:
            NotApplicable: the model cannot read another text before the longest.
        """
        assert view.reference is not None
        assert view.known_members is not None
        own = token_signals.read_tokens(view, view.records)
        outside, inside = (
            token_prefixes.mean_behind(view, known, self.shots, own, rng)
            for known in (view.reference, view.known_members)
        )
        alone = token_signals.mean_logprob(own)
        less = self.gamma * token_signals.ratio(inside, alone)
        return Scores(token_signals.ratio(outside, alone) - less)
