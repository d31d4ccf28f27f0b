"""Simulate one setting of a federation, and attack it as its server would."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int

from divulge._util.random import stream
from divulge.attacks import catalog as attacks
from divulge.attacks.shared.refitted_layer import refit_last_layer
from divulge.core import (
    NOBODY,
    Assignment,
    Collusion,
    Estimate,
    FederationView,
    Finding,
    Measurements,
    Proportions,
    ReceivedUpdate,
    Records,
    Rounds,
    Status,
    Tensors,
)
from divulge.errors import DataError, NotApplicable
from divulge.federation.fedavg import Federation
from divulge.federation.simulation import simulate
from divulge.federation.transcript.reader import Transcript
from divulge.federation.transcript_updates import TranscriptUpdates
from divulge.metrics import assignment, client_accuracy, composition, membership
from divulge.secrets import attempt
from divulge.studies.harden.federated_limits import (
    FederationLimits,
    FederationTrial,
    FederationVariant,
)
from divulge.targets.torch import TorchTarget

NamedAttacks = tuple[tuple[str, dict[str, Any]], ...]
"""Names of attacks in the catalogue, with their settings."""
OWNER_ATTACKS = ("fedmia", "cluster-lira")
"""Attacks on which client held a record."""


@dataclass(frozen=True, slots=True)
class TrialDesign:
    """How each setting is simulated, attacked and judged."""

    federation: Federation
    """Undefended; each setting changes its defence and its local epochs."""
    limits: FederationLimits
    test: Records
    reference: Records
    rounds: int
    candidates: int
    attacks: NamedAttacks
    """On class shares."""

    def run(self, setting: FederationVariant, seed: int) -> FederationTrial:
        """Simulate a setting, and attack it.

        Raises:
            DivulgeError: it cannot be simulated, or no attack on a limited secret can be run.
        """
        assert setting.epochs is not None
        defended = replace(
            self.federation,
            defence=setting.build(),
            recipe=replace(self.federation.recipe, epochs=setting.epochs),
            seed=seed,
        )
        transcript = simulate(defended, self.rounds)
        return FederationTrial(
            setting,
            self._accuracy(defended, transcript),
            dict(self._leaks(defended, transcript, setting, seed)),
        )

    def _accuracy(self, federation: Federation, transcript: Transcript) -> Estimate:
        """Of the models that clients use, on records of nobody in each client's own class mix.

        That is the global model after the last round; or, where clients have layers of their own,
        what one more local training makes of it.
        """
        from divulge.training.engine.client_training import ClientWorkers
        from divulge.training.engine.networks import load_network

        rounds = len(transcript.rounds)
        weights = transcript.rounds[rounds - 1].aggregated
        assert weights is not None
        states: Iterable[Tensors] = [weights]
        if federation.defence.personal:
            rngs = [
                stream(federation.seed, "local training", rounds, client)
                for client in range(len(federation.clients))
            ]
            processes = None if isinstance(federation.workers, str) else federation.workers
            states = ClientWorkers(federation.recipe, federation.pool, processes).states(
                weights, federation.clients, [int(rng.integers(2**31)) for rng in rngs]
            )
        hits = np.array([
            TorchTarget(load_network(federation.recipe.network, state), "logits")
            .predict(self.test.x)
            .argmax(axis=1) == self.test.y
            for state in states
        ])  # fmt: skip
        counts = self._class_counts(federation)
        return client_accuracy.mean_accuracy(
            hits, self.test.y, counts / counts.sum(axis=1, keepdims=True)
        )

    def _class_counts(self, federation: Federation) -> Int[np.ndarray, "clients classes"]:
        """How many records of each class each client has."""
        y = federation.pool.y
        classes = int(max(self.reference.y.max(), self.test.y.max(), y.max())) + 1
        return np.array([np.bincount(y[rows], minlength=classes) for rows in federation.clients])

    def _leaks(
        self,
        federation: Federation,
        transcript: Transcript,
        setting: FederationVariant,
        seed: int,
    ) -> Iterator[tuple[str, Estimate]]:
        """Of each secret that has a limit, what its strongest attack reaches."""
        names = tuple(map(str, range(len(federation.clients))))
        summed = transcript.rounds[0].masked is not None
        if self.limits.class_shares is not None:
            visible = as_one_client(transcript) if summed else transcript
            victims = (TOGETHER,) * len(names) if summed else names
            yield (
                "class_shares",
                _extreme(self._guess_shares(federation, visible, victims, setting, seed), min),
            )
        if self.limits.which_client is not None:
            if summed:  # the sum is the same whoever of them held a record
                yield "which_client", Estimate(0.5, 0.5, 0.5)
                return
            yield (
                "which_client",
                _extreme(self._guess_owners(federation, transcript, names, seed), max),
            )

    def _guess_shares(
        self,
        federation: Federation,
        transcript: Transcript,
        victims: tuple[str, ...],
        setting: FederationVariant,
        seed: int,
    ) -> list[Estimate]:
        """By attack, the mean L1 distance of its guesses of class shares."""
        network = federation.recipe.network
        views = {
            name: transcript.view(name, network, self.reference) for name in dict.fromkeys(victims)
        }
        truths = [Proportions.of(counts) for counts in self._class_counts(federation)]
        confidence = 1 - 0.05 / len(self.attacks)

        def measure(guess: Sequence[Proportions]) -> Measurements:
            of = dict(zip(views, guess, strict=True))
            each = [of[name] for name in victims]
            return Measurements(composition.distances(each, truths, confidence), {})

        through = {} if len(views) < len(victims) else _through(setting)
        made = [
            attacks.update_attack(name, **settings, **(through if "budget" in settings else {}))
            for name, settings in self.attacks
        ]
        return _figures(
            [
                attempt.run_on_clients(list(views.values()), measure, attack, seed).finding
                for attack in made
            ],
            "l1",
        )

    def _guess_owners(
        self, federation: Federation, transcript: Transcript, names: tuple[str, ...], seed: int
    ) -> list[Estimate]:
        """By attack, the AUC over all pairs of a record and a client."""
        rounds: Rounds = transcript.rounds
        if federation.defence.personal:
            rounds = tuple(
                refit_last_layer(played, federation.recipe.network, self.reference)
                for played in rounds
            )
        view, truth = self._federation_view(federation, rounds, names, seed)
        confidence = 1 - 0.05 / len(OWNER_ATTACKS)

        def measure(guess: Assignment) -> Measurements:
            pairs = assignment.pairs(guess, truth, view.collusion)
            return Measurements({"auc": membership.auc(*pairs, confidence)}, {})

        made = [attacks.federation_attack(name) for name in OWNER_ATTACKS]
        return _figures(
            [attempt.run_on_federation(view, measure, attack, seed).finding for attack in made],
            "auc",
        )

    def _federation_view(
        self, federation: Federation, rounds: Rounds, names: tuple[str, ...], seed: int
    ) -> tuple[FederationView, Assignment]:
        """The server's view of some of the clients' records, and whose they are."""
        owner = np.full(len(federation.pool), NOBODY)
        for client, rows in enumerate(federation.clients):
            owner[rows] = client
        owned = np.flatnonzero(owner != NOBODY)
        count = min(self.candidates, len(owned))
        rows = np.sort(stream(seed, "candidates").choice(owned, count, replace=False))
        records = federation.pool.take(rows)
        updates = TranscriptUpdates(rounds, names, federation.recipe.network)
        view = FederationView(
            updates.models(),
            records,
            (records,) * len(names),
            (self.reference,) * len(names),
            Collusion.none(count),
            updates,
        )
        return view, Assignment(owner[rows])


TOGETHER = "all together"
"""The client that a sum of updates is taken for."""


def as_one_client(transcript: Transcript) -> Transcript:
    """The transcript with the mean of all updates as that of one client of average size.

    Where the server gets sums alone, the best it can do is to read this mean as an update, and to
    guess the same of every client.
    """
    rounds = []
    for played in transcript.rounds:
        assert played.masked is not None
        records = round((played.masked.records or 0) / len(played.masked.clients))
        mean = ReceivedUpdate(played.masked.tensors, max(1, records))
        rounds.append(replace(played, received={TOGETHER: mean}, masked=None))
    return Transcript(transcript.header, tuple(rounds))


def _through(setting: FederationVariant) -> dict[str, Any]:
    """What an attack that simulates clients is told of the defence."""
    if setting.defence == "none":
        return {}
    return {"defence": {"name": setting.defence, **setting.settings}}


def _extreme(estimates: Sequence[Estimate], pick: Callable[..., float]) -> Estimate:
    """The smallest or largest of several figures; its limits are those of all of them."""
    return Estimate(
        pick(estimate.value for estimate in estimates),
        pick(estimate.low for estimate in estimates),
        pick(1.0 if estimate.high is None else estimate.high for estimate in estimates),
    )


def _figures(findings: Sequence[Finding], metric: str) -> list[Estimate]:
    """Of the attacks that ran.

    Raises:
        DataError: an attack failed.
        NotApplicable: none could be run.
    """
    for finding in findings:
        if finding.status is Status.FAILED:
            raise DataError(f"expected {finding.label} to end, it failed: {finding.reason}")
    estimates = [finding.metrics[metric] for finding in findings if metric in finding.metrics]
    if not estimates:
        raise NotApplicable(
            f"expected an attack with {metric} that can be run, got none: {findings[0].reason}"
        )
    return estimates
