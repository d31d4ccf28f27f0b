"""RAIFLE reconstructs which of the items shown to a user it acted on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from jaxtyping import Bool, Float

from divulge._util.arguments import check_arguments
from divulge.attacks.interactions.raifle import embedding, linear
from divulge.attacks.shared.simulated_user import row_names
from divulge.core import LinearisedLearner, Need, Reconstruction, Tensors, UpdateView
from divulge.errors import NotApplicable, SpecError, did_you_mean

Method = Literal["auto", "embedding", "closed-form", "gauss-newton", "match"]
_SETTINGS = {
    "optimiser": ("lbfgs", "adam"),
    "rounding": ("split", "half"),
    "code": ("corrected", "published"),
}


@check_arguments
@dataclass(frozen=True, slots=True)
class RAIFLE:
    """Reconstruct a user's interactions from one local update and the items handed out.

    ``auto`` takes the first that applies. ``embedding``, if the update has a row for each item: the
    cosine of each row with their main direction, whose sign comes from simulated trainings that
    clients of one network share. ``closed-form``, if the update is affine in the interactions and
    determines them: least squares. ``gauss-newton``, if it is nearly affine, noisy, or does not
    determine them: the posterior mean with the most probable noise, by expectation propagation with
    a Bernoulli prior. ``match``, for any differentiable learner: the published optimisation, plain
    gradient inversion if no item is manipulated.

    Args:
        method: the method of reconstruction.
        steps: largest number of steps of ``match``, or of linear systems of ``gauss-newton``, at
            most 20.
        optimiser: of ``match``: ``lbfgs`` or ``adam``.
        joint: whether ``match`` also optimises the private embedding, or draws one.
        starts: number of random starts of ``match``: that with the least loss counts.
        code: of ``match``: ``published`` as the authors' released code has it, which keeps the
            private embedding that it draws, and drops a part of the derivative where users train on
            pairs; ``corrected`` follows the paper.
        rounding: ``split`` decides where scores fall best into two groups (Otsu 1979), ``half`` at
            one half of an interaction's value, as ``gauss-newton`` always does.

    References:
        Pham, Kulkarni and Houmansadr (2024), RAIFLE: reconstruction attacks on interaction-based
        federated learning with adversarial data manipulation, algorithms 1 and 2, theorem 1,
        equation 12, appendix A. ``embedding`` and ``gauss-newton`` are divulge's; noise by evidence
        (MacKay 1992), propagation (Minka 2001; Ueda and Nakano 1998).

    Raises:
        SpecError: a setting makes no sense.
    """

    method: Method = "auto"
    steps: int = 1000
    optimiser: Literal["lbfgs", "adam"] = "lbfgs"
    joint: bool = True
    starts: int = 1
    code: Literal["corrected", "published"] = "corrected"
    rounding: Literal["split", "half"] = "split"

    name: ClassVar[str] = "raifle"
    paper: ClassVar[str] = "Pham, Kulkarni and Houmansadr 2024"

    def __post_init__(self) -> None:
        for field, known in (("method", get_args(Method)), *_SETTINGS.items()):
            value = getattr(self, field)
            if value not in known:
                hint = did_you_mean(value, known)
                raise SpecError(f"expected a known {field}, got {value!r}: {hint}")
        for field in ("steps", "starts"):
            if getattr(self, field) < 1:
                raise SpecError(f"expected one of {field} or more, got {getattr(self, field)}")

    @property
    def needs(self) -> Need:
        """The victim's own update, and what was handed out."""
        return Need.UPDATES | Need.INPUTS

    def __call__(self, view: UpdateView, rng: np.random.Generator) -> Reconstruction:
        """Which items were acted on, from the first round that the victim took part in.

        Raises:
            NotApplicable: the view lacks what the method needs, or the update does not determine
                the interactions and the method does not guess.
            DataError: the descent broke down.
        """
        (guess,) = self.many((view,), rng)
        return guess

    def many(
        self, views: Sequence[UpdateView], rng: np.random.Generator
    ) -> Iterator[Reconstruction]:
        """Yield which items each client acted on; ``match`` simulates trainings of many in one.

        Raises:
            NotApplicable: as for one client.
            DataError: as for one client.
        """
        methods = [self._choose(view) for view in views]
        chosen = list(zip(views, methods, strict=True))
        matched = self._match([view for view, method in chosen if method == "match"], rng)
        moved = self._embedding([view for view, method in chosen if method == "embedding"], rng)
        for view, method in chosen:
            if method == "match":
                yield next(matched)
            elif method == "embedding":
                yield next(moved)
            else:
                yield self._linear(view, rng)

    def _choose(self, view: UpdateView) -> Method:
        """The method for a client, which its view suffices for."""
        linear = isinstance(view.learner, LinearisedLearner)
        method = self.method
        if method == "auto":
            rows = row_names(view)
            method = "embedding" if rows and not linear else "gauss-newton" if linear else "match"
        if method != "embedding" and (view.learner is None or (method != "match" and not linear)):
            raise NotApplicable(
                f"expected {'a learner' if method == 'match' else 'a linearised learner'} for "
                f"{method}, the view has {'none' if view.learner is None else 'another one'}: "
                "say how clients train"
            )
        return method

    def _embedding(
        self, views: Sequence[UpdateView], rng: np.random.Generator
    ) -> Iterator[Reconstruction]:
        for score, how in embedding.score_items(views, rng):
            middle = 0.0 if self.rounding == "half" else otsu_threshold(score)
            yield _decide(score, middle, how)

    def _linear(self, view: UpdateView, rng: np.random.Generator) -> Reconstruction:
        learner = view.learner
        assert isinstance(learner, LinearisedLearner)
        assert view.inputs is not None
        change = view.rounds[0].change(view.victim)
        sent, items = _to_tensors(view.rounds[0].sent), _to_tensors({"": view.inputs})[""]
        names = sorted(change)
        update = np.concatenate([change[name].ravel() for name in names])
        received = np.concatenate([np.full(w.numel(), n in names) for n, w in sorted(sent.items())])
        solution = self._closed_form(learner, sent, items, update, received)
        way = "posterior" if solution is None else "closed form"
        if solution is None:
            steps = min(self.steps, _MOST_SYSTEMS)
            normal = linear.gauss_newton(learner, sent, items, update, received, steps)
            solution = linear.settle_coins(learner, sent, items, update, received, normal, rng)
        unique = solution.rank == len(items)
        how = (
            f"{way}: {solution.systems} linear system{'s' if solution.systems > 1 else ''} of rank "
            f"{solution.rank} for {len(items)} interactions"
            f"{'' if unique else ', which do not determine them'}, condition number "
            f"{solution.condition:.3g}, {solution.left:.1e} of the update unexplained"
        )
        # a posterior mean is calibrated as it is
        split = self.rounding == "split" and way == "closed form"
        return _decide(solution.value, otsu_threshold(solution.value) if split else 0.5, how)

    def _closed_form(
        self,
        learner: LinearisedLearner,
        sent: Mapping[str, Any],
        items: Any,
        update: Float[np.ndarray, " seen"],
        received: Bool[np.ndarray, " numbers"],
    ) -> linear.Solution | None:
        """The interactions where they follow exactly; None where ``auto`` has to guess."""
        required = self.method == "closed-form"
        if required and not learner.exact:
            raise NotApplicable(
                "expected an update that is affine in the interactions, got one of several steps: "
                "choose method='gauss-newton'"
            )
        if not learner.exact or self.method == "gauss-newton":
            return None
        # theorem 1: without a second derivative the matrix is the same wherever it is taken
        half = items.new_full((len(items),), 0.5)
        affine = linear.select_received(learner.linearise(sent, items, half), received)
        try:
            solution = linear.closed_form(affine, update)
        except NotApplicable:
            if required:
                raise
            return None
        # with noise in the update, exact equations give something else than interactions
        clean = solution.left < _EXACT and bool((np.abs(solution.value - 0.5) < 0.5 + _EXACT).all())
        return solution if required or clean else None

    def _match(
        self, views: Sequence[UpdateView], rng: np.random.Generator
    ) -> Iterator[Reconstruction]:
        from divulge.attacks.interactions.raifle.matching import Matching
        from divulge.attacks.interactions.raifle.simulated_updates import Victim
        from divulge.federation.search.pairwise import Pairwise

        published, victims = self.code == "published", []
        for view in views:
            learner = view.learner
            assert learner is not None
            assert view.inputs is not None
            if published and isinstance(learner, Pairwise):
                learner = replace(learner, whole_derivative=False)
            sent, items = _to_tensors(view.rounds[0].sent), _to_tensors({"": view.inputs})[""]
            update = _to_tensors(view.rounds[0].change(view.victim))
            victims.append(Victim(learner, sent, items, update))
        joint = self.joint and not published
        matching = Matching(self.optimiser, self.steps, joint, self.starts)
        start = "a random start" if self.starts == 1 else f"{self.starts} random starts"
        for result in matching.match(victims, rng):
            how = (
                f"match: {self.optimiser} from {start}, {result.evaluations} simulated trainings, "
                f"loss {result.loss:.3g}"
            )
            middle = 0.5 if self.rounding == "half" else otsu_threshold(result.value)
            yield _decide(result.value, middle, how)


