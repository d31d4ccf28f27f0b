"""Simulate FedAvg and FedSGD on one machine, and yield each round as the server sees it."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from divulge._util.arguments import Count, Seed, check_arguments
from divulge._util.digest import digest
from divulge._util.imports import call_user_code
from divulge._util.json import JSON
from divulge._util.random import stream
from divulge.core import (
    Guarantee,
    Records,
    Round,
    Tensors,
    UpdateDefence,
    check_trainer,
)
from divulge.errors import DataError, SpecError
from divulge.federation import clients, server
from divulge.federation.canaries import DEVIATION, CanaryClients, StatedEpsilon, canary_message
from divulge.federation.clients import ClientTraining, LocalTrainer
from divulge.federation.server import Evaluate
from divulge.federation.simulation import SimulatedFederation
from divulge.federation.transcript.layout import Header
from divulge.training.cluster import RayCluster, cluster_by_name
from divulge.training.recipe import RaggedRows, Recipe
from divulge.training.trainers import trainer_identity

Rule = Literal["fedavg", "fedsgd"]


@check_arguments
@dataclass(frozen=True, slots=True)
class Federation(SimulatedFederation):
    """A federation of clients with records, trained by FedAvg or FedSGD.

    Every random choice comes from a stream of its own under ``seed``, so a federation is the same,
    bit for bit, whenever it runs on the same machine.

    Args:
        pool: records of all clients.
        clients: positions of each client's records in the pool; see `partition`.
        recipe: local training of a client; the fresh weights of its network are the first global
            ones. For ``fedsgd`` it gives the network, the learning rate, and the batch size at
            which a client's gradient is computed piece by piece.
        rule: ``fedavg``: clients send their weights after local training, and the server averages
            them, weighted by numbers of records, buffers included; ``fedsgd``: clients send the
            gradient over all their records, and the server takes one step.
        participation: share of clients that a round draws at random; at least one client.
        defence: update defence. With one, clients send the change of their weights instead of the
            weights, and no counters.
        trainer: trainer of the clients, in place of plain training by the recipe. If it has a
            privacy guarantee, as `DPSGD` has, the transcript holds each client's guarantee for
            all the rounds it took part in.
        workers: largest number of processes, one a core unless given; or ``"ray"``,
            ``"ray:auto"`` or ``"ray:HOST:PORT"``, a Ray cluster that trains the clients, as for
            `divulge.ShadowModels`. Only the time depends on it.
        evaluate: function from the global model to named figures, called after each round.
        canaries: canary clients that take part beside the others, numbered after them; see
            `divulge.make_canary_clients`. Each counts as many records as a client has on average.
        seed: seed of every random choice.
        name: name of the federation in the transcript.

    Raises:
        SpecError: there is no such rule, no client, ``fedsgd`` has a trainer, or the participation
            makes no sense.
        DataError: a client has no records, or one that is not in the pool.

    References:
        McMahan et al. (2017), Communication-efficient learning of deep networks from
        decentralized data, algorithm 1 and section 2.
    """

    pool: Records
    clients: Sequence[RaggedRows]
    recipe: Recipe
    rule: Rule = "fedavg"
    participation: float = 1.0
    defence: UpdateDefence = field(default_factory=UpdateDefence)
    trainer: LocalTrainer | None = None
    evaluate: Evaluate | None = None
    canaries: CanaryClients | None = None
    seed: Seed = 0
    name: str = "federation"
    workers: Count | str | None = None

    def __post_init__(self) -> None:
        if self.rule == "fedsgd" and self.trainer is not None:
            raise SpecError(
                'expected rule = "fedavg" for clients with a trainer, such as DP-SGD, got '
                '"fedsgd", whose clients send one gradient of all their records and train nothing'
            )
        if not 0 < self.participation <= 1:
            raise SpecError(
                f"expected participation above 0 and up to 1, got {self.participation}: it is "
                "the share of clients in a round"
            )
        self._cluster()
        if not len(self.clients):
            raise SpecError("expected clients, got none: partition the pool first")
        for name, rows in enumerate(self.clients):
            if not len(rows) or rows.min() < 0 or rows.max() >= len(self.pool):
                raise DataError(
                    f"expected records of the pool for client {name}, got "
                    f"{'a position outside of it' if len(rows) else 'none'}: partition it again"
                )

    def rounds(self, first: int = 0, sent: Tensors | None = None) -> Iterator[Round]:
        """Yield one round after another, without end.

        Args:
            first: number of the first round.
            sent: global weights that it starts from; those of the fresh network unless given.

        Raises:
            DivulgeError: a client could not train, or the defence refused.
        """
        weights = self._fresh() if sent is None else sent
        cluster = self._cluster()
        turns = Counter[int]()
        for number in range(first):
            turns.update(itertools.chain(*self._participants(number)))
        with nullcontext() if cluster is None else cluster.session():
            learn = self._learn(cluster)
            for number in itertools.count(first):
                turns.update(itertools.chain(*self._participants(number)))
                done = self._round(number, weights, learn, turns)
                yield done
                assert done.aggregated is not None
                weights = done.aggregated

    @property
    def training_note(self) -> str:
        """What a user has to know of the way clients train; empty where it is as set."""
        return check_trainer(self.trainer, self.pool)

    @property
    def header(self) -> Header:
        """Header of the transcript: everything that the rounds depend on."""
        return Header(
            self.name,
            self._kind,
            {name: tuple(array.shape) for name, array in self._fresh().items()},
            self.rule,
            {
                "clients": len(self.clients),
                "participation": self.participation,
                "defence": repr(self.defence),
                "seed": self.seed,
                "digest": self._digest(),
                **self._about_canaries(),
            },
        )

    def _fresh(self) -> Tensors:
        """First global weights; updates leave out counters, such as batch normalisation's."""
        state = clients.initial_state(self.recipe, self.seed)
        whole = self._kind == "weights"
        return {name: array for name, array in state.items() if whole or array.dtype.kind == "f"}

    @property
    def _kind(self) -> Literal["weights", "update", "gradient"]:
        if self.rule == "fedsgd":
            return "gradient"
        return "weights" if self.defence.name == "none" else "update"

    def _digest(self) -> str:
        how = (trainer_identity(self.recipe), trainer_identity(self.trainer))
        return digest(repr(how), self.pool.x, self.pool.y, *self.clients)

    def _cluster(self) -> RayCluster | None:
        """Where clients are trained; None for this machine."""
        return cluster_by_name(self.workers) if isinstance(self.workers, str) else None

    def _learn(self, cluster: RayCluster | None) -> ClientTraining:
        """Function by which clients compute what they send."""
        learner = clients.make_learner(
            self.recipe, self.pool, self.trainer, self.seed, gradients=self.rule == "fedsgd"
        )
        if cluster is not None:
            from divulge.training.engine.remote_clients import RemoteClientWorkers

            return RemoteClientWorkers(cluster, learner).states
        if self.rule == "fedavg" and self.trainer is None:
            from divulge.training.engine.client_training import ClientWorkers

            processes = None if isinstance(self.workers, str) else self.workers
            return ClientWorkers(self.recipe, self.pool, processes).states
        return learner()

    def _round(
        self, number: int, sent: Tensors, learn: ClientTraining, turns: Mapping[int, int]
    ) -> Round:
        chosen, canaries = self._participants(number)
        results = self._train(number, sent, learn, chosen)
        sizes = {client: len(self.clients[client]) for client in chosen}
        promised = {c: self._client_guarantee(size, turns[c]) for c, size in sizes.items()}
        canary_clients, own = self.canaries, len(self.clients)
        for client in canaries:
            assert canary_clients is not None
            results[client] = canary_message(canary_clients, client - own, sent, self._kind)
            sizes[client] = max(1, round(float(np.mean([len(rows) for rows in self.clients]))))
            promised[client] = self.defence.guarantee(turns[client])
        received, masked = server.exchange_updates(
            self.defence, number, sent, results, sizes, promised, self.seed
        )
        if masked is None:
            mean = server.average(received.values(), equally=self.defence.weighs_equally)
        else:
            mean = dict(masked.tensors)
        step = -self.recipe.lr if self._kind == "gradient" else 1.0
        aggregated = dict(mean) if self._kind == "weights" else server.take_step(sent, mean, step)
        return Round(
            number,
            self._kind,
            sent,
            received,
            masked,
            clients.describe_training(self.recipe, gradients=self.rule == "fedsgd"),
            aggregated,
            self._figures(aggregated, len(results), max(turns.values())),
        )

    def _train(
        self, number: int, sent: Tensors, learn: ClientTraining, chosen: Sequence[int]
    ) -> dict[int, Tensors]:
        """What each of these clients sends, before any defence."""
        if not chosen:
            return {}
        rngs = (stream(self.seed, "local training", number, client) for client in chosen)
        seeds = [int(rng.integers(2**31)) for rng in rngs]
        trained = learn(sent, [self.clients[client] for client in chosen], seeds)
        change = self._kind == "update"
        return {
            client: clients.as_sent(sent, state, change=change)
            for client, state in zip(chosen, trained, strict=True)
        }

    def _figures(self, aggregated: Tensors, clients: int, turns: int) -> dict[str, float]:
        """Metrics of a round: of the global model, and what canaries are measured against.

        Args:
            aggregated: the global weights after the round.
            clients: how many clients took part in it.
            turns: the largest number of rounds that a client has taken part in.
        """
        metrics: dict[str, float] = {}
        if self.evaluate is not None:
            from divulge.training.engine.networks import load_network

            network = load_network(self.recipe.network, aggregated)
            evaluate = partial(self.evaluate, network)
            metrics = dict(call_user_code(evaluate, "evaluate"))
        if self.canaries is not None and (claim := self.defence.guarantee(turns)):
            metrics = {**metrics, **StatedEpsilon(claim.epsilon, claim.delta).as_metrics()}
            if deviation := self.defence.noise_deviation(clients):
                rate = self.recipe.lr if self.rule == "fedsgd" else 1.0
                metrics[DEVIATION] = rate * deviation
        return metrics

    def _client_guarantee(self, records: int, turns: int) -> Guarantee | None:
        """Privacy guarantee of a client with so many records after it has sent so many updates.

        A defence's guarantee protects the whole client, a trainer's one record. The latter holds
        whatever a defence makes of the update, and does not depend on rounds sat out.
        """
        return self.defence.guarantee(turns) or clients.promised_guarantee(
            self.trainer, records, turns
        )

    def _participants(self, number: int) -> tuple[list[int], list[int]]:
        """The clients of a round, and the canary clients, whose numbers follow theirs."""
        own = len(self.clients)
        together = own + (0 if self.canaries is None else len(self.canaries))
        many = max(1, round(self.participation * together))
        rng = stream(self.seed, "participants", number)
        drawn = sorted(rng.choice(together, many, replace=False).tolist())
        return [client for client in drawn if client < own], [
            client for client in drawn if client >= own
        ]

    def _about_canaries(self) -> dict[str, JSON]:
        if self.canaries is None:
            return {}
        return {**self.canaries.describe(len(self.clients)), "canary norm": self.canaries.norm}
