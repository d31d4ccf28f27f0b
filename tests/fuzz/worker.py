"""A process that reads damaged files one after another, within limits, and says what came of it."""

import contextlib
import importlib
import io
import os
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click
import joblib
import psutil
from click.testing import CliRunner

from divulge.cli.main import main
from divulge.errors import DivulgeError
from divulge.report import charts

from .formats import Format

MEMORY = 2 * 2**30
"""Bytes that reading a file of a few kilobytes may take beyond what the libraries hold."""

_UNSHOWABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.chmod"}
_CHANGES |= {"os.truncate", "os.utime", "shutil.rmtree", "shutil.move"}
_RUNS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork"}
_RUNS |= {"socket.connect", "pickle.find_class"}
_LISTS_LIBRARIES = "/sbin/ldconfig"
"""What ``ctypes`` runs to find a library of the system; PyTorch does, once, under Python 3.13."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of reading a file."""

    verdict: str
    """``result`` and ``refused`` are as they should be; all else is a finding."""
    said: str = ""
    """The message, or what was touched."""
    place: str = ""
    """Type of the error, and the innermost function of divulge that it came through."""

    @property
    def accepted(self) -> bool:
        """Whether it was read, or refused with a message."""
        return self.verdict in ("result", "refused")

    @property
    def same(self) -> str:
        """Alike for two files that show one fault."""
        return f"{self.verdict}: {self.place}"


class _Watch:
    """Notes what is written outside a folder, started, or unpickled."""

    def __init__(self) -> None:
        self.inside: tuple[Path, ...] = ()
        self.seen: list[str] = []
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.inside:
            return
        if event in _RUNS and arguments[0] != _LISTS_LIBRARIES:
            self.seen.append(f"{event} {arguments[:2]!r:.200}")
        elif event in _CHANGES or (event == "open" and arguments[2] & _WRITING):
            paths = arguments[: 2 if event in ("os.rename", "os.link") else 1]
            self.seen += [f"{event} {path}" for path in paths if not self._allowed(path)]

    def _allowed(self, path: Any) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return True  # a file that is open already
        place = Path(os.path.realpath(os.fsdecode(path)))
        return place == Path(os.devnull) or any(place.is_relative_to(one) for one in self.inside)


def serve(connection: Connection, scratch: str, catalogue: str) -> None:
    """Read folders until there are no more: a kind and a path come in, an outcome goes out.

    Args:
        connection: to whoever sends them.
        scratch: an empty folder to work in.
        catalogue: the module whose ``FORMATS`` has the kinds.
    """
    sys.dont_write_bytecode = True
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = scratch  # PyTorch makes it when a program is loaded
    watch, formats = _Watch(), importlib.import_module(catalogue).FORMATS
    # a page holds its figures as SVG; PNG and PDF are that drawing again, and take most of the time
    setattr(charts, "convert", _draw_nothing)  # noqa: B010  # mypy compares names of arguments
    # scikit-learn asks once a process, for which joblib runs lscpu
    joblib.cpu_count(only_physical_cores=True)
    os.chdir(scratch)
    tempfile.tempdir = str(Path(scratch) / "temporary")
    while True:
        try:
            name, folder, limited = connection.recv()
        except EOFError:
            return
        connection.send(_examine(watch, formats[name], Path(folder), limited=limited))


def _draw_nothing(svg: str, kind: str) -> bytes:
    return b""


def _examine(watch: _Watch, kind: Format, folder: Path, *, limited: bool) -> Outcome:
    temporary = Path(tempfile.gettempdir())
    shutil.rmtree(temporary, ignore_errors=True)  # what the last one left behind
    temporary.mkdir()
    shown = io.StringIO()
    watch.seen = []
    with _memory(MEMORY if limited else None):
        watch.inside = (folder.resolve(), temporary.parent.resolve())
        try:
            with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
                kind.read(folder)
            found = Outcome("result")
        except BaseException as error:  # whatever comes is the answer
            found = _judge(error)
        finally:
            watch.inside = ()
    if watch.seen:
        return Outcome("touched", "; ".join(watch.seen[:5]), watch.seen[0].split()[0])
    if left := sorted(path.name for path in temporary.iterdir()):
        return Outcome("left behind", ", ".join(left[:5]))
    odd = _UNSHOWABLE.search(shown.getvalue())
    if found.accepted and odd:
        return Outcome("control character", f"{odd[0]!r} in: {odd.string[:300]!r}", found.place)
    return found


def _printed(error: BaseException) -> str:
    """What the program prints when a command raises this."""

    @click.command()
    def fail() -> None:
        raise error

    return CliRunner().invoke(type(main)(commands=[fail]), ["fail"]).output


def _judge(error: BaseException) -> Outcome:
    chain: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in chain:
        chain.append(one)
        one = one.__cause__ or one.__context__
    place = f"{type(error).__name__} in {_place(error)}"
    text = f"{type(error).__name__}: {error}"
    out = next((one for one in chain if _is_lack_of_memory(one)), None)
    if out is not None:
        return Outcome("memory", f"{text} from {type(out).__name__}", place)
    if isinstance(error, DivulgeError):
        return Outcome("refused", text, place)
    return Outcome("traceback", text, place)


def _is_lack_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or "bad_alloc" in str(error)


def _place(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/divulge/" in f.filename]
    if not frames:
        return "no function of divulge"
    return f"{frames[-1].filename.rpartition('/divulge/')[2]}:{frames[-1].name}"


@contextlib.contextmanager
def _memory(more: int | None) -> Iterator[None]:
    """Allow so many bytes more than are mapped now, on systems that have such limits."""
    try:
        import resource
    except ImportError:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    if more is not None:
        now = psutil.Process().memory_info().vms
        resource.setrlimit(resource.RLIMIT_AS, (now + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
