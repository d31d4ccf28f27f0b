"""Look for files that are neither read nor refused, and make what is found small."""

import contextlib
import hashlib
import importlib
import importlib.util
import multiprocessing
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import psutil

from . import formats, mutations, worker
from .formats import FORMATS, Format
from .worker import Outcome

PATIENCE = 60
"""Seconds of work, or of waiting without any, after which a small file hangs its reader.

Work is the processor's, not the clock's: a busy machine makes nobody hang.
"""
SHORTENINGS = 60
"""Tries at leaving something out of a file that is to be kept."""


class Reader(AbstractContextManager["Reader"]):
    """A process that reads; a new one takes its place where one crashes or hangs.

    Args:
        specimens: a folder with an undamaged specimen of each kind, by name.
        catalogue: the module whose ``FORMATS`` has the kinds.
        patience: seconds for a damaged file, as in ``PATIENCE``, which an undamaged one has.
    """

    def __init__(
        self, specimens: Path, catalogue: str = formats.__name__, patience: int = PATIENCE
    ) -> None:
        self._specimens, self._catalogue, self._patience = specimens, catalogue, patience
        self.formats: Mapping[str, Format] = importlib.import_module(catalogue).FORMATS
        self._context = multiprocessing.get_context("spawn")
        self._process: multiprocessing.process.BaseProcess | None = None
        self._warm: set[str] = set()

    def read(self, name: str, folder: Path) -> Outcome:
        """What comes of reading a folder of this kind.

        The process reads an undamaged one first, without limits: what libraries take
        when they are loaded and first used is not what a damaged file takes.
        """
        if self._process is None:
            self._start()
        if name not in self._warm:
            self._warm.add(name)
            with tempfile.TemporaryDirectory() as place:
                shutil.copytree(self._specimens / name, Path(place) / name)
                found = self._ask(name, Path(place) / name, limited=False)
            if found.verdict != "result":
                raise AssertionError(f"{name}: an undamaged file is not read: {found}")
        return self._ask(name, folder, limited=True)

    def _ask(self, name: str, folder: Path, *, limited: bool) -> Outcome:
        assert self._process is not None
        self._own.send((name, str(folder), limited))
        patience = self._patience if limited else PATIENCE
        if self._hangs(patience):
            self._stop()
            return Outcome("hang", f"no answer in {patience} s")
        try:
            found: Outcome = self._own.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            self._stop()
            return Outcome("crash", f"exit code {code}")
        return found

    def _hangs(self, patience: int) -> bool:
        assert self._process is not None
        process = psutil.Process(self._process.pid)
        begun = before = _worked(process)
        idle = 0
        while not self._own.poll(1.0):
            now = _worked(process)
            idle = idle + 1 if now == before else 0
            before = now
            if idle > patience or now - begun > patience:
                return True
        return False

    def _start(self) -> None:
        self._warm.clear()
        self._scratch = tempfile.mkdtemp(prefix="fuzz-")
        self._own, other = self._context.Pipe()
        arguments = (other, self._scratch, self._catalogue)
        self._process = self._context.Process(target=worker.serve, args=arguments, daemon=True)
        self._process.start()
        other.close()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._own.close()
            shutil.rmtree(self._scratch, ignore_errors=True)
        self._process = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()


def _worked(process: psutil.Process) -> float:
    """Seconds that the processor has worked for a process; of one that has ended, 0."""
    with contextlib.suppress(psutil.Error):
        spent = process.cpu_times()
        return float(spent.user + spent.system)
    return 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """A damaged folder that was neither read nor refused."""

    name: str
    edits: tuple[str, ...]
    """Seeds of the edits that made it."""
    outcome: Outcome


@dataclass(slots=True)
class Tally:
    """What came of all files of a search."""

    outcomes: Counter[str] = field(default_factory=Counter)
    findings: dict[str, Finding] = field(default_factory=dict)
    """One for each fault."""


