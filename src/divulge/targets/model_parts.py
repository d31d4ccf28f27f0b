"""What a model is made of, as far as Python shows it: its kind, and the libraries it comes from.

Objects are looked at, and nothing is imported or called.
"""

import dis
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Literal

ModelKind = Literal[
    "boosted trees",
    "forest",
    "linear model",
    "support vectors",
    "nearest neighbours",
    "scikit-learn network",
    "PyTorch",
    "language model",
    "URL",
    "table",
    "",
]
"""What a model is, as far as advice depends on it; empty where nobody knows."""

_KINDS: Mapping[str, ModelKind] = {
    "lightgbm": "boosted trees",
    "xgboost": "boosted trees",
    "catboost": "boosted trees",
    "sklearn.ensemble._gb": "boosted trees",
    "sklearn.ensemble._hist_gradient_boosting": "boosted trees",
    "sklearn.ensemble._weight_boosting": "boosted trees",
    "sklearn.ensemble._forest": "forest",
    "sklearn.tree": "forest",
    "sklearn.linear_model": "linear model",
    "sklearn.svm": "support vectors",
    "sklearn.neighbors": "nearest neighbours",
    "sklearn.neural_network": "scikit-learn network",
    "torch.nn.modules": "PyTorch",
}
"""Kinds by the beginning of the name of the module of a class."""

_DISTRIBUTIONS = {"sklearn": "scikit-learn", "PIL": "pillow", "cv2": "opencv-python"}
"""What brings a package whose name is another one."""
_LEAVES = {"numpy", "pandas", "polars", "pyarrow", "scipy"}
"""Packages whose objects hold data."""
_MOST_PARTS, _MOST_ITEMS = 5000, 100
"""Parts that are looked at, of all and of one sequence: the library of the others is the same."""
_PACKAGE = re.compile(r"[A-Za-z]\w{0,99}")


def walk_parts(*things: object) -> Iterator[object]:
    """Everything that these hold or refer to, themselves first; outer parts before inner ones."""
    waiting, visited = deque(things), set[int]()
    while waiting and len(visited) < _MOST_PARTS:
        part = waiting.popleft()
        if id(part) in visited or isinstance(part, str | bytes | int | float | complex | None):
            continue
        visited.add(id(part))
        yield part
        waiting.extend(_inner_parts(part))


def _inner_parts(part: Any) -> Iterable[object]:
    if isinstance(part, Mapping):
        return list(part.values())
    if isinstance(part, list | tuple | set | frozenset):
        return islice(part, _MOST_ITEMS)
    if isinstance(part, partial):
        return [part.func, part.args, part.keywords]
    if isinstance(part, MethodType):
        return [part.__self__]
    package = _package_of(part)
    if isinstance(part, FunctionType):
        return [] if package == "divulge" else _used_by(part)
    if isinstance(part, type | ModuleType) or package in {*_LEAVES, *sys.stdlib_module_names}:
        return []
    slots = [name for kind in type(part).__mro__ for name in getattr(kind, "__slots__", ())]
    inner = [getattr(part, name, None) for name in slots if isinstance(name, str)]
    return [*inner, *getattr(part, "__dict__", {}).values()]


def _used_by(function: FunctionType) -> list[object]:
    """What a function encloses, its globals by the names in its code, and what it imports."""
    codes, used = [function.__code__], list[object](function.__defaults__ or ())
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # of an empty cell
            used.append(cell.cell_contents)
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        used += [function.__globals__[name] for name in code.co_names
                  if name in function.__globals__]  # fmt: skip
        for step in dis.get_instructions(code):
            if step.opname == "IMPORT_NAME" and step.argval in sys.modules:
                used.append(sys.modules[step.argval])
    return used


def _package_of(part: object) -> str:
    """The name of the package that a part comes from."""
    if isinstance(part, ModuleType):
        return part.__name__.partition(".")[0]
    kind = part if isinstance(part, type | FunctionType) else type(part)
    return str(getattr(kind, "__module__", "")).partition(".")[0]


def packages_of(*things: object) -> set[str]:
    """The names of the packages of others that objects come from, as they are imported."""
    packages: set[str] = set()
    for part in walk_parts(*things):
        packages.add(_package_of(part))
        packages.update(getattr(part, "packages", ()) if _package_of(part) == "divulge" else ())
    return {name for name in packages if _PACKAGE.fullmatch(name)} - sys.stdlib_module_names


def versions_of(*things: object) -> dict[str, str]:
    """By name, the versions of the libraries that a model, and its data, come from.

    Args:
        things: models, ways to train, encodings of records, and the like.
    """
    versions = {}
    for package in packages_of(*things) - {"divulge", "divulge_papers", "divulge_fast"}:
        name = _DISTRIBUTIONS.get(package, package)
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # the user's own file, or a package of another name
            own = getattr(sys.modules.get(package), "__version__", None)
            versions |= {name: own} if isinstance(own, str) else {}
    return dict(sorted(versions.items()))


def kind_of_parts(model: object) -> ModelKind:
    """What a model is by its class, or by the outermost part of it that is known."""
    for part in walk_parts(model):
        for base in type(part).__mro__:
            for module, kind in _KINDS.items():
                answers = kind == "PyTorch" or hasattr(part, "predict")
                if answers and base.__module__.startswith(module):
                    return kind
    return ""
