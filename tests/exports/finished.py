"""Small finished runs, and the command line that makes something of them."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import divulge
from divulge.cli.main import main
from tests.fuzz import formats


def make_runs(folders: pytest.TempPathFactory, *, report: bool = False) -> Callable[[str], Path]:
    """What makes a small run of a kind by the real writers, once for each kind.

    Args:
        folders: where runs are made.
        report: also write a stand-in for the page.
    """

    @functools.cache
    def make_run(kind: str) -> Path:
        folder = folders.mktemp(kind)
        formats.FORMATS[kind].make(folder)
        if report:
            (folder / "run" / divulge.load(folder / "run").page).write_text("<!doctype html>")
        return folder / "run"

    return make_run


def call(*words: object, code: int = 0) -> Result:
    """Run ``divulge`` with these words; it must end with this code."""
    result = CliRunner().invoke(main, list(map(str, words)))
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    return result
