"""Every argument of every public function and class, with values that no one should pass.

`tests/test_bad_arguments.py` runs this file in a process of its own, without the checks of shapes
and types that other tests have: users do not have them either.
"""

import inspect
import math
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import divulge
from divulge import attacks, defences, federation, targets, training
from divulge.errors import DivulgeError
from tests.slow import slow
from tests.valid_calls import NEEDS_NO_CHECK, Call, calls

PACKAGES: dict[str, ModuleType] = {
    "divulge": divulge,
    "attacks": attacks,
    "defences": defences,
    "federation": federation,
    "targets": targets,
    "training": training,
}


ENDS: Counter[str] = Counter()
"""How calls ended."""


pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")


@pytest.fixture(autouse=True)
def without_trackers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would look for a store wherever a bad value leads them."""
    for name in ("mlflow", "wandb"):
        monkeypatch.setitem(sys.modules, name, None)


ODD = "an error of the user's own object"


class Odd:
    """An object that answers nothing but errors."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(ODD)

    def __repr__(self) -> str:
        raise RuntimeError(ODD)


BAD = [
    None, True, 0, -1, 1, 5, 2.5, 0.0, math.nan, math.inf, -math.inf, 1e300, 10**30, 2**63, 10**400,
    1e-320, 1j, "", "x", "many", "16", "a\0b", "\ud800", "é" * 5000, "divulge.audit", b"x", [], (),
    {}, set(), [1], ["x"], (None,), [None, None], [[]], [math.nan], {"x": 1}, {1: "x"}, object(),
    Odd(), int, Odd, attacks.LiRA, [attacks.LiRA], attacks.Gap(), [attacks.Gap(), attacks.Gap()],
    lambda: None, iter(()), range(3), Path("nowhere"), Path("a\0b"), np.zeros(0),
    np.zeros((0, 3)), np.zeros((3, 0)), np.full((24, 3), np.nan), np.zeros((2, 2, 2), complex),
    np.array(["a", "b"]), np.array([None, 1], object), np.array(3), np.int64(-3), np.float32("nan"),
    np.arange(24), np.array([2**62] * 24), np.ones(24, bool), np.ones((2, 2), np.float16),
    (np.zeros((0, 3)), np.zeros(0, int)), (np.zeros((4, 0)), np.zeros(4, int)),
    ([["a"], ["b"]], [0, 1]), ([[1.0], [2.0]], [0.5, math.nan]), ([1, 2], [[1], [2]]),
]  # fmt: skip

ANY_ARRAY = arrays.arrays(
    st.sampled_from([np.float64, np.float32, np.int64, np.uint8, np.bool_, np.complex128]),
    arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
INTEGER = st.integers(max_value=20) | st.integers(min_value=2**63)
"""Some thousands are no bad argument, and would be trained."""

SCALAR = st.one_of(
    st.none(), st.booleans(), INTEGER, st.floats(), st.text(max_size=20), st.binary()
)
ANYTHING = st.one_of(
    ANY_ARRAY,
    st.recursive(
        SCALAR,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALAR, inner, max_size=3),
        max_leaves=5,
    ),
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Call]:
    return calls(tmp_path_factory.mktemp("calls"))


def public_names() -> Iterator[str]:
    for package, module in PACKAGES.items():
        for name in module.__all__:
            thing = getattr(module, name)
            error = isinstance(thing, type) and issubclass(thing, Exception)
            if name not in NEEDS_NO_CHECK and not error and not inspect.ismodule(thing):
                yield f"{package}.{name}"


LONG = {
    f"divulge.{name}"
    for name in ("ShadowModels", "check_attack", "compare", "harden", "harden_file",
                 "harden_ranker", "leave_one_out")
}  # fmt: skip
"""What trains many models where an odd argument is no bad one."""

NAMES = [
    *public_names(),
    *(f"divulge.Audit.{n}" for n in ("difference", "exposed", "gate", "report", "save")),
]


EACH = [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in NAMES]


@pytest.fixture(scope="module", autouse=True)
def tally() -> Iterator[None]:
    """With ``-s`` the numbers of calls by their ends are printed."""
    yield
    sys.stdout.write(f"\n{sum(ENDS.values())} calls with one bad argument: {dict(ENDS)}\n")


def refuse_or_do(call: Call, **changed: Any) -> None:
    """Make the call; anything but an error of ours goes through."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, about numbers that are too large
        try:
            call.made(**changed)
            ENDS["accepted"] += 1
        except DivulgeError:
            ENDS["refused"] += 1
        except RuntimeError as error:
            if str(error) != ODD:  # the value's own error, not one of ours
                raise
            ENDS["an error of the value itself"] += 1


def arguments(call: Call) -> list[str]:
    found = inspect.signature(call.function).parameters.values()
    names = [p.name for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return names or list(call.given)


def test_every_public_name_has_a_call_that_is_right(table: dict[str, Call]) -> None:
    assert set(NAMES) <= table.keys()
    for name in NAMES:
        assert name not in NEEDS_NO_CHECK


@pytest.mark.parametrize("name", EACH)
def test_a_call_that_is_right_succeeds(name: str, table: dict[str, Call]) -> None:
    table[name].made()
    table[name].made()  # nothing that one call leaves behind makes the next one wrong


@pytest.mark.parametrize("name", [*public_names(), "divulge.demo"])
def test_every_public_name_holds_its_arguments_to_their_annotations(name: str) -> None:
    package, _, short = name.partition(".")
    thing = getattr(PACKAGES[package], short)
    called = vars(thing)["__init__"] if isinstance(thing, type) else thing
    assert hasattr(called, "__wrapped__") or not inspect.signature(thing).parameters


PARTS = 6
"""Each argument gets a sixth of the bad values in the quick tests, the next argument the next."""


@pytest.mark.parametrize("part", [0, *map(slow, range(1, PARTS))])
@pytest.mark.parametrize("name", EACH)
def test_bad_arguments_are_refused_by_name(name: str, part: int, table: dict[str, Call]) -> None:
    call = table[name]
    broken = []
    for number, argument in enumerate(arguments(call)):
        for bad in BAD[(number + part) % PARTS :: PARTS]:
            if argument == "track" and callable(bad):
                continue  # whatever it then does is the user's own code
            try:
                refuse_or_do(call, **{argument: bad})
            except Exception as error:
                broken.append((argument, _show(bad), type(error).__name__, str(error)[:120]))
    assert not broken, "\n".join(map(str, broken))


def _show(value: Any) -> str:
    try:
        return f"{value!r:.50}"
    except Exception:
        return type(value).__name__


@pytest.mark.parametrize("name", EACH)
@settings(
    max_examples=12,  # of each argument
    phases=(Phase.explicit, Phase.generate),  # an audit is too dear to look for a simpler example
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_nothing_at_all_ends_in_a_traceback(
    name: str, table: dict[str, Call], data: st.DataObject
) -> None:
    call = table[name]
    for argument in arguments(call):
        refuse_or_do(call, **{argument: data.draw(ANYTHING, argument)})
