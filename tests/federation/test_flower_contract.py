"""What divulge relies on in Flower: when a new version changes it, this says what and where.

`constraints.txt` installs one of the minor versions that are allowed. Before another one is, all of
Flower's tests run with it once, in an environment of its own.
"""

import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import pytest
from packaging.requirements import Requirement

pytest.importorskip("flwr")

from flwr import app, clientapp, serverapp
from flwr.clientapp import typing as client_typing
from flwr.common import constant
from flwr.server.strategy import Strategy as LegacyStrategy
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.serverapp import strategy
from flwr.serverapp.strategy import strategy_utils
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

HELP = "divulge.federation.flower relies on it: read Flower's changes, mend it, then this test"


READ = ["1.41", "1.42"]
"""Minor versions that were read and tested."""


def test_the_minor_version_is_one_that_was_read() -> None:
    assert version("flwr").rpartition(".")[0] in READ, HELP


def test_the_minor_versions_that_were_read_are_allowed_and_no_other() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (asked,) = [r for r in project["optional-dependencies"]["federated"] if r.startswith("flwr")]
    allowed = [f"1.{n}" for n in range(100) if f"1.{n}.0" in Requirement(asked).specifier]
    assert allowed == READ, HELP


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (strategy.Strategy.configure_train, "self server_round arrays config grid"),
        (strategy.Strategy.aggregate_train, "self server_round replies"),
        (strategy.Strategy.configure_evaluate, "self server_round arrays config grid"),
        (strategy.Strategy.aggregate_evaluate, "self server_round replies"),
        (strategy.Strategy.summary, "self"),
        (
            strategy.Strategy.start,
            "self grid initial_arrays num_rounds timeout train_config evaluate_config evaluate_fn",
        ),
        (LegacyStrategy.configure_fit, "self server_round parameters client_manager"),
        (LegacyStrategy.aggregate_fit, "self server_round results failures"),
        (SecAggPlusWorkflow.__call__, "self grid context"),
        (serverapp.Grid.set_run, "self run"),
        (serverapp.Grid.create_message, "self content message_type dst_node_id group_id ttl"),
        (serverapp.Grid.get_node_ids, "self"),
        (serverapp.Grid.push_messages, "self messages"),
        (serverapp.Grid.pull_messages, "self message_ids"),
        (serverapp.Grid.send_and_receive, "self messages timeout"),
        (serverapp.ServerApp.__call__, "self grid context"),
        (clientapp.ClientApp.__call__, "self message context"),
        (app.Error.__init__, "self code reason"),
        (app.Context.__init__, "self run_id node_id node_config state run_config series_id"),
        (Run.create_empty, "run_id"),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_functions_take_what_they_took(function: Any, parameters: str) -> None:
    assert list(inspect.signature(function).parameters) == parameters.split(), HELP


@pytest.mark.parametrize(
    ("cls", "wanted"),
    [
        (
            strategy.Strategy,
            {"configure_train", "aggregate_train", "configure_evaluate", "aggregate_evaluate",
             "summary"},
        ),
        (
            serverapp.Grid,
            {"set_run", "run", "create_message", "get_node_ids", "push_messages",
             "pull_messages", "send_and_receive"},
        ),
    ],
    ids=["Strategy", "Grid"],
)  # fmt: skip
def test_nothing_else_has_to_be_implemented(cls: Any, wanted: set[str]) -> None:
    assert set(cls.__abstractmethods__) == wanted, HELP


def test_strategies_say_what_they_weigh_by_and_whom_they_wrap() -> None:
    fedavg = strategy.FedAvg()
    assert fedavg.weighted_by_key == "num-examples", HELP
    wrapper = strategy.DifferentialPrivacyServerSideFixedClipping(fedavg, 0.0, 1.0, 2)
    assert wrapper.strategy is fedavg, HELP
    assert hasattr(vars(strategy_utils)["random"], "sample"), HELP


def test_messages_have_what_is_read_and_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_node_id", "_task_id"):
        assert hasattr(TaskIdentity, name), HELP
        monkeypatch.setattr(TaskIdentity, name, 1)
    content = app.RecordDict({"a": app.ArrayRecord(), "m": app.MetricRecord({"n": 1})})
    message = app.Message(content, 2, "train", ttl=5.0, group_id="g")
    message.metadata.__dict__["_message_id"] = "x"
    assert message.metadata.message_id == "x", HELP
    assert (message.metadata.dst_node_id, message.metadata.message_type) == (2, "train"), HELP
    assert (message.metadata.ttl, message.metadata.group_id) == (5.0, "g"), HELP
    reply = app.Message(app.Error(0, "why"), reply_to=message)
    assert reply.has_error(), HELP
    assert not reply.has_content(), HELP
    assert reply.error.reason == "why", HELP
    assert reply.metadata.reply_to_message_id == "x", HELP
    assert reply.metadata.src_node_id == 2, HELP
    assert list(content.array_records) == ["a"], HELP
    assert list(content.metric_records) == ["m"], HELP
    assert not content.config_records, HELP


def test_constants_are_what_they_were() -> None:
    assert app.MessageType.TRAIN == "train", HELP
    assert constant.SUPERLINK_NODE_ID == 1, HELP
    assert constant.ErrorCode.UNKNOWN == 0, HELP
    assert constant.ErrorCode.CLIENT_APP_RAISED_EXCEPTION == 2, HELP
    assert constant.ErrorCode.NODE_UNAVAILABLE == 5, HELP


def test_a_mod_takes_a_message_a_context_and_what_comes_next() -> None:
    takes, gives = get_args(client_typing.Mod)
    assert takes == [app.Message, app.Context, client_typing.ClientAppCallable], HELP
    assert gives is app.Message, HELP


def test_arrays_share_their_bytes_and_are_never_unpickled() -> None:
    array = app.Array("float32", (1,), "numpy.ndarray", b"\x80.")
    with pytest.raises(ValueError, match="pickle"):
        array.numpy()
    record = app.ArrayRecord({"a": array})
    assert record["a"].data is array.data, HELP
    assert record["a"] is not array, HELP
