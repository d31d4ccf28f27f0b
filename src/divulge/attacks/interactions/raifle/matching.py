"""Gradient matching optimises interactions until the simulated update matches the received one.

The optimisers are PyTorch's: one Adam for several clients, as it treats each number by itself, and
an L-BFGS for each. What takes the time, the simulated training, is that of several clients in one
call where their learners allow it.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from queue import SimpleQueue
from threading import Thread
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from divulge.core import JointLearner, Learner
from divulge.errors import DataError
from divulge.training.optimisers import without_compiler

Optimiser = Literal["lbfgs", "adam"]
Q = TypeVar("Q")
A = TypeVar("A")
R = TypeVar("R")


class Victim(NamedTuple):
    """A client whose update is to be matched, and what is known of its training."""

    learner: Learner
    sent: Mapping[str, Tensor]
    """The global weights."""
    items: Float[Tensor, "items features"]
    update: Mapping[str, Tensor]
    """The received update, by name."""


class MatchResult(NamedTuple):
    """Result of the optimisation."""

    value: Float[np.ndarray, " items"]
    """Interaction with each item, in (0, 1)."""
    loss: float
    """Distance of the simulated update from the received one."""
    evaluations: int
    """Number of simulated trainings."""


@dataclass(frozen=True, slots=True)
class Matching:
    """Minimise the distance of simulated updates to received ones, as RAIFLE describes it.

    Interactions are the sigmoid of numbers that start uniform in [-1, 1]. A private embedding
    starts uniform in [0, 1]. Where the update holds one row an item, rows alone are compared, by
    their mean Euclidean distance; else all numbers over the learning rate, by their mean square.

    Args:
        optimiser: L-BFGS with a strong Wolfe search and rate 0.1, or Adam with rate 0.1.
        steps: the most steps of the optimiser.
        joint: whether the private embedding is optimised, too, or stays random.

    References:
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, algorithms 1 and 2, section IV-B.
    """

    optimiser: Optimiser
    steps: int
    joint: bool

    def match(self, victims: Sequence[Victim], rng: np.random.Generator) -> Iterator[MatchResult]:
        """Yield the result of each client, in order.

        Args:
            victims: the clients.
            rng: draws the starts, in the order of the clients.

        Raises:
            DataError: the distance is not finite, at the start or at the end.
        """
        starts = [self._draw_start(victim, rng) for victim in victims]
        batch_of = {number: batch for batch in _batches(victims) for number in batch}
        found: dict[int, MatchResult] = {}
        for number in range(len(victims)):
            if number not in found:
                batch = batch_of[number]
                found |= self._match_batch({n: (victims[n], starts[n]) for n in batch})
            yield found.pop(number)

    def _draw_start(self, victim: Victim, rng: np.random.Generator) -> "_Point":
        learner, _, items, _ = victim
        raw = items.new_tensor(rng.uniform(-1, 1, len(items)))
        own = items.new_tensor(rng.random(learner.private)) if learner.private else None
        return _Point(raw, own)

    def _match_batch(self, batch: Mapping[int, "tuple[Victim, _Point]"]) -> dict[int, MatchResult]:
        victims, starts = zip(*batch.values(), strict=True)
        if self.optimiser == "adam":
            results = self._descend_together(victims, starts)
        else:
            simulation = _Simulation(victims, starts, joint=self.joint)
            works = [partial(self._descend, start) for start in starts]
            results = _work_together(works, simulation.slopes)
        return dict(zip(batch, results, strict=True))

    def _descend_together(
        self, victims: "Sequence[Victim]", starts: "Sequence[_Point]"
    ) -> list[MatchResult]:
        batch = _Batch(victims)
        raw, own = _stack_points(starts, batch.longest, joint=self.joint)
        sought = [raw] if own is None or not self.joint else [raw, own]
        search = without_compiler(torch.optim.Adam)(sought, lr=0.1)
        for _ in range(self.steps):
            search.zero_grad()
            batch.distances(raw, own).sum().backward()  # type: ignore[no-untyped-call]
            search.step()
        with torch.no_grad():
            losses = batch.distances(raw, own).tolist()
        found = zip(raw.detach(), victims, losses, strict=True)
        return [_result(row[: len(v.items)], loss, self.steps + 1) for row, v, loss in found]

    def _descend(self, start: "_Point", ask: "Callable[[_Point], _Slope]") -> MatchResult:
        raw, own = start
        sought = [raw] if own is None or not self.joint else [raw, own]
        evaluations = 0
        search: torch.optim.Optimizer = without_compiler(torch.optim.LBFGS)(
            sought, lr=0.1, max_iter=self.steps, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            nonlocal evaluations
            evaluations += 1
            slope = ask(start)
            raw.grad = slope.by_raw
            if own is not None:
                own.grad = slope.by_own
            return slope.loss

        search.step(closure)  # type: ignore[arg-type]
        return _result(raw, float(closure()), evaluations)


def _result(raw: Float[Tensor, " items"], loss: float, evaluations: int) -> MatchResult:
    if not np.isfinite(loss):
        raise DataError(
            f"expected a finite distance between updates, got {loss} after {evaluations} "
            "simulations: the descent broke down; try another seed or optimiser"
        )
    return MatchResult(raw.sigmoid().numpy().astype(np.float64), loss, evaluations)


class _Point(NamedTuple):
    """Where a client's optimiser stands."""

    raw: Float[Tensor, " items"]
    """Numbers whose sigmoid is the interactions."""
    own: Float[Tensor, " private"] | None


