"""The plugin of pytest: a fixture that audits, and says what it found where a test fails.

It is a module of its own, beside the package, so that pytest loads nothing of divulge before a test
asks for the fixture.
"""

from collections.abc import Callable, Generator
from functools import wraps
from itertools import count
from pathlib import Path
from typing import Any

import pytest

_FOUND = pytest.StashKey[list[Any]]()
_AUDITS = ("audit", "audit_file", "audit_predictions", "leave_one_out")


class DivulgeFixture:
    """The names of ``import divulge``, with two differences.

    ``audit`` also takes the path of an ``audit.toml``. What audits find is told in the failure text
    of the test, and its run folder is in the folder that pytest keeps for it, unless ``run`` names
    another.
    """

    def __init__(self, folder: Path, found: list[Any]) -> None:
        self._folder, self._found, self._number = folder, found, count(1)

    def audit(self, model: Any, **given: Any) -> Any:
        """Audit a model, or what an ``audit.toml`` describes.

        Args:
            model: a path that ends in ``.toml`` for `divulge.audit_file`, or a model for
                `divulge.audit`.
            given: further arguments of that function.
        """
        settings = isinstance(model, str | Path) and Path(model).suffix == ".toml"
        return self._watch("audit_file" if settings else "audit")(model, **given)

    def load(self, run: str | Path) -> Any:
        """What is in a run folder: see `divulge.load`."""
        import divulge

        return self._remember(divulge.load(run))

    def __getattr__(self, name: str) -> Any:
        import divulge

        return self._watch(name) if name in _AUDITS else getattr(divulge, name)

    def _watch(self, name: str) -> Callable[..., Any]:
        import divulge

        function = getattr(divulge, name)

        @wraps(function)
        def audit(*given: Any, **named: Any) -> Any:
            named.setdefault("run", self._folder / f"audit-{next(self._number):03d}")
            return self._remember(function(*given, **named))

        return audit

    def _remember(self, found: Any) -> Any:
        self._found.append(found)
        return found


@pytest.fixture
def divulge(request: pytest.FixtureRequest, tmp_path: Path) -> DivulgeFixture:
    """Audits, as in ``assert divulge.audit("audit.toml").verdict.level != "leak"``."""
    found: list[Any] = []
    request.node.stash[_FOUND] = found
    return DivulgeFixture(tmp_path / "divulge", found)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Say at the end of a failure what the audits of the test found."""
    report = yield
    if report.failed and (found := item.stash.get(_FOUND, [])):
        from divulge.exports.ci.gather import describe_run

        text = "\n\n".join(map(describe_run, found))
        if hasattr(report.longrepr, "addsection"):  # then files of results have it too
            report.longrepr.addsection("divulge", text)
        else:
            report.sections.append(("divulge", text))
    return report
