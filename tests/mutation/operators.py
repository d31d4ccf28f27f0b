"""Small changes of Python code that another meaning comes with, one at a time."""

import ast
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_COMPARISON: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
}  # fmt: skip
_PAIRS = [
    ("min", "max"), ("any", "all"), ("argmin", "argmax"), ("minimum", "maximum"),
    ("floor", "ceil"), ("cumsum", "cumprod"), ("hstack", "vstack"), ("ppf", "isf"),
    ("cdf", "sf"), ("ones", "zeros"), ("nanmin", "nanmax"),
]  # fmt: skip
_NAMES = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
_WORDS = {"left": "right", "right": "left"}  # sides of a binary search
_DROPPED = {"log", "log1p", "exp", "expm1", "sqrt", "abs", "sorted", "sort", "unique", "float64"}


class Mutant(NamedTuple):
    """One change of one file."""

    path: Path
    first: int
    """The statement's first line, from 1."""
    last: int
    line: int
    """The line that changes first."""
    text: str
    """That line."""
    before: str
    after: str
    """The expression or statement, before and after; both on one line."""
    source: str
    """The whole file, changed."""

    @property
    def key(self) -> str:
        """The same until the line changes, wherever it stands."""
        return f"{self.path} | {self.text} | {self.before} -> {self.after}"


def mutants(path: Path, source: str) -> Iterator[Mutant]:
    """Every mutant of a file; names, types, messages and assertions stay as they are."""
    raw, starts, texts = source.encode(), [0], source.splitlines()
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, statement in _places(ast.parse(source)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        lines = range(statement.lineno, (_own_end(statement) or node.end_lineno) + 1)
        before = " ".join(raw[begin:end].decode().split())
        for other in _alternatives(node):
            text = ast.unparse(other)
            text = f"({text})" if isinstance(other, ast.expr) else text
            changed = (raw[:begin] + text.encode() + raw[end:]).decode()
            after = " ".join(text.split())
            own = texts[node.lineno - 1].strip()
            yield Mutant(path, lines[0], lines[-1], node.lineno, own, before, after, changed)


def _own_end(statement: ast.stmt) -> int | None:
    """The last line before its body, if it has one."""
    body = getattr(statement, "body", None)
    return max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno


def _places(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, ast.stmt]]:
    """Expressions and statements that can be changed, with the statement that each is part of."""

    def walk(node: ast.AST, statement: ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, ast.stmt]]:
        if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr):
            return
        if isinstance(node, ast.keyword) and node.arg == "strict":
            return  # of zip: it stops programs that are wrong elsewhere
        if isinstance(node, ast.stmt):
            statement = node
        if isinstance(node, ast.expr | ast.stmt):
            yield node, statement
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "bases", "ctx", "op", "ops"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from walk(child, statement)

    for child in tree.body:
        yield from walk(child, child)


def _alternatives(node: ast.AST) -> Iterator[ast.AST]:
    """Changed copies of a node."""
    match node:
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in _BINARY:
            if not _is_text(node):
                yield _changed(node, op=_BINARY[type(op)]())
        case ast.Compare(ops=[op]):
            for other in _COMPARISON[type(op)]:
                yield _changed(node, ops=[other()])
        case ast.Compare(ops=[first, *rest]):  # a chain, such as 0 < x < 1
            yield _changed(node, ops=[_COMPARISON[type(first)][0](), *rest])
            yield _changed(node, ops=[first, *rest[:-1], _COMPARISON[type(rest[-1])][0]()])
        case ast.BoolOp(op=op):
            yield _changed(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)) | ast.Constant(value=float(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=str(value)) if value in _WORDS:
            yield ast.Constant(_WORDS[value])
        case ast.IfExp(body=body, orelse=orelse):
            yield _changed(node, body=orelse, orelse=body)
        case ast.Call(func=ast.Attribute(attr=name) as function) if name in _NAMES:
            yield _changed(node, func=_changed(function, attr=_NAMES[name]))
        case ast.Call(func=ast.Name(id=name)) if name in _NAMES:
            yield _changed(node, func=ast.Name(_NAMES[name]))
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[only]):
            if name in _DROPPED and not isinstance(only, ast.Starred | ast.GeneratorExp):
                yield only
        case ast.Expr(value=ast.Call()) | ast.Continue() | ast.Break():
            yield ast.Pass()


def _is_text(node: ast.AST) -> bool:
    """Whether an operand is text, or a type: there is no other operator then."""
    return any(
        isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and part.value is None)
        or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in ast.iter_child_nodes(node)
    )  # fmt: skip


def _changed(node: ast.AST, **fields: object) -> ast.AST:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other
