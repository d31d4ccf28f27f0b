"""The sections of ``audit.toml``, and those of several files: their keys, what each may hold."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from divulge._util.toml import Section, build_attacks, read_toml, validate_section
from divulge.attacks import catalog
from divulge.core import Attack, MembershipAttack, MembershipDraw, NoiseAssumption
from divulge.errors import SpecError

Judge = Literal["low", "value"]

FailOn = Literal["leak", "confounded", "control-failed", "undecided"]

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
    """Verdicts that fail: leak, confounded, control-failed, undecided."""
    fail_above: dict[str, Ceiling] = pydantic.Field(default={})
    """By metric, the highest admissible value."""
    judge: Judge = "low"
    claim: bool = False
    """Also fail unless the measurement is consistent with the claimed epsilon."""


FEDERATED = ("updates", "interactions", "assignment")
"""Sections that ask about a federation, in place of a model."""


class AuditSpec(Section):
    """A whole ``audit.toml``."""

    name: Annotated[str, pydantic.Field(pattern=r"^[\w][\w .-]{0,99}$")] = "audit"
    seed: Annotated[int, pydantic.Field(ge=0)] = 0
    target: TargetSpec | None = None
    data: DataSpec | None = None
    predictions: PredictionsSpec | None = None
    shadows: ShadowsSpec | None = None
    leave_one_out: LeaveOneOutSpec | None = None
    updates: UpdatesSpec | None = None
    interactions: InteractionsSpec | None = None
    assignment: AssignmentSpec | None = None
    known: KnownSpec | None = None
    attacks: tuple[dict[str, Any], ...] = ()
    """Empty: the default attacks."""
    metrics: MetricsSpec = MetricsSpec()
    gate: GateSpec = GateSpec()

    @property
    def federated(self) -> str | None:
        """Which section asks about a federation; None where a model is audited."""
        return next((name for name in FEDERATED if getattr(self, name) is not None), None)

    @property
    def about(self) -> str:
        """The secret that is asked about."""
        asked = self.federated or "membership"
        return "composition" if asked == "updates" else asked


# ``audit.toml``: what to audit, read into frozen settings.
# Reading is pure: no data is loaded and no code of the user's is run here.


def read(path: Path) -> AuditSpec:
    """The settings in a file.

    Raises:
        SpecError: the file is missing or not TOML, a key is unknown (the nearest valid key is
            named), a value is of the wrong kind, or a section is missing.
    """
    return parse(read_toml(path), where=str(path))


def parse(table: dict[str, Any], where: str) -> AuditSpec:
    """The settings in a table.

    Args:
        table: as read from TOML.
        where: the file's name, for messages.

    Raises:
        SpecError: see `read`.
    """
    spec = validate_section(AuditSpec, table, where)
    if spec.federated is not None:
        _check_federated(spec, spec.federated, where)
        return spec
    if spec.known is not None and spec.target is None:
        raise SpecError(
            f"{where}: expected [target] and [data] beside [known], got no [target]: the model has "
            "to be asked about records with filled-in features"
        )
    if spec.leave_one_out is not None:
        _check_leave_one_out(spec, where)
        return spec
    if (spec.predictions is None) == (spec.target is None or spec.data is None):
        raise SpecError(
            f"{where}: expected [target] and [data], or [predictions] alone, got "
            f"{', '.join(f'[{name}]' for name in sorted(table) if isinstance(table[name], dict))}"
        )
    if spec.data is not None:
        _check_keys(spec.data, where, wanted=("members", "nonmembers"), unwanted=("records",))
    if spec.shadows is not None and spec.target is None:
        raise SpecError(
            f"{where}: expected [target] and [data] beside [shadows], got [predictions]"
        )
    audited = spec.target or spec.predictions
    if audited is not None and (audited.epsilon is None) != (audited.delta is None):
        raise SpecError(
            f"{where}: expected epsilon and delta of the claim together, got one of them: say "
            "delta = 0.0 if the claim has none"
        )
    if audited is not None and audited.noise != "any" and not audited.delta:
        raise SpecError(
            f"{where}: expected epsilon and delta above 0 beside noise = {audited.noise!r}, got "
            f"delta = {audited.delta}: noise says what the claim rests on"
        )
    return spec


def _check_federated(spec: AuditSpec, section: str, where: str) -> None:
    models = ("target", "data", "predictions", "shadows", "leave_one_out", "known")
    others = [name for name in (*models, *FEDERATED) if name != section]
    if given := [name for name in others if getattr(spec, name) is not None]:
        raise SpecError(
            f"{where}: expected [{section}] alone, got [{given[0]}] beside it: a federation is "
            "audited without a model of its own, and for one secret at a time"
        )
    if spec.gate.claim:
        raise SpecError(
            f"{where}: expected no gate.claim beside [{section}], got true: a claim is about one "
            "model"
        )


def _check_leave_one_out(spec: AuditSpec, where: str) -> None:
    if spec.gate.claim:
        raise SpecError(
            f"{where}: expected no gate.claim beside [leave_one_out], got true: a claim is about "
            "one model, and here are many"
        )
    others = [name for name in ("target", "predictions", "shadows") if getattr(spec, name)]
    if others or spec.data is None:
        raise SpecError(
            f"{where}: expected [leave_one_out] and [data] alone, got "
            f"{', '.join(f'[{name}]' for name in others) or 'no [data]'}: its models are the "
            "targets, and each other's shadows"
        )
    check_records(spec.data, where)


def check_records(data: DataSpec, where: str) -> None:
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


def attacks(spec: AuditSpec) -> tuple[MembershipAttack, ...]:
    """The attacks asked for, or the default ones.

    Raises:
        SpecError: an attack or one of its settings does not exist, or an entry has no name.
    """
    if not spec.attacks:
        return catalog.default_attacks(
            shadows=bool(spec.shadows or spec.leave_one_out), partial=spec.known is not None
        )
    return tuple(build_attacks(spec.attacks, catalog.attack))


_FEDERATED: Mapping[str, tuple[Callable[..., Attack[Any, Any]], tuple[str, ...]]] = {
    "updates": (catalog.update_attack, ("decaf", "label-counts")),
    "interactions": (catalog.interaction_attack, ("raifle", "random-interactions")),
    "assignment": (
        catalog.federation_attack,
        ("cluster-lira", "variance-lira", "confidence-rule", "nobody"),
    ),
}
"""By section: what builds attacks, and those that run where none is asked for."""


def federated_attacks(spec: AuditSpec) -> tuple[Attack[Any, Any], ...]:
    """The attacks on a federation asked for, or the default ones.

    Raises:
        SpecError: see `attacks`.
    """
    assert spec.federated is not None
    build, usual = _FEDERATED[spec.federated]
    return tuple(build_attacks(spec.attacks, build)) if spec.attacks else tuple(map(build, usual))
