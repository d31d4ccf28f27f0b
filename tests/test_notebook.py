"""The notebook of the examples runs from top to bottom, without a network."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook" / "audit.ipynb"

OFFLINE = """
import socket
def refuse(*arguments, **named):
    raise OSError("this notebook needs no network")
socket.socket.connect = socket.create_connection = refuse
"""

SHOW = """
shown = {code!r}
cell = ast.parse(shown)
if cell.body and isinstance(cell.body[-1], ast.Expr):
    last = cell.body.pop()
    exec(compile(cell, "cell", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    for form in ("_repr_html_", "_repr_svg_"):
        if hasattr(value, form):
            print("FORM", form, len(getattr(value, form)()) > 1000)
else:
    exec(compile(cell, "cell", "exec"), names)
"""
"""What a notebook does with a cell: run it, and show the last expression."""


@pytest.mark.slow
def test_the_notebook_runs_offline_and_shows_what_it_says(tmp_path: Path) -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells)  # an output kept would be of another version
    script = ["import ast", OFFLINE, "names = {}"]
    script += [SHOW.format(code="".join(cell["source"])) for cell in cells]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("FORM")] == [
        "FORM _repr_html_ True",
        "FORM _repr_svg_ True",
    ]
    aucs = [float(line.split("AUC ")[1].split(",")[0]) for line in lines if "}: AUC" in line]
    assert len(aucs) == 6
    # settings in the order of the grid: the deepest trees with the smallest leaves leak most
    assert max(aucs) == aucs[4]
    assert lines[-1] in ("True", "False")
    assert not list(tmp_path.iterdir())
