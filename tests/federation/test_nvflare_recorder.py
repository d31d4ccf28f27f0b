"""What a FLARE server sees is recorded, the run goes on as it would, and clients may lie."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("nvflare")

from nvflare.apis.dxo import DXO, DataKind, MetaKey
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.abstract.model import make_model_learnable
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.job_config.api import FedJob
from nvflare.job_config.defs import FilterType

from divulge._util.folders import LOCK
from divulge.core import LocalTraining
from divulge.errors import DataError, SpecError, StoreError
from divulge.federation.nvflare import FlareRecorder
from divulge.federation.transcript.reader import Transcript
from divulge.federation.transcript.writer import Writer

from ..patience import PATIENCE
from . import toy


class Server:
    """Fires the events of a FLARE server at one recorder, and notes what that fires."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.recorder = FlareRecorder(str(folder), **settings)
        self.fired: list[tuple[str, object]] = []
        self.fire("START_RUN", EventType.START_RUN)

    def fire_event(self, event: str, context: FLContext) -> None:
        self.fired.append((event, context.get_prop(FLContextKey.EVENT_DATA)))

    def context(self, client: object = "server", **props: Any) -> FLContext:
        manager = FLContextManager(engine=self, identity_name="server", job_id="job")
        context = manager.new_context()
        peer = FLContextManager(identity_name=client).new_context()
        context.set_peer_context(peer)
        for name, value in props.items():
            context.set_prop(getattr(FLContextKey, name, name), value, private=True, sticky=False)
        return context

    def fire(self, origin: str, event: str, **props: Any) -> None:
        self.recorder.handle_event(event, self.context(EVENT_ORIGIN=origin, **props))

    def send(self, number: int, client: object, arrays: Any, task: str = "train") -> str:
        """Send a task; its number is the round's and the client's."""
        data = DXO(DataKind.WEIGHTS, arrays).to_shareable()
        data.set_header(AppConstants.CURRENT_ROUND, number)
        data.set_header(AppConstants.NUM_ROUNDS, 3)
        task_id = f"{number} {client}"
        props = {"TASK_NAME": task, "TASK_ID": task_id, "TASK_DATA": data}
        self.recorder.handle_event(EventType.AFTER_TASK_DATA_FILTER, self.context(client, **props))
        return task_id

    def answer(self, task_id: str, result: Shareable) -> None:
        context = self.context("site-1", TASK_NAME="train", TASK_ID=task_id)
        assert self.recorder.process(result, context) is result

    def aggregate(self, arrays: Any, metrics: Any = None) -> None:
        model = FLModel(params=arrays, metrics=metrics)
        self.fire("FedAvg", AppEventType.AFTER_AGGREGATION, _aggregation_result=model)
        learnable = make_model_learnable(arrays, {})
        self.fire("FedAvg", AppEventType.AFTER_SHAREABLE_TO_LEARNABLE, global_model=learnable)

    def end(self) -> Transcript:
        self.fire("END_RUN", EventType.END_RUN)
        return Transcript.open(Path(self.recorder.folder))


def result(arrays: Any, kind: str = DataKind.WEIGHTS, **meta: Any) -> Shareable:
    return DXO(kind, arrays, {"num-examples": 32, **meta}).to_shareable()


def moved(by: float, start: Any = None) -> toy.Arrays:
    return {k: v + np.float32(by) for k, v in (start or toy.weights()).items()}


def one_round(folder: Path, *results: Shareable, **settings: Any) -> Transcript:
    """A round in which each client but the last sends such a result, and the last a good one."""
    server = Server(folder, **settings)
    for number, sent in enumerate((*results, result(moved(1))), 1):
        server.answer(server.send(0, f"site-{number}", toy.weights()), sent)
    server.aggregate(moved(2))
    assert server.recorder.error is None
    return server.end()


