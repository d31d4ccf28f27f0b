"""A session of pytest that collects once, and runs tests of each mutant in a process of its own."""

import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.mutation.blocks import Loaded
from tests.mutation.operators import Mutant
from tests.mutation.reach import SECONDS, Ended, Recorder, Tests, read_ends

WALL_SECONDS = 300.0
"""Of a clock: what waits for ever takes no processor."""

FILE_SECONDS = 3600.0
"""Of a clock, for all tests of one file."""

QUICK = ("-p", "tests.installs.lacking", "--install", "dev", "-m", "not slow", "-x", "-q", "-s",
         "-p", "no:cacheprovider", "--continue-on-collection-errors",
         "-W", "ignore:Module already imported so cannot be rewritten")  # fmt: skip

Done = Callable[[Mutant, "Verdict"], None]


class Verdict(NamedTuple):
    """What became of a mutant."""

    end: str
    """Killed, time-out, survived, or no test."""
    test: str
    """That fails, or the number of tests that execute the line."""
    seconds: float


class _InChild(Exception):
    """This process is to run the tests that it was made for."""


class Server:
    """A plugin of pytest. It has the loop of tests, and leaves it to pytest in each child."""

    def __init__(
        self,
        mutants: Sequence[Mutant],
        tests: Tests,
        done: Done,
        folder: Path,
        *,
        mapped: bool,
    ) -> None:
        self._mutants, self._tests, self._done, self._folder = mutants, tests, done, folder
        self._mapped = mapped
        self._files: dict[str, list[pytest.Item]] = defaultdict(list)
        self._passing: set[str] = set()
        self.is_child = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        for item in session.items:
            self._files[item.nodeid.partition("::")[0]].append(item)
        self._loaded = Loaded(self._tests.root, self._tests.numbering)
        try:
            if self._mapped:
                self._map(session)
            for mutant in self._mutants:
                begin = sum(os.times()[:4])
                verdict = self._judge(session, mutant)
                spent = sum(os.times()[:4]) - begin
                self._done(mutant, verdict._replace(seconds=spent))
        except _InChild:
            return None
        return True

    def _map(self, session: pytest.Session) -> None:
        """Run every test that never ran, to know what it executes."""
        for items in self._files.values():
            new = [item for item in items if item.nodeid not in self._tests.reach.seconds]
            ends, _ = self._run(session, new, None, FILE_SECONDS) if new else ([], True)
            for end in ends:
                if not end.failed:
                    self._tests.reach.add(end)

    def _judge(self, session: pytest.Session, mutant: Mutant) -> Verdict:
        """Run tests, until one fails that passes without the change."""
        block = self._tests.numbering.of_line(mutant.path, mutant.first)
        assert block is not None
        broken: set[str] = set()
        while True:
            items = [i for i in self._choose(mutant, block) if i.nodeid not in broken]
            ends, ended = self._run(session, items, mutant)
            for end in ends:
                if not end.failed:
                    self._tests.reach.add(end)
            failed = [end.test for end in ends if end.failed]
            if not ended:  # in the test after those that ended
                failed += [item.nodeid for item in items[len(ends) : len(ends) + 1]]
            if not failed:
                reached = sum(block in end.blocks for end in ends)
                return Verdict("survived" if reached else "no test", str(reached), 0.0)
            if self._tells(session, failed[0], items, mutant, ended=ended):
                self._tests.reach.note_killer([block], failed[0])
                return Verdict("killed" if ended else "time-out", failed[0], 0.0)
            broken.add(failed[0])

    def _tells(
        self,
        session: pytest.Session,
        test: str,
        items: list[pytest.Item],
        mutant: Mutant,
        *,
        ended: bool,
    ) -> bool:
        """Whether a test that failed passes alone without the change, and alone fails with it.

        One that waits for other processes may fail on a busy machine, and a long one be stopped.
        One that ran out of time with the change is not tried again with it.
        """
        alone = [item for item in items if item.nodeid == test]
        if test not in self._passing:
            passed, _ = self._run(session, alone, None)
            if not passed or passed[0].failed:
                return False
            self._passing.add(test)
            self._tests.reach.add(passed[0])
        if not ended:
            return True
        again, ended = self._run(session, alone, mutant)
        return not ended or any(end.failed for end in again)

    def _choose(self, mutant: Mutant, block: int) -> list[pytest.Item]:
        """Tests that execute the block, as far as is known; then the others of near files.

        Also those of the same files: what a fixture or a cache keeps was executed in one of them.
        """
        known = self._tests.reach.of([block])
        files = list(dict.fromkeys(test.partition("::")[0] for test in known))
        items = {i.nodeid: i for name in files for i in self._files.get(name, ())}
        own = [t for name in files for t in known if t.partition("::")[0] == name and t in items]
        near = [item for name in self._tests.near(mutant) for item in self._files.get(name, [])]
        others = dict.fromkeys([*near, *items.values()])
        rest = [item for item in others if item.nodeid not in own]
        seen = self._tests.reach.seconds
        rest.sort(key=lambda item: item.nodeid in seen)
        return [items[test] for test in own] + self._tests.order(mutant, rest)

    def _run(
        self,
        session: pytest.Session,
        items: list[pytest.Item],
        mutant: Mutant | None,
        seconds: float | None = None,
    ) -> tuple[list[Ended], bool]:
        """The ends of these tests, and whether the process came to its own end; or be the child."""
        out = self._folder / "ends.jsonl"
        out.unlink(missing_ok=True)
        sys.stdout.flush()
        process = os.fork()
        if not process:
            self._be_child(session, items, mutant, out, seconds or 2 * SECONDS)
            raise _InChild
        return wait_for(process, out, seconds or WALL_SECONDS)

    def _be_child(
        self,
        session: pytest.Session,
        items: list[pytest.Item],
        mutant: Mutant | None,
        out: Path,
        seconds: float,
    ) -> None:
        self.is_child = True
        become_child(self._folder / "log.txt")
        if mutant is not None and mutant.path in self._loaded:
            self._loaded.exchange(mutant.path, mutant.source)
        known = self._tests.reach.seconds
        recorder = Recorder(out, self._loaded.flags, known, seconds)
        session.config.pluginmanager.register(recorder)
        session.items = items
        session.testscollected = len(items)


