"""Nothing that only some systems have, unless what stands in for it elsewhere is tested here."""

import ast
import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from divulge._util import untrusted
from divulge.errors import StoreError
from divulge.studies import cost, cost_estimates

from .distributions import SOURCES
from .fuzz.formats import FORMATS

MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty", "winreg"}
"""Modules of the standard library that some systems lack."""
NAMES = {
    "os.O_BINARY", "os.O_CLOEXEC", "os.O_DIRECTORY", "os.O_NOFOLLOW", "os.O_NONBLOCK", "os.chown",
    "os.fork", "os.getloadavg", "os.geteuid", "os.getuid", "os.killpg", "os.mkfifo", "os.nice",
    "os.posix_fallocate", "os.pread", "os.pwrite", "os.sched_getaffinity", "os.setsid",
    "os.statvfs", "os.uname", "signal.SIGALRM", "signal.SIGHUP", "signal.SIGKILL", "signal.alarm",
    "signal.setitimer", "time.tzset",
}  # fmt: skip
"""Names that some systems lack; ``getattr`` with a default may ask for them."""
PLACES = re.compile(r"^/(proc|dev|sys|tmp|etc|var)\b")
WITH_A_FALLBACK = {"studies/cost.py: /proc", "training/engine/shared_states.py: /proc"}
"""Where such a thing is used all the same. A test below takes what stands in for the first, and
tests/training/test_shared_states.py for the second."""
RESERVED = {"CON", "PRN", "AUX", "NUL", *(f"{k}{n}" for k in ("COM", "LPT") for n in range(10))}


def trees() -> Iterator[tuple[str, ast.AST]]:
    for source in SOURCES.values():
        for path in sorted(source.rglob("*.py")):
            yield path.relative_to(source).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def asked_of_the_system(tree: ast.AST) -> Iterator[str]:
    """Modules, names and places in a file that some systems lack."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            full = {f"{node.module}.{name.name}" for name in node.names}
            yield from full & NAMES
            yield from {node.module or ""} & MODULES
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield from {f"{node.value.id}.{node.attr}"} & NAMES
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (found[0] for found in [PLACES.match(node.value)] if found)


def without_encoding(tree: ast.AST) -> Iterator[int]:
    """Lines that read or write text in the system's encoding, which differs between systems."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            at = {"read_text": 0, "write_text": 1}.get(node.func.attr)
            given = at is not None and len(node.args) > at
            if at is not None and not given and "encoding" not in {k.arg for k in node.keywords}:
                yield node.lineno


def test_nothing_is_asked_of_the_system_that_it_may_lack() -> None:
    used = {f"{name}: {what}" for name, tree in trees() for what in asked_of_the_system(tree)}
    assert used == WITH_A_FALLBACK


def test_the_search_finds_what_it_should() -> None:
    code = 'import fcntl\nfrom os import fork\nos.getuid()\nPath("/proc/self")\ngetattr(os, "nice")'
    assert sorted(asked_of_the_system(ast.parse(code))) == [
        "/proc",
        "fcntl",
        "os.fork",
        "os.getuid",
    ]
    assert list(without_encoding(ast.parse('p.read_text()\np.write_text("x", "utf-8")'))) == [1]


def test_text_is_read_and_written_in_a_named_encoding() -> None:
    assert not [f"{name}:{line}" for name, tree in trees() for line in without_encoding(tree)]


def test_without_proc_the_memory_of_an_estimate_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "_PROCESSES", tmp_path)
    assert cost.peak_memory() is None
    about = cost_estimates.CostEstimate(2, 1, 1.0, 1.0, 2.0, False, cost.peak_memory(), 8, 3)
    assert "memory unknown on this system" in str(about)


def test_without_their_flags_links_and_pipes_are_refused_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("O_NOFOLLOW", "O_NONBLOCK"):
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setattr(os, "O_BINARY", 0, raising=False)
    (tmp_path / "file").write_bytes(b"x")
    assert untrusted.read_file(tmp_path / "file", 10, StoreError, links=False) == b"x"
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(StoreError, match="got a pipe"):
            untrusted.read_file(tmp_path / "pipe", 10, StoreError)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(StoreError, match="got a link"):
        untrusted.read_file(tmp_path / "link", 10, StoreError, links=False)


@pytest.mark.parametrize("kind", ["run-membership", "run-comparison", "transcript"])
def test_names_of_files_are_names_on_every_system(kind: str, tmp_path: Path) -> None:
    missing = [package for package in FORMATS[kind].packages if not _is_installed(package)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    FORMATS[kind].make(tmp_path)
    names = {part for path in tmp_path.rglob("*") for part in path.relative_to(tmp_path).parts}
    assert names
    for name in names:
        assert not re.search(r'[<>:"|?*\\\x00-\x1f]|[. ]$', name), name
        assert name.partition(".")[0].upper() not in RESERVED, name
    assert len({name.casefold() for name in names}) == len(names)


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
