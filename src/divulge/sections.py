"""The sections of ``audit.toml``, and those of several files: their keys, what each may hold."""

from typing import Annotated, Any, Literal

import pydantic

from divulge.core import Drawn, Noise
from divulge.training.recipe import Optimiser, Schedule

Judge = Literal["low", "value"]
FailOn = Literal["leak", "confounded", "control-failed", "undecided"]
Ceiling = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
Epsilon = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]
Delta = Annotated[float, pydantic.Field(ge=0, lt=1)]
Count = Annotated[int, pydantic.Field(ge=1)]


class Section(pydantic.BaseModel):
    """A table of settings: frozen, and with no other keys than these."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True)


class RecipeSpec(Section):
    """``[training]`` of other files: how a model is trained; see `divulge.training.recipe`."""

    network: str
    """``file.py:name``: a function that makes an untrained module."""
    optimiser: Optimiser = "sgd"
    lr: float = 0.1
    momentum: float = 0.0
    weight_decay: float = 0.0
    epochs: Count = 20
    batch_size: Count = 100
    schedule: Schedule = "constant"


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
    noise: Noise = "any"
    """What is known about the training that has it; see `divulge.core.trainer.Noise`."""
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
    membership: Drawn | None = None
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
    noise: Noise = "any"
    membership: Drawn = "fixed"


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
    counts: dict[str, tuple[Annotated[int, pydantic.Field(ge=0)], ...]] = {}
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

    fail_on: list[FailOn] = []
    """Verdicts that fail: leak, confounded, control-failed, undecided."""
    fail_above: dict[str, Ceiling] = {}
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
