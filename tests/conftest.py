"""The same tests on any machine: one thread a process, no clock in drawn examples, fewer checks."""

import gc
import inspect
import math
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import is_dataclass
from functools import cache, partial, wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

# the suite already runs one process a core, and small trees only wait
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

# by default an example that takes 0.2 s fails, and so does drawing that is slow: on a busy machine
any_machine = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# the same examples in every run, unless --hypothesis-profile=nightly asks for others
settings.register_profile("quick", any_machine, max_examples=50, derandomize=True)
settings.register_profile("nightly", any_machine, max_examples=200)
settings.load_profile("quick")


# what is imported and collected stays to the end: looking for garbage in it, again and again,
# would take a quarter of the time of collection
gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage again, in what comes from now on; warn of a thing each time it is there.

    PyTorch warns once a process: which test fails would depend on those that ran before it.
    """
    if find_spec("torch"):
        import torch

        torch.set_warn_always(True)
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that hold slow tests: at the end one core would wait for the other."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="module")
def in_a_folder_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For tests whose bad values include paths that can be written to."""
    with chdir(tmp_path_factory.mktemp("work")):
        yield


REPORTS = Path(__file__).parent / "report"
_convert: list[Callable[..., bytes]] = []


@pytest.hookimpl(tryfirst=True)  # before fixtures of modules, which write reports too
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Convert figures to PNG and PDF in the tests of reports alone: it takes a fifth of a page."""
    charts: Any = sys.modules.get("divulge.report.charts")
    if charts is None:
        return
    _convert[:] = _convert or [charts.convert]
    in_full = REPORTS in item.path.parents
    charts.convert = _convert[0] if in_full else _name_the_format


def _name_the_format(svg: str, format: str) -> bytes:  # noqa: A002 - as what it stands for
    del svg
    return format.encode()


CHECKED_CALLS = 3
"""Calls of a function, in each test, whose shapes and types are checked; with drawn examples, all.

Checking all calls would take half of the CPU seconds of the tests, for the same few functions.
"""

_left: defaultdict[int, float] = defaultdict(lambda: CHECKED_CALLS)
_check_shapes = jaxtyping.jaxtyped


def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Check the first calls of the next test again."""
    _left.clear()
    drawn = is_hypothesis_test(getattr(item, "obj", None))
    _left.default_factory = lambda: math.inf if drawn else CHECKED_CALLS


def _check_first_calls(checked: Any, typechecker: Callable[[Any], Any]) -> Any:
    """jaxtyping's decorator of functions and classes, applied at the first call."""
    if inspect.isclass(checked):
        start = checked.__init__
        # one that was made here is checked already, or checks for itself: `check_arguments`
        if (
            is_dataclass(checked)
            and inspect.isfunction(start)
            and start.__globals__ is not globals()
        ):
            type.__setattr__(checked, "__init__", _check_first_calls(start, typechecker))
        return checked
    code = id(checked.__code__)  # one for all functions that the same lines make
    checking = cache(lambda: _check_shapes(checked, typechecker=typechecker))

    @wraps(checked)
    def call(*args: Any, **kwargs: Any) -> Any:
        _left[code] -= 1
        return (checked if _left[code] < 0 else checking())(*args, **kwargs)

    return call


def _jaxtyped(*args: Any, **keywords: Any) -> Any:
    if args:  # not called by the import hook
        return _check_shapes(*args, **keywords)
    return partial(_check_first_calls, **keywords)


jaxtyping.jaxtyped = _jaxtyped
