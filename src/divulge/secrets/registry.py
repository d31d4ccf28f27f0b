"""All secrets: those of `core.Facts`, and the sections of settings that ask about them."""

from collections.abc import Collection, Mapping
from typing import Any

from divulge._util.toml import Section
from divulge.core import Candidates, Facts
from divulge.secrets.assignment import AssignmentSecret, AssignmentSpec
from divulge.secrets.base import FederatedSecret, Secret
from divulge.secrets.composition import CompositionSecret, UpdatesSpec
from divulge.secrets.interactions import InteractionSecret, InteractionsSpec
from divulge.secrets.membership import MembershipSecret


class FederationSections(Section):
    """Sections that ask about a federation's clients; settings have exactly one of them."""

    updates: UpdatesSpec | None = None
    """Which classes do its clients hold?"""
    interactions: InteractionsSpec | None = None
    """Which items did its clients act on?"""
    assignment: AssignmentSpec | None = None
    """Which client trained on each record?"""


SECTIONS: Mapping[str, type[FederatedSecret[Any, Any]]] = {
    secret.section: secret for secret in (CompositionSecret, InteractionSecret, AssignmentSecret)
}
"""By section, the secret that it asks about."""

SECRETS: Mapping[str, type[Secret]] = {
    secret.kind: secret
    for secret in (MembershipSecret, AssignmentSecret, CompositionSecret, InteractionSecret)
}
"""By kind, all secrets."""

CANARIES = ("epsilon", "auc")
"""Metrics that rise with a leak in an audit by canaries, which has a secret of its own kind."""


def secret_of(facts: Facts, candidates: Candidates | None) -> Secret:
    """The secret that an audit is about.

    Args:
        facts: what its run folder keeps.
        candidates: the truth of membership; None for other secrets.
    """
    parts = (facts,) if candidates is None else (facts, candidates)
    return SECRETS[facts.kind](*parts)


def gated_metrics(about: str) -> Collection[str]:
    """Metrics that rise with a leak of this kind of secret, or of canaries."""
    return CANARIES if about == "canaries" else SECRETS[about].gated


def lead_metric(about: str) -> str:
    """The metric whose change is tested, by kind of secret, or of canaries."""
    return "auc" if about == "canaries" else SECRETS[about].lead
