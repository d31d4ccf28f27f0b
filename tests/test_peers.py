"""The comparison with peers measures all that a side takes, and leaves no side out."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import which_client
from benchmarks.peers import environment, process, report, side, stacking, targets
from benchmarks.peers.drivers import divulge_shadows, divulge_stacking, plain
from benchmarks.peers.environment import NotInstalled, Peer
from benchmarks.peers.side import Missing, Result, Side
from divulge.attacks import catalog
from divulge.core import Records

SPENDING = """
import subprocess, sys, time
held = bytearray(300 * 2**20)
code = "import time\\nwhile time.process_time() < 0.5: pass"
subprocess.run([sys.executable, "-c", code], check=True)
time.sleep(0.5)
"""


def spent(code: str, folder: Path, limit: float = 60.0) -> process.Resources:
    return process.run(
        [sys.executable, "-c", code], dict(os.environ), folder, folder / "log", limit
    )


def test_child_processes_and_memory_count(tmp_path: Path) -> None:
    took = spent(SPENDING, tmp_path)
    assert 0.5 < took.cpu < took.wall
    assert took.peak > 300 * 2**20


def test_a_failure_says_its_last_line(tmp_path: Path) -> None:
    with pytest.raises(process.CommandError, match="no such thing"):
        spent("raise SystemExit('no such thing')", tmp_path)


def test_what_does_not_end_is_ended(tmp_path: Path) -> None:
    with pytest.raises(process.CommandError, match="killed after"):
        spent("import time; time.sleep(60)", tmp_path, limit=0.5)


def test_no_peer_is_installed_where_nobody_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(environment.HOME, raising=False)
    with pytest.raises(NotInstalled, match=environment.HOME):
        environment.interpreter(Peer("art", "art"))


def test_an_installation_that_fails_says_why_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def fails(command: list[str], *rest: object) -> None:
        steps.append(" ".join(command[1:4]))
        if "pip" in command:
            raise process.CommandError("ERROR: no such release", 1)

    monkeypatch.setenv(environment.HOME, str(tmp_path))
    monkeypatch.setattr(process, "run", fails)
    for _ in range(2):
        with pytest.raises(NotInstalled, match="pip install: ERROR: no such release"):
            environment.interpreter(Peer("art", "art"))
    assert [step.split()[1] for step in steps] == ["venv", "pip"] * 2


def test_an_installation_is_kept_until_requirements_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = tmp_path / "art.txt"
    wanted.write_text("art==1\n")
    calls: list[object] = []
    monkeypatch.setenv(environment.HOME, str(tmp_path))
    monkeypatch.setattr(environment, "REQUIREMENTS", tmp_path)
    monkeypatch.setattr(process, "run", lambda *call: calls.append(call))
    first = environment.interpreter(Peer("art", "art"))
    assert environment.interpreter(Peer("art", "art")) == first
    assert len(calls) == 3
    wanted.write_text("art==2\n")
    assert environment.interpreter(Peer("art", "art")) != first


def test_a_wheel_that_is_not_there_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(environment.WHEELS, raising=False)
    with pytest.raises(NotInstalled, match=f"{environment.WHEELS} does not name .* tool-\\*.whl"):
        environment.find_wheel("tool-*.whl")
    monkeypatch.setenv(environment.WHEELS, str(tmp_path))
    with pytest.raises(NotInstalled, match=r"expected one file tool-\*\.whl in .*, found 0"):
        environment.find_wheel("tool-*.whl")
    wheel = tmp_path / "tool-1-py3-none-any.whl"
    wheel.write_bytes(b"one")
    assert environment.find_wheel("tool-*.whl") == wheel
    (tmp_path / "tool-2-py3-none-any.whl").write_bytes(b"two")
    with pytest.raises(NotInstalled, match="found 2"):
        environment.find_wheel("tool-*.whl")


def test_another_wheel_of_the_same_name_is_installed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tool.txt").write_text("torch==1\n")
    wheel = tmp_path / "tool-1-py3-none-any.whl"
    wheel.write_bytes(b"one")
    steps: list[list[str]] = []
    monkeypatch.setenv(environment.HOME, str(tmp_path))
    monkeypatch.setenv(environment.WHEELS, str(tmp_path))
    monkeypatch.setattr(environment, "REQUIREMENTS", tmp_path)
    monkeypatch.setattr(process, "run", lambda command, *_: steps.append(command))
    peer = Peer("tool", "tool", "tool-*.whl")
    first = environment.interpreter(peer)
    assert [*steps[2][-2:]] == ["--no-deps", str(wheel)]
    wheel.write_bytes(b"another")
    assert environment.interpreter(peer) != first
    assert len(steps) == 8


def test_every_requirement_is_pinned() -> None:
    for path in sorted(environment.REQUIREMENTS.glob("*.txt")):
        wanted = [line for line in path.read_text().splitlines() if line and line[0] != "#"]
        assert wanted
        assert all("==" in line or "@" in line for line in wanted), path


def test_no_side_is_left_out_of_the_table() -> None:
    member = np.arange(400) < 200
    found = Result({"good": member * 1.0}, {"good": 1.5}, process.Resources(2.0, 3.0, 2**20))
    results: list[tuple[str, Result | Missing]] = [
        ("one", found),
        ("two", Missing("not installed: why")),
    ]
    lines = list(report.lines(results, member))
    assert lines[2:] == [
        "| **one** | 2.0 | 3.0 | 1 | | | |",
        lines[3],
        "| **two** | | | | not installed: why | | |",
    ]
    assert lines[3].startswith("| - good | 1.50 | | | 1.000 [")
    assert "at least 1000" in lines[3]  # 200 non-members show no rate at 0.1 %


def test_a_figure_that_the_scores_do_not_give_is_said() -> None:
    member = np.arange(4_000) < 2_000
    score = member + np.random.default_rng(0).normal(size=4_000)
    auc, one, tenth = report.rates(score, member)
    assert ";" not in auc + one + tenth
    value = float(auc.split()[0])
    printed = {"AUC": value - 0.02, "TPR at 1 % FPR": float(one.split()[0])}
    assert report.rates(score, member, printed) == (
        f"{auc}; it prints {value - 0.02:.3f}", one, tenth,
    )  # fmt: skip
    turned, *_ = report.rates(-score, member)
    assert turned.endswith(f"; below guessing, its opposite has {value:.3f}")


def test_a_driver_that_fails_is_reported(tmp_path: Path) -> None:
    task = tmp_path / "task"
    task.mkdir()
    lost = side.run(Side("bare", "bare_shadows"), task, tmp_path)
    assert isinstance(lost, Missing)
    assert lost.reason.startswith("failed: ")
    assert "settings.json" in lost.reason


def small() -> Records:
    rng = np.random.default_rng(0)
    y = np.arange(600) % 3
    return Records(
        (np.eye(3)[y] @ rng.normal(size=(3, 5)) + rng.normal(size=(600, 5))).astype("f4"), y
    )


def call(
    driver: object, monkeypatch: pytest.MonkeyPatch, task: Path, out: Path, *more: str
) -> None:
    out.mkdir()
    monkeypatch.setattr(sys, "argv", ["driver", str(task), str(out), *more])
    driver.main()  # type: ignore[attr-defined]


def test_scores_of_an_audit_come_in_the_order_of_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "EACH", 100)
    settings = {"lr": 0.1, "momentum": 0.9, "epochs": 3, "batch": 20, "shadows": 2}
    task = targets.Task(small, settings | {"widths": (5, 4, 3)})
    written = targets.write(task, tmp_path)
    call(divulge_shadows, monkeypatch, tmp_path, tmp_path / "out", "threshold")
    (left,) = (tmp_path / "out").glob("threshold*.npy")
    score = np.load(left)
    with np.load(tmp_path / "records.npz") as records, np.load(tmp_path / "target.npz") as weights:
        module = plain.load_network(task.settings, dict(weights))
        phi = plain.scaled_logit(module, records["x"], records["y"])
    np.testing.assert_allclose(score, -np.logaddexp(0, -phi), rtol=1e-4, atol=1e-6)
    assert written.member.sum() == 100
    assert written.judged.sum() == 50
    assert json.loads((tmp_path / "out" / "seconds.json").read_text())["audit"] > 0


def test_attacks_on_the_same_shadows_get_these(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "EACH", 100)
    settings = {"lr": 0.1, "momentum": 0.9, "epochs": 3, "batch": 20, "shadows": 4}
    task = targets.Task(small, settings | {"widths": (5, 4, 3)})
    targets.write(task, tmp_path)
    targets.write_shadows(task.settings, tmp_path)
    call(divulge_shadows, monkeypatch, tmp_path, tmp_path / "out", "calibrated")
    x, y, halves, weights = arrays(tmp_path)
    own, *others = (
        plain.scaled_logit(plain.load_network(task.settings, one), x, y) for one in weights
    )
    said = np.stack(others)
    assert halves.sum(axis=1).tolist() == [100] * 4
    both = halves.any(axis=0) & ~halves.all(axis=0)
    inside, outside = (
        np.sum(said * side, axis=0)[both] / side.sum(axis=0)[both] for side in (halves, ~halves)
    )
    score = np.load(tmp_path / "out" / "calibrated.npy")
    np.testing.assert_allclose(score[both], own[both] - (inside + outside) / 2, rtol=1e-6)


def arrays(
    folder: Path,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, np.ndarray]]]:
    """Records, who was in which shadow, and the weights of the target and of its shadows."""
    with np.load(folder / "records.npz") as records, np.load(folder / "shadows.npz") as shadows:
        x, y, halves = records["x"], records["y"], shadows["member"]
    names = ["target", *(f"shadow-{k}" for k in range(len(halves)))]
    return x, y, halves, [dict(np.load(folder / f"{name}.npz")) for name in names]


def test_a_federation_comes_out_of_its_folder_as_it_went_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = which_client.Task(
        lambda _: small(), lambda columns: which_client._dense(columns, 4, 3, 3), (60, 60, 40)
    )
    games = stacking._write("small", stacking.Federation(task, (5, 4, 3)), tmp_path, quick=True)
    call(divulge_stacking, monkeypatch, tmp_path, tmp_path / "out", "variance-lira")
    score = np.load(tmp_path / "out" / "federation-0.npy")
    attack = catalog.federation_attack("variance-lira")
    expected = attack(games["federation-0"].view, np.random.default_rng(42)).score
    assert expected is not None
    np.testing.assert_allclose(score, expected, rtol=1e-6)
