"""A client tests its own local noise by canaries that it never sends."""

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, Context, Message, Metadata, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp import Grid, ServerApp

from divulge.canaries.audit import audit_canaries
from divulge.canaries.clients import make_canary_clients
from divulge.canaries.result import CanaryAudit
from divulge.errors import SpecError
from divulge.federation.canaries import CanaryClients
from divulge.federation.flower import CanaryProbe, records, run_in_process

from . import toy_flower as toy

WEIGHTS, EPSILON, DELTA, CLIP = 800, 1.0, 1e-5, 1.0


class Client:
    """Counts its trainings, and moves all weights a little."""

    def __init__(self) -> None:
        self.trained = 0

    def __call__(self, message: Message, context: Context) -> Message:
        del context
        self.trained += 1
        sent = records.read_tensors(message.content)
        moved = toy.record({"w": sent["w"] + np.float32(1e-3), "steps": sent["steps"] + 1})
        return Message(RecordDict({"arrays": moved}), reply_to=message)


def play(mods: list[Any], rounds: int = 1) -> tuple[Client, list[ArrayRecord]]:
    """A client with these mods, and what the server gets of it."""
    client, server, got = Client(), ServerApp(), []
    app = ClientApp(mods=mods)
    app.train()(client)

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        del context
        start = {"w": np.zeros(WEIGHTS, np.float32), "steps": np.zeros(1, np.float32)}
        for _ in range(rounds):
            message = Message(RecordDict({"arrays": toy.record(start)}), 2, "train")
            (reply,) = grid.send_and_receive([message])
            got.append(reply.content.array_records["arrays"])

    run_in_process(server, app, clients=1)
    return client, got


def probe(folder: Path) -> CanaryProbe:
    made = make_canary_clients(folder / "canaries", 120, neighbours="replace", seed=2)
    return CanaryProbe(CanaryClients(made.folder, 3.0), folder / "scores.npz")


def judge(folder: Path, *mods: Any) -> CanaryAudit:
    one = probe(folder)
    play([one, *mods, one])
    return audit_canaries(
        folder / "canaries",
        [folder / "scores.npz"],
        epsilon=EPSILON,
        delta=DELTA,
        noise="independent-gaussian",
    )


def test_noise_for_another_update_of_the_client_is_consistent(tmp_path: Path) -> None:
    np.random.seed(1)  # Flower draws from it
    found = judge(tmp_path, LocalDpMod(CLIP, 2 * CLIP, EPSILON, DELTA))
    assert found.verdict.level == "consistent"
    assert found.facts.neighbours == "replacing the update of one client"


def test_noise_for_a_quarter_of_the_sensitivity_is_found(tmp_path: Path) -> None:
    np.random.seed(1)
    assert (
        judge(tmp_path, LocalDpMod(CLIP, CLIP / 2, EPSILON, DELTA)).verdict.level == "contradicted"
    )


def test_no_mod_is_found(tmp_path: Path) -> None:
    assert judge(tmp_path).verdict.level == "contradicted"


def test_what_is_sent_stays_and_the_client_trains_once_a_round(tmp_path: Path) -> None:
    (_, plain), one = play([], 2), probe(tmp_path)
    client, got = play([one, one], 2)
    assert client.trained == 2
    assert all(map(toy.same, plain, got))


@pytest.mark.parametrize(
    ("kind", "there", "tries"),
    [("train", False, 1), ("train.again", False, 1), ("train", True, 0), ("evaluate", False, 0)],
)
def test_canaries_are_tried_in_the_first_training_alone(
    kind: str, tries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, there: bool
) -> None:
    one, tried = probe(tmp_path), []
    if there:
        (tmp_path / "scores.npz").touch()
    monkeypatch.setattr(CanaryProbe, "_try", lambda self, *_: tried.append(self))
    about = Metadata(1, "", 0, 2, "", "", time.time(), 60.0, kind)
    message = Message(metadata=about, content=RecordDict())  # type: ignore[call-overload]
    assert one(message, Context(1, 2, {}, RecordDict(), {}), lambda sent, _: sent) is message
    assert len(tried) == tries


def test_a_probe_that_fails_or_stands_once_is_logged_and_the_reply_is_sent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, calls = probe(tmp_path), []

    def breaks(message: Message, context: Context, call_next: Any) -> Message:
        calls.append(message)
        if len(calls) > 1:
            raise RuntimeError("out of memory")
        reply: Message = call_next(message, context)
        return reply

    with caplog.at_level(logging.ERROR):
        for mods in ([one, breaks, one], [one]):
            assert len(play(mods)[1]) == 1
    assert "expected the probe twice in mods" in caplog.text
    assert "out of memory" in caplog.text
    assert not (tmp_path / "scores.npz").exists()


def test_canaries_that_take_part_or_not_are_refused(tmp_path: Path) -> None:
    made = make_canary_clients(tmp_path / "canaries", 20)
    with pytest.raises(SpecError, match="neighbours='replace'"):
        CanaryProbe(CanaryClients(made.folder, 3.0), tmp_path / "scores.npz")
