"""No bad argument and no bad setting ends in a traceback, and none is taken for another.

Both tables run in a process of their own without the run-time checks of annotations, which would
answer in place of divulge.
"""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("table", ["bad_arguments.py", "bad_settings.py"])
def test_bad_input_is_an_error_of_ours(table: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [*command, f"tests/{table}"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