@contextmanager
def specimens(names: Sequence[str]) -> Iterator[Path]:
    """A folder with an undamaged specimen of each kind, by name."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as made:
        for name in names:
            place = Path(made) / name
            place.mkdir()
            FORMATS[name].make(place)
        yield Path(made)


def available() -> list[str]:
    """The kinds whose packages are installed."""
    return [
        name
        for name, kind in FORMATS.items()
        if all(importlib.util.find_spec(package) for package in kind.packages)
    ]


def damage(kind: Format, specimen: Path, place: Path, edits: Sequence[str]) -> None:
    """Make a copy of a specimen, and damage it."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(specimen, place)
    files = sorted({path for pattern in kind.damaged for path in place.rglob(pattern)})
    files = [path for path in files if path.is_file()]
    for seed in edits:
        mutations.edit_folder(files, random.Random(seed))  # noqa: S311  # no secret


def search(seed: int, count: int, names: Sequence[str], say: Callable[[str], None]) -> Tally:
    """Damage so many files of each kind, and read them.

    Args:
        seed: what the damage depends on.
        count: files of each kind.
        names: the kinds.
        say: is told of each new finding, and of each kind when it is done.
    """
    told = Tally()
    with specimens(names) as made, Reader(made) as reader:
        for name in names:
            before = Counter(told.outcomes)
            for number in range(count):
                case = f"{seed}/{name}/{number}"
                many = random.Random(case).choice((1, 1, 2, 4))  # noqa: S311  # no secret
                tried = tuple(f"{case}/{k}" for k in range(many))
                found = try_edits(reader, made, name, tried)
                told.outcomes[found.verdict] += 1
                fault = f"{name}: {found.same}"
                if not found.accepted and fault not in told.findings:
                    needed = needed_edits(reader, made, name, tried, found)
                    told.findings[fault] = Finding(name, needed, found)
                    say(f"{fault}: {found.said[:300]} {' '.join(needed)}")
            say(f"{name}: {dict(told.outcomes - before)}")
    return told


def try_edits(reader: Reader, made: Path, name: str, edits: Sequence[str]) -> Outcome:
    """What comes of a specimen after these edits."""
    place = made / "damaged" / name
    damage(reader.formats[name], made / name, place, edits)
    return reader.read(name, place)


def needed_edits(
    reader: Reader, made: Path, name: str, edits: tuple[str, ...], found: Outcome
) -> tuple[str, ...]:
    """The edits without those that the fault does not need."""
    for one in edits:
        fewer = tuple(edit for edit in edits if edit != one)
        if fewer and try_edits(reader, made, name, fewer).same == found.same:
            edits = fewer
    return edits


def keep(finding: Finding, corpus: Path) -> Path:
    """Write a finding's files, made small, into the corpus; returns their folder."""
    with specimens([finding.name]) as made, Reader(made) as reader:
        place = made / "kept" / finding.name
        damage(FORMATS[finding.name], made / finding.name, place, finding.edits)
        for path in sorted(p for p in place.rglob("*") if p.is_file() and not p.is_symlink()):
            _shorten(reader, finding, place, path)
        tag = hashlib.blake2b(finding.outcome.same.encode(), digest_size=4).hexdigest()
        kept = corpus / finding.name / tag
        ignored = shutil.ignore_patterns("*.py")  # the specimen has them
        shutil.copytree(place, kept, symlinks=True, dirs_exist_ok=True, ignore=ignored)
    return kept


def _shorten(reader: Reader, finding: Finding, place: Path, path: Path) -> None:
    """Leave out of a file whatever the fault does not need: first halves, then ever less."""
    data = path.read_bytes()
    size, tries = len(data) // 2, 0
    while size and tries < SHORTENINGS:
        at = 0
        while at < len(data) and tries < SHORTENINGS:
            fewer, tries = data[:at] + data[at + size :], tries + 1
            path.write_bytes(fewer)
            trial = place.parent / "trial"
            shutil.rmtree(trial, ignore_errors=True)
            shutil.copytree(place, trial, symlinks=True)
            if reader.read(finding.name, trial).same == finding.outcome.same:
                data = fewer
            else:
                at += size
        size //= 2
    path.write_bytes(data)