def become_child(log: Path) -> None:
    """A group of its own, which writes to a file."""
    os.setsid()
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)


def wait_for(process: int, out: Path, seconds: float) -> tuple[list[Ended], bool]:
    """The ends of its tests, and whether a process came to its own end in so many seconds."""
    latest = time.monotonic() + seconds
    state = (0, 0)
    while not state[0]:
        time.sleep(0.02)
        if time.monotonic() > latest:
            os.killpg(process, signal.SIGKILL)
        state = os.waitpid(process, os.WNOHANG)
    return (read_ends(out) if out.exists() else []), not os.WIFSIGNALED(state[1])


def try_functions(
    mutants: Sequence[Mutant], tests: Tests, done: Done, folder: Path, *, mapped: bool = False
) -> None:
    """Try each mutant of what functions execute, in one session of pytest.

    Args:
        mutants: to be tried.
        tests: the files of tests.
        done: is called with each verdict.
        folder: for what children write.
        mapped: before that, run every quick test once, to know what it executes.
    """
    numbering = tests.numbering
    own = [m for m in mutants if numbering.of_line(m.path, m.first) is not None]
    if not own:
        return
    named = {name for mutant in own for name in tests.files(mutant)}
    files = sorted(named.union(tests.names_of_files) if mapped else named)
    server = Server(own, tests, done, folder, mapped=mapped)
    sys.stdout.flush()
    process = os.fork()  # what follows has no modules of this session
    if process:
        _, status = os.waitpid(process, 0)
        if status:
            sys.exit(f"expected pytest to end well, got status {status}")
        return
    status = 1
    try:
        status = int(pytest.main([*QUICK, *files], plugins=[server]))
        sys.stdout.flush()
    finally:
        os._exit(0 if server.is_child else status)
