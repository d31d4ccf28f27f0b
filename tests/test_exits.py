"""Code of others that ends the program is an error of ours, wherever divulge calls it."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import divulge
from divulge.errors import DivulgeError

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 2)), np.arange(40) % 2
SETS: dict[str, Any] = {"members": (X[:20], Y[:20]), "nonmembers": (X[20:], Y[20:])}


def leave(*_: Any, **__: Any) -> NoReturn:
    sys.exit(0)


def _a_model() -> Any:
    return divulge.audit(leave, **SETS)


def _a_trainer() -> Any:
    return divulge.leave_one_out(leave, records=(X, Y), rotation=divulge.Rotation(3))


def _a_trainer_of_a_comparison() -> Any:
    return divulge.compare({"mine": leave}, records=(X, Y), rotation=divulge.Rotation(3))


def _a_file() -> Any:
    Path("mine.py").write_text("import sys\nsys.exit()\n")
    Path("audit.toml").write_text(
        '[target]\nmodel = "mine.py:f"\n[data]\nmembers = "m.csv"\nnonmembers = "n.csv"\n'
    )
    return divulge.audit_file("audit.toml")


@pytest.mark.parametrize(
    "run", [_a_model, _a_trainer, _a_trainer_of_a_comparison, _a_file], ids=lambda run: run.__name__
)
def test_code_that_exits_does_not_end_who_called_the_library(
    run: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DivulgeError, match=r"it ended the program \(sys\.exit with"):
        run()


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no such signal")
def test_a_program_that_is_told_to_end_ends() -> None:
    def model(x: np.ndarray) -> NoReturn:
        os.kill(os.getpid(), signal.SIGUSR1)
        raise AssertionError(x)

    before = signal.signal(signal.SIGUSR1, leave)
    try:
        with pytest.raises(SystemExit):
            divulge.audit(model, **SETS)
    finally:
        signal.signal(signal.SIGUSR1, before)
