"""SeqMIA: how a record's metrics move while a network is distilled from the target."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float64

from divulge._util.arguments import Count, check_arguments
from divulge._util.extras import name_missing_extra
from divulge.attacks.shared.perturbation import Flat, flatten, space_of
from divulge.core import ModelView, Need, Records, Scores
from divulge.errors import NotApplicable
from divulge.metrics import signals
from divulge.targets.cache import record_keys

if TYPE_CHECKING:
    import torch
    from torch import nn

FEWEST = 50
"""Known members, and reference records of either half, below which nothing can be learned."""

HIDDEN = 128
"""Units of the one hidden layer of the distilled network."""

STATES = 50
"""Units of the recurrent network."""

BATCH = 100
"""Records of a step, of both trainings."""

DISTILLING, LEARNING = 0.1, 0.01
"""Learning rates: of SGD with momentum that distils, and of Adam that trains the reader."""

DECAYS = 5e-4, 1e-4
"""Weight decays of the two; biases have none."""

SLOWER = 5, 10
"""Epochs after which the learning rates of the two fall by a tenth."""

Sequences = Float64[np.ndarray, "records snapshots metrics"]


@check_arguments
@dataclass(frozen=True, slots=True)
class SeqMIA:
    """A recurrent network reads how five metrics of a record move while the target is distilled.

    A network learns the target's answers on half of the reference records. After each epoch five
    metrics of each record are taken: loss, highest probability, standard deviation, entropy and
    modified entropy; the target's own come last. A recurrent network with attention learns to
    distinguish the sequences of known members from those of the other half of the reference
    records.

    Args:
        epochs: epochs of the distillation, and so snapshots.
        attack_epochs: epochs of the recurrent network's training.

    References:
        Li et al. (2024), SeqMIA: Sequential-metric based membership inference attack, and the
        authors' code. Departures: the recurrent network learns from known members of the target,
        where the paper distils one shadow model; the distilled network has one hidden layer,
        whatever the model is; both sides have equal weight.
    """

    epochs: Count = 50
    attack_epochs: Count = 150

    name: ClassVar[str] = "seqmia"
    paper: ClassVar[str] = "Li et al. 2024"
    needs: ClassVar[Need] = (
        Need.PROBABILITIES | Need.LABELS | Need.FEATURES | Need.REFERENCE | Need.KNOWN_MEMBERS
    )

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log odds of membership that the recurrent network gives each candidate."""
        assert view.reference is not None
        assert view.known_members is not None
        reference = view.reference.take(rng.permutation(len(view.reference)))
        half = len(reference) // 2
        if min(half, len(view.known_members)) < FEWEST:
            raise NotApplicable(
                f"expected {FEWEST} or more known members, and twice as many reference records, "
                f"got {len(view.known_members)} and {len(reference)}"
            )
        distilled, others = (
            reference.take(np.arange(half)),
            reference.take(np.arange(half, half * 2)),
        )
        # in an order of their own, so that no rounding depends on that in which they were given
        order = np.argsort(np.array(record_keys(view.records.x), "V16"), kind="stable")
        sets = [view.known_members, others, view.records.take(order)]
        seed = int(rng.integers(2**31))
        with name_missing_extra():
            inside, outside, candidates = sequences(view, distilled, sets, self.epochs, seed)
            member = np.arange(len(inside) + len(outside)) < len(inside)
            lessons = np.concatenate([inside, outside])
            network = train_reader(lessons, member, self.attack_epochs, seed + 1)
        score = np.empty(len(order))
        score[order] = read(network, candidates)
        return Scores(score)


def metrics(p: Float64[np.ndarray, "records classes"], y: np.ndarray) -> np.ndarray:
    """Loss, highest probability, standard deviation, entropy and modified entropy, one a column."""
    return np.column_stack([
        -signals.compute_signal("loss", p, y),
        p.max(axis=1),
        p.std(axis=1),
        -signals.compute_signal("entropy", p, y),
        -signals.compute_signal("modified_entropy", p, y),
    ])  # fmt: skip


def sequences(
    view: ModelView, distilled: Records, sets: list[Records], epochs: int, seed: int
) -> list[Sequences]:
    """The metrics of each of these sets of records over the snapshots, and under the target.

    Args:
        view: with the target.
        distilled: records that a network is distilled on.
        sets: sets of records.
        epochs: epochs of the distillation.
        seed: of the distillation.
    """
    space = space_of(distilled.x)

    def scale(records: Records) -> Flat:
        middle = (space.low + space.high) / 2
        return np.asarray((flatten(records.x) - middle) / np.where(space.spread, space.spread, 1.0))

    taught = view.target.predict(distilled.x)
    rows = [scale(records) for records in sets]
    by_set: list[list[np.ndarray]] = [[] for _ in sets]
    for snapshot in _distil(scale(distilled), taught, epochs, seed):
        for own, records, x in zip(by_set, sets, rows, strict=True):
            own.append(metrics(snapshot(x), records.y))
    for own, records in zip(by_set, sets, strict=True):
        # the target's own metrics come last: they are where the distillation leads
        own.append(metrics(view.target.predict(records.x), records.y))
    return [np.stack(own, axis=1) for own in by_set]


