"""The attacks that ``audit.toml`` asks for, or the default ones of its kind of audit."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from divulge._util import toml
from divulge.attacks import catalog, own
from divulge.audits.config import (
    AuditSpec,
    FederationAuditSpec,
    ModelAuditSpec,
    PredictionsAuditSpec,
)
from divulge.audits.data_sections import PredictionsSpec
from divulge.core import Attack, MembershipAttack, Need
from divulge.errors import SpecError
from divulge.targets.token_table import has_shadows


def table_attacks(
    spec: PredictionsSpec, requested: Iterable[MembershipAttack] | None, folder: Path
) -> tuple[MembershipAttack, ...]:
    """The attacks on a table: those asked for, or the default ones.

    Raises:
        SpecError: an attack needs more than the one number a record that the table has.
        DataError: the table cannot be read.
    """
    if requested is None:
        requested = catalog.default_attacks(
            regression=spec.output == "values",
            scores=spec.given is not None,
            tokens=spec.logprobs is not None,
            shadows=spec.logprobs is not None and has_shadows(folder / spec.file),
            known_members=spec.known_members is not None,
            reference=spec.known_members is not None,
        )
    attacks = tuple(requested)
    for attack in attacks:
        if spec.given and (missing := attack.needs & ~Need.SCORES):
            raise SpecError(
                f"expected no attack but given-score beside {spec.given[0]}, got {attack.name!r}, "
                f"which needs {missing.words()}: leave attacks out, or audit the model, or a table "
                "of its answers"
            )
    return attacks


def requested_attacks(
    spec: AuditSpec, folder: Path, offers: Need = Need.NONE
) -> tuple[Attack[Any, Any], ...]:
    """The attacks asked for, or the default ones of this kind of audit.

    Args:
        spec: the settings.
        folder: where relative paths start; attacks of the user's own are loaded from there.
        offers: what the model offers, where it is loaded already: numbers, or tokens of texts.

    Raises:
        SpecError: an attack or one of its settings does not exist, or an entry has no name.
    """
    make = own.builder(spec.about, folder)
    requested = tuple(toml.build_attacks(spec.attacks, make))
    if isinstance(spec, FederationAuditSpec):
        usual = spec.secret.default_attacks(getattr(spec, spec.section))
        return requested or tuple(map(make, usual))
    if isinstance(spec, PredictionsAuditSpec):
        return table_attacks(spec.predictions, requested or None, folder)
    if requested:
        return requested
    if isinstance(spec, ModelAuditSpec):
        return catalog.attacks_on(
            offers,
            shadows=bool(spec.shadows),
            partial=bool(spec.known),
            known_members=spec.data.known_members is not None,
            checkpoints=bool(spec.target.checkpoints),
            cascade=bool(spec.shadows and spec.shadows.cascade),
            reference=spec.data.reference is not None,
        )
    return catalog.default_attacks(shadows=True, regression=Need.VALUES in offers)
