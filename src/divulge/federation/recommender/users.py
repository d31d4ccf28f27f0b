"""Simulate users of a federated recommender, many of whom are trained at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from divulge._util.arguments import Seed, check_arguments
from divulge._util.random import stream
from divulge.core import (
    Game,
    Interactions,
    LocalTraining,
    Round,
    Tensors,
    UpdateDefence,
    UpdateView,
)
from divulge.data.interactions import InteractionLog
from divulge.errors import SpecError
from divulge.federation import client_challenge, server
from divulge.federation.recommender.model import ITEMS, NeuralCF

_BATCH_ITEMS = 4096
"""Number of items trained at once, fillers included, such that they fit a processor's cache."""


class _UserImpressions(NamedTuple):
    """Items that one user was shown, and whether it interacted with each."""

    user: int
    items: Int[np.ndarray, " items"]
    acted: Bool[np.ndarray, " items"]
    label: Bool[np.ndarray, " items"]
    """Whether the user trains on each as if it had interacted with it."""


@check_arguments
@dataclass(frozen=True, slots=True)
class Recommending:
    """One round of FNCF among users of a log, all of whom start from the same weights.

    Args:
        log: interactions of all users.
        learner: local training of a user.
        negatives: number of other items shown for each interaction, as far as there are any.
        embeddings_only: whether updates hold the item embeddings alone, without the network.
        decoys: number of items that a user did not interact with and trains on as if it had, for
            each interaction, as far as there are any: a defence in the spirit of MultiVerse.
        seed: seed of embeddings, network, shown items and defence.

    References:
        Interaction privacy vulnerability in federated recommendation and lossless countermeasure
        (2025), ACM TOIS, of which the abstract was at hand: MultiVerse trains on items outside the
        user's data, then optimises, refines and denoises. Here are its items alone.

    Raises:
        SpecError: there are no negatives, or fewer than no decoys.
    """

    log: InteractionLog
    learner: NeuralCF
    negatives: int = 4
    embeddings_only: bool = False
    decoys: int = 0
    seed: Seed = 0

    def __post_init__(self) -> None:
        if self.negatives < 1:
            raise SpecError(f"expected one negative or more, got {self.negatives}")
        if self.decoys < 0:
            raise SpecError(f"expected no decoy or more, got {self.decoys}")

    def challenges(
        self, users: Sequence[int], defence: UpdateDefence
    ) -> Iterator[Game[UpdateView, Interactions]]:
        """Yield one challenge a user, by number of items; those who interacted with all are out."""
        network, table = _split_weights(self.start())
        for shown, change in self._train(users, network, table):
            names = (ITEMS,) if self.embeddings_only else (ITEMS, *network)
            given = table[torch.from_numpy(shown.items)]
            yield client_challenge.make_challenge(
                {ITEMS: given, **network},
                given.numpy(),
                shown.acted,
                {name: change[name] for name in names},
                self.learner,
                defence,
                int(stream(self.seed, "defence", shown.user).integers(2**31)),
            )

    def round(
        self,
        users: Sequence[int],
        defence: UpdateDefence,
        number: int = 0,
        sent: Tensors | None = None,
    ) -> tuple[Round, dict[str, Int[np.ndarray, " acted"]]]:
        """Simulate one round of a transcript, and return it with each client's interactions.

        Updates have a row for each item of the catalogue; rows of items not shown are 0 before the
        defence.

        Args:
            users: numbers of the users who take part.
            defence: update defence.
            number: number of the round.
            sent: global weights; fresh ones unless given.

        Raises:
            SpecError: updates hold the item embeddings alone, or all users acted on all items.
            DivulgeError: the defence refused.
        """
        if self.embeddings_only:
            raise SpecError("expected updates of the whole model for a transcript, got a part")
        sent = self.start() if sent is None else sent
        network, table = _split_weights(sent)
        updates: dict[int, dict[str, np.ndarray]] = {}
        handed = {}
        for impressions, change in self._train(users, network, table):
            moved = torch.zeros_like(table)
            moved[torch.from_numpy(impressions.items)] = change[ITEMS]
            updates[impressions.user] = {
                n: (moved if n == ITEMS else change[n]).numpy() for n in sent
            }
            handed[str(impressions.user)] = {"item": impressions.items}
        if not updates:
            raise SpecError("expected users who left items alone, got none: nothing to find out")
        sizes = {user: len(handed[str(user)]["item"]) for user in updates}
        promised = dict.fromkeys(updates, defence.guarantee())
        seed = int(stream(self.seed, "defence").integers(2**31))
        received, masked = server.exchange_updates(
            defence, number, sent, updates, sizes, promised, seed
        )
        training = LocalTraining("adam", self.learner.lr, epochs=self.learner.epochs)
        played = Round(number, "update", sent, received, masked, training, handed=handed)
        return played, self.interactions_of(users)

    def interactions_of(self, users: Sequence[int]) -> dict[str, Int[np.ndarray, " acted"]]:
        """Items that each client interacted with; users who interacted with all never take part."""
        each = self.log.of_each
        return {str(user): each[user] for user in users if len(each[user]) < self.log.items}

    def start(self) -> dict[str, np.ndarray]:
        """Fresh weights: the embeddings of all items, and the network's weights."""
        generator = _torch_generator(self.seed, "items")
        table = torch.randn(self.log.items, self.learner.width, generator=generator)
        network = self.learner.network(_torch_generator(self.seed, "network"))
        return {name: tensor.numpy() for name, tensor in {ITEMS: table, **network}.items()}

    def _draw_impressions(self, user: int, acted: Int[np.ndarray, " acted"]) -> _UserImpressions:
        rng = stream(self.seed, "handed out", user)
        others = np.setdiff1d(np.arange(self.log.items), acted)
        count = min((self.negatives + self.decoys) * len(acted), len(others))
        items = np.concatenate([acted, rng.choice(others, count, replace=False)])
        order = rng.permutation(len(items))
        labelled = (1 + self.decoys) * len(acted)
        return _UserImpressions(user, items[order], order < len(acted), order < labelled)

    def _train(
        self,
        users: Sequence[int],
        network: dict[str, torch.Tensor],
        table: Float[torch.Tensor, "items width"],
    ) -> Iterator[tuple[_UserImpressions, dict[str, torch.Tensor]]]:
        """Train users, and yield each one's items and update, with only the rows of these items."""
        each = self.log.of_each
        handed = [self._draw_impressions(user, each[user]) for user in users]
        handed = [shown for shown in handed if not shown.acted.all()]
        handed.sort(key=lambda shown: len(shown.items))
        for batch in _batch_by_size(handed):
            index, label, real = _pad_batch(batch)
            own = torch.stack(
                [torch.randn(self.learner.width, generator=_torch_generator(self.seed, shown.user))
                 for shown in batch]
            )  # fmt: skip
            change = self.learner.update(network, table[index], label, own, real)
            for row, shown in enumerate(batch):
                update = {name: tensor[row] for name, tensor in change.items()}
                update[ITEMS] = update[ITEMS][: len(shown.items)]
                yield shown, update


