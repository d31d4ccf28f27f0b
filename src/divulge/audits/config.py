"""``audit.toml``: its sections, which of them make up an audit, and how they are read.

Reading is pure: no data is loaded and no code of the user's is run here.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import pydantic

from divulge._util import toml
from divulge._util.toml import Section
from divulge.attacks import catalog
from divulge.core import Attack, MembershipDraw, NoiseAssumption
from divulge.errors import SpecError

Judge = Literal["low", "value"]

FailOn = Literal["leak", "confounded", "control-failed", "control-untested", "undecided"]

Ceiling = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]

Epsilon = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]

Delta = Annotated[float, pydantic.Field(ge=0, lt=1)]


class TargetSpec(Section):
    """``[target]``: the model."""

    model: str
    """``file.py:name``, ``package.module:name``, or a saved model's path."""
    factory: str | None = None
    """For ``.safetensors``: what builds the network, as ``file.py:name``."""
    output: Literal["probabilities", "logits", "labels"] | None = None
    batch_size: Annotated[int, pydantic.Field(ge=1)] = 1024
    device: str | None = None
    classes: Annotated[int, pydantic.Field(ge=2)] | None = None
    budget: Annotated[int, pydantic.Field(ge=1)] | None = None
    """Answers that may be asked of the model; those on disk cost nothing."""
    fingerprint: str | None = None
    """Your name of a version of the model, where it is a function: its answers are then kept."""
    epsilon: Epsilon | None = None
    """The differential privacy that the model is said to have, at ``delta``."""
    delta: Delta | None = None
    noise: NoiseAssumption = "any"
    """What is known about the training that has it; see `divulge.core.training.NoiseAssumption`."""
    answers: dict[str, Any] | None = None
    """An answer defence before the model and its shadows: ``name``, and its settings."""


class DataSpec(Section):
    """``[data]``: records the model was trained on, and records it never saw."""

    members: str | None = None
    """``file.py:name`` (a pair x, y or a function that returns one) or a data file's path."""
    nonmembers: str | None = None
    records: str | None = None
    """With ``[leave_one_out]``: all records in one; half of them are members of each target."""
    reference: str | None = None
    label: str = "label"
    """The column of a table that holds the class."""
    id: str | None = None
    """The column that holds your own ids, no feature; ``file.py:name`` beside such records."""
    class_names: tuple[str, ...] = ()
    membership: MembershipDraw | None = None
    """How it was decided who is a member: None is ``fixed``, and ``[leave_one_out]`` knows."""


class PredictionsSpec(Section):
    """``[predictions]``: an exported table of answers, in place of a model and its data."""

    file: str
    probabilities: str = "p_*"
    label: str = "label"
    member: str = "member"
    id: str | None = None
    """The column that holds your own ids."""
    output: Literal["probabilities", "logits"] = "probabilities"
    class_names: tuple[str, ...] = ()
    epsilon: Epsilon | None = None
    delta: Delta | None = None
    noise: NoiseAssumption = "any"
    membership: MembershipDraw = "fixed"


class ShadowsSpec(Section):
    """``[shadows]``: models like the target, for the attacks that compare it with others."""

    models: Annotated[int, pydantic.Field(ge=1)] = 16
    train: str
    """``file.py:name``: a scikit-learn estimator, or a function (x, y, seed) -> trained model."""
    pool: str | None = None
    """Records to train them on, named as in ``[data]``. Without it: halves of the candidates."""
    augment: tuple[str, ...] = ()
    """Ways to see candidates otherwise: ``mirror`` and others, or ``file.py:name``."""


class LeaveOneOutSpec(Section):
    """``[leave_one_out]``: models to train and to audit against each other, without a target."""

    models: Annotated[int, pydantic.Field(ge=3)] = 16
    targets: Annotated[int, pydantic.Field(ge=2)] | None = None
    """How many of them to audit. Without it: all."""
    shadows: Annotated[int, pydantic.Field(ge=1)] | None = None
    """How many of the others each is compared with. Without it: all."""
    train: str
    """As in ``[shadows]``."""
    output: Literal["probabilities", "logits"] | None = None
    """What a model answers that a function returned."""
    answers: dict[str, Any] | None = None
    """As in ``[target]``."""
    augment: tuple[str, ...] = ()
    """As in ``[shadows]``."""


