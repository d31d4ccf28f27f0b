"""A search that is killed ends, once resumed, as if it had not been: bit for bit."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import divulge
from divulge.core import Finding
from divulge.studies.harden.result import HardenedModel
from tests.studies.harden.test_harden import SETTINGS, SUBJECT

pytest.importorskip("optuna")

CODE = """
import sys
import divulge
from tests.killing import kill_before_writing

kill_before_writing(sys.argv[1])
divulge.harden_file("harden.toml", "killed")
"""


def untimed(found: HardenedModel) -> list[Finding]:
    return [replace(finding, seconds=0.0) for finding in found.findings]


@pytest.mark.slow
def test_a_search_that_is_killed_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    """The moment is before what the second model of the second setting answers is stored."""
    (tmp_path / "subject.py").write_text(SUBJECT)
    settings = SETTINGS.format(ceiling=1.0).replace("defences = []", 'defences = ["relaxloss"]')
    (tmp_path / "harden.toml").write_text(settings)
    root = Path(__file__).parents[3]
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    killed = subprocess.run(
        [sys.executable, "-c", CODE, "trials/002-*/model-1.answers"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "killed/trials.json").exists()
    path = tmp_path / "harden.toml"
    resumed = divulge.harden_file(path, tmp_path / "killed", resume=True)
    whole = divulge.harden_file(path, tmp_path / "whole")
    assert len(whole.trials) == 2
    assert resumed.trials == whole.trials
    assert untimed(resumed) == untimed(whole)
    weights = "model/model.safetensors"
    assert (tmp_path / "killed" / weights).read_bytes() == (
        tmp_path / "whole" / weights
    ).read_bytes()
