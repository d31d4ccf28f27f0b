"""The example app runs, is recorded and guarded, and shows how little has to be added."""

import importlib
import logging
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from divulge.federation.flower import run_in_process
from divulge.federation.transcript.reader import Transcript

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
PROJECT = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))
FLOWER = PROJECT["tool"]["flwr"]["app"]


@pytest.fixture
def apps(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The two apps that the project names, loaded as Flower would."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    loaded = {}
    for kind, place in FLOWER["components"].items():
        module, _, name = place.partition(":")
        loaded[kind] = getattr(importlib.import_module(module), name)
    yield loaded
    for name in [name for name in sys.modules if name.split(".")[0] == "digits"]:
        del sys.modules[name]


def test_the_example_learns_is_recorded_and_warns(
    apps: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = {**FLOWER["config"], "transcript": str(tmp_path / "t")}
    with caplog.at_level(logging.WARNING, "divulge"):
        run_in_process(apps["serverapp"], apps["clientapp"], clients=5, run_config=config)
    there = Transcript.open(tmp_path / "t")
    assert len(there.rounds) == config["rounds"]
    assert there.rounds[0].training.lr == config["lr"]
    assert all(len(seen.received) == 5 for seen in there.rounds)
    losses = [seen.metrics["train-loss"] for seen in there.rounds]
    assert losses[-1] < losses[0] / 2
    assert "class mix" in caplog.text


def test_the_lines_that_were_added_are_marked_and_few() -> None:
    lines = [
        line
        for path in sorted(EXAMPLE.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if "divulge" in line
    ]
    added = [line for line in lines if line.endswith("# added for divulge")]
    changed = [line for line in lines if line.endswith("# changed for divulge")]
    assert (len(added), len(changed)) == (3, 1)
    for line in lines:
        assert line in added or line in changed or line.startswith('"""'), line


def test_the_example_asks_for_the_flower_that_divulge_supports() -> None:
    ours = tomllib.loads((EXAMPLE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    (wanted,) = [
        name for name in ours["project"]["optional-dependencies"]["federated"] if "flwr" in name
    ]
    assert wanted.replace("flwr", "flwr[simulation]") in PROJECT["project"]["dependencies"]