class UpdatesSpec(Section):
    """``[updates]``: what the server of a federation saw of its clients, in place of a model."""

    transcript: str
    """Its folder."""
    network: str
    """``file.py:name``: a function that makes an untrained module."""
    reference: str
    """The attacker's records, some of each class, named as in ``[data]``."""
    label: str = "label"
    class_names: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    """Whom to attack. Empty: everybody."""
    counts: dict[str, tuple[Annotated[int, pydantic.Field(ge=0)], ...]] = pydantic.Field(default={})
    """The truth, where it is known: how many records of each class a client holds."""


class InteractionsSpec(Section):
    """``[interactions]``: what clients did with items that the server handed out to them."""

    transcript: str
    """Its folder; what was handed out is in it."""
    learner: str | None = None
    """``file.py:name``: a function from what a client was handed to how it trains."""
    clients: tuple[str, ...] = ()
    """Whom to attack. Empty: everybody."""
    truth: str | None = None
    """A CSV file of pairs, client and item: who acted on what."""


class AssignmentSpec(Section):
    """``[assignment]``: which client of a federation trained on each record."""

    predictions: dict[str, str]
    """By client, a table of what its model says of the candidates and of its own records."""
    colluder: str
    """The client that attacks the others; of its own records the table says who is a member."""
    probabilities: str = "p_*"
    label: str = "label"
    output: Literal["probabilities", "logits"] = "probabilities"
    truth: str | None = None
    """A CSV file with the client of each candidate, or ``nobody``."""


class KnownSpec(Section):
    """``[known]``: an attacker who knows only some features of each candidate."""

    columns: tuple[str, ...] = ()
    """Names or patterns; numbers from 0, in quotes, where columns have no names."""
    share: Annotated[float, pydantic.Field(ge=0, le=1)] | None = None
    """In place of columns: how much of each candidate is known."""
    pattern: Literal["random", "block", "rows"] = "random"
    fill: Literal["gaussian", "neighbours", "mean", "zero"] = "gaussian"
    """How the rest is filled in, by reference records."""
    completions: Annotated[int, pydantic.Field(ge=1)] = 1
    one_hot: tuple[str, ...] = ()
    """Groups of columns of which exactly one is 1, each a pattern."""


class MetricsSpec(Section):
    """``[metrics]``."""

    delta: Delta | None = None
    """δ of the epsilon bound; None is the δ of the claim, or 0."""


class GateSpec(Section):
    """``[gate]``: when a continuous-integration job should fail."""

    fail_on: list[FailOn] = pydantic.Field(default=[])
    """What fails: leak, confounded, control-failed, control-untested, undecided."""
    fail_above: dict[str, Ceiling] = pydantic.Field(default={})
    """By metric, the highest admissible value."""
    judge: Judge = "low"
    claim: bool = False
    """Also fail unless the measurement is consistent with the claimed epsilon."""


FEDERATED: Mapping[str, tuple[Callable[..., Attack[Any, Any]], tuple[str, ...]]] = {
    "updates": (catalog.update_attack, ("decaf", "label-counts")),
    "interactions": (catalog.interaction_attack, ("raifle", "random-interactions")),
    "assignment": (
        catalog.federation_attack,
        ("cluster-lira", "variance-lira", "confidence-rule", "nobody"),
    ),
}
"""By section that asks about a federation: what builds attacks, and the default ones."""


class CommonSpec(Section):
    """What may stand in every ``audit.toml``, whatever is audited."""

    name: Annotated[str, pydantic.Field(pattern=r"^[\w][\w .-]{0,99}$")] = "audit"
    seed: Annotated[int, pydantic.Field(ge=0)] = 0
    attacks: tuple[dict[str, Any], ...] = ()
    """Empty: the default attacks."""
    metrics: MetricsSpec = MetricsSpec()
    gate: GateSpec = GateSpec()

    @property
    def about(self) -> str:
        """The secret that is asked about."""
        return "membership"


class ModelAuditSpec(CommonSpec):
    """An ``audit.toml`` about a model and its records."""

    target: TargetSpec
    data: DataSpec
    shadows: ShadowsSpec | None = None
    known: KnownSpec | None = None


class PredictionsAuditSpec(CommonSpec):
    """An ``audit.toml`` about a table of a model's answers."""

    predictions: PredictionsSpec


class LeaveOneOutAuditSpec(CommonSpec):
    """An ``audit.toml`` about models that are trained, and audited against each other."""

    leave_one_out: LeaveOneOutSpec
    data: DataSpec


