"""One file is one idea and one function does one thing: limits, and what is over them so far."""

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from .distributions import SOURCES

MOST = {"lines": 300, "body": 40, "arguments": 10}
"""Lines of a file; of a function without its signature and docstring; arguments, ``self`` aside."""

EXCEPTIONS: Mapping[str, list[dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("limits.toml").read_text(encoding="utf-8")
)
"""By limit, groups of what is over it, with the reason: the ceiling of each by its name."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> Iterator[tuple[str, str]]:
    """Name and text of each file of the three packages."""
    for package, folder in SOURCES.items():
        for path in sorted(folder.rglob("*.py")):
            name = f"{package}/{path.relative_to(folder).as_posix()}"
            yield name, path.read_text(encoding="utf-8")


def functions(tree: ast.AST, start: str) -> Iterator[tuple[str, Function]]:
    """Each function below a node, with its name from there on."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield f"{start}{node.name}", node
        inner = f"{start}{node.name}." if isinstance(node, Function | ast.ClassDef) else start
        yield from functions(node, inner)


def count_lines(function: Function) -> int:
    """Lines of a function from behind its docstring to its end."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def count_arguments(function: Function) -> int:
    """Arguments that a caller names; what collects further ones is none of them."""
    args = function.args
    every = [one.arg for one in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    return len([name for name in every if name not in ("self", "cls")])


def measure(files: Iterator[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """By limit, what is over it and how large that is."""
    found: dict[str, dict[str, int]] = {limit: {} for limit in MOST}
    for name, text in files:
        found["lines"][name] = len(text.splitlines())
        for function, node in functions(ast.parse(text), f"{name}:"):
            found["body"][function] = count_lines(node)
            found["arguments"][function] = count_arguments(node)
    return {
        limit: {name: size for name, size in sizes.items() if size > MOST[limit]}
        for limit, sizes in found.items()
    }


OVER = measure(sources())


@pytest.mark.parametrize("limit", MOST)
def test_nothing_is_over_a_limit_but_what_is_listed(limit: str) -> None:
    allowed = {name: most for group in EXCEPTIONS[limit] for name, most in group["of"].items()}
    over = {name: size for name, size in OVER[limit].items() if size > allowed.get(name, 0)}
    assert not over, f"split what has become too large (at most {MOST[limit]})"


@pytest.mark.parametrize("limit", MOST)
def test_what_is_listed_is_over_its_limit_and_has_one_reason(limit: str) -> None:
    listed = [name for group in EXCEPTIONS[limit] for name in group["of"]]
    assert len(listed) == len(set(listed))
    assert not set(listed) - OVER[limit].keys(), "take it off the list"
    assert all(group["reason"].endswith(".") for group in EXCEPTIONS[limit])


def test_what_is_counted() -> None:
    text = (
        'class A:\n  def f(self, a, *b, c, **d):\n    """One.\n\n    Two.\n    """\n    x = 1\n\n'
    )
    text += "    def g(): pass\n    return x\n"
    (first, one), (second, two) = functions(ast.parse(text), "")
    assert (first, second) == ("A.f", "A.f.g")
    assert [count_lines(one), count_lines(two)] == [4, 1]
    assert [count_arguments(one), count_arguments(two)] == [2, 0]
    long = "\n".join(["def f(" + ", ".join(f"a{k}" for k in range(11)) + "):", *["  x = 1"] * 300])
    assert measure(iter([("long.py", long)])) == {
        "lines": {"long.py": 301},
        "body": {"long.py:f": 300},
        "arguments": {"long.py:f": 11},
    }
