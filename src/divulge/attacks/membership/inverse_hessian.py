"""IHA: how far the weights would have moved for a record, against what other members pull at."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from divulge._util.arguments import check_arguments
from divulge.core import ModelView, Need, Records, Scores, WhiteBox, as_white_box
from divulge.errors import NotApplicable, SpecError
from divulge.metrics.exact_signals import rank_records

NEGLIGIBLE = 0.1
"""Share of the damping up to which the size of an eigenvalue counts as 0."""

FIRST = 64
"""Number of eigenvalues that are computed at first; twice as many each time that is too few."""

BLOCK = 2**24
"""Numbers of the gradients that are in memory at once."""

Vectors = Float64[np.ndarray, "vectors parameters"]

Product = Callable[[np.ndarray], Float64[np.ndarray, " parameters"]]


@check_arguments
@dataclass(frozen=True, slots=True)
class InverseHessian:
    """How far a record would move the weights of a network, by the inverse Hessian.

        score(x) = l(x) - (|u|² / n + 2 u · v) / η,    u = H⁻¹ g,  v = H⁻¹ G

    l and g are the loss of x and its gradient by all weights; G and H are the gradient and the
    Hessian of the mean loss of n known members; η is the learning rate. Each eigenvalue λ of H
    counts as λ + ``damping``.

    Args:
        learning_rate: of the training, above 0.
        damping: what is added to each eigenvalue of the Hessian, above 0.

    References:
        Suri, Zhang and Evans (2024), Do parameters reveal more than loss for membership inference?,
        and the authors' code, whose score this is. Departures: gradient and Hessian are those of
        the known members, where the paper's auditor has all other members; eigenvalues up to a
        tenth of the damping count as 0.
    """

    learning_rate: float = 0.1
    damping: float = 0.2

    name: ClassVar[str] = "iha"
    paper: ClassVar[str] = "Suri, Zhang and Evans 2024"

    def __post_init__(self) -> None:
        for setting in ("learning_rate", "damping"):
            if getattr(self, setting) <= 0:
                raise SpecError(f"expected {setting} above 0, got {getattr(self, setting)}")

    @property
    def needs(self) -> Need:
        """A model that can be looked into, and known members."""
        return Need.AUTOGRAD | Need.FEATURES | Need.LABELS | Need.KNOWN_MEMBERS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The score of each candidate, in nats.

        Raises:
            NotApplicable: the model is no minimum of the known members' loss.
        """
        assert view.known_members is not None
        inside, known = as_white_box(view.target), view.known_members
        total = sum(gradient.sum(axis=0) for gradient in _gradients(inside, known))
        product = partial(inside.hessian_product, known.x, known.y)
        solve = self._invert(product, rng.normal(size=len(total)))
        pull = solve(total[None] / len(known))[0]
        parts = []
        for gradient in _gradients(inside, view.records):
            moved = solve(gradient)
            # |u|² / n + 2 u · v with u = H⁻¹ g and v = H⁻¹ G, as the authors' code has it
            parts.append((moved**2).sum(axis=1) / len(known) + 2 * moved @ pull)
        loss = -rank_records("loss", view, view.records)
        return Scores(loss - np.concatenate(parts) / self.learning_rate)

    def _invert(self, product: Product, start: np.ndarray) -> Callable[[Vectors], Vectors]:
        """A function from vectors to the damped inverse Hessian times each."""
        values, vectors = _decompose(product, start, NEGLIGIBLE * self.damping)
        if values.min() <= -self.damping / 2:
            raise NotApplicable(
                f"expected a Hessian without eigenvalues below {-self.damping / 2:g}, got "
                f"{values.min():.3g}: the training did not end near a minimum; raise damping"
            )
        # I / d plus a correction along the eigenvectors found: the others count as eigenvalue 0
        change = 1 / (values + self.damping) - 1 / self.damping

        def solve(these: Vectors) -> Vectors:
            solved: Vectors = these / self.damping + ((these @ vectors) * change) @ vectors.T
            return solved

        return solve


def _gradients(inside: WhiteBox, records: Records) -> Iterator[Vectors]:
    """The gradient of each record's loss by the weights, some records at a time."""
    first = inside.parameter_gradient(records.x[:1], records.y[:1])
    size = max(1, BLOCK // first.shape[1])
    for start in range(0, len(records), size):
        rows = slice(start, start + size)
        yield inside.parameter_gradient(records.x[rows], records.y[rows])


def _decompose(
    product: Product, start: np.ndarray, negligible: float
) -> tuple[Float64[np.ndarray, " found"], Float64[np.ndarray, "parameters found"]]:
    """The eigenvalues of larger size than this, and some more, with their eigenvectors."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    parameters, count = len(start), FIRST
    operator = LinearOperator((parameters, parameters), lambda v: product(v.ravel()), dtype=float)
    while 2 * count < parameters:
        # "LM": negative eigenvalues count by their size too, and show that this is no minimum
        values, vectors = eigsh(operator, count, which="LM", v0=start, tol=1e-4)
        if np.abs(values).min() <= negligible:
            return values, vectors
        count *= 2
    values, vectors = np.linalg.eigh(np.stack([product(unit) for unit in np.eye(parameters)]))
    return values, vectors
