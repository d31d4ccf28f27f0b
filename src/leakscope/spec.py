"""``audit.toml``: what to audit, read into frozen settings.

Reading is pure: no data is loaded and no code of the user's is run here.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from leakscope import catalog
from leakscope.core import MembershipAttack
from leakscope.errors import SpecError, did_you_mean

Judge = Literal["low", "value"]
Ceiling = Annotated[float, pydantic.Field(ge=0)]
Epsilon = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]
Delta = Annotated[float, pydantic.Field(ge=0, lt=1)]


class _Section(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True)


class TargetSpec(_Section):
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


class DataSpec(_Section):
    """``[data]``: records the model was trained on, and records it never saw."""

    members: str
    """``file.py:name`` (a pair x, y or a function that returns one) or a data file's path."""
    nonmembers: str
    reference: str | None = None
    label: str = "label"
    """The column of a table that holds the class."""
    class_names: tuple[str, ...] = ()


class PredictionsSpec(_Section):
    """``[predictions]``: an exported table of answers, in place of a model and its data."""

    file: str
    probabilities: str = "p_*"
    label: str = "label"
    member: str = "member"
    output: Literal["probabilities", "logits"] = "probabilities"
    class_names: tuple[str, ...] = ()
    epsilon: Epsilon | None = None
    delta: Delta | None = None


class ShadowsSpec(_Section):
    """``[shadows]``: models like the target, for the attacks that compare it with others."""

    models: Annotated[int, pydantic.Field(ge=1)] = 16
    train: str
    """``file.py:name``: a scikit-learn estimator, or a function (x, y, seed) -> trained model."""
    pool: str | None = None
    """Records to train them on, named as in ``[data]``. Without it: halves of the candidates."""


class MetricsSpec(_Section):
    """``[metrics]``."""

    delta: Delta | None = None
    """δ of the epsilon bound; None is the δ of the claim, or 0."""


class GateSpec(_Section):
    """``[gate]``: when a continuous-integration job should fail."""

    fail_above: dict[str, Ceiling] = {}
    judge: Judge = "low"


class AuditSpec(_Section):
    """A whole ``audit.toml``."""

    name: Annotated[str, pydantic.Field(pattern=r"^[\w][\w .-]{0,99}$")] = "audit"
    seed: Annotated[int, pydantic.Field(ge=0)] = 0
    target: TargetSpec | None = None
    data: DataSpec | None = None
    predictions: PredictionsSpec | None = None
    shadows: ShadowsSpec | None = None
    attacks: tuple[dict[str, Any], ...] = ()
    """Empty: the default attacks."""
    metrics: MetricsSpec = MetricsSpec()
    gate: GateSpec = GateSpec()


def read(path: Path) -> AuditSpec:
    """The settings in a file.

    Raises:
        SpecError: the file is missing or not TOML, a key is unknown (the nearest valid key is
            named), a value is of the wrong kind, or a section is missing.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(
            f"expected settings in {path}, it cannot be read ({error}): "
            "check the path, or write one with `leakscope init`"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"expected TOML in {path}, got something else: {error}") from error
    return parse(table, where=str(path))


def parse(table: dict[str, Any], where: str) -> AuditSpec:
    """The settings in a table.

    Args:
        table: as read from TOML.
        where: the file's name, for messages.

    Raises:
        SpecError: see `read`.
    """
    try:
        # by way of JSON, where a list may stand for a tuple while other types stay strict
        spec = AuditSpec.model_validate_json(pydantic.TypeAdapter(Any).dump_json(table))
    except pydantic.ValidationError as error:
        raise SpecError("\n".join(_explain(item, where) for item in error.errors())) from error
    if (spec.predictions is None) == (spec.target is None or spec.data is None):
        raise SpecError(
            f"{where}: expected [target] and [data], or [predictions] alone, got "
            f"{', '.join(f'[{name}]' for name in sorted(table) if isinstance(table[name], dict))}"
        )
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
    return spec


def _explain(item: Any, where: str) -> str:
    place = ".".join(map(str, item["loc"]))
    if item["type"] == "extra_forbidden":
        section = _section(item["loc"][:-1])
        hint = did_you_mean(str(item["loc"][-1]), section.model_fields)
        return f"{where}: expected a known key, got {place!r}: {hint}"
    if item["type"] == "missing":
        return f"{where}: expected the key {place!r}, it is missing: add it"
    return f"{where}: expected a valid {place!r}, got {item['input']!r}: {item['msg']}"


def _section(path: tuple[str | int, ...]) -> type[pydantic.BaseModel]:
    sections: dict[str, type[pydantic.BaseModel]] = {
        "target": TargetSpec,
        "data": DataSpec,
        "predictions": PredictionsSpec,
        "shadows": ShadowsSpec,
        "metrics": MetricsSpec,
        "gate": GateSpec,
    }
    return sections[str(path[0])] if path else AuditSpec


def attacks(spec: AuditSpec) -> tuple[MembershipAttack, ...]:
    """The attacks asked for, or the default ones.

    Raises:
        SpecError: an attack or one of its settings does not exist, or an entry has no name.
    """
    if not spec.attacks:
        return catalog.default(shadows=spec.shadows is not None)
    built = []
    for entry in spec.attacks:
        settings = dict(entry)
        name = settings.pop("name", None)
        if not isinstance(name, str):
            raise SpecError(
                f'expected name = "..." in each [[attacks]], got {entry}: '
                "see `leakscope list attacks`"
            )
        built.append(catalog.attack(name, **settings))
    return tuple(built)
