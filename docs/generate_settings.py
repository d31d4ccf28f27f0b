"""Tables of the keys of settings files, written from the docstrings of the models' fields.

The page says where a table belongs with a comment, ``<!-- keys of MODULE:MODEL -->``; the table
below it is written again. So are the attacks that run unasked, between ``<!-- default attacks -->``
and ``<!-- end -->``. Everything around these is written by hand.
"""

import ast
import importlib
import inspect
import json
import re
import types
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
import pydantic
from pydantic.fields import FieldInfo

from divulge.attacks.catalog import default_attacks
from divulge.audits.config import CommonSpec
from divulge.core import Records
from divulge.secrets.wrapped import attack_label

HERE = Path(__file__).parent
PAGE = HERE / "settings.md"
_LARGEST = 2**31
"""From here on an upper limit is that of a machine's number, and not worth a reader's time."""
_DEFAULT = re.compile(r"(<!-- default attacks -->\n).*?(<!-- end -->)", re.S)
_TABLE = re.compile(r"(<!-- keys of (\S+):(\w+) -->\n\n)(?:\|.*\n)*\n*")


def pages() -> dict[Path, str]:
    """The page with its tables, by path."""
    text = _DEFAULT.sub(_default_attacks, PAGE.read_text(encoding="utf-8"))
    return {PAGE: _TABLE.sub(_table, text)}


def _default_attacks(found: re.Match[str]) -> str:
    """The attacks that run where settings name none, and what else runs with which settings."""
    usual = [attack_label(attack) for attack in default_attacks()]
    lines = [f"Without any, these {len(usual)} run: {_listed(usual)}."]
    for word, setting in _FURTHER.items():
        more = [attack_label(attack) for attack in default_attacks(**{word: True})]
        lines.append(f"With {setting} also {_listed([a for a in more if a not in usual])}.")
    return "\n".join([found[1], *lines, "", found[2]])


_FURTHER = {
    "shadows": "`[shadows]`",
    "cascade": "`cascade` in `[shadows]`",
    "partial": "`[known]`",
    "known_members": "`known_members` in `[data]`",
    "checkpoints": "`checkpoints` in `[target]`",
}
"""By argument of `default_attacks`, the settings that it stands for."""


def _listed(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def documented() -> set[type[pydantic.BaseModel]]:
    """The models whose keys are in a table of the page."""
    text = PAGE.read_text(encoding="utf-8")
    return {_model(found[2], found[3]) for found in _TABLE.finditer(text)}


def _model(module: str, name: str) -> type[pydantic.BaseModel]:
    model: type[pydantic.BaseModel] = getattr(importlib.import_module(module), name)
    return model


def _table(found: re.Match[str]) -> str:
    model = _model(found[2], found[3])
    meant = {key: text for cls in reversed(model.__mro__) for key, text in _docstrings(cls).items()}
    one_kind = issubclass(model, CommonSpec) and model is not CommonSpec
    common = CommonSpec.model_fields if one_kind else {}  # these keys have a table of their own
    rows = [
        f"| `{key}` | {kind_words(field.annotation, field.metadata)} | {_default(field)} "
        f"| {meant[key]} |\n"
        for key, field in model.model_fields.items()
        if key not in common
    ]
    head = "| key | type | default | meaning |\n| --- | --- | --- | --- |\n"
    return "".join([found[1], head, *rows, "\n"])


def _docstrings(cls: type) -> dict[str, str]:
    """By field of a class, the docstring below it as Markdown, without its full stop."""
    if not issubclass(cls, pydantic.BaseModel) or cls.__module__.startswith("pydantic"):
        return {}
    (tree,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=key)), ast.Expr(value=ast.Constant(value=told)):
                text = " ".join(str(told).split()).removesuffix(".")
                found[key] = text.replace("``", "`").replace("|", r"\|")
    return found


def kind_words(kind: Any, metadata: Iterable[Any] = (), *, many: bool = False) -> str:
    """The words for the type of a key: what TOML holds there.

    Args:
        kind: the annotation.
        metadata: the limits of a number.
        many: whether to speak of several.
    """
    if get_origin(kind) is Annotated:
        inner, *more = get_args(kind)
        return kind_words(inner, [*metadata, *more], many=many)
    parts = get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        (inner,) = (part for part in parts if part is not type(None))
        return kind_words(inner, metadata, many=many)
    if get_origin(kind) is Literal:
        *first, last = (f"`{json.dumps(value)}`" for value in parts)
        return f"{', '.join(first)} or {last}"
    if get_origin(kind) in (tuple, list):
        return f"list{'s' * many} of {kind_words(parts[0], many=True)}"
    if get_origin(kind) is dict and parts[1] is not Any:
        return f"section of {kind_words(parts[1], many=True)}"
    if get_origin(kind) is dict or issubclass(kind, pydantic.BaseModel):
        return "section" + "s" * many
    named = {bool: "true or false", str: "text", Records: "records"}
    if kind in named:
        return named[kind]
    return f"{'whole ' * (kind is int)}number{'s' * many}{_limits(metadata)}"


def _limits(metadata: Iterable[Any]) -> str:
    """The words for the limits of a number, with a space before them."""
    found: dict[str, Any] = {}
    for item in metadata:
        for limit in item.metadata if isinstance(item, FieldInfo) else [item]:
            for name, kind in (
                ("ge", annotated_types.Ge),
                ("gt", annotated_types.Gt),
                ("le", annotated_types.Le),
                ("lt", annotated_types.Lt),
            ):
                if isinstance(limit, kind):
                    found[name] = getattr(limit, name)
    if found.get("lt", 0) >= _LARGEST:
        del found["lt"]
    words = f" from {found['ge']}" if "ge" in found else ""
    words += f" above {found['gt']}" if "gt" in found else ""
    if "lt" in found:
        return (
            f"{words} to below {found['lt']}"
            if "ge" in found
            else f"{words} and below {found['lt']}"
        )
    if "le" in found:
        return f"{words} to {found['le']}" if "ge" in found else f"{words}, up to {found['le']}"
    return words


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is None:
        return "none"
    value = field.default
    if isinstance(value, pydantic.BaseModel):
        value = value.model_dump(exclude_defaults=True)
    return f"`{json.dumps(value)}`"
