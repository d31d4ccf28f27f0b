"""Blocks of statements that set a flag when executed, and functions exchanged where loaded."""

import ast
import builtins
import gc
import importlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

FLAGS = "_executed_blocks"
"""A name that every module can read: one byte a block."""


def bodies(node: ast.AST, *, inside: bool = False) -> Iterator[list[ast.stmt]]:
    """Lists of statements within functions: each is executed from its start, or not at all."""
    inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for _, value in ast.iter_fields(node):
        if inside and isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield value
    for child in ast.iter_child_nodes(node):
        yield from bodies(child, inside=inside)


def find_block(tree: ast.Module, line: int) -> int | None:
    """The block that holds the statement that begins on a line; None outside functions."""
    numbers = (n for n, body in enumerate(bodies(tree)) if any(s.lineno == line for s in body))
    return next(numbers, None)


def set_flags(source: str, first: int) -> str:
    """The same code, whose blocks set their flags; the first block's flag has this number."""
    tree = ast.parse(source)
    for number, body in enumerate(list(bodies(tree)), first):
        text = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        body.insert(int(text), ast.parse(f"{FLAGS}[{number}] = 1").body[0])
    return ast.unparse(ast.fix_missing_locations(tree))


Place = tuple[str, str, int]


class Numbering:
    """The numbers of the blocks of all files."""

    def __init__(self, root: Path, paths: Sequence[Path]) -> None:
        self.trees = {path: ast.parse((root / path).read_text()) for path in paths}
        self.first: dict[Path, int] = {}
        self.files: list[int] = []
        """The file of each block."""
        for number, (path, tree) in enumerate(self.trees.items()):
            self.first[path] = len(self.files)
            self.files += [number] * sum(1 for _ in bodies(tree))

    def of_line(self, path: Path, line: int) -> int | None:
        """The block of the statement that begins on a line; None outside functions."""
        block = find_block(self.trees[path], line)
        return None if block is None else self.first[path] + block

    def of_file(self, path: Path) -> range:
        """All blocks of a file."""
        first = self.first[path]
        return range(first, first + self.files.count(list(self.trees).index(path)))


class Loaded:
    """The functions of loaded modules: wrappers, caches and other modules refer to the same ones.

    So a mutant needs no import of its own, which would take most of its time.
    """

    def __init__(self, root: Path, numbering: Numbering) -> None:
        self._root, self._numbering = root, numbering
        self.flags = bytearray(len(numbering.files))
        setattr(builtins, FLAGS, self.flags)
        self._loaders: dict[Path, Any] = {}
        for path in numbering.trees:
            module = _import(path)
            if module is not None:
                self._loaders[path] = module.__spec__.loader
        functions: dict[Place, list[FunctionType]] = defaultdict(list)
        gc.unfreeze()  # tests/conftest.py froze what was collected: it would not be listed
        for thing in gc.get_objects():
            if type(thing) is FunctionType:
                functions[_place(thing.__code__)].append(thing)
        gc.freeze()
        self._functions: dict[Path, dict[tuple[str, int], list[FunctionType]]] = {}
        for path in self._loaders:
            codes = self._compile(path, (root / path).read_text())
            count = Counter(map(_place, codes.values()))  # lambdas of one line are left as they are
            self._functions[path] = {
                key: functions.get(_place(code), []) if count[_place(code)] == 1 else []
                for key, code in codes.items()
            }
        for path in self._loaders:
            self.exchange(path, (root / path).read_text())

    def __contains__(self, path: Path) -> bool:
        return path in self._loaders

    def exchange(self, path: Path, source: str) -> None:
        """Give the functions of a file the code of this source; what imports execute stays."""
        marked = set_flags(source, self._numbering.first[path])
        codes = self._compile(path, marked)
        for key, functions in self._functions[path].items():
            for function in functions if key in codes else ():
                function.__code__ = codes[key]

    def _compile(self, path: Path, source: str) -> dict[tuple[str, int], CodeType]:
        """The code of each function, compiled as imports do: with the checks of shapes.

        By its name, and how many functions of this name come before: a setter has that of a getter.
        """
        compiled = self._loaders[path].source_to_code(source.encode(), str(self._root / path))
        before: Counter[str] = Counter()
        codes: dict[tuple[str, int], CodeType] = {}
        for code in _functions_in(compiled):
            codes[code.co_qualname, before[code.co_qualname]] = code
            before[code.co_qualname] += 1
        return codes


def _import(path: Path) -> Any:
    name = ".".join(path.with_suffix("").parts[1:]).removesuffix(".__init__")
    from divulge.errors import MissingExtra  # not before the hook that checks shapes

    try:
        return importlib.import_module(name)
    except (ImportError, MissingExtra):
        return None


def _place(code: CodeType) -> Place:
    """Where a function stands. Code is not equal to the same code that ran, under Python 3.11."""
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _functions_in(code: CodeType) -> Iterator[CodeType]:
    """Code inside code, lambdas and the bodies of classes too; comprehensions have no function."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if not constant.co_name.startswith("<") or constant.co_name == "<lambda>":
                yield constant
            yield from _functions_in(constant)
