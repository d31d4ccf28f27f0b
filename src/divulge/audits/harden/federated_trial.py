"""Simulate one setting of a federation, and attack it as its server would."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from divulge._util.random import stream
from divulge.attacks import catalog as attacks
from divulge.audits import attempt
from divulge.audits.harden.federated_limits import (
    FederationLimits,
    FederationTrial,
    FederationVariant,
)
from divulge.core import (
    NOBODY,
    Assignment,
    Collusion,
    Estimate,
    FederationView,
    Finding,
    Measurements,
    Proportions,
    Records,
    Status,
)
from divulge.errors import DataError, NotApplicable
from divulge.federation.fedavg import Federation
from divulge.federation.simulation import simulate
from divulge.federation.transcript.reader import Transcript
from divulge.federation.transcript_updates import TranscriptUpdates
from divulge.metrics import assignment, composition, intervals, membership
from divulge.targets.torch import TorchTarget

NamedAttacks = tuple[tuple[str, dict[str, Any]], ...]
"""Names of attacks in the catalogue, with their settings."""
OWNER_ATTACKS = ("fedmia", "cluster-lira")
"""Attacks on which client held a record."""


@dataclass(frozen=True, slots=True)
class TrialDesign:
    """How each setting is simulated, attacked and judged."""

    limits: FederationLimits
    test: Records
    reference: Records
    rounds: int
    candidates: int
    attacks: NamedAttacks
    """On class shares."""

    def run(self, federation: Federation, setting: FederationVariant, seed: int) -> FederationTrial:
        """Simulate a setting, and attack it.

        Raises:
            DivulgeError: it cannot be simulated, or no attack on a limited secret can be run.
        """
        defended = replace(
            federation,
            defence=setting.build(),
            recipe=replace(federation.recipe, epochs=setting.epochs),
            seed=seed,
        )
        transcript = simulate(defended, self.rounds)
        return FederationTrial(
            setting,
            self._accuracy(defended, transcript),
            dict(self._leaks(defended, transcript, seed)),
        )

    def _accuracy(self, federation: Federation, transcript: Transcript) -> Estimate:
        """Of the global model after the last round, on records of nobody."""
        from divulge.training.engine.networks import load_network

        weights = transcript.rounds[len(transcript.rounds) - 1].aggregated
        assert weights is not None
        answers = TorchTarget(load_network(federation.recipe.network, weights), "logits").predict(
            self.test.x
        )
        hits = int((answers.argmax(axis=1) == self.test.y).sum())
        return Estimate(hits / len(self.test), *intervals.wilson(hits, len(self.test)))

    def _leaks(
        self, federation: Federation, transcript: Transcript, seed: int
    ) -> Iterator[tuple[str, Estimate]]:
        """Of each secret that has a limit, what its strongest attack reaches."""
        names = tuple(map(str, range(len(federation.clients))))
        if self.limits.class_shares is not None:
            found = self._shares(federation, transcript, names, seed)
            yield "class_shares", _extreme(found, min)
        if self.limits.which_client is not None:
            found = self._owners(federation, transcript, names, seed)
            yield "which_client", _extreme(found, max)

    def _shares(
        self, federation: Federation, transcript: Transcript, names: tuple[str, ...], seed: int
    ) -> list[Estimate]:
        """By attack, the mean L1 distance of its guesses of class shares."""
        network, y = federation.recipe.network, federation.pool.y
        views = [transcript.view(name, network, self.reference) for name in names]
        classes = int(max(self.reference.y.max(), y.max())) + 1
        truths = [
            Proportions.of(np.bincount(y[rows], minlength=classes)) for rows in federation.clients
        ]
        confidence = 1 - 0.05 / len(self.attacks)

        def measure(guess: Sequence[Proportions]) -> Measurements:
            return Measurements(composition.distances(guess, truths, confidence), {})

        made = [attacks.update_attack(name, **settings) for name, settings in self.attacks]
        return _figures(
            [attempt.run_on_clients(views, measure, one, seed).finding for one in made], "l1"
        )

    def _owners(
        self, federation: Federation, transcript: Transcript, names: tuple[str, ...], seed: int
    ) -> list[Estimate]:
        """By attack, the AUC over all pairs of a record and a client."""
        view, truth = self._federation_view(federation, transcript, names, seed)
        confidence = 1 - 0.05 / len(OWNER_ATTACKS)

        def measure(guess: Assignment) -> Measurements:
            pairs = assignment.pairs(guess, truth, view.collusion)
            return Measurements({"auc": membership.auc(*pairs, confidence)}, {})

        made = [attacks.federation_attack(name) for name in OWNER_ATTACKS]
        return _figures(
            [attempt.run_on_federation(view, measure, one, seed).finding for one in made],
            "auc",
        )

    def _federation_view(
        self, federation: Federation, transcript: Transcript, names: tuple[str, ...], seed: int
    ) -> tuple[FederationView, Assignment]:
        """The server's view of some of the clients' records, and whose they are."""
        owner = np.full(len(federation.pool), NOBODY)
        for client, rows in enumerate(federation.clients):
            owner[rows] = client
        held = np.flatnonzero(owner != NOBODY)
        count = min(self.candidates, len(held))
        rows = np.sort(stream(seed, "candidates").choice(held, count, replace=False))
        records = federation.pool.take(rows)
        updates = TranscriptUpdates(transcript.rounds, names, federation.recipe.network)
        view = FederationView(
            updates.models(),
            records,
            (records,) * len(names),
            (self.reference,) * len(names),
            Collusion.none(count),
            updates,
        )
        return view, Assignment(owner[rows])


def _extreme(found: Sequence[Estimate], pick: Callable[..., float]) -> Estimate:
    """The smallest or largest of several figures; its limits are those of all of them."""
    return Estimate(
        pick(one.value for one in found),
        pick(one.low for one in found),
        pick(1.0 if one.high is None else one.high for one in found),
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
    found = [finding.metrics[metric] for finding in findings if metric in finding.metrics]
    if not found:
        raise NotApplicable(
            f"expected an attack with {metric} that can be run, got none: {findings[0].reason}"
        )
    return found
