"""WBC: windows of tokens vote on whether the target or a reference finds them likelier."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import Count, check_arguments
from divulge.attacks.shared import token_signals
from divulge.core import ModelView, Need, Scores
from divulge.errors import SpecError


@check_arguments
@dataclass(frozen=True, slots=True)
class WBC:
    """The share of windows of a text that are likelier to the target than to the reference.

    Each window of consecutive tokens has one vote, whatever the size of the difference; the shares
    of several window sizes are averaged.

    Args:
        smallest: number of tokens of the shortest windows.
        largest: of the longest ones.
        sizes: how many sizes there are, in a geometric row, rounded.

    References:
        Chen et al. (2026), Window-based membership inference attacks against fine-tuned large
        language models (arXiv 2601.02751), section 4.1. Departure: windows longer than a text have
        no vote, and the mean of several references is the reference.
    """

    smallest: Count = 2
    largest: Count = 40
    sizes: Count = 10

    name: ClassVar[str] = "wbc"
    paper: ClassVar[str] = "Chen et al. 2026"
    needs: ClassVar[Need] = Need.TOKENS

    def __post_init__(self) -> None:
        if self.smallest > self.largest:
            raise SpecError(
                f"expected smallest windows of {self.largest} tokens at most, got {self.smallest}: "
                "exchange smallest and largest"
            )

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The mean share of votes of each text.

        Raises:
            NotApplicable: there is no reference.
        """
        del rng
        tokens = token_signals.read_tokens(view, view.records)
        # equation 12: sizes in a geometric row; rounding may repeat one, which then votes twice
        sizes = np.round(np.geomspace(self.smallest, self.largest, self.sizes)).astype(int)
        gain = token_signals.gains(tokens)
        return Scores(token_signals.window_votes(tokens, gain, tuple(sizes.tolist())))
