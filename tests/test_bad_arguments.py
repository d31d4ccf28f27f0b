"""No bad argument and no bad setting ends in a traceback, and none is taken for another.

Both tables run in a process of their own without the run-time checks of annotations, which would
answer in place of divulge.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("table", ["bad_arguments.py", "bad_settings.py"])
def test_bad_input_is_an_error_of_ours(
    table: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    if install := pytestconfig.getoption("--install", None):
        command += ["-p", "tests.installs.lacking", "--install", install]
    if only := pytestconfig.getoption("markexpr"):
        command += ["-m", only]
    tests = Path(__file__).parent
    done = subprocess.run(
        [*command, str(tests / table)],
        cwd=tmp_path,  # a report and other files go where the process works
        env=os.environ | {"PYTHONPATH": str(tests.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
