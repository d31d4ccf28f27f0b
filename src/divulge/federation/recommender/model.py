"""Train federated neural collaborative filtering (FNCF): private user embeddings, shared items."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from divulge._util.arguments import check_arguments
from divulge.core import Learner
from divulge.errors import SpecError

ITEMS = "items"
"""Name of the tensor of item embeddings in weights and updates."""

_EPSILON = 1e-8
"""Adam's ε, outside the root and inside it, where the root else has no derivative at 0."""


@check_arguments
@dataclass(frozen=True, slots=True)
class NeuralCF:
    """Local training of FNCF: Adam on the whole batch of a user's items.

    A network scores the concatenation of a user's and an item's embedding. Training changes the
    user's embedding, which stays with the client, the embeddings of the items handed out, and the
    network; the last two are sent. All users of a call are trained at once, each on its own copy.

    Args:
        width: width of each embedding.
        hidden: units of the hidden layers, each followed by a ReLU.
        epochs: number of local epochs, one step each.
        lr: learning rate of Adam.
        l1: weight of the mean distance of item embeddings to those that were sent, a defence
            (Yuan et al. 2023); 0 is none.

    Raises:
        SpecError: a setting makes no sense.

    References:
        Perifanis and Efraimidis (2022), Federated neural collaborative filtering; Pham, Kulkarni
        and Houmansadr (2024), RAIFLE, section V-A (the sizes); Yuan et al. (2023),
        Interaction-level membership inference attack against federated recommender systems (l1).
    """

    width: int = 64
    hidden: tuple[int, ...] = (128, 64, 32)
    epochs: int = 20
    lr: float = 0.001
    l1: float = 0.0

    def __post_init__(self) -> None:
        if min(self.width, self.epochs, *self.hidden) < 1 or self.lr <= 0 or self.l1 < 0:
            raise SpecError(f"expected sizes and a learning rate above 0, got {self}")

    @property
    def private(self) -> int:
        """Length of the private vector: the user's embedding."""
        return self.width

    def network(self, generator: torch.Generator) -> dict[str, Tensor]:
        """Weights of a fresh network, as PyTorch initialises linear layers."""
        sizes = [2 * self.width, *self.hidden, 1]
        made = {}
        for layer, (wide, out) in enumerate(pairwise(sizes)):
            bound = wide**-0.5
            for name, shape in (("weight", (out, wide)), ("bias", (out,))):
                uniform = torch.rand(shape, generator=generator)
                made[f"{layer}.{name}"] = (2 * uniform - 1) * bound
        return made

    def update(
        self,
        sent: Mapping[str, Tensor],
        items: Float[Tensor, "*users items width"],
        interactions: Float[Tensor, "*users items"],
        private: Float[Tensor, "*users width"] | None = None,
        real: Bool[Tensor, "*users items"] | None = None,
    ) -> dict[str, Tensor]:
        """Train, and return the change of the item embeddings as `ITEMS`, and of the network.

        Args:
            sent: weights of the network, or of each user's; item embeddings in it are ignored.
            items: embeddings of the items shown, of one user or of several.
            interactions: 1 where the user interacted with an item, else 0.
            private: embedding of the user, or of each user.
            real: mask of the items that count, where the others fill up the batch; all unless
                given.
        """
        assert private is not None
        many = items.ndim == 3
        if not many:
            items, interactions, private = items[None], interactions[None], private[None]
            real = None if real is None else real[None]
        counted = torch.ones_like(interactions) if real is None else real.to(items.dtype)
        share = counted / counted.sum(1, keepdim=True)
        network = {name: w for name, w in sent.items() if name != ITEMS}
        start = [
            private,
            items,
            *(_expand(name, w, len(items)) for name, w in network.items()),
        ]
        changed = self._train(start, interactions, share)
        names = [ITEMS, *network]
        return {
            name: (after - before) if many else (after - before)[0]
            for name, after, before in zip(names, changed[1:], start[1:], strict=True)
        }

    def join(self, learners: Sequence[Learner]) -> "NeuralCF | None":
        """This learner, which trains several users in one call; None if one is another."""
        return self if all(each == self for each in learners) else None

    def _train(
        self,
        start: list[Tensor],
        interactions: Float[Tensor, "users items"],
        share: Float[Tensor, "users items"],
    ) -> list[Tensor]:
        # Adam on one long vector: many small tensors would cost more than the arithmetic
        through = torch.is_grad_enabled() and any(t.requires_grad for t in [*start, interactions])
        shapes = [t.shape for t in start]
        vector = torch.cat([t.flatten() for t in start])
        first, second = torch.zeros_like(vector), torch.zeros_like(vector)
        for step in range(1, self.epochs + 1):
            with torch.set_grad_enabled(through):
                vector = vector if vector.requires_grad or not through else vector.requires_grad_()
                values, learned = (
                    _split_vector(vector, shapes),
                    _TrainingBatch(interactions, share, start[1]),
                )
                if through:  # such that they can be differentiated again
                    loss = self._loss(values, learned)
                    grads = torch.autograd.grad(loss, values, create_graph=True)
                else:
                    grads = self._gradients(values, learned)
                grad = torch.cat([g.flatten() for g in grads])
                first = first.lerp(grad, 0.1)
                second = second.lerp(grad * grad, 0.001)
                # departs from Adam by the inner ε: a root has no derivative at 0
                root = (second / (1 - 0.999**step) + _EPSILON).sqrt() + _EPSILON
                vector = vector.addcdiv(first, root, value=-self.lr / (1 - 0.9**step))
        return _split_vector(vector if through else vector.detach(), shapes)

    def _gradients(self, values: list[Tensor], learned: "_TrainingBatch") -> tuple[Tensor, ...]:
        """Gradients of the loss by all values, without an autograd graph in half of the time."""
        interactions, share, before = learned
        user, items, *network = values
        ours, theirs = network[0][:, :, : self.width], network[0][:, :, self.width :]
        logit, inputs = self._forward(user, items, network)
        back = ((torch.sigmoid(logit) - interactions) * share)[:, :, None]
        backwards: list[Tensor] = []  # from behind
        for layer in range(len(inputs) - 1, -1, -1):
            backwards += [back.sum(1), torch.bmm(back.mT, inputs[layer])]
            back = torch.bmm(back, network[2 * layer + 2])
            torch.ops.aten.threshold_backward.grad_input(back, inputs[layer], 0, grad_input=back)
        first = back.sum(1)
        by_ours, by_theirs = first[:, :, None] * user[:, None], torch.bmm(back.mT, items)
        by_items = torch.bmm(back, theirs)
        if self.l1:
            by_items += self.l1 / self.width * share[:, :, None] * (items - before).sign()
        by_user = torch.bmm(first[:, None], ours)[:, 0]
        return by_user, by_items, torch.cat([by_ours, by_theirs], 2), first, *reversed(backwards)

    def _loss(self, values: list[Tensor], learned: "_TrainingBatch") -> Float[Tensor, ""]:
        """Sum over users of the mean loss of each."""
        interactions, share, before = learned
        logit = self.score(values[0], values[1], values[2:])
        entropy = binary_cross_entropy_with_logits(logit, interactions, reduction="none")
        loss = (entropy * share).sum()
        if self.l1:
            # the L1 defence of table VI: items are held near what the server sent
            moved = (values[1] - before.detach()).abs().mean(2)
            loss = loss + self.l1 * (moved * share).sum()
        return loss

    def score(
        self,
        user: Float[Tensor, "users width"],
        items: Float[Tensor, "users items width"],
        network: list[Tensor],
    ) -> Float[Tensor, "users items"]:
        """Score each item by the network, as a logit.

        Args:
            user: embeddings of the users.
            items: embeddings of each user's items.
            network: weights and biases in order, each with one more axis in front, for the users.
        """
        return self._forward(user, items, network)[0]

    def _forward(
        self,
        user: Float[Tensor, "users width"],
        items: Float[Tensor, "users items width"],
        network: list[Tensor],
    ) -> tuple[Float[Tensor, "users items"], list[Tensor]]:
        """Score of each item, and the inputs of each layer but the first."""
        weight, bias = network[:2]
        ours, theirs = weight[:, :, : self.width], weight[:, :, self.width :]
        at = torch.bmm(ours, user[:, :, None])[:, :, 0] + bias  # the same for all items
        x = torch.bmm(items, theirs.mT) + at[:, None]
        hidden = []
        for weight, bias in zip(network[2::2], network[3::2], strict=True):
            hidden.append(x.relu())
            x = torch.baddbmm(bias[:, None], hidden[-1], weight.mT)
        return x[:, :, 0], hidden


class _TrainingBatch(NamedTuple):
    """Data that users train on, one row a user."""

    interactions: Float[Tensor, "users items"]
    share: Float[Tensor, "users items"]
    """Weight of each item in its user's loss; fillers have 0."""
    before: Float[Tensor, "users items width"]
    """Item embeddings as the server sent them."""


def _expand(name: str, weight: Tensor, users: int) -> Tensor:
    """A copy of a weight for each user, who may have their own already."""
    own = weight.shape[-2 if name.endswith("weight") else -1 :]
    return weight.expand(users, *own).contiguous()


def _split_vector(vector: Float[Tensor, " numbers"], shapes: Sequence[torch.Size]) -> list[Tensor]:
    """Split a vector into tensors of these shapes."""
    parts = torch.split(vector, [shape.numel() for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
