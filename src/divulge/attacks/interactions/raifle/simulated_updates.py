"""Simulate the local training of several clients in one call, and compare with their updates."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from divulge.core import JointLearner, Learner


class Victim(NamedTuple):
    """A client whose update is to be matched, and what is known of its training."""

    learner: Learner
    sent: Mapping[str, Tensor]
    """The global weights."""
    items: Float[Tensor, "items features"]
    update: Mapping[str, Tensor]
    """The received update, by name."""


class Point(NamedTuple):
    """Where a client's optimiser stands."""

    raw: Float[Tensor, " items"]
    """Numbers whose sigmoid is the interactions."""
    own: Float[Tensor, " private"] | None


def stack_points(
    points: Sequence[Point], longest: int, *, joint: bool
) -> tuple[Float[Tensor, "clients items"], Float[Tensor, "clients private"] | None]:
    """Stack clients' points as numbers to differentiate by, ``own`` if it is optimised."""
    raw = _pad([point.raw for point in points], longest).requires_grad_()
    private = [point.own for point in points if point.own is not None]
    return raw, torch.stack(private).requires_grad_(joint) if private else None


class Slope(NamedTuple):
    """A client's distance at a point, and its derivatives."""

    loss: Float[Tensor, ""]
    by_raw: Float[Tensor, " items"]
    by_own: Float[Tensor, " private"] | None


_MOST_CLIENTS = 64

_MOST_NUMBERS = 2**19
"""Most clients, and most numbers of weights and items, whose training is simulated in one call:
more save no time, and each step of a training that is differentiated keeps what it computed."""


def split_into_batches(victims: Sequence[Victim]) -> Iterator[list[int]]:
    """Numbers of clients whose training can be simulated in one call, of much alike sizes."""
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for number, victim in enumerate(victims):
        alike[_shapes(victim) if isinstance(victim.learner, JointLearner) else number].append(
            number
        )
    for group in alike.values():
        batch: list[int] = []
        for number in sorted(group, key=lambda n: len(victims[n].items)):
            if batch and not _fits([victims[n] for n in batch], victims[number]):
                yield batch
                batch = []
            batch.append(number)
        yield batch


def _fits(batch: Sequence[Victim], further: Victim) -> bool:
    first, many = batch[0].learner, len(batch) + 1
    numbers = further.items.numel() + sum(
        weight.numel() for weight in further.sent.values() if weight.shape != further.items.shape
    )
    return (
        many <= _MOST_CLIENTS
        and many * numbers <= _MOST_NUMBERS
        and isinstance(first, JointLearner)
        and first.join([first, further.learner]) is not None
    )


_ROWS = "a row for each item"


def _shapes(victim: Victim) -> Hashable:
    """What clients in one call have in common: all shapes, but for the number of items."""
    tensors = [*victim.sent.items(), *victim.update.items()]
    return (
        type(victim.learner),
        victim.items.shape[1:],
        len(victim.sent),
        tuple((n, _ROWS if w.shape == victim.items.shape else w.shape) for n, w in tensors),
    )


class JointSimulation:
    """Trainings of several clients, simulated in one call, held against their updates."""

    def __init__(self, victims: Sequence[Victim], points: Sequence[Point], *, joint: bool) -> None:
        self._victims, self._joint = victims, joint
        self._points = dict(enumerate(points))
        self._batch = ClientBatch(victims)
        self._inside = list(range(len(victims)))

    def slopes(self, queries: Mapping[int, Point]) -> dict[int, Slope]:
        """Distance and derivatives of each client that asks, by number.

        Those that have ended are simulated along until they are a quarter of all.
        """
        # rebuilt in steps of a quarter: each rebuilding stacks all tensors anew
        if len(queries) * 4 <= len(self._inside) * 3:
            self._inside = sorted(queries)
            self._batch = ClientBatch([self._victims[n] for n in self._inside])
        self._points.update(queries)
        points = [self._points[n] for n in self._inside]
        raw, own = stack_points(points, self._batch.longest, joint=self._joint)
        loss = self._batch.distances(raw, own)
        loss.sum().backward()  # type: ignore[no-untyped-call]
        slopes = {}
        for row, number in enumerate(self._inside):
            if number in queries:
                assert raw.grad is not None
                by_raw = raw.grad[row, : len(points[row].raw)].clone()
                by_own = None if own is None or own.grad is None else own.grad[row].clone()
                slopes[number] = Slope(loss[row].detach(), by_raw, by_own)
        return slopes


