"""ProjRes: what a client trained on lies in the span of its update of a linear layer."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.attacks.shared.round_evidence import RoundsUsed, assign_by_evidence
from divulge.core import Assignment, FederationView, Need
from divulge.errors import SpecError


@check_arguments
@dataclass(frozen=True, slots=True)
class ProjRes:
    """How little of a record's input to a linear layer lies outside the span of a client's update.

    The update of a linear layer's weights is a sum of the inputs that the layer saw, so that a
    record whose input is not in the span of its rows was not trained on. The evidence is minus the
    length of what the projection leaves, as a share of the input. It needs neither labels nor
    shadow models. A candidate is assigned to the client with the most evidence among those above
    their threshold.

    Args:
        layer: the name of a linear layer in the network; none: the one that can name most records,
            by its outputs up to half its inputs.
        rounds: ``all`` is the mean over the rounds of a client; ``last`` takes its last one.
        fpr: share of a client's external records whose evidence may exceed its threshold.

    References:
        Deng et al. (2026), Toward efficient membership inference attacks against federated large
        language models: a projection residual approach (arXiv 2604.21197). Its abstract alone was
        at hand: the choice of the layer, of the directions, of thresholds and among clients are
        ours.
    """

    layer: str | None = None
    rounds: RoundsUsed = "all"
    fpr: float = 0.05

    name: ClassVar[str] = "projres"
    paper: ClassVar[str] = "Deng et al. 2026"
    needs: ClassVar[Need] = Need.UPDATES | Need.REFERENCE

    def __post_init__(self) -> None:
        if not 0 < self.fpr < 1:
            raise SpecError(f"expected fpr above 0 and below 1, got {self.fpr}")

    def __call__(self, view: FederationView, rng: np.random.Generator) -> Assignment:
        """The client of each candidate, and the evidence for each."""
        del rng
        updates = view.updates
        assert updates is not None
        return assign_by_evidence(
            view,
            lambda records: [-residual for residual in updates.residuals(records, self.layer)],
            self.rounds,
            self.fpr,
            fewest=1,
        )
