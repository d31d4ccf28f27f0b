"""``audit.toml``: its sections, which of them make up an audit, and how they are read.

Reading is pure: no data is loaded and no code of the user's is run here.
"""

from pathlib import Path
from typing import Any, get_args

from divulge._util import toml
from divulge._util.arguments import Delta, RunName, Seed
from divulge._util.json import JSON
from divulge._util.toml import Section
from divulge.audits import config_checks
from divulge.audits.data_sections import DataSpec, LeaveOneOutSpec, PredictionsSpec
from divulge.audits.model_sections import KnownSpec, ShadowsSpec, TargetSpec
from divulge.errors import SpecError
from divulge.finished_runs.gate import GateSpec
from divulge.secrets.base import FederatedSecret
from divulge.secrets.registry import SECTIONS, FederationSections


class MetricsSpec(Section):
    """``[metrics]``."""

    delta: Delta | None = None
    """The δ of the [epsilon bounds](epsilon.md#the-epsilon-bound) in the table of attacks; that of
    the claim unless given, and 0 without a claim."""


class CommonSpec(Section):
    """What may stand in every ``audit.toml``, whatever is audited."""

    name: RunName = "audit"
    """Title of the report, and name of the run folder: any text on one line, at most 100
    characters."""
    seed: Seed = 0
    """Fixes every random choice."""
    attacks: tuple[dict[str, JSON], ...] = ()
    """Which attacks to run; if empty, the default ones named [below](#attacks)."""
    metrics: MetricsSpec = MetricsSpec()
    """Settings of metrics."""
    gate: GateSpec = GateSpec()
    """When a job in continuous integration fails."""

    @property
    def about(self) -> str:
        """The secret that is asked about."""
        return "membership"


class ModelAuditSpec(CommonSpec):
    """An ``audit.toml`` about a model and its records."""

    target: TargetSpec
    """The model."""
    data: DataSpec
    """The records."""
    shadows: ShadowsSpec | None = None
    """Models to train for comparison."""
    known: KnownSpec | None = None
    """An attacker who knows only some features of each candidate."""


class PredictionsAuditSpec(CommonSpec):
    """An ``audit.toml`` about a table of a model's answers."""

    predictions: PredictionsSpec
    """The table."""


class LeaveOneOutAuditSpec(CommonSpec):
    """An ``audit.toml`` about models that are trained, and audited against each other."""

    leave_one_out: LeaveOneOutSpec
    """Models to train and to audit against each other."""
    data: DataSpec
    """The records."""


class FederationAuditSpec(FederationSections, CommonSpec):
    """An ``audit.toml`` about a federation's clients: exactly one section says what of them."""

    @property
    def section(self) -> str:
        """The name of the section that is there."""
        return next(name for name in SECTIONS if getattr(self, name) is not None)

    @property
    def secret(self) -> type[FederatedSecret[Any, Any]]:
        """The secret that this section asks about."""
        return SECTIONS[self.section]

    @property
    def about(self) -> str:
        """The kind of this secret."""
        return self.secret.kind


AuditSpec = ModelAuditSpec | PredictionsAuditSpec | LeaveOneOutAuditSpec | FederationAuditSpec
"""A whole ``audit.toml``: what is audited decides which sections it has."""


def read_config(path: Path) -> AuditSpec:
    """The settings in a file.

    Raises:
        SpecError: the file is missing or not TOML, a key is unknown (the nearest valid key is
            named), a value is of the wrong kind, a section is missing, or sections stand together
            that belong to different audits.
    """
    return parse_config(toml.read_toml(path), where=str(path))


def parse_config(table: dict[str, JSON], where: str) -> AuditSpec:
    """The settings in a table, of the kind of audit that its sections are those of.

    Args:
        table: as read from TOML.
        where: the file's name, for messages.

    Raises:
        SpecError: see `read_config`.
    """
    toml.check_finite(table, where, ())
    known = {key for kind in get_args(AuditSpec) for key in kind.model_fields}
    toml.check_keys(table, known, where)
    config_checks.check_urls(table, where, ())
    if sections := [name for name in SECTIONS if name in table]:
        return _parse_federation(table, sections[0], where)
    if "known" in table and "target" not in table:
        raise SpecError(
            f"{where}: expected [target] and [data] beside [known], got no [target]: the model has "
            "to be asked about records with filled-in features"
        )
    if "leave_one_out" in table:
        return _parse_leave_one_out(table, where)
    audited = table.keys() & {"target", "data", "predictions"}
    if audited not in ({"target", "data"}, {"predictions"}):
        given = ", ".join(f"[{name}]" for name in sorted(table) if isinstance(table[name], dict))
        raise SpecError(
            f"{where}: expected [target] and [data], or [predictions] alone, got "
            f"{given or 'neither'}: say what is to be audited, once"
        )
    if "target" in table:
        spec = toml.validate_section(ModelAuditSpec, table, where)
        config_checks.check_keys(
            spec.data, where, wanted=("members", "nonmembers"), unwanted=("records",)
        )
        config_checks.check_model(spec.target, where)
        config_checks.check_claim(spec.target, where)
        return spec
    if "shadows" in table:
        raise SpecError(
            f"{where}: expected [target] and [data] beside [shadows], got [predictions]"
        )
    exported = toml.validate_section(PredictionsAuditSpec, table, where)
    config_checks.check_claim(exported.predictions, where)
    config_checks.check_given(exported.predictions, where)
    return exported


def _parse_federation(table: dict[str, JSON], section: str, where: str) -> FederationAuditSpec:
    may = CommonSpec.model_fields.keys() | {section}
    if given := [name for name in table if name not in may]:
        raise SpecError(
            f"{where}: expected [{section}] alone, got [{given[0]}] beside it: a federation is "
            "audited without a model of its own, and for one secret at a time"
        )
    spec = toml.validate_section(FederationAuditSpec, table, where)
    spec.secret.check_section(getattr(spec, section), where)
    if spec.gate.claim:
        raise SpecError(
            f"{where}: expected no gate.claim beside [{section}], got true: a claim is about one "
            "model"
        )
    return spec


def _parse_leave_one_out(table: dict[str, JSON], where: str) -> LeaveOneOutAuditSpec:
    others = [name for name in ("target", "predictions", "shadows") if name in table]
    if others or "data" not in table:
        raise SpecError(
            f"{where}: expected [leave_one_out] and [data] alone, got "
            f"{', '.join(f'[{name}]' for name in others) or 'no [data]'}: its models are the "
            "targets, and each other's shadows"
        )
    spec = toml.validate_section(LeaveOneOutAuditSpec, table, where)
    if spec.gate.claim:
        raise SpecError(
            f"{where}: expected no gate.claim beside [leave_one_out], got true: a claim is about "
            "one model, and here are many"
        )
    config_checks.check_pool_section(spec.data, where)
    return spec