class ClientBatch:
    """Clients whose training is simulated in one call."""

    def __init__(self, victims: Sequence[Victim]) -> None:
        self._learner = victims[0].learner
        self._together = (
            self._learner.join([victim.learner for victim in victims])
            if isinstance(self._learner, JointLearner)
            else None
        )
        self._counts = [len(victim.items) for victim in victims]
        self.longest = max(self._counts)
        self._items = _pad([victim.items for victim in victims], self.longest)
        self._sent = self._stack(victims, [victim.sent for victim in victims])
        self._update = self._stack(victims, [victim.update for victim in victims])
        shape = victims[0].items.shape
        self._rows = [n for n, w in victims[0].update.items() if w.shape == shape]
        self._lr = float(getattr(self._learner, "lr", 1.0))

    def distances(
        self, raw: Float[Tensor, "clients items"], own: Float[Tensor, "clients private"] | None
    ) -> Float[Tensor, " clients"]:
        """Distance of each client's simulated update from the received one."""
        simulated = self._simulate(raw.sigmoid(), own)
        if self._rows:
            name, real = self._rows[0], self._real
            # fillers weigh nothing in a client's mean over its items
            share = real / real.sum(1, keepdim=True)
            wanted = self._update[name]
            size = (torch.linalg.vector_norm(wanted, dim=2) * share).sum(1)
            apart = (torch.linalg.vector_norm(simulated[name] - wanted, dim=2) * share).sum(1)
            # section IV-B divides by the learning rate; the factor of the undivided update is the
            # released code's: L-BFGS ends too early on losses as small as these
            scaled: Tensor = apart / self._lr * torch.clamp(100 / size, min=1.0)
            return scaled
        apart = torch.cat([(simulated[n] - w).flatten(1) for n, w in self._update.items()], 1)
        # eq. 5 with the L2 loss; over the learning rate as in section IV-B
        return (apart / self._lr).square().mean(1)

    def _simulate(
        self, interactions: Float[Tensor, "clients items"],
        own: Float[Tensor, "clients private"] | None,
    ) -> dict[str, Tensor]:  # fmt: skip
        if self._together is not None:
            return self._together.update(self._sent, self._items, interactions, own, self._real)
        sent = {name: weight[0] for name, weight in self._sent.items()}
        private = None if own is None else own[0]
        alone = self._learner.update(sent, self._items[0], interactions[0], private)
        return {name: weight[None] for name, weight in alone.items()}

    @cached_property
    def _real(self) -> Bool[Tensor, "clients items"]:
        return torch.arange(self.longest) < torch.tensor(self._counts)[:, None]

    def _stack(
        self, victims: Sequence[Victim], each: Sequence[Mapping[str, Tensor]]
    ) -> dict[str, Tensor]:
        """Each tensor of all clients, with fillers where it has a row for each item."""
        return {
            name: _pad([tensors[name] for tensors in each], self.longest)
            if weight.shape == victims[0].items.shape
            else torch.stack([tensors[name] for tensors in each])
            for name, weight in each[0].items()
        }


def _pad(each: Sequence[Tensor], longest: int) -> Tensor:
    """Stack tensors of different lengths, with zeros behind the shorter ones."""
    stacked = each[0].new_zeros(len(each), longest, *each[0].shape[1:])
    for row, tensor in zip(stacked, each, strict=True):
        row[: len(tensor)] = tensor
    return stacked
