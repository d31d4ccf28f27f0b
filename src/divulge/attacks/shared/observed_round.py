"""One round as its server can play it again: what a client's update does to the model's answers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64

from divulge.core import Proportions, Records, Round, Tensors, UpdateView
from divulge.errors import NotApplicable
from divulge.federation.output_layer import LastLayer
from divulge.targets.torch import TorchTarget
from divulge.training.recipe import Held, Recipe

Change = Float[np.ndarray, "classes inputs"]
"""What training did to the weights of the last layer, new less sent, per unit of learning rate.

References:
    Dai et al. (2024), Decaf, equation 4, with the sign for which a class that is there grows.
"""


def null_classes(change: Change, threshold: float = 0.0) -> Bool[np.ndarray, " classes"]:
    """The classes without a single entry above the threshold.

    With inputs from 0, as after ReLU, and plain softmax, a record of another class moves a weight
    of this class by -p x <= 0: a class without records has no positive entry, whatever
    sign-preserving optimiser is used. Weight decay, inputs below 0, label smoothing and noise break
    that. The other direction is a habit and no theorem: what the records of a rare class add may
    be outweighed by what all others take off.

    References:
        Dai et al. (2024), Decaf, algorithm 1 and equations 15 to 18; 0.001 there with LeakyReLU.

    Examples:
        >>> null_classes(np.array([[0.2, -0.1], [-0.3, 0.0]])).tolist()
        [False, True]
    """
    absent: np.ndarray = change.max(axis=1) <= threshold
    return absent


OPERATIONS: float = 5e9
"""A second of computation: about what one core does of a small network's training."""


class Sight(NamedTuple):
    """One client in one round."""

    weight: Float64[np.ndarray, "classes inputs"]
    """Change of the last layer's weights, per unit of the learning rate."""
    bias: Float64[np.ndarray, " classes"] | None
    """Change of its biases, likewise."""
    answers: Float64[np.ndarray, "references classes"]
    """What the client's model says of the attacker's records."""
    steps: int
    """How many the client took."""
    change: Tensors
    """Of all weights, as it arrived."""