def test_the_transcript_is_what_the_server_saw(tmp_path: Path) -> None:
    server = Server(tmp_path / "t", training={"lr": 0.5, "batch_size": 8}, federation="toy")
    server.fire("FedAvg", AppEventType.ROUND_STARTED)
    model = toy.weights()
    for number in range(2):
        for client in ("site-1", "site-2"):
            task = server.send(number, client, model)
            answer = result(moved(number + int(client[-1]), model))
            server.answer(task, answer)
            answer["DXO"]["data"]["fc.bias"] += 99  # as an aggregator in place may do
        server.send(number, "site-3", model, task="validate")
        after = moved(number + 5)
        model["fc.weight"] += 99
        server.aggregate(after, {"bias": 0.25, "text": "no", "a\nb": 1, 7: 0.5, "huge": 10**400})
        model = after
    there = server.end()
    assert (there.header.name, there.header.kind, there.header.rule) == ("toy", "weights", "FedAvg")
    assert there.header.settings["rounds"] == 3
    first, second = there.rounds
    assert first.training == LocalTraining(lr=0.5, batch_size=8)
    assert first.clients == second.clients == ("site-1", "site-2")
    assert first.metrics == {"bias": 0.25, "a?b": 1.0, "7": 0.5}
    assert first.aggregated is not None
    for name, value in toy.weights().items():
        np.testing.assert_array_equal(first.sent[name], value)
        np.testing.assert_array_equal(first.received["site-2"].tensors[name], value + np.float32(2))
        np.testing.assert_array_equal(first.aggregated[name], value + np.float32(5))
        np.testing.assert_array_equal(second.sent[name], first.aggregated[name])
    assert first.received["site-1"].records == 32
    assert not (tmp_path / "t" / LOCK).exists()


LIES: dict[str, Any] = {
    "shape": lambda: result({**moved(1), "fc.bias": np.zeros((1, 4), np.float32)}),
    "more": lambda: result({**moved(1), "x": np.zeros(4, np.float32)}),
    "fewer": lambda: result({"fc.bias": np.zeros(4, np.float32)}),
    "objects": lambda: result({**moved(1), "fc.bias": np.array([{}, None, 1, ""], object)}),
    "texts": lambda: result({**moved(1), "fc.bias": np.array(["a"] * 4)}),
    "list": lambda: result({**moved(1), "fc.bias": [0.0] * 4}),
    "bytes": lambda: result({**moved(1), "fc.bias": b"\x80\x04N."}),
    "sparse": lambda: result({**moved(1), "fc.bias": torch.zeros(4).to_sparse()}),
    "bfloat16": lambda: result({**moved(1), "fc.bias": torch.zeros(4, dtype=torch.bfloat16)}),
    "update": lambda: result(moved(1), DataKind.WEIGHT_DIFF),
    "metrics": lambda: result({"loss": 1.0}, DataKind.METRICS),
    "encrypted": lambda: result(moved(1), **{MetaKey.PROCESSED_ALGORITHM: "_HE_"}),
    "nothing": lambda: Shareable(),
    "no headers": lambda: without_headers(result(moved(1))),
    "no object": lambda: Shareable({"DXO": 5}),
    "headers": lambda: broken(result(moved(1)), "kind", 5),
    "data": lambda: broken(result(moved(1)), "data", ["a"]),
    "meta": lambda: broken(result(moved(1)), "meta", ["a"]),
    "failed": lambda: make_reply(ReturnCode.EXECUTION_EXCEPTION),
}


def broken(sent: Shareable, part: str, value: object) -> Shareable:
    sent["DXO"][part] = value
    return sent


def without_headers(sent: Shareable) -> Shareable:
    sent["__headers__"] = 5
    return sent


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_that_no_transcript_can_hold_is_left_out_alone(lie: str, tmp_path: Path) -> None:
    (seen,) = one_round(tmp_path / "t", LIES[lie]()).rounds
    assert seen.clients == ("site-2",)
    assert seen.aggregated is not None