class Snapshot:
    """A network as it is at the moment."""

    def __init__(self, network: "nn.Module") -> None:
        self._network = network

    def __call__(self, x: Flat) -> Float64[np.ndarray, "records classes"]:
        """Its probabilities."""
        import torch

        with torch.no_grad():
            return np.asarray(self._network(torch.from_numpy(x)).softmax(1).numpy())


def _distil(
    x: Flat, taught: Float64[np.ndarray, "records classes"], epochs: int, seed: int
) -> Iterator[Snapshot]:
    """A network that learns the target's answers, after each epoch."""
    import torch
    from torch import nn
    from torch.nn import functional

    from divulge.training.engine.loop import temporary_seed
    from divulge.training.optimisers import without_compiler

    rows, answers = torch.tensor(x), torch.tensor(taught)
    dice = torch.Generator().manual_seed(seed)
    with temporary_seed(seed, torch.device("cpu")):
        network = nn.Sequential(
            nn.Linear(x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, taught.shape[1])
        ).double()
    sgd = without_compiler(torch.optim.SGD)(_groups(network, DECAYS[0]), DISTILLING, 0.9)
    slower = torch.optim.lr_scheduler.StepLR(sgd, SLOWER[0], 0.9)
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(rows), generator=dice), BATCH):
            sgd.zero_grad()
            functional.cross_entropy(network(rows[batch]), answers[batch]).backward()  # type: ignore[no-untyped-call]
            sgd.step()
        slower.step()
        yield Snapshot(network)


def train_reader(
    lessons: Sequences, member: Bool[np.ndarray, " records"], epochs: int, seed: int
) -> "nn.Module":
    """The recurrent network, trained to tell members by their sequences.

    Args:
        lessons: the sequences of members and of others.
        member: which they are.
        epochs: epochs of Adam.
        seed: of the first weights and the batches.
    """
    import torch
    from torch.nn import functional

    from divulge.training.engine.loop import temporary_seed
    from divulge.training.optimisers import without_compiler

    x, y = torch.tensor(lessons, dtype=torch.float32), torch.from_numpy(member.astype(np.float32))
    # departure: equal weight of both sides, however many records each has
    weight = torch.where(y > 0, 0.5 / y.mean(), 0.5 / (1 - y.mean()))
    with temporary_seed(seed, torch.device("cpu")):
        network = make_reader(x.shape[2])
        adam = without_compiler(torch.optim.Adam)(_groups(network, DECAYS[1]), LEARNING)
        slower = torch.optim.lr_scheduler.StepLR(adam, SLOWER[1], 0.9)
        for _ in range(epochs):
            for batch in torch.split(torch.randperm(len(x)), BATCH):
                adam.zero_grad()
                functional.binary_cross_entropy_with_logits(
                    network(x[batch]), y[batch], weight[batch]
                ).backward()  # type: ignore[no-untyped-call]
                adam.step()
            slower.step()
    return network


def _groups(network: "nn.Module", decay: float) -> list[dict[str, Any]]:
    """The parameters of a network, with this weight decay for all but the biases."""
    weights, biases = (
        [of for name, of in network.named_parameters() if ("bias" in name) == bias]
        for bias in (False, True)
    )
    return [{"params": weights, "weight_decay": decay}, {"params": biases}]


def make_reader(inputs: int) -> "nn.Module":
    """A fresh recurrent network: an LSTM whose last state attends to all states.

    Args:
        inputs: metrics of each snapshot.
    """
    import torch
    from torch import nn

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent = nn.LSTM(inputs, STATES, batch_first=True)
            self.last = nn.Linear(2 * STATES, 1)

        def forward(self, x: "torch.Tensor") -> "torch.Tensor":
            states, (end, _) = self.recurrent(x)
            # the last state asks all states: the paper's attention
            attention = (states @ end[0][:, :, None]).softmax(1)
            context = (attention * states).sum(1)
            odds: torch.Tensor = self.last(torch.cat([end[0], context], 1))[:, 0]
            return odds

    return Reader()


def read(network: "nn.Module", inputs: Sequences) -> Float64[np.ndarray, " records"]:
    """The log odds that the recurrent network gives these sequences."""
    import torch

    with torch.no_grad():
        return np.asarray(network.double()(torch.from_numpy(inputs)).numpy())
