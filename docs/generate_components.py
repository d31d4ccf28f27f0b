"""What classes say about attacks and defences, on the pages of their families.

A page says where with a comment, ``<!-- NAME, from its class -->``. What stands from there to
``<!-- end -->`` is written again from the class: what it does, what it needs, its settings and its
source. Everything around it is written by hand. ``generate.py`` calls `pages`.
"""

import dataclasses
import inspect
import json
import re
import runpy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import griffe

from divulge import attacks, defences
from divulge.attacks import catalog as attacks_catalog
from divulge.defences import catalog as defences_catalog

HERE = Path(__file__).parent
ROOMS: Mapping[str, tuple[Any, Mapping[str, Callable[[str], Any]]]] = {
    "attacks": (
        attacks,
        dict.fromkeys(
            [name for attacks_on in attacks_catalog.CATALOGUE.values() for name in attacks_on],
            attacks_catalog.attack_class,
        ),
    ),
    "defences": (
        defences,
        dict.fromkeys(defences_catalog.TRAINED_DEFENCES, defences_catalog.trained_defence_class)
        | dict.fromkeys(defences_catalog.TUNED_DEFENCES, defences_catalog.tuned_defence_class)
        | dict.fromkeys(defences_catalog.ANSWER_DEFENCES, defences_catalog.answer_defence_class)
        | dict.fromkeys(
            [name for name in defences_catalog.UPDATE_DEFENCES if name != "none"],
            defences_catalog.update_defence_class,
        ),
    ),
}
"""By folder of the pages: the package, and by name what finds the class."""

_BLOCK = re.compile(r"(<!-- ([a-z0-9-]+), from its class -->\n).*?(<!-- end -->)", re.S)
_COMMON = {"recipe", "trainer", "way", "workers", "device"}
"""Fields that all trainers have; the page on training explains them."""


def pages() -> dict[Path, str]:
    """The pages of families with their blocks, by path."""
    return {page: _written(page.parent.name, text) for page, text, _ in _families()}


def places() -> dict[str, list[Path]]:
    """By folder and name of each component (``attacks/lira``) the pages that have its block."""
    found: dict[str, list[Path]] = {
        f"{room}/{name}": [] for room in ROOMS for name in ROOMS[room][1]
    }
    for page, _, names in _families():
        for name in names:
            found[f"{page.parent.name}/{name}"].append(page)
    return found


def _families() -> Iterator[tuple[Path, str, list[str]]]:
    """Each page with blocks: its path, text, and the names in their order."""
    for room in ROOMS:
        for page in sorted((HERE / room).glob("*.md")):
            text = page.read_text(encoding="utf-8")
            if names := [found[2] for found in _BLOCK.finditer(text)]:
                yield page, text, names


def _written(room: str, text: str) -> str:
    return _BLOCK.sub(lambda found: f"{found[1]}{_block(room, found[2])}{found[3]}", text)


def _block(room: str, name: str) -> str:
    """What the class says: text, address and needs, settings, and source."""
    package, classes = ROOMS[room]
    cls = classes[name](name)
    parts = griffe.Docstring(inspect.getdoc(cls) or "", parser="google").parse(warnings=False)
    sections = {part.title or part.kind.value: part.value for part in parts}
    address = f"{package.__name__}.{cls.__name__}" if cls.__name__ in dir(package) else name
    needs = f" needs {cls().needs.words() or 'nothing'}" if package is attacks else ""
    return "\n".join(
        [
            f"\n{_markdown(sections['text'])}\n",
            f"`{address}`{needs}.\n",
            *_settings(cls, {one.name: one.description for one in sections.get("parameters", ())}),
            f"*Source*: {_line(sections['References'].description)}\n\n",
        ]
    )


def _settings(cls: Any, meanings: Mapping[str, str]) -> list[str]:
    """The table of settings; empty without any."""
    kind_words = runpy.run_path(str(HERE / "generate_settings.py"))["kind_words"]
    rows = [
        f"| `{field.name}` | {kind_words(field.type)} | {_default(field)} "
        f"| {_line(meanings[field.name]).removesuffix('.').replace('|', chr(92) + '|')} |"
        for field in dataclasses.fields(cls)
        if field.name not in _COMMON
    ]
    head = ["| setting | type | default | meaning |", "| --- | --- | --- | --- |"]
    return [*head, *rows, ""] if rows else []


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return "required"
    return "none" if field.default is None else f"`{json.dumps(field.default)}`"


def _line(text: str) -> str:
    return " ".join(_markdown(text).split())


def _markdown(text: str) -> str:
    return text.replace("``", "`")
