"""Which source a study runs, told without running it: what its finished work depends on."""

import ast
import hashlib
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

ROOTS = {
    name: Path(spec.origin).parent
    for name in ("divulge", "divulge_papers", "divulge_fast")
    if (spec := importlib.util.find_spec(name)) and spec.origin
}
"""The packages whose source counts, and where each is; the last need not be installed."""
_NAMED = re.compile(rf"((?:{'|'.join(ROOTS)})(?:\.\w+)+)(?::\w+)?")
"""What a registry calls something in a module, which is imported once it is asked for."""
_TABLES = "divulge_papers.table"
"""Names every study, and none of them asks for another by these names."""


@cache
def code(module: str) -> str:
    """A digest of the source of a module, and of all in these packages that it may import.

    Imports in functions count, and so do the names in registries: whoever imports the registry of
    attacks depends on each of them.
    """
    made = hashlib.blake2b(digest_size=8)
    for path in sorted(reachable_files(module)):
        made.update((_address(path) or path.name).encode() + path.read_bytes())
    return made.hexdigest()


def reachable_files(module: str) -> frozenset[Path]:
    """The files of the module, of those in these packages that it imports, and that they import."""
    files: set[Path] = set()
    waiting = set(_files(module)) or _elsewhere(module)
    while waiting:
        path = waiting.pop()
        files.add(path)
        waiting |= _imports_of(path) - files
    return frozenset(files)


@cache
def _imports_of(path: Path) -> frozenset[Path]:
    return frozenset(file for name in _names(path) for file in _files(name))


def _elsewhere(module: str) -> set[Path]:
    """The file of a module that is in none of these packages."""
    spec = importlib.util.find_spec(module)
    return {Path(spec.origin)} if spec and spec.origin else set()


def _files(module: str) -> Iterator[Path]:
    """Of a module: its source, its public names if it is a package, and the packages above it."""
    source = _source(module)
    if source is None:
        return
    yield source
    if (names := source.with_suffix(".pyi")).is_file():
        yield names
    parts = module.split(".")
    above = (_source(".".join(parts[:k])) for k in range(1, len(parts)))
    yield from (path for path in above if path is not None)


def _source(module: str) -> Path | None:
    """None where it is of none of these packages, or is no module."""
    top, *parts = module.split(".")
    if top not in ROOTS:
        return None
    place = ROOTS[top].joinpath(*parts)
    paths = (place / "__init__.py", place.with_suffix(".py"))
    return next((path for path in paths if path.is_file()), None)


def _names(path: Path) -> Iterator[str]:
    """What a file imports: modules, and packages of which it asks another name."""
    own = _address(path)
    package = tuple(own.split("."))[:-1]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            start = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{start}.{alias.name}" for alias in node.names]
            yield from names
            if not all(map(_source, names)):
                yield start
        elif isinstance(node, ast.Constant) and own != _TABLES:
            named = _NAMED.fullmatch(str(node.value))
            yield from _found_by(named[1]) if named else ()


@cache
def _found_by(name: str) -> tuple[str, ...]:
    """The module of that name; if it is none, those that entry points of that group name."""
    if _source(name) is not None:
        return (name,)
    return tuple(point.module for point in entry_points(group=name))


def _address(path: Path) -> str:
    """The address of a module by its file, with ``__init__`` of a package; empty if elsewhere."""
    for top, root in ROOTS.items():
        if path.is_relative_to(root):
            return ".".join([top, *path.relative_to(root).with_suffix("").parts])
    return ""
