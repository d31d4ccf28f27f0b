"""The parts of a FLARE job small enough for tests; the simulator makes them from its settings."""

import json
from pathlib import Path
from typing import Any

from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.executor import Executor
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.workflows import fedavg

from . import toy


class FedAvg(fedavg.FedAvg):  # type: ignore[misc]
    """FLARE's own, from the weights of the toy on."""

    def load_model(self) -> FLModel:
        return FLModel(params_type=ParamsType.FULL, params=toy.weights())


class Trainer(Executor):  # type: ignore[misc]
    """Client ``site-1`` has partition 0."""

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        del task_name, abort_signal
        partition = int(fl_ctx.get_identity_name().removeprefix("site-")) - 1
        after, count = toy.exact_answer(partition, from_shareable(shareable).data)
        bias = float(after["fc.bias"][0])
        meta = {MetaKey.NUM_STEPS_CURRENT_ROUND: count, MetaKey.INITIAL_METRICS: {"bias": bias}}
        return DXO(DataKind.WEIGHTS, after, meta).to_shareable()


def write_job(folder: Path, rounds: int, clients: int, recorder: dict[str, Any]) -> None:
    """Write a job of the toy, with a recorder of these arguments."""
    toys = "tests.federation.toy_nvflare"
    fedavg = {"num_clients": clients, "num_rounds": rounds, "persistor_id": ""}
    server = {
        "format_version": 2,
        "workflows": [{"id": "controller", "path": f"{toys}.FedAvg", "args": fedavg}],
        "components": [],
        "task_result_filters": [
            {
                "tasks": ["train"],
                "filters": [{"path": "divulge.federation.nvflare.FlareRecorder", "args": recorder}],
            }
        ],
    }
    client = {
        "format_version": 2,
        "executors": [{"tasks": ["train"], "executor": {"path": f"{toys}.Trainer", "args": {}}}],
        "components": [],
    }
    config = folder / "app" / "config"
    config.mkdir(parents=True)
    (folder / "app" / "custom").mkdir()  # code of one's own, which FLARE lets name any class
    (config / "config_fed_server.json").write_text(json.dumps(server))
    (config / "config_fed_client.json").write_text(json.dumps(client))
    meta = {
        "name": "toy",
        "resource_spec": {},
        "min_clients": clients,
        "deploy_map": {"app": ["@ALL"]},
    }
    (folder / "meta.json").write_text(json.dumps(meta))