def _stack_points(
    points: Sequence[_Point], longest: int, *, joint: bool
) -> tuple[Float[Tensor, "clients items"], Float[Tensor, "clients private"] | None]:
    """Stack clients' points as numbers to differentiate by, ``own`` if it is optimised."""
    raw = _pad([point.raw for point in points], longest).requires_grad_()
    held = [point.own for point in points if point.own is not None]
    return raw, torch.stack(held).requires_grad_(joint) if held else None


class _Slope(NamedTuple):
    """A client's distance at a point, and its derivatives."""

    loss: Float[Tensor, ""]
    by_raw: Float[Tensor, " items"]
    by_own: Float[Tensor, " private"] | None


_MOST_CLIENTS = 64
_MOST_NUMBERS = 2**19
"""Most clients, and most numbers of weights and items, whose training is simulated in one call:
more save no time, and each step of a training that is differentiated keeps what it computed."""


def _batches(victims: Sequence[Victim]) -> Iterator[list[int]]:
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


class _Simulation:
    """Trainings of several clients, simulated in one call, held against their updates."""

    def __init__(self, victims: Sequence[Victim], points: Sequence[_Point], *, joint: bool) -> None:
        self._victims, self._joint = victims, joint
        self._points = dict(enumerate(points))
        self._batch = _Batch(victims)
        self._inside = list(range(len(victims)))

    def slopes(self, asked: Mapping[int, _Point]) -> dict[int, _Slope]:
        """Distance and derivatives of each client that asks, by number.

        Those that have ended are simulated along until they are a quarter of all.
        """
        if len(asked) * 4 <= len(self._inside) * 3:
            self._inside = sorted(asked)
            self._batch = _Batch([self._victims[n] for n in self._inside])
        self._points.update(asked)
        points = [self._points[n] for n in self._inside]
        raw, own = _stack_points(points, self._batch.longest, joint=self._joint)
        loss = self._batch.distances(raw, own)
        loss.sum().backward()  # type: ignore[no-untyped-call]
        found = {}
        for row, number in enumerate(self._inside):
            if number in asked:
                assert raw.grad is not None
                by_raw = raw.grad[row, : len(points[row].raw)].clone()
                by_own = None if own is None or own.grad is None else own.grad[row].clone()
                found[number] = _Slope(loss[row].detach(), by_raw, by_own)
        return found


class _Batch:
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
            share = real / real.sum(1, keepdim=True)
            wanted = self._update[name]
            size = (torch.linalg.vector_norm(wanted, dim=2) * share).sum(1)
            apart = (torch.linalg.vector_norm(simulated[name] - wanted, dim=2) * share).sum(1)
            scaled: Tensor = apart * torch.clamp(100 / size, min=1.0)
            return scaled
        apart = torch.cat([(simulated[n] - w).flatten(1) for n, w in self._update.items()], 1)
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
            name: _pad([one[name] for one in each], self.longest)
            if weight.shape == victims[0].items.shape
            else torch.stack([one[name] for one in each])
            for name, weight in each[0].items()
        }


def _pad(each: Sequence[Tensor], longest: int) -> Tensor:
    """Stack tensors of different lengths, with zeros behind the shorter ones."""
    stacked = each[0].new_zeros(len(each), longest, *each[0].shape[1:])
    for row, one in zip(stacked, each, strict=True):
        row[: len(one)] = one
    return stacked


def _work_together(
    works: Sequence[Callable[[Callable[[Q], A]], R]],
    answer: Callable[[Mapping[int, Q]], Mapping[int, A]],
) -> list[R]:
    """Results of workers that ask questions, which are answered whenever all of them have asked.

    Args:
        works: what each worker does, given a function to ask.
        answer: answers to the questions of those that are still at work, by number.
    """
    workers = [_Worker(work) for work in works]
    try:
        asked = {n: q for n, worker in enumerate(workers) if (q := worker.resume(None)) is not None}
        while asked:
            answers = answer(asked)
            asked = {n: q for n in asked if (q := workers[n].resume(answers[n])) is not None}
    finally:
        for worker in workers:
            worker.end()
    return [worker.result for worker in workers]


class _EndOfWork(Exception):
    """Nobody waits for the result any more."""


class _Worker(Generic[Q, A, R]):
    """Work that stands still whenever it asks a question, until it is resumed with the answer.

    It has a thread of its own, as optimisers call functions and do not hand back control; no two
    threads ever run at once.
    """

    result: R

    def __init__(self, work: Callable[[Callable[[Q], A]], R]) -> None:
        self._work = work
        self._error: Exception | None = None
        self._answers: SimpleQueue[A | None] = SimpleQueue()
        self._questions: SimpleQueue[Q | None] = SimpleQueue()
        self._thread = Thread(target=self._run, daemon=True)

    def resume(self, answer: A | None) -> Q | None:
        """The next question; None if the result is there. The first answer is None."""
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._answers.put(answer)
        question = self._questions.get()
        if self._error is not None:
            raise self._error
        return question

    def end(self) -> None:
        """End the work where it stands, and wait for its thread.

        A thread that outlives the interpreter aborts the process, whose exit code is then lost.
        """
        if self._thread.is_alive():
            self._answers.put(None)
            self._thread.join()

    def _ask(self, question: Q) -> A:
        self._questions.put(question)
        answer = self._answers.get()
        if answer is None:
            raise _EndOfWork
        return answer

    def _run(self) -> None:
        try:
            self.result = self._work(self._ask)
        except _EndOfWork:
            pass
        except Exception as error:  # raised again where it is resumed
            self._error = error
        self._questions.put(None)
