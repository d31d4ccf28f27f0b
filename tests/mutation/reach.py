"""Which tests execute a block, as far as tests ran; which files are near to the others."""

import ast
import hashlib
import inspect
import json
import re
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.mutation.blocks import Numbering
from tests.mutation.operators import Mutant

NEAR = 4
"""Test files that are near to a file, of all."""

SECONDS = 8.0
"""Of a processor, for tests known to execute the line; as long again for files near to it."""

MOST_SECONDS = 20.0
"""What one test may take that is not known; of others, five times what it took, and this third."""


class Ended(NamedTuple):
    """What became of one test."""

    test: str
    seconds: float
    failed: bool
    blocks: list[int]


class Recorder:
    """A plugin of pytest: writes each test's end and the blocks that it executed; ends in time."""

    def __init__(self, out: Path, flags: bytearray, known: dict[str, float], seconds: float):
        self._out = out.open("w")
        self._flags, self._known, self._seconds = flags, known, seconds
        self._begin, self._failed = time.process_time(), False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._flags[:] = bytes(len(self._flags))
        self._failed = False
        known = self._known.get(item.nodeid)
        limit = MOST_SECONDS if known is None else MOST_SECONDS / 3 + 5 * known
        signal.setitimer(signal.ITIMER_PROF, limit)
        begin = time.process_time()
        result = yield
        now = time.process_time()
        blocks = np.flatnonzero(np.frombuffer(self._flags, np.uint8)).tolist()
        ended = Ended(item.nodeid, round(now - begin, 3), self._failed, blocks)
        print(json.dumps(ended), file=self._out, flush=True)
        if now - self._begin > self._seconds:
            item.session.shouldstop = "time is up"
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed


def read_ends(path: Path) -> list[Ended]:
    """What a recorder wrote; the last line may have been cut off."""
    lines = path.read_text().splitlines(keepends=True)
    return [Ended(*json.loads(line)) for line in lines if line.endswith("\n")]


class Reach:
    """Tests that passed, with the blocks that each executes.

    What is known of a file is kept until the file changes: until then, near tests are tried first.
    """

    def __init__(self, folder: Path, root: Path, numbering: Numbering) -> None:
        self._file, self._first = numbering.files, list(numbering.first.values())
        self._names = [_digest(root, path) for path in numbering.trees]
        self._of_block: dict[int, set[str]] = {}
        self._of_test: dict[str, set[int]] = {}
        self._kills: Counter[tuple[int, str]] = Counter()
        self.seconds: dict[str, float] = {}
        self.files: set[str] = set()
        first = dict(zip(self._names, self._first, strict=True))
        path = folder / "reach.jsonl"
        for line in path.read_text().splitlines(keepends=True) if path.exists() else []:
            if line.endswith("\n"):  # the last one may have been cut off
                test, seconds, own = json.loads(line)
                known = ((first[name], blocks) for name, blocks in own.items() if name in first)
                self._remember(test, seconds, {k + block for k, part in known for block in part})
        self._out = path.open("a")

    def add(self, end: Ended) -> None:
        """One test that passed; what ran under a change executes nearly the same."""
        if end.test in self.seconds and self._of_test[end.test].issuperset(end.blocks):
            return
        self._remember(end.test, end.seconds, set(end.blocks))
        own: dict[str, list[int]] = defaultdict(list)
        for block in end.blocks:
            own[self._names[self._file[block]]].append(block - self._first[self._file[block]])
        print(json.dumps([end.test, end.seconds, own]), file=self._out, flush=True)

    def _remember(self, test: str, seconds: float, blocks: set[int]) -> None:
        self.seconds[test] = seconds
        self.files.add(test.partition("::")[0])
        self._of_test.setdefault(test, set()).update(blocks)
        for block in blocks:
            self._of_block.setdefault(block, set()).add(test)

    def note_killer(self, blocks: Sequence[int], test: str) -> None:
        """A test that noticed one change of a file is tried early with the next."""
        self._kills[self._file[blocks[0]], test] += 1

    def of(self, blocks: Sequence[int]) -> list[str]:
        """Tests that execute one of these blocks, most likely to fail first, as time goes.

        Those are tests that failed for other changes of the file, and that are short and close.
        """
        tests = set().union(*(self._of_block.get(block, set()) for block in blocks))
        file = self._file[blocks[0]] if blocks else -1

        def rank(test: str) -> tuple[float, str]:
            files = len({self._file[block] for block in self._of_test[test]})
            cost = files * max(self.seconds[test], 0.02)
            return cost / (1 + 4 * self._kills[file, test]), test

        chosen = sorted(tests, key=rank)
        spent = accumulate(self.seconds[test] for test in chosen)
        return [test for test, now in zip(chosen, spent, strict=True) if now < SECONDS]


