"""A real federation: SuperLink and SuperNodes as processes on loopback, one of them killed."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from divulge.federation.transcript.reader import Transcript

from . import toy_flower as toy
from .flower_processes import Processes, free_ports

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


class Deployment(Processes):
    """A SuperLink and two SuperNodes with the toy app; nothing is installed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.environment["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] = "1"
        self.link, *self.nodes = free_ports(3)
        connection = f'[superlink.here]\naddress = "127.0.0.1:{self.link}"\ninsecure = true\n'
        self.write("home/config.toml", '[superlink]\ndefault = "here"\n' + connection)
        self.write("app/pyproject.toml", PROJECT)
        self.write("app/toy/__init__.py", "")
        self.write("app/toy/server_app.py", SERVER)
        self.write("app/toy/client_app.py", CLIENT)

    def start_all(self) -> None:
        here = ("--insecure", "--host", "127.0.0.1", "--port")
        self.start("superlink", "flower-superlink", *here, str(self.link))
        self.wait_for_port(self.link)
        for number, port in enumerate(self.nodes):
            link = ("--superlink", f"127.0.0.1:{self.link}")
            who = ("--node-config", f"partition-id={number} num-partitions=2")
            command = ("flower-supernode", *here, str(port), *link, *who)
            self.start(f"supernode-{number}", *command)


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
    submit = ("flwr", "run", "app", "here", "-c", f"folder='{tmp_path}'", "--format", "json")
    started = json.loads(deployment.run(*submit))
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