@dataclass(frozen=True)
class Stage:
    """A round, the attacker's records, and how clients train."""

    round: Round
    recipe: Recipe
    reference: Records

    @classmethod
    def of(cls, played: Round, view: UpdateView) -> "Stage":
        """The round as this view allows to play it again.

        Raises:
            NotApplicable: the network, records, or what clients were told to do are not known.
        """
        if view.network is None or view.reference is None:
            raise NotApplicable(
                "expected a network and reference records in the view, got none: say what makes "
                "the module, and bring a few records of each class"
            )
        return cls(played, recipe_of(played, view.network, view.victim), view.reference)

    @cached_property
    def layer(self) -> LastLayer:
        """The layer that tells the classes apart."""
        return LastLayer.of({name: array.shape for name, array in self.round.sent.items()})

    @property
    def classes(self) -> int:
        """How many the network tells apart."""
        return len(self.round.sent[self.layer.weight])

    @cached_property
    def before(self) -> Float64[np.ndarray, "references classes"]:
        """What the model sent out says of the attacker's records."""
        return self._ask(self.round.sent)

    def by_class(
        self, rows: Float64[np.ndarray, "references columns"]
    ) -> Float64[np.ndarray, "classes columns"]:
        """Means over the attacker's records of each class.

        Raises:
            NotApplicable: there are none of some class.
        """
        missing = np.setdiff1d(np.arange(self.classes), self.reference.y)
        if len(missing):
            raise NotApplicable(
                f"expected reference records of all {self.classes} classes, got none of class "
                f"{missing[0]}: two of each are enough"
            )
        return np.array([rows[self.reference.y == k].mean(axis=0) for k in range(self.classes)])

    def seen(self, client: str) -> Sight:
        """What a client's update shows.

        Raises:
            NotApplicable: its own update, or its number of records, did not arrive.
        """
        return self.sight(self.round.change(client), self.records(client))

    def records(self, client: str) -> int:
        """How many records a client says it has.

        Raises:
            NotApplicable: it did not say.
        """
        said = self.round.received[client].records if client in self.round.received else None
        if not said or said < 0:
            raise NotApplicable(
                f"expected the number of records of client {client!r}, got {said}: the attack has "
                "to know how many steps it took"
            )
        return said

    def sight(self, change: Tensors, records: int) -> Sight:
        """What a change of the weights shows."""
        state = {n: a + change[n] if n in change else a for n, a in self.round.sent.items()}
        lr, layer = self.recipe.lr, self.layer
        bias = None if layer.bias is None else change[layer.bias].astype(np.float64) / lr
        weight = change[layer.weight].astype(np.float64) / lr
        return Sight(weight, bias, self._ask(state), self.recipe.steps(records), change)

    def trained(
        self, crew: Any, rows: Sequence[Held], seeds: Sequence[int]
    ) -> Iterator[dict[str, np.ndarray]]:
        """What training on each of these sets of the attacker's records changes.

        Args:
            crew: a `divulge.training.Crew` of this recipe and these records.
            rows: positions of records, which may be there more than once.
            seeds: one a set.
        """
        sent = self.round.sent
        for first in range(0, len(rows), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            for state in crew.states(sent, rows[part], seeds[part]):
                yield {n: state[n] - a for n, a in sent.items() if a.dtype.kind == "f"}

    def seconds(self, records: int) -> float:
        """About how long it takes one core to train on so many records."""
        import torch
        from torch.utils.flop_counter import FlopCounterMode

        from divulge.training.engine.networks import loaded

        module = loaded(self.recipe.network, self.round.sent)
        like = next(module.parameters()).dtype
        one = torch.tensor(self.reference.x[:1])
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            module(one.to(like) if one.is_floating_point() else one)
        forward = float(counter.get_total_flops())
        # a step computes about twice as much backwards as forwards; the answers are forwards alone
        each = 3 * records * self.recipe.epochs + len(self.reference)
        return forward * each / OPERATIONS

    def _ask(self, state: Tensors) -> Float64[np.ndarray, "references classes"]:
        from divulge.training.engine.networks import as_state, pooled_first

        self._asked.module.load_state_dict(as_state(state), strict=False)
        with pooled_first(self._asked.module):
            return self._asked.predict(self.reference.x)

    @cached_property
    def _asked(self) -> TorchTarget:
        """A target whose weights are set anew for each question."""
        from divulge.training.engine.networks import loaded

        return TorchTarget(loaded(self.recipe.network, self.round.sent), "logits")


_AT_ONCE = 32
"""Trained networks in memory."""


def recipe_of(played: Round, network: Callable[[], Any], client: str) -> Recipe:
    """How a client trained in a round, as far as the protocol told.

    Raises:
        NotApplicable: it did not tell enough.
    """
    how = played.training
    batch = how.batch_size
    if played.kind == "gradient":  # one step over all records
        batch = played.received[client].records if client in played.received else None
    if how.lr is None or not batch:
        raise NotApplicable(
            f"expected learning rate and batch size of the local training, got {how.lr} and "
            f"{how.batch_size}: attack a transcript that tells them"
        )
    return Recipe(
        network,
        (how.optimiser or "sgd").lower(),  # type: ignore[arg-type]
        lr=how.lr,
        momentum=how.momentum or 0.0,
        weight_decay=how.weight_decay or 0.0,
        epochs=how.epochs or 1,
        batch_size=batch,
    )


def rounds_of(views: Sequence[UpdateView], most: int) -> dict[int, tuple[Stage, list[int]]]:
    """The first rounds of each victim, and which of the victims are attacked in them.

    Raises:
        NotApplicable: see `Stage.of`.
    """
    stages: dict[int, tuple[Stage, list[int]]] = {}
    for position, view in enumerate(views):
        for k in range(min(most, len(view.rounds))):
            played = view.rounds[k]
            if played.number not in stages:
                stages[played.number] = Stage.of(played, view), []
            stages[played.number][1].append(position)
    return dict(sorted(stages.items()))


class RoundGuess(NamedTuple):
    """What one round says of one victim."""

    share: Float64[np.ndarray, " classes"]
    null: Bool[np.ndarray, " classes"]
    weight: float = 1.0


def combined(guesses: Sequence[RoundGuess], how: str) -> Proportions:
    """One guess of several rounds: the weighted mean; a class is null if no round shows it."""
    weights = np.array([guess.weight for guess in guesses])
    share = np.average([guess.share for guess in guesses], axis=0, weights=weights)
    null = np.all([guess.null for guess in guesses], axis=0)
    many = f"{len(guesses)} rounds" if len(guesses) > 1 else "1 round"
    return Proportions(share / share.sum(), null, how=f"{how}, {many}")
