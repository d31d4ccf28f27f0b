"""MRAD rebuilds unknown features from the model, and scores how normal the result looks."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from jaxtyping import Bool, Float64

from divulge._util.arguments import check_arguments
from divulge.attacks.membership.mrad import detectors
from divulge.attacks.membership.mrad.detectors import Detector
from divulge.attacks.membership.mrad.reconstruction import Access, Descent, Optimiser
from divulge.core import ModelView, Need, Records, Scores, ShadowModel, Target, as_white_box
from divulge.errors import SpecError
from divulge.metrics import membership
from divulge.targets.budget import CountingTarget

StartPoint = Literal["zeros", "filled"]
Start = Literal["zeros", "filled", "chosen"]
Space = Literal["input", "features"]
Column = Float64[np.ndarray, " records"]

_TINY = 1e-12


@check_arguments
@dataclass(frozen=True, slots=True)
class MRAD:
    """Reconstruct unknown features by the model's gradient, then measure how unusual they are.

    Stage 1 descends on the model's loss over the unknown features alone, from zeros. Stage 2
    measures how far the result lies from the attacker's own records of the class: nearer means more
    likely a member. If the view holds a shadow model, the score is the log of the shadow's
    deviation over the target's; for ``msad`` and ``nci`` it is their difference, with the sign that
    the shadow's members tell. The defaults are the paper's: one step of 1000 from zeros.

    Args:
        detector: ``cade`` (distance to the class's centre, in median absolute deviations), ``msad``
            (cosine distance to the nearest own records) or ``nci`` (features against the last
            layer's weights).
        space: where ``cade`` and ``msad`` measure: ``input``, or the ``features`` before the last
            layer, which need white-box access, as ``nci`` does.
        access: ``gradients`` needs white-box access; ``answers`` estimates them from queries.
        step: step size of the descent.
        iterations: number of steps; 0 reconstructs nothing, the paper's ablation.
        start: unknown features begin at ``zeros``, or as they are ``filled`` in; ``chosen`` takes
            the one that tells the shadow's members better, without a shadow model the second.
        optimiser: ``sgd``, ``momentum`` or ``adam``.
        limits: smallest and largest value that a step may lead to; any by default.
        directions: with ``answers``: random directions per step and candidate.
        epsilon: with ``answers``: distance along each direction.
        two_sided: with ``answers``: whether to query on both sides.
        budget: largest number of queries, gradients included; no limit by default.
        alpha: weight of the features' size in ``nci``, not given by the paper.

    References:
        Wang et al. (2025), Membership inference attack with partial features, algorithms 1 and 2,
        eq. 4, of which only abstracts and a summary were at hand; the detectors are of Yang et al.
        (2021), CADE, Reiss and Hoshen (2023), Mean-shifted contrastive loss for anomaly detection,
        and Liu and Qin (2025), NCI. Departures: CADE's autoencoder and MSAD's fine-tuned network
        are not trained: distances are taken in ``space``.
    """

    detector: Detector = "cade"
    space: Space = "input"
    access: Access = "gradients"
    step: float = 1000.0
    iterations: int = 1
    start: Start = "zeros"
    optimiser: Optimiser = "sgd"
    limits: tuple[float, float] | None = None
    directions: int = 100
    epsilon: float = 0.01
    two_sided: bool = False
    budget: int | None = None
    alpha: float = 0.0

    name: ClassVar[str] = "mrad"
    paper: ClassVar[str] = "Wang et al. 2025"

    def __post_init__(self) -> None:
        if self.alpha < 0 or (self.budget is not None and self.budget < 1):
            raise SpecError(
                f"expected alpha from 0 and a budget from 1, got {self.alpha} and {self.budget}"
            )
        self._descent()  # refuses the rest

    @property
    def needs(self) -> Need:
        """Reference records, and what of the model the settings ask for."""
        needs = Need.PARTIAL | Need.FEATURES | Need.LABELS | Need.REFERENCE | Need.PROBABILITIES
        return (
            needs | Need.AUTOGRAD if self._needs_white_box or self.access == "gradients" else needs
        )

    @property
    def _needs_white_box(self) -> bool:
        return self.detector == "nci" or self.space == "features"

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """Minus the deviation of each candidate's reconstruction, relative to a shadow's if given.

        Raises:
            BudgetSpent: the reconstruction would ask more than the budget allows.
        """
        assert view.known is not None
        reference = view.own or view.reference
        assert reference is not None
        target = CountingTarget(view.target, self.budget)
        shadow = view.shadow
        start = self.start
        if start == "chosen":
            start = "filled" if shadow is None else self._choose_start(shadow, reference, rng)
        deviation = self._deviation(target, view.records, view.known, reference, start, rng)
        if shadow is None:
            return Scores(-deviation)
        usual = self._deviation(shadow.target, view.records, view.known, reference, start, rng)
        if self.detector == "cade":
            # the paper's ratio of the shadow's deviation to the target's, in logarithms
            return Scores(np.log(np.maximum(usual, _TINY)) - np.log(np.maximum(deviation, _TINY)))
        shadow_deviation = self._shadow_deviation(shadow, reference, start, rng)
        # feature norms may grow for non-members: the shadow's members tell the direction
        sign = -1.0 if membership.auc(-shadow_deviation, shadow.member).value >= 0.5 else 1.0
        return Scores(sign * (deviation - usual))

    def _choose_start(
        self, shadow: ShadowModel, reference: Records, rng: np.random.Generator
    ) -> StartPoint:
        """The start from which the shadow's members are told better.

        The direction is that of the score: for all detectors but ``cade`` the shadow tells it.
        """
        auc_by_start: dict[StartPoint, float] = {}
        for start in get_args(StartPoint):
            deviation = self._shadow_deviation(shadow, reference, start, rng)
            auc = membership.auc(-deviation, shadow.member).value
            auc_by_start[start] = auc if self.detector == "cade" else max(auc, 1 - auc)
        return max(auc_by_start, key=lambda start: auc_by_start[start])

    def _shadow_deviation(
        self,
        shadow: ShadowModel,
        reference: Records,
        start: StartPoint,
        rng: np.random.Generator,
    ) -> Column:
        """Deviations of the shadow's records, of which one knows which it was trained on."""
        known = np.ones(shadow.records.x.shape, np.bool_) if shadow.known is None else shadow.known
        return self._deviation(shadow.target, shadow.records, known, reference, start, rng)

    def _deviation(
        self,
        target: Target,
        records: Records,
        known: Bool[np.ndarray, "records *features"],
        reference: Records,
        start: StartPoint,
        rng: np.random.Generator,
    ) -> Column:
        """How unlike the reference records the reconstructions of these records are."""
        x = records.x
        if start == "zeros":
            x = np.where(known, x, np.zeros((), x.dtype))
        at = self._descent()(target, x, records.y, known, rng).astype(x.dtype)
        if self.detector == "nci":
            inside = as_white_box(target)
            return detectors.nci(inside.last_layer(at), inside.last_layer(reference.x), self.alpha)
        z, own = (self._embed(target, points) for points in (at, reference.x))
        return detectors.OF_DISTANCES[self.detector](z, records.y, own, reference.y)

    def _embed(self, target: Target, x: np.ndarray) -> Float64[np.ndarray, "records features"]:
        if self.space == "features":
            return as_white_box(target).last_layer(x).features
        return np.asarray(x.reshape(len(x), -1), dtype=np.float64)

    def _descent(self) -> Descent:
        return Descent(
            step=self.step,
            iterations=self.iterations,
            optimiser=self.optimiser,
            limits=self.limits,
            access=self.access,
            directions=self.directions,
            epsilon=self.epsilon,
            two_sided=self.two_sided,
        )
