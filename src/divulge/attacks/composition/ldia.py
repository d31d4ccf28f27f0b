"""LDIA: a network learns from shadow clients to read class shares off the last layer's change."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from jaxtyping import Float, Float64, Int

from divulge._util.arguments import check_arguments
from divulge._util.random import stream
from divulge.attacks.shared.observed_round import ObservedRound, first_rounds
from divulge.core import Need, Proportions, Tensors, UpdateView
from divulge.errors import SpecError
from divulge.training.recipe import RaggedRows

if TYPE_CHECKING:
    import torch

BATCH, RATE, DECAY_AFTER = 64, 0.001, 51
"""Batch size and rate of Adam, and the epoch after which the rate is a tenth."""

WIDTHS = (512, 64)
"""Hidden units of the attack's network."""

DIGITS = 3
"""Decimals of a share that the network gives."""

_TINY = 1e-7

Counts = Int[np.ndarray, "clients classes"]
Shares = Float64[np.ndarray, "clients classes"]
Seen = Float[np.ndarray, "clients numbers"]


@check_arguments
@dataclass(frozen=True, slots=True)
class LDIA:
    """Class shares by a network that was trained on shadow clients with known mixes.

    Shadow clients hold records of the attacker, of one class up to all of them, in random shares,
    and train from the weights that were sent out. The network reads how the last layer's weights
    changed in each round. A class whose share rounds to 0.000 is declared null. Victims of the same
    rounds share a network.

    Args:
        clients: number of shadow clients.
        rounds: largest number of rounds, the first ones of each victim.
        epochs: epochs of the network's training.

    References:
        Gu and Bai (2023), LDIA: Label distribution inference attack against federated learning in
        edge computing, as its published code has it. Departures: there each shadow client also has
        a global model of its own, the mean with the real clients' updates, and ten rounds are
        observed, before which the network has two convolutions; here shadow clients start from the
        weights that the server really sent, and the network is the code's own for fewer rounds,
        without convolutions. Shares to be learned are not rounded to two decimals.
    """

    clients: int = 1000
    rounds: int = 3
    epochs: int = 100

    name: ClassVar[str] = "ldia"
    paper: ClassVar[str] = "Gu and Bai 2023"
    needs: ClassVar[Need] = Need.UPDATES | Need.REFERENCE

    def __post_init__(self) -> None:
        if min(self.clients - 23, self.rounds, self.epochs) < 1:
            raise SpecError(
                f"expected clients from 24, rounds from 1 and epochs from 1, got {self.clients}, "
                f"{self.rounds} and {self.epochs}: change them"
            )

    def __call__(self, view: UpdateView, rng: np.random.Generator) -> Proportions:
        """The shares of one client."""
        return self.many((view,), rng)[0]

    def many(
        self, views: Sequence[UpdateView], rng: np.random.Generator
    ) -> tuple[Proportions, ...]:
        """The shares of several clients of one federation; shadow clients are trained once.

        Raises:
            NotApplicable: network, reference records of each class, or what clients were told to
                do are not known.
        """
        stages = first_rounds(views, self.rounds)
        seed = int(rng.integers(2**63))
        counts, rows = _draw_shadow_clients(stages, views, self.clients, stream(seed, "shadows"))
        shadows = {n: _train_shadows(stage, rows, seed) for n, (stage, _) in stages.items()}
        shares = counts / counts.sum(axis=1, keepdims=True)
        guesses: dict[int, Proportions] = {}
        for together, victims in _same_rounds(stages, len(views)).items():
            inside = np.concatenate([shadows[n] for n in together], axis=1)
            changes = np.array([
                np.concatenate([_flatten(stages[n][0], views[v].victim) for n in together])
                for v in victims
            ])  # fmt: skip
            network = train_network(inside, shares, self.epochs, seed)
            for v, share in zip(victims, read_shares(network, changes), strict=True):
                how = f"{self.clients} shadow clients, rounds {', '.join(map(str, together))}"
                guesses[v] = Proportions(share / share.sum(), share == 0, how=how)
        return tuple(guesses[v] for v in range(len(views)))


def draw_counts(sizes: Sequence[int], classes: int, rng: np.random.Generator) -> Counts:
    """Numbers of records of each class of shadow clients, as many as there are sizes.

    Equally many clients, but for what is left over, have records of up to 1, 2, and so on up to
    all of the classes. Which ones is drawn; so are the cuts between them, from 1 to all records.
    """
    counts = np.zeros((len(sizes), classes), np.int64)
    for k, size in enumerate(sizes):
        there = 1 + k * classes // len(sizes)
        cuts = np.sort(rng.integers(1, size + 1, there - 1))
        parts = np.diff(np.concatenate([[0], cuts, [size]]))
        counts[k, np.sort(rng.permutation(classes)[:there])] = parts
    return counts