@pytest.mark.parametrize("name", ["../x", "a\x1b[2J", "", "x" * 65, "ü", 5.5, None, ["a"]])
def test_a_name_that_no_transcript_can_hold_is_left_out_alone(
    name: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(tmp_path / "t")
    for client in (name, "site-2"):
        server.answer(server.send(0, client, toy.weights()), result(moved(1)))
    server.aggregate(moved(1))
    (seen,) = server.end().rounds
    assert "site-2" in seen.clients
    assert "\x1b" not in caplog.text
    assert len(seen.clients) == 1 or seen.clients[0] == str(name)


@pytest.mark.parametrize(
    ("claim", "recorded"),
    [(7, 7), (2.0, 2), (-5, -5), (0.5, None), (float("nan"), None), (10**400, None), (True, None),
     ("9", None), (None, None), ([1], None)],
)  # fmt: skip
def test_a_claim_about_records_is_recorded_as_it_was_made(
    tmp_path: Path, claim: Any, recorded: int | None
) -> None:
    (seen,) = one_round(tmp_path / "t", result(moved(1), **{"num-examples": claim})).rounds
    assert seen.received["site-1"].records == recorded


def test_nan_and_tensors_of_pytorch_are_recorded_as_they_came(tmp_path: Path) -> None:
    tensors = {k: torch.tensor(v) for k, v in moved(1).items()}
    tensors["fc.bias"][:] = torch.tensor([1, float("nan"), float("inf"), 0])
    (seen,) = one_round(tmp_path / "t", result(tensors)).rounds
    got = seen.received["site-1"].tensors
    np.testing.assert_array_equal(got["fc.bias"], np.array([1, np.nan, np.inf, 0], np.float32))
    np.testing.assert_array_equal(got["fc.weight"], moved(1)["fc.weight"])


def test_changes_of_weights_are_recorded_as_updates(tmp_path: Path) -> None:
    good, bad = (result(moved(1), kind) for kind in (DataKind.WEIGHT_DIFF, DataKind.WEIGHTS))
    there = one_round(tmp_path / "t", good, bad, kind="update")
    assert there.header.kind == "update"
    assert there.rounds[0].clients == ("site-1",)


def test_an_answer_counts_once_and_in_its_own_round(tmp_path: Path) -> None:
    server = Server(tmp_path / "t")
    early, late = (server.send(0, client, toy.weights()) for client in ("site-1", "site-2"))
    server.answer(early, result(moved(1)))
    server.answer(early, result(moved(2)))
    server.aggregate(moved(3))
    server.answer(late, result(moved(4)))
    task = server.send(1, "site-3", moved(3))
    server.answer(late, result(moved(5)))
    server.answer("made up", result(moved(6)))
    server.answer(task, result(moved(7)))
    first, second = server.end().rounds  # the job ended before the second was aggregated
    assert (first.clients, second.clients) == (("site-1",), ("site-3",))
    got = first.received["site-1"].tensors
    np.testing.assert_array_equal(got["fc.bias"], moved(1)["fc.bias"])
    assert second.aggregated is None


def test_weights_that_differ_between_clients_end_the_recording(tmp_path: Path) -> None:
    server = Server(tmp_path / "t")
    server.send(0, "site-1", toy.weights())
    server.answer(server.send(0, "site-2", moved(1)), result(moved(1)))
    server.aggregate(moved(2))
    assert isinstance(server.recorder.error, DataError)
    assert not len(server.end().rounds)
    assert not server.fired, "the run goes on"


def test_a_full_disk_ends_the_transcript_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    add = Writer.add

    def full(self: Writer, seen: Any) -> None:
        if seen.number == 1:
            raise StoreError("the disk is full")
        add(self, seen)

    monkeypatch.setattr(Writer, "add", full)
    server = Server(tmp_path / "t")
    for number in range(3):
        server.answer(server.send(number, "site-1", toy.weights()), result(moved(1)))
        server.aggregate(toy.weights())
    with caplog.at_level(logging.ERROR, "divulge"):
        assert len(server.end().rounds) == 1
    assert "ends early: the disk is full" in caplog.text
    assert not server.fired


def test_what_cannot_be_begun_ends_the_job(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "mine").write_text("precious")
    for server in (Server(tmp_path / "t"), Server(tmp_path / "u")):
        server.send(0, "site-1", {"a b": np.zeros(3)})
        ((event, why), *_) = server.fired
        assert event == EventType.FATAL_SYSTEM_ERROR
        assert "cannot be recorded" in str(why)
        server.fire("END_RUN", EventType.END_RUN)
    assert [path.name for path in tmp_path.rglob("*")] == ["t", "mine"]


@pytest.mark.parametrize(
    "settings",
    [{"folder": "t"}, {"kind": "gradient"}, {"training": {"learning": 1}},
     {"training": {"lr": "fast"}}],
)  # fmt: skip
def test_settings_that_mean_nothing_are_refused(settings: Any, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="expected"):
        FlareRecorder(**{"folder": str(tmp_path / "t"), **settings})


def test_a_job_carries_the_recorder_as_json(tmp_path: Path) -> None:
    settings = {"folder": str(tmp_path / "t"), "training": {"lr": 0.1}, "federation": "toy"}
    job = FedJob(name="job", min_clients=2)
    job.set_app_packages(["divulge"])
    recorder = FlareRecorder(**settings)  # type: ignore[arg-type]
    job.to_server(recorder, filter_type=FilterType.TASK_RESULT, tasks=["train"])
    job.export_job(str(tmp_path / "jobs"))
    (config,) = (tmp_path / "jobs").rglob("config_fed_server.json")
    (chain,) = json.loads(config.read_text())["task_result_filters"]
    path = "divulge.federation.nvflare.recorder.FlareRecorder"
    assert chain == {"tasks": ["train"], "filters": [{"path": path, "args": settings}]}
    assert not [*(tmp_path / "jobs").rglob("*.py")]


@pytest.mark.slow
def test_the_same_federation_recorded_under_flower_gives_an_equal_transcript(
    tmp_path: Path,
) -> None:
    """In FLARE's simulator, with a process for each client. Sums are exact, in any order."""
    pytest.importorskip("flwr")
    from flwr.serverapp.strategy import FedAvg

    from divulge.federation import flower

    from . import toy_flower, toy_nvflare

    training = LocalTraining(lr=0.5, epochs=1, batch_size=8)
    strategy = flower.Recorder(FedAvg(fraction_evaluate=0.0), tmp_path / "flower")
    flower.run_in_process(
        toy_flower.server_app(strategy, rounds=3),
        toy_flower.client_app(train=toy_flower.exact_fit),
        clients=2,
    )
    recorder = {
        "folder": str(tmp_path / "flare"),
        "federation": "flower",
        "training": {"lr": 0.5, "epochs": 1, "batch_size": 8},
        "records_key": MetaKey.NUM_STEPS_CURRENT_ROUND,
    }
    toy_nvflare.write_job(tmp_path / "job", 3, 2, recorder)
    done = subprocess.run(
        [sys.executable, "-m", "nvflare.private.fed.app.simulator.simulator", "job", "-w", "work",
         "-n", "2", "-t", "2"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert not (tmp_path / "flare" / LOCK).exists()
    ours, theirs = (Transcript.open(tmp_path / name) for name in ("flower", "flare"))
    assert ours.header.shapes == theirs.header.shapes
    for name in ("name", "kind", "rule", "items"):
        assert getattr(ours.header, name) == getattr(theirs.header, name)
    assert ours.header.settings["rounds"] == theirs.header.settings["rounds"] == 3
    assert len(ours.rounds) == len(theirs.rounds) == 3
    for mine, other in zip(ours.rounds, theirs.rounds, strict=True):
        assert (mine.number, mine.metrics) == (other.number, other.metrics)
        assert mine.training == other.training == training
        assert mine.aggregated is not None
        assert other.aggregated is not None
        pairs = [(mine.sent, other.sent), (mine.aggregated, other.aggregated)]
        for node, site in (("2", "site-1"), ("3", "site-2")):
            assert mine.received[node].records == other.received[site].records == 32
            pairs.append((mine.received[node].tensors, other.received[site].tensors))
        for one, two in pairs:
            for name, array in one.items():
                assert array.dtype == two[name].dtype
                np.testing.assert_array_equal(array, two[name])
    assert np.abs(ours.rounds[2].sent["fc.weight"] - ours.rounds[0].sent["fc.weight"]).max() > 0.1
