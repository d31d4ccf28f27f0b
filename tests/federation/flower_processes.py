"""Flower's programs as processes on this machine, none of which outlives its test."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.patience import PATIENCE

PROGRAMS = Path(sys.executable).parent


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_:
        sockets = [open_.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Processes:
    """Programs that know each other by the folder in their environment, and end with it.

    Attributes:
        folder: where they run and log.
        home: Flower's folder, with its configuration.
        environment: of all of them; more may be put in before they start.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **os.environ,
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{PROGRAMS}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }

    def write(self, name: str, content: str) -> None:
        """Make a file in the folder."""
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(content)

    def start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                [str(PROGRAMS / command[0]), *command[1:]],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def run(self, *command: str) -> str:
        """Wait for a command to succeed; what it printed."""
        done = subprocess.run(
            command, env=self.environment, cwd=self.folder,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
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

    def wait_for_port(self, port: int) -> None:
        self.wait(f"an answer at port {port}", lambda: _listens(port))

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

    def stop(self) -> None:
        """Nothing is left behind, whatever happened."""
        while found := self._left():
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for process in self._running.values():
                process.wait(PATIENCE)
            time.sleep(0.1)

    def _left(self) -> list[int]:
        """All that run with our home in their environment: ours, and what they started."""
        mark, found = f"FLWR_HOME={self.home}".encode(), []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    found.append(int(path.name))
        return found


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
