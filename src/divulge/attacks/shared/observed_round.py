"""An observed round: its server can repeat it, and see how an update changes the predictions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64

from divulge.core import OutputLayerNames, Proportions, Records, Round, Tensors, UpdateView
from divulge.errors import NotApplicable
from divulge.targets.torch import TorchTarget
from divulge.training.recipe import RaggedRows, Recipe

LayerChange = Float[np.ndarray, "classes inputs"]
"""Change of the weights of the last layer, new less sent, per unit of the learning rate.

References:
    Dai et al. (2024), Decaf, equation 4, with the sign for which a class that is there grows.
"""


def null_classes(change: LayerChange, threshold: float = 0.0) -> Bool[np.ndarray, " classes"]:
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
    # eqs. 16 and 18: other classes only push a weight down, so a positive entry shows the class
    absent: np.ndarray = change.max(axis=1) <= threshold
    return absent


OPERATIONS_PER_SECOND: float = 5e9
"""Operations a second of one core, about, in the training of a small network."""


class ClientChange(NamedTuple):
    """What the update of one client in one round shows."""

    weight: Float64[np.ndarray, "classes inputs"]
    """Change of the last layer's weights, per unit of the learning rate."""
    bias: Float64[np.ndarray, " classes"] | None
    """Change of that layer's biases, per unit of the learning rate; None if it has none."""
    steps: int
    """Number of training steps that the client took."""
    change: Tensors
    """Change of all weights, by name, as it arrived."""


