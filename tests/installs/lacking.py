"""A plugin of pytest for an install without some extras: leave out the tests that need them.

A test is left out where what stopped it is that a package cannot be imported, and no other extra
but one that is not there promises this package. What the install promises has to be there.
"""

import doctest
import json
import re
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from .names import EXTRAS, PROJECT

IMPORTED = {
    "scikit-learn": ("sklearn",),
    "scikit-image": ("skimage",),
    "pillow": ("PIL",),
    "mlflow-skinny": ("mlflow",),
    "py-rattler-build": ("rattler_build",),
    "py-minisign": ("minisign",),
    "mkdocs-material": ("mkdocs", "yaml"),
}
"""What a distribution lets import, where that is not its own name."""

MISSING = re.compile(
    r"No module named \\?['\"]([\w.]+)|expected the package \\?['\"](\w+)\\?['\"] to be installed"
    r"|could not import \\?['\"]([\w.]+)"
)
"""Python, divulge and ``pytest.importorskip`` about a package that is not there."""


def packages(requirements: list[str]) -> Iterator[str]:
    """What can be imported where these are installed, our own extras followed."""
    for text in requirements:
        asked = Requirement(text)
        if asked.name == PROJECT["name"]:
            for extra in asked.extras:
                yield from packages(EXTRAS[extra])
        else:
            yield from IMPORTED.get(asked.name, (asked.name.replace("-", "_"),))


def promised(install: str) -> set[str]:
    """The packages that somebody may import after this install, which has the tests' tools too."""
    chosen = [] if install == "base" else install.split(",")
    return set(
        packages([*PROJECT["dependencies"], f"{PROJECT['name']}[{','.join([*chosen, 'tests'])}]"])
    )


def lacking(install: str) -> set[str]:
    """The packages that only other extras promise."""
    # not above: jaxtyping's plugin wants to come before divulge, and this one comes before it
    from divulge._util import extras

    every = set(packages([f"{PROJECT['name']}[{','.join(EXTRAS)}]"])) | extras.EXTRAS.keys()
    return every - promised(install)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that led to it; one may hold what another process wrote."""
    while error is not None:
        yield error
        if isinstance(error, doctest.UnexpectedException):
            error = error.exc_info[1]
        else:
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def named(text: str) -> list[str]:
    """The packages of which a text says that they are not there."""
    return ["".join(names).partition(".")[0] for names in MISSING.findall(text)]


class Lacking:
    """What the tests of one install need and do not find."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._install: str = config.getoption("--install")
        self._lacking, self._promised = lacking(self._install), promised(self._install)
        self._tests: Counter[str] = Counter()
        self._files: dict[str, str] = {}
        self._refused: list[str] = []
        self._note_refusals()

    def _note_refusals(self) -> None:
        """Note the packages that a test is refused, which may end in an exit code or a finding."""
        from divulge.errors import DivulgeError

        def note(error: DivulgeError, *arguments: object) -> None:
            self._refused.extend(named(" ".join(map(str, arguments))))
            Exception.__init__(error, *arguments)

        DivulgeError.__init__ = note  # type: ignore[assignment, method-assign]

    def _judge(self, report: Any, error: BaseException | None, where: tuple[str, int]) -> str:
        """Turn failures into skips and skips into failures; the package that is to blame."""
        if error is None or report.passed or hasattr(report, "wasxfail"):
            return ""
        names = named(" ".join(map(str, causes(error))))
        if report.skipped and self._promised.intersection(names):
            report.outcome = "failed"
            report.longrepr = f"the install {self._install!r} promises what is missing: {error}"
            return ""
        name = next((one for one in [*names, *self._refused] if one in self._lacking), "")
        if report.failed and name:
            report.outcome = "skipped"
            report.longrepr = (*where, f"Skipped: {self._install} lacks {name}")
        return name

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> None:
        self._refused.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        error = call.excinfo.value if call.excinfo else None
        path, line, _ = item.location
        report.lacks = self._judge(report, error, (path, line or 0))  # type: ignore[attr-defined]
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        call = getattr(report, "call", None)
        error = call.excinfo.value if call and call.excinfo else None
        package = self._judge(report, error, (str(collector.path), 0))
        if package:
            self._files[collector.nodeid] = package
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.skipped and getattr(report, "lacks", ""):
            self._tests[report.lacks] += 1

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["files"] = self._files
            return
        passed = len(self._reports("passed"))
        counts = {
            "passed": passed,
            "failed": len(self._reports("failed")) + len(self._reports("error")),
            "skipped": len(self._reports("skipped")),
            "files": len(self._files),
        }
        if path := self._config.getoption("--counts"):
            Path(path).write_text(json.dumps(counts), encoding="utf-8")
        if session.exitstatus == pytest.ExitCode.OK and passed < self._floor:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @property
    def _floor(self) -> int:
        floor: int = self._config.getoption("--at-least")
        return floor

    def _reports(self, outcome: str) -> list[Any]:
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        found: list[Any] = reporter.stats.get(outcome, [])
        return found

    def pytest_testnodedown(self, node: Any) -> None:
        self._files |= getattr(node, "workeroutput", {}).get("files", {})

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what was left out, and for lack of what."""
        tests = ", ".join(f"{name} {count}" for name, count in self._tests.most_common())
        files = Counter(self._files.values()).most_common()
        terminalreporter.section(f"what the install {self._install} lacks")
        terminalreporter.line(f"tests left out: {tests or 'none'}")
        terminalreporter.line(
            "files left out: " + (", ".join(f"{name} {count}" for name, count in files) or "none")
        )
        passed = len(self._reports("passed"))
        if passed < self._floor:
            terminalreporter.line(
                f"expected at least {self._floor} tests to pass, got {passed}: what is left out "
                "above may be needed by what this install lets users do", red=True
            )  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("installs")
    group.addoption("--install", help="base, or extras with commas: what is installed here")
    group.addoption("--at-least", type=int, default=0, help="how many tests have to pass")
    group.addoption("--counts", help="a file to write the counts to")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--install"):
        config.pluginmanager.register(Lacking(config), "lacking")