def _digest(root: Path, path: Path) -> str:
    text = f"{path}\0{(root / path).read_text()}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Tests:
    """The files of tests, and what is known of them."""

    def __init__(self, root: Path, numbering: Numbering, reach: Reach) -> None:
        self.root, self.numbering, self.reach = root, numbering, reach
        names = sorted((root / "tests").rglob("test_*.py"))
        texts = {str(path.relative_to(root)): path.read_text() for path in names}
        self._words = {
            name: frozenset(re.findall(r"\w+", text) + re.findall(r"\w+(?:\.\w+)+", text))
            for name, text in texts.items()
        }
        self._near: dict[Path, list[str]] = {}

    @property
    def names_of_files(self) -> list[str]:
        """All files of tests, as paths from the root."""
        return list(self._words)

    def near(self, mutant: Mutant) -> list[str]:
        """Test files named after its file or folder first, then those that speak of its names."""
        path = mutant.path
        if path not in self._near:
            public = self.names(path)
            folder, dot, stem = ".".join(path.with_suffix("").parts[1:]).rpartition(".")

            def rank(name: str) -> tuple[int, str]:
                test, words = Path(name), self._words[name]
                found = len(public & words)
                module = folder + dot + stem in words or {folder, stem} <= words
                pairs = zip(path.parts[2:-1], test.parts[1:-1], strict=False)
                folders = sum(a == b for a, b in pairs)
                named = test.stem.removeprefix("test_")
                parts = len({*named.split("_")} & {*path.stem.split("_"), path.parts[-2]})
                own = 4 * (named == path.stem) + 3 * (named in path.parts) + 2 * module + 2 * parts
                return -(own + folders + 2 * min(found, 4)), name

            self._near[path] = sorted(self._words, key=rank)[:NEAR]
        own = [str(path)] if ">>>" in mutant.source else []
        return [*own, *self._near[path]]

    def names(self, path: Path) -> set[str]:
        """What a file defines for others."""
        kinds = ast.FunctionDef | ast.ClassDef
        own = {node.name for node in self.numbering.trees[path].body if isinstance(node, kinds)}
        return {name for name in own if not name.startswith("_")}

    def order(self, mutant: Mutant, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """Tests of near files, those first that speak of the function, its file or its folder."""
        tree = self.numbering.trees[mutant.path]
        outer = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            and node.lineno <= mutant.first <= (node.end_lineno or 0)
        }
        words = outer | self.names(mutant.path) | {mutant.path.stem, mutant.path.parent.name}
        words = {word.strip("_").lower() for word in words}

        def rank(item: pytest.Item) -> int:
            function = getattr(item, "function", None)
            text = item.nodeid + (inspect.getsource(function) if function else "")
            return -sum(word in text.lower() for word in words)

        return sorted(items, key=rank)

    def is_known(self, name: str) -> bool:
        """Whether a file's tests ran."""
        return name in self.reach.files

    def files(self, mutant: Mutant) -> list[str]:
        """Test files known to execute the line of a mutant, and those that are near."""
        block = self.numbering.of_line(mutant.path, mutant.first)
        known = self.reach.of(self.numbering.of_file(mutant.path) if block is None else [block])
        names = [*(test.partition("::")[0] for test in known), *self.near(mutant)]
        return [name for name in dict.fromkeys(names) if (self.root / name).exists()]