def _draw_shadow_clients(
    stages: dict[int, tuple[ObservedRound, list[int]]],
    views: Sequence[UpdateView],
    many: int,
    rng: np.random.Generator,
) -> tuple[Counts, tuple[RaggedRows, ...]]:
    """Mixes of shadow clients, and the positions of their records among the attacker's.

    Clients are as large as the victims, each of them as often. Records of a class are repeated
    until there are as many as the largest client has, and drawn without replacement from these.
    """
    stage = next(iter(stages.values()))[0]
    stage.class_means(stage.before)  # refuses a class without records
    victim_sizes = [
        observed.records(views[v].victim) for observed, victims in stages.values() for v in victims
    ]
    sizes = rng.permutation(np.resize(rng.permutation(np.sort(victim_sizes)), many))
    counts = draw_counts(sizes.tolist(), stage.classes, rng)
    label = stage.reference.y
    pools = []
    for k in range(stage.classes):
        own = np.flatnonzero(label == k)
        pools.append(np.resize(rng.permutation(own), max(max(victim_sizes), len(own))))
    rows = tuple(
        rng.permutation(np.concatenate([
            rng.permutation(pool)[:count] for pool, count in zip(pools, each, strict=True)
        ]))
        for each in counts.tolist()
    )  # fmt: skip
    return counts, rows


def _train_shadows(stage: ObservedRound, rows: tuple[RaggedRows, ...], seed: int) -> Seen:
    from divulge.training.engine.clients import ClientWorkers

    client_workers = ClientWorkers(stage.recipe, stage.reference)
    drawn = stream(seed, "shadow clients", stage.round.number).integers(2**31, size=len(rows))
    changes = stage.train_on(client_workers, rows, drawn.tolist())
    return np.array([_layer_change(stage, change) for change in changes])


def _flatten(stage: ObservedRound, client: str) -> Float[np.ndarray, " numbers"]:
    return _layer_change(stage, stage.round.change(client))


def _layer_change(stage: ObservedRound, change: Tensors) -> Float[np.ndarray, " numbers"]:
    """Last layer's weights sent less those it came to, as one row."""
    return -change[stage.layer.weight].ravel().astype(np.float32)


def _same_rounds(
    stages: dict[int, tuple[ObservedRound, list[int]]], many: int
) -> dict[tuple[int, ...], list[int]]:
    """Victims by the rounds that they are attacked in."""
    together: dict[tuple[int, ...], list[int]] = {}
    for v in range(many):
        rounds = tuple(number for number, (_, victims) in stages.items() if v in victims)
        together.setdefault(rounds, []).append(v)
    return together


def train_network(inside: Seen, shares: Shares, epochs: int, seed: int) -> "torch.nn.Module":
    """The attack's network, trained on what shadow clients show and hold.

    Args:
        inside: features, one row a shadow client.
        shares: class shares of each.
        epochs: epochs of Adam.
        seed: seeds the first weights and the batches.
    """
    import torch

    from divulge.training.engine.loop import temporary_seed
    from divulge.training.optimisers import without_compiler

    x = torch.tensor(inside, dtype=torch.float32)
    y = torch.tensor(shares, dtype=torch.float32)
    with temporary_seed(seed, torch.device("cpu")):
        network = _fresh_network(x.shape[1], y.shape[1])
        adam = without_compiler(torch.optim.Adam)(network.parameters(), RATE)
        # the published code's schedule: a tenth of the rate from epoch 51 on
        slower = torch.optim.lr_scheduler.MultiStepLR(adam, [DECAY_AFTER], 0.1)
        for _ in range(epochs):
            for rows in torch.split(torch.randperm(len(x)), BATCH):
                if len(rows) == 1:
                    continue
                adam.zero_grad()
                loss(round_shares(network(x[rows]).softmax(1)), y[rows]).backward()  # type: ignore[no-untyped-call]
                adam.step()
            slower.step()
    return network


def _fresh_network(inputs: int, classes: int) -> "torch.nn.Module":
    from torch import nn

    layers: list[nn.Module] = []
    for width in WIDTHS:
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    network = nn.Sequential(*layers, nn.Linear(inputs, classes))
    for layer in network:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
    return network


def loss(predicted: "torch.Tensor", true: "torch.Tensor") -> "torch.Tensor":
    """Mean over clients of 2 KL(true | predicted), smooth L1 and 3 |var(true) - var(predicted)|."""
    from torch.nn import functional

    # a share that is rounded to 0 has no logarithm
    divergence = functional.kl_div((predicted + _TINY).log(), true, reduction="sum")
    apart = functional.smooth_l1_loss(predicted, true, reduction="sum")
    spread = (true.var(dim=1) - predicted.var(dim=1)).abs().sum()
    return (2 * divergence + apart + 3 * spread) / len(true)


def round_shares(shares: "torch.Tensor") -> "torch.Tensor":
    """Shares with `DIGITS` decimals, through which gradients pass as if they were not rounded."""
    # straight-through estimator: rounding has no gradient of its own
    return shares + (shares.round(decimals=DIGITS) - shares).detach()


def read_shares(network: "torch.nn.Module", changes: Seen) -> Shares:
    """The rounded shares that the network gives."""
    import torch

    with torch.no_grad():
        shares = network(torch.tensor(changes, dtype=torch.float32)).double().softmax(1)
    return np.asarray(shares.round(decimals=DIGITS).numpy(), dtype=np.float64)