class FederationAuditSpec(CommonSpec):
    """An ``audit.toml`` about a federation's clients: exactly one section says what of them."""

    updates: UpdatesSpec | None = None
    interactions: InteractionsSpec | None = None
    assignment: AssignmentSpec | None = None

    @property
    def section(self) -> str:
        """The name of the section that is there."""
        return next(name for name in FEDERATED if getattr(self, name) is not None)

    @property
    def about(self) -> str:
        """The secret that is asked about."""
        return "composition" if self.section == "updates" else self.section


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


def parse_config(table: dict[str, Any], where: str) -> AuditSpec:
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
    if asked := [name for name in FEDERATED if name in table]:
        return _parse_federation(table, asked[0], where)
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
        _check_keys(spec.data, where, wanted=("members", "nonmembers"), unwanted=("records",))
        _check_claim(spec.target, where)
        return spec
    if "shadows" in table:
        raise SpecError(
            f"{where}: expected [target] and [data] beside [shadows], got [predictions]"
        )
    exported = toml.validate_section(PredictionsAuditSpec, table, where)
    _check_claim(exported.predictions, where)
    return exported


def _parse_federation(table: dict[str, Any], section: str, where: str) -> FederationAuditSpec:
    may = CommonSpec.model_fields.keys() | {section}
    if given := [name for name in table if name not in may]:
        raise SpecError(
            f"{where}: expected [{section}] alone, got [{given[0]}] beside it: a federation is "
            "audited without a model of its own, and for one secret at a time"
        )
    spec = toml.validate_section(FederationAuditSpec, table, where)
    if spec.gate.claim:
        raise SpecError(
            f"{where}: expected no gate.claim beside [{section}], got true: a claim is about one "
            "model"
        )
    return spec


def _parse_leave_one_out(table: dict[str, Any], where: str) -> LeaveOneOutAuditSpec:
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
    check_pool_section(spec.data, where)
    return spec


def _check_claim(audited: TargetSpec | PredictionsSpec, where: str) -> None:
    if (audited.epsilon is None) != (audited.delta is None):
        raise SpecError(
            f"{where}: expected epsilon and delta of the claim together, got one of them: say "
            "delta = 0.0 if the claim has none"
        )
    if audited.noise != "any" and not audited.delta:
        raise SpecError(
            f"{where}: expected epsilon and delta above 0 beside noise = {audited.noise!r}, got "
            f"delta = {audited.delta}: noise says what the claim rests on"
        )


def check_pool_section(data: DataSpec, where: str) -> None:
    """Refuse other data than all records at once, or members and non-members to be joined.

    Raises:
        SpecError: a key is missing, or too much.
    """
    if data.membership is not None:
        raise SpecError(
            f"{where}: expected no key 'data.membership', got {data.membership!r}: here divulge "
            "decides who is a member, by a coin for each record and model"
        )
    if data.records is None:
        _check_keys(data, where, wanted=("members", "nonmembers"), unwanted=())
    else:
        _check_keys(data, where, wanted=(), unwanted=("members", "nonmembers"))


def _check_keys(
    data: DataSpec, where: str, wanted: tuple[str, ...], unwanted: tuple[str, ...]
) -> None:
    for key in wanted:
        if getattr(data, key) is None:
            raise SpecError(f"{where}: expected the key 'data.{key}', it is missing: add it")
    for key in unwanted:
        if getattr(data, key) is not None:
            raise SpecError(
                f"{where}: expected no key 'data.{key}', got {getattr(data, key)!r}: either "
                "members and nonmembers, or with [leave_one_out] records alone"
            )


def requested_attacks(spec: AuditSpec) -> tuple[Attack[Any, Any], ...]:
    """The attacks asked for, or the default ones of this kind of audit.

    Raises:
        SpecError: an attack or one of its settings does not exist, or an entry has no name.
    """
    if isinstance(spec, FederationAuditSpec):
        build, usual = FEDERATED[spec.section]
        return tuple(toml.build_attacks(spec.attacks, build)) or tuple(map(build, usual))
    if spec.attacks:
        return tuple(toml.build_attacks(spec.attacks, catalog.attack))
    if isinstance(spec, ModelAuditSpec):
        return catalog.default_attacks(shadows=bool(spec.shadows), partial=bool(spec.known))
    return catalog.default_attacks(shadows=isinstance(spec, LeaveOneOutAuditSpec))
