"""Community inference: whose model has become better than the others' for who likes an item?"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int

from divulge._util.arguments import check_arguments
from divulge._util.extras import stats
from divulge.core import Need, Reconstruction, UpdateView
from divulge.errors import NotApplicable, SpecError

if TYPE_CHECKING:
    from divulge.federation.recommender.model import NeuralCF

CUT, OTHERS = 20, 100
"""Places of a list that count, and other items in it, as the published code has them."""

Answers = Float[np.ndarray, "users items"]
"""What the model of one client answers to invented users."""

Relevance = Float64[np.ndarray, "clients items"]


class ShownItems(NamedTuple):
    """The distinct items that clients of a round were shown."""

    row: Float[np.ndarray, "items width"]
    """Embedding of each as the server sent it."""
    of_each: tuple[Int[np.ndarray, " _"], ...]
    """By client, the numbers of its items."""


@check_arguments
@dataclass(frozen=True, slots=True)
class CommunityInference:
    """Compare what clients' models say about an item, for a user that the server invents.

    The score of an item is the share of the other clients of the same first round whose models find
    it less relevant.

    Args:
        relevance: ``ndcg`` is 1 / log2(1 + place) of the item in a list with 100 other items, if it
            is among the first 20; ``logit`` is the model's answer itself.
        users: number of invented users, whose mean relevance counts.
        size: clients in the community of an item, those with the most relevance: they are guessed
            to have acted on it.

    References:
        Belal et al. (2025), Inferring communities of interest in collaborative learning-based
        recommender systems (arXiv 2306.08929), as its published code has the attack on clients that
        keep their user embeddings. Departures: communities are those of a set of items there and of
        one item here; the invented user trains on these items there, and here it is as clients draw
        theirs, which training moves by little. ``logit`` and several users are ours.

    Raises:
        SpecError: a setting makes no sense.
    """

    relevance: Literal["ndcg", "logit"] = "ndcg"
    users: int = 1
    size: int = 5

    name: ClassVar[str] = "community-inference"
    paper: ClassVar[str] = "Belal et al. 2025"

    def __post_init__(self) -> None:
        if min(self.users, self.size) < 1:
            raise SpecError(
                f"expected users and size from 1, got {self.users} and {self.size}: change them"
            )

    @property
    def needs(self) -> Need:
        """The clients' own updates, and what was handed out."""
        return Need.UPDATES | Need.INPUTS

    def __call__(self, view: UpdateView, rng: np.random.Generator) -> Reconstruction:
        """Always refuses, as one client alone is compared with nobody: call `many`."""
        return self.many((view,), rng)[0]

    def many(
        self, views: Sequence[UpdateView], rng: np.random.Generator
    ) -> tuple[Reconstruction, ...]:
        """The items that each client acted on, from how its model compares with the others.

        Raises:
            NotApplicable: a client has no round in common with another one, does not train
                `NeuralCF`, or sent no item embeddings.
        """
        together: dict[int, list[int]] = defaultdict(list)
        for v, view in enumerate(views):
            together[view.rounds[0].number].append(v)
        guesses: dict[int, Reconstruction] = {}
        for number, clients in together.items():
            others = len(clients) - 1
            if not others:
                raise NotApplicable(
                    f"expected two clients or more in round {number}, got one: models are "
                    "compared with each other"
                )
            relevance, shown = self.compare([views[v] for v in clients], rng)
            below = stats.rankdata(relevance, axis=0) - 1  # others with less, ties half
            for v, less, items in zip(clients, below, shown.of_each, strict=True):
                guesses[v] = Reconstruction(
                    less[items] / others,
                    others - less[items] < self.size,
                    f"models of {others} other clients",
                )
        return tuple(guesses[v] for v in range(len(views)))

    def compare(
        self, views: Sequence[UpdateView], rng: np.random.Generator
    ) -> tuple[Relevance, ShownItems]:
        """How relevant each client's model finds each item that one of them was shown.

        That of a set of items is the mean over the set.

        Args:
            views: clients of one round.
            rng: draws invented users, and the other items of a list.

        Raises:
            NotApplicable: a client does not train `NeuralCF`, or sent no item embeddings.
        """
        learners = [_learner(view) for view in views]
        shown = _number_items(views)
        user = rng.normal(size=(self.users, learners[0].width))
        many = len(shown.row)
        others = [rng.permutation(many - 1)[:OTHERS] for _ in range(many)]
        relevance = []
        for view, learner, items in zip(views, learners, shown.of_each, strict=True):
            answers = _ask(view, learner, shown.row, items, user)
            if self.relevance == "ndcg":
                answers = gain(answers, others)
            relevance.append(answers.mean(axis=0, dtype=np.float64))
        return np.array(relevance), shown


def gain(answers: Answers, others: Sequence[Int[np.ndarray, " _"]]) -> Answers:
    """Normalised discounted cumulative gain of each item, alone in a list with others.

    Args:
        answers: of a model.
        others: the items in the list of each, numbered without that one.
    """
    gains = np.zeros(answers.shape)
    for k, listed in enumerate(others):
        # ties are ahead of the item: an answer that is the same for all is no sign
        ahead = answers[:, listed + (listed >= k)] >= answers[:, [k]]
        place = 1 + ahead.sum(axis=1)
        # alone in its list an item has the ideal gain 1, so its NDCG is the discount of its place
        gains[:, k] = np.where(place <= CUT, 1 / np.log2(1 + place), 0)
    return gains


def _learner(view: UpdateView) -> "NeuralCF":
    from divulge.federation.recommender.model import NeuralCF

    if not isinstance(view.learner, NeuralCF):
        raise NotApplicable(
            f"expected NeuralCF as the learner of client {view.victim!r}, got "
            f"{'none' if view.learner is None else type(view.learner).__name__}: models are asked "
            "about items by it"
        )
    return view.learner


def _number_items(views: Sequence[UpdateView]) -> ShownItems:
    """Items are the same where the server sent the same embedding."""
    sent = [np.asarray(view.inputs) for view in views]
    row, number = np.unique(np.concatenate(sent), axis=0, return_inverse=True)
    ends = np.cumsum([len(rows) for rows in sent])[:-1]
    return ShownItems(row, tuple(np.split(number.ravel(), ends)))


def _ask(
    view: UpdateView,
    learner: "NeuralCF",
    row: Float[np.ndarray, "items width"],
    items: Int[np.ndarray, " _"],
    user: Float64[np.ndarray, "users width"],
) -> Answers:
    """Logits of a client's model after its training; what it did not send is as it was."""
    import torch

    from divulge.federation.recommender.model import ITEMS

    played = view.rounds[0]
    change = played.change(view.victim)
    if ITEMS not in change:
        raise NotApplicable(
            f"expected the item embeddings in the update of client {view.victim!r} as {ITEMS!r}, "
            f"got {', '.join(change)}: record them"
        )
    table = row.copy()
    table[items] += change[ITEMS]
    network = [
        torch.from_numpy(weight + change.get(name, 0)).float().expand(len(user), *weight.shape)
        for name, weight in played.sent.items()
        if name != ITEMS
    ]
    tables = torch.from_numpy(table).float().expand(len(user), *table.shape)
    with torch.no_grad():
        logits: Answers = learner.score(torch.from_numpy(user).float(), tables, network).numpy()
    return logits
