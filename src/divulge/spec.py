"""``audit.toml``: what to audit, read into frozen settings.

Reading is pure: no data is loaded and no code of the user's is run here.
"""

import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import pydantic

from divulge import catalog
from divulge.core import Attack, MembershipAttack
from divulge.errors import SpecError, did_you_mean
from divulge.sections import FEDERATED, AuditSpec, DataSpec, Section


def read(path: Path) -> AuditSpec:
    """The settings in a file.

    Raises:
        SpecError: the file is missing or not TOML, a key is unknown (the nearest valid key is
            named), a value is of the wrong kind, or a section is missing.
    """
    return parse(table(path), where=str(path))


def table(path: Path) -> dict[str, Any]:
    """What a TOML file holds.

    Raises:
        SpecError: the file is missing, or not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(
            f"expected settings in {path}, it cannot be read ({error}): "
            "check the path, or write one with `divulge init`"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"expected TOML in {path}, got something else: {error}") from error


def parse(table: dict[str, Any], where: str) -> AuditSpec:
    """The settings in a table.

    Args:
        table: as read from TOML.
        where: the file's name, for messages.

    Raises:
        SpecError: see `read`.
    """
    spec = validated(AuditSpec, table, where)
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


A = TypeVar("A")
S = TypeVar("S", bound=Section)


def validated(model: type[S], table: dict[str, Any], where: str) -> S:
    """A table as settings of one kind.

    Raises:
        SpecError: a key is unknown or missing, or a value is of the wrong kind, nan or infinite.
    """
    _check_finite(table, where, ())
    try:
        # by way of JSON, where a list may stand for a tuple while other types stay strict
        return model.model_validate_json(pydantic.TypeAdapter(Any).dump_json(table))
    except pydantic.ValidationError as error:
        said = (_explain(item, where, model) for item in error.errors())
        raise SpecError("\n".join(said)) from error


def _check_finite(value: Any, where: str, place: tuple[str, ...]) -> None:
    """JSON has no nan and no infinity: on the way through it they would become nothing at all."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_finite(item, where, (*place, str(key)))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            _check_finite(item, where, (*place, str(number)))
    elif isinstance(value, float) and not math.isfinite(value):
        name = ".".join(place)
        raise SpecError(f"{where}: expected a finite number for {name!r}, got {value}: correct it")


def _explain(item: Any, where: str, model: type[Section]) -> str:
    place = ".".join(map(str, item["loc"]))
    if item["type"] == "extra_forbidden":
        section = _section(item["loc"][:-1], model)
        hint = did_you_mean(str(item["loc"][-1]), section.model_fields)
        return f"{where}: expected a known key, got {place!r}: {hint}"
    if item["type"] == "missing":
        return f"{where}: expected the key {place!r}, it is missing: add it"
    return f"{where}: expected a valid {place!r}, got {item['input']!r}: {item['msg']}"


def _section(path: tuple[str | int, ...], model: type[Section]) -> type[Section]:
    """The section at a place of the settings."""
    for key in path:
        kind = model.model_fields[str(key)].annotation
        inner = (kind, *get_args(kind))
        model = next(part for part in inner if isinstance(part, type) and issubclass(part, Section))
    return model


def attacks(spec: AuditSpec) -> tuple[MembershipAttack, ...]:
    """The attacks asked for, or the default ones.

    Raises:
        SpecError: an attack or one of its settings does not exist, or an entry has no name.
    """
    if not spec.attacks:
        return catalog.default(
            shadows=bool(spec.shadows or spec.leave_one_out), partial=spec.known is not None
        )
    return tuple(asked(spec.attacks, catalog.attack))


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
    return tuple(asked(spec.attacks, build)) if spec.attacks else tuple(map(build, usual))


def asked(entries: Iterable[dict[str, Any]], build: Callable[..., A]) -> Iterator[A]:
    """What each ``[[attacks]]`` entry asks for.

    Args:
        entries: each with ``name`` and settings.
        build: makes an attack of a name and its settings.

    Raises:
        SpecError: an attack or one of its settings does not exist, or an entry has no name.
    """
    for entry in entries:
        settings = dict(entry)
        name = settings.pop("name", None)
        if not isinstance(name, str):
            raise SpecError(
                f'expected name = "..." in each [[attacks]], got {entry}: '
                "see `divulge list attacks`"
            )
        yield build(name, **settings)