def _split_weights(
    weights: Tensors,
) -> tuple[dict[str, torch.Tensor], Float[torch.Tensor, "items width"]]:
    """Split weights into the network and the embeddings of all items."""
    network = {name: torch.from_numpy(np.array(array)) for name, array in weights.items()}
    return network, network.pop(ITEMS)


def _pad_batch(
    batch: list[_UserImpressions],
) -> tuple[
    Int[torch.Tensor, "users items"],
    Float[torch.Tensor, "users items"],
    Bool[torch.Tensor, "users items"],
]:
    """Pad a batch: item numbers, labels, and a mask of the items that are no fillers."""
    shape = len(batch), max(len(shown.items) for shown in batch)
    index, label = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape)
    real = torch.zeros(shape, dtype=torch.bool)
    for row, shown in enumerate(batch):
        many = len(shown.items)
        index[row, :many] = torch.from_numpy(shown.items)
        label[row, :many] = torch.from_numpy(shown.label).float()
        real[row, :many] = True
    return index, label, real


def _batch_by_size(handed: list[_UserImpressions]) -> Iterator[list[_UserImpressions]]:
    """Group users with similar numbers of items into batches."""
    batch: list[_UserImpressions] = []
    for user in handed:
        if batch and (len(batch) + 1) * len(user.items) > _BATCH_ITEMS:
            yield batch
            batch = []
        batch.append(user)
    if batch:
        yield batch


def _torch_generator(seed: int, *path: str | int) -> torch.Generator:
    return torch.Generator().manual_seed(int(stream(seed, "recommending", *path).integers(2**62)))
