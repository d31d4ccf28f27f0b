"""A real federation: SuperLink and SuperNodes as processes on loopback, one of them killed."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from divulge.federation.transcript import Transcript
from tests.federation import toy_flower as toy

PATIENCE = 90.0
"""Seconds to wait for one thing: each app process imports Flower anew, some seconds on a core."""
PROJECT = """
[project]
name = "toy"
version = "1.0.0"
dependencies = ["flwr"]

[tool.flwr.app]
publisher = "divulge"

[tool.flwr.app.components]
serverapp = "toy.server_app:app"
clientapp = "toy.client_app:app"

[tool.flwr.app.config]
folder = ""
"""

SERVER = """
import time
from pathlib import Path
from flwr.app import ConfigRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from divulge.federation.flower import Recorder
from tests.federation import toy_flower as toy

app = ServerApp()

@app.main()
def main(grid, context):
    folder = Path(context.run_config["folder"])

    def send_and_receive(messages, *, timeout):
        "A time-out that depends on what happened, and not on how busy the machine is."
        waiting, replies = set(grid.push_messages(messages)), []
        while waiting and not (replies and (folder / "killed").exists()):
            replies += grid.pull_messages(waiting)
            waiting -= {reply.metadata.reply_to_message_id for reply in replies}
            time.sleep(0.1)
        return replies

    grid.send_and_receive = send_and_receive
    strategy = Recorder(FedAvg(fraction_evaluate=0.0), folder / "transcript")
    config = ConfigRecord(dict(toy.CONFIG))
    result = strategy.start(grid, toy.record(toy.weights()), num_rounds=2, train_config=config)
    error = "" if strategy.error is None else repr(strategy.error)
    (folder / "done.part").write_text(error + str(result.arrays["fc.bias"].numpy().tolist()))
    (folder / "done.part").rename(folder / "done")
"""

CLIENT = """
import time
from pathlib import Path
from flwr.clientapp import ClientApp
from tests.federation import toy_flower as toy

app = ClientApp()

@app.train()
def fit(message, context):
    reply = toy.fit(message, context)
    if context.node_config["partition-id"] == 1 and context.state["rounds"]["count"] == 2:
        Path(context.run_config["folder"], "stuck").touch()
        time.sleep(3600)
    return reply
"""


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_:
        sockets = [open_.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Deployment:
    """Processes that know each other by the folder in their environment, and end with it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.link, *self.nodes = free_ports(3)
        self._programs = Path(sys.executable).parent
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._write()
        self.environment = {
            **os.environ,
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{self._programs}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }

    def _write(self) -> None:
        connection = f'[superlink.here]\naddress = "127.0.0.1:{self.link}"\ninsecure = true\n'
        files = {
            "home/config.toml": '[superlink]\ndefault = "here"\n' + connection,
            "app/pyproject.toml": PROJECT,
            "app/toy/__init__.py": "",
            "app/toy/server_app.py": SERVER,
            "app/toy/client_app.py": CLIENT,
        }
        for name, content in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(content)

    def start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                [str(self._programs / command[0]), *command[1:]],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def start_all(self) -> None:
        here = ("--insecure", "--host", "127.0.0.1", "--port")
        self.start("superlink", "flower-superlink", *here, str(self.link))
        self.wait("the SuperLink to listen", self._listens)
        for number, port in enumerate(self.nodes):
            link = ("--superlink", f"127.0.0.1:{self.link}")
            who = ("--node-config", f"partition-id={number} num-partitions=2")
            command = ("flower-supernode", *here, str(port), *link, *who)
            self.start(f"supernode-{number}", *command)

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.link), 1):
            return True
        return False

    def flwr(self, *command: str) -> str:
        done = subprocess.run(
            [str(self._programs / "flwr"), *command, "--format", "json"],
            env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr + self.logs()
        return done.stdout

    def wait(self, what: str, until: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not until():
            dead = [n for n, p in self._running.items() if p.poll() is not None]
            assert not dead, f"waiting for {what}, {dead} ended by itself\n{self.logs()}"
            assert time.monotonic() < end, f"no sign of {what} in {PATIENCE} s\n{self.logs()}"
            time.sleep(0.1)

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)

    def logs(self) -> str:
        """The ends of all logs."""
        return "\n".join(
            f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}"
            for log in sorted(self.folder.glob("*.log"))
        )

    def processes(self) -> list[int]:
        """All that run with our home in their environment: ours, and what they started."""
        mark, found = f"FLWR_HOME={self.home}".encode(), []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    found.append(int(path.name))
        return found

    def stop(self) -> None:
        """Nothing is left behind, whatever happened."""
        while found := self.processes():
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for process in self._running.values():
                process.wait(PATIENCE)
            time.sleep(0.1)


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    if not Path("/proc/self/environ").exists():
        pytest.skip("finds the processes that it has to stop in /proc, and there is none")
    made = Deployment(tmp_path)
    try:
        yield made
    finally:
        made.stop()


@pytest.mark.slow
def test_a_killed_supernode_leaves_a_run_that_ends_and_a_whole_transcript(
    deployment: Deployment, tmp_path: Path
) -> None:
    deployment.start_all()
    started = json.loads(deployment.flwr("run", "app", "here", "-c", f"folder='{tmp_path}'"))
    assert started["success"], started
    deployment.wait("a client in its second round", (tmp_path / "stuck").exists)
    deployment.kill("supernode-1")
    (tmp_path / "killed").touch()
    deployment.wait("the end of the run", (tmp_path / "done").exists)

    there = Transcript.open(tmp_path / "transcript")
    first, second = there.rounds  # each file's checksum is verified as it is opened
    assert len(first.clients) == 2
    assert len(second.clients) == 1
    assert set(second.clients) < set(first.clients)
    sizes = sorted(got.records or 0 for got in first.received.values())
    assert sizes == [len(toy.data(0)[1]), len(toy.data(1)[1])]
    for partition in (0, 1):
        expected = toy.trained(toy.weights(), *toy.data(partition), 0.5, 1, 8)
        (got,) = [g for g in first.received.values() if g.records == len(toy.data(partition)[1])]
        for name, value in expected.items():
            np.testing.assert_array_equal(got.tensors[name], value)
    (survivor,) = second.received.values()
    assert second.aggregated is not None
    for name, value in survivor.tensors.items():
        np.testing.assert_array_equal(second.aggregated[name], value)
    assert (tmp_path / "done").read_text() == str(second.aggregated["fc.bias"].tolist())