@dataclass(frozen=True)
class ObservedRound:
    """A round, the attacker's records, and how clients train."""

    round: Round
    recipe: Recipe
    reference: Records

    @classmethod
    def of(cls, played: Round, view: UpdateView) -> "ObservedRound":
        """The round, with all that is needed to repeat it, as far as this view knows.

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
    def layer(self) -> OutputLayerNames:
        """The names of the output layer's tensors."""
        return OutputLayerNames.of({name: array.shape for name, array in self.round.sent.items()})

    @property
    def classes(self) -> int:
        """Number of classes that the network tells apart."""
        return len(self.round.sent[self.layer.weight])

    @cached_property
    def before(self) -> Float64[np.ndarray, "references classes"]:
        """Predictions of the model that was sent out on the attacker's records."""
        return self._predict(self.round.sent)

    def class_means(
        self, rows: Float64[np.ndarray, "references columns"]
    ) -> Float64[np.ndarray, "classes columns"]:
        """Means of rows over the attacker's records of each class.

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

    def observe_client(self, client: str) -> ClientChange:
        """What a client's update shows.

        Raises:
            NotApplicable: its own update, or its number of records, did not arrive.
        """
        return self.observe_change(self.round.change(client), self.records(client))

    def records(self, client: str) -> int:
        """How many records a client says it has.

        Raises:
            NotApplicable: it did not say.
        """
        number = self.round.received[client].records if client in self.round.received else None
        if not number or number < 0:
            raise NotApplicable(
                f"expected the number of records of client {client!r}, got {number}: the attack "
                "has to know how many steps it took"
            )
        return number

    def observe_change(self, change: Tensors, records: int) -> ClientChange:
        """What a change of the weights shows."""
        lr, layer = self.recipe.lr, self.layer
        bias = None if layer.bias is None else change[layer.bias].astype(np.float64) / lr
        # eq. 4, with the sign of what was added to the weights
        weight = change[layer.weight].astype(np.float64) / lr
        return ClientChange(weight, bias, self.recipe.steps(records), change)

    def after(self, change: Tensors) -> Float64[np.ndarray, "references classes"]:
        """Predictions of a client's model, which these changes lead to, on the same records."""
        return self._predict(
            {n: a + change[n] if n in change else a for n, a in self.round.sent.items()}
        )

    def train_on(
        self, client_workers: Any, rows: Sequence[RaggedRows], seeds: Sequence[int]
    ) -> Iterator[dict[str, np.ndarray]]:
        """Train on each of these sets of the attacker's records, and yield the changes of weights.

        Args:
            client_workers: a `divulge.training.ClientWorkers` of this recipe and these records.
            rows: positions of the records of each set; a record may be in a set more than once.
            seeds: one seed a set.
        """
        sent = self.round.sent
        for first in range(0, len(rows), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            for state in client_workers.states(sent, rows[part], seeds[part]):
                yield self.change_to(state)

    def change_to(self, state: Tensors) -> dict[str, np.ndarray]:
        """What was added to the weights that were sent; counters are left out."""
        sent = self.round.sent
        return {n: state[n] - a for n, a in sent.items() if a.dtype.kind == "f"}

    def without_updates(self) -> "ObservedRound":
        """The round without what clients sent: enough to repeat it, and small to send."""
        less = replace(self.round, received={}, masked=None, aggregated=None, handed={})
        return replace(self, round=less)

    def seconds(self, records: int) -> float:
        """An estimate of the seconds that one core needs to train on so many records."""
        import torch
        from torch.utils.flop_counter import FlopCounterMode

        from divulge.training.engine.networks import load_network

        module = load_network(self.recipe.network, self.round.sent)
        like = next(module.parameters()).dtype
        record = torch.tensor(self.reference.x[:1])
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            module(record.to(like) if record.is_floating_point() else record)
        forward = float(counter.get_total_flops())
        # a step computes about twice as much backwards as forwards; the answers are forwards alone
        each = 3 * records * self.recipe.epochs + len(self.reference)
        return forward * each / OPERATIONS_PER_SECOND

    def _predict(self, state: Tensors) -> Float64[np.ndarray, "references classes"]:
        from divulge.training.engine.networks import as_state, pool_before_relu

        self._reloaded_target.module.load_state_dict(as_state(state), strict=False)
        with pool_before_relu(self._reloaded_target.module):
            return self._reloaded_target.predict(self.reference.x)

    @cached_property
    def _reloaded_target(self) -> TorchTarget:
        """A target whose weights are replaced before each query."""
        from divulge.training.engine.networks import load_network
        from divulge.training.tensors import takes_channels_last, to_channels_last

        spare, module = (load_network(self.recipe.network, self.round.sent) for _ in range(2))
        if takes_channels_last(spare, self.reference.x):
            to_channels_last(module)  # convolutions answer up to three times as fast
        return TorchTarget(module, "logits")


_AT_ONCE = 32
"""Number of trained networks in memory at once."""


def recipe_of(played: Round, network: Callable[[], Any], client: str) -> Recipe:
    """The recipe by which a client trained in a round, as far as the protocol tells it.

    Raises:
        NotApplicable: the protocol does not tell enough.
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


def first_rounds(
    views: Sequence[UpdateView], most: int
) -> dict[int, tuple[ObservedRound, list[int]]]:
    """The first rounds of each victim by number, with the positions of the victims in them.

    Raises:
        NotApplicable: see `ObservedRound.of`.
    """
    stages: dict[int, tuple[ObservedRound, list[int]]] = {}
    for position, view in enumerate(views):
        for k in range(min(most, len(view.rounds))):
            played = view.rounds[k]
            if played.number not in stages:
                stages[played.number] = ObservedRound.of(played, view), []
            stages[played.number][1].append(position)
    return dict(sorted(stages.items()))


class RoundGuess(NamedTuple):
    """The guess about one victim from one round."""

    share: Float64[np.ndarray, " classes"]
    null: Bool[np.ndarray, " classes"]
    weight: float = 1.0


def combine_rounds(guesses: Sequence[RoundGuess], how: str) -> Proportions:
    """Combine guesses of several rounds: weighted mean shares; a class is null if it is in all."""
    weights = np.array([guess.weight for guess in guesses])
    share = np.average([guess.share for guess in guesses], axis=0, weights=weights)
    null = np.all([guess.null for guess in guesses], axis=0)
    many = f"{len(guesses)} rounds" if len(guesses) > 1 else "1 round"
    # means of shares sum to 1 but for rounding, which is divided away
    return Proportions(share / share.sum(), null, how=f"{how}, {many}")