_MOST_SYSTEMS = 20
"""Most linear systems that are solved: more do not change the answer."""
_EXACT = 1e-6
"""Largest residual of exact equations that rounding explains."""


def _decide(value: Float[np.ndarray, " items"], middle: float, how: str) -> Reconstruction:
    return Reconstruction(rescale_to_unit(value, middle), value > middle, how)


def _to_tensors(arrays: Tensors) -> dict[str, Any]:
    import torch

    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}


def otsu_threshold(score: Float[np.ndarray, " items"]) -> float:
    """The threshold that splits scores into two groups with the least variance within them.

    The exact optimum of two means in one dimension. A constant score is never exceeded.

    References:
        Otsu (1979), A threshold selection method from gray-level histograms; Fisher (1958), On
        grouping for maximum homogeneity.

    Examples:
        >>> otsu_threshold(np.array([0.0, 0.1, 0.9, 1.0]))
        0.5
    """
    ascending = np.sort(score)
    many = np.arange(1, len(score))
    sums = np.cumsum(ascending)[:-1]
    rest = ascending.sum() - sums
    # the variance between groups: the total is fixed, so the most of it leaves the least within
    between = sums**2 / many + rest**2 / (len(score) - many)
    if not len(score) > 1 or ascending[0] == ascending[-1]:
        return float(ascending[-1])
    edge = int(np.argmax(between))
    return float((ascending[edge] + ascending[edge + 1]) / 2)


def rescale_to_unit(
    score: Float[np.ndarray, " items"], middle: float
) -> Float[np.ndarray, " items"]:
    """Rescale scores to [0, 1]: in the same order, linearly, and with ``middle`` at one half."""
    reach = float(np.abs(score - middle).max())
    return (1 + (score - middle) / reach) / 2 if reach > 0 else np.full(len(score), 0.5)
