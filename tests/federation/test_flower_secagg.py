"""Flower's SecAgg+ is recorded: sums alone, with canary clients among those who are summed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client.mod import fixedclipping_mod, secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import FitIns, ndarrays_to_parameters
from flwr.compat.common.recorddict_compat import parameters_to_arrayrecord
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import DifferentialPrivacyClientSideFixedClipping, FedAvg, Strategy
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
from flwr.serverapp import Grid, ServerApp

from divulge.canaries.audit import audit_canaries
from divulge.canaries.clients import make_canary_clients, score_transcript
from divulge.canaries.result import CanaryAudit
from divulge.errors import SpecError, StoreError
from divulge.federation.canaries import ROUNDING, CanaryClients
from divulge.federation.flower import (
    CanaryMod,
    InProcessGrid,
    SecAggRecorder,
    records,
    run_in_process,
)
from divulge.federation.transcript.reader import Transcript

OWN, ROUNDS, WEIGHTS, CLIP = 4, 2, 1200, 1.0


def protocol(**settings: Any) -> SecAggPlusWorkflow:
    return SecAggPlusWorkflow(5, 3, **{"max_weight": 1.0, **settings})


def client_app(*mods: Any, drops: int | None = None) -> ClientApp:
    """Clients that add 0.001 to each weight; one may fail before it sends."""
    app = ClientApp(mods=[secaggplus_mod, *mods])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        if context.node_config["partition-id"] == drops:
            raise RuntimeError("out of memory")
        sent = records.read_tensors(message.content)
        moved = {name: value + np.float32(1e-3) for name, value in sent.items()}
        return Message(records.fit_result(moved, 1, {}), reply_to=message)

    return app


def play(
    workflow: Any, app: ClientApp, clients: int, noise: float | None = None, rounds: int = ROUNDS
) -> list[np.ndarray]:
    """The final weights, computed by Flower's own workflows."""
    start = ndarrays_to_parameters([np.zeros(WEIGHTS, np.float32)])
    strategy: Strategy = FedAvg(fraction_evaluate=0.0, initial_parameters=start)
    if noise is not None:
        strategy = DifferentialPrivacyClientSideFixedClipping(strategy, noise, CLIP, clients)
    server, final = ServerApp(), []

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        legacy = LegacyContext(context, ServerConfig(num_rounds=rounds), strategy)
        DefaultWorkflow(fit_workflow=workflow)(grid, legacy)
        final.append(legacy.state.array_records["parameters"]["0"].numpy())

    run_in_process(server, app, clients=clients)
    return final


def judge(folder: Path, noise: float, **settings: Any) -> CanaryAudit:
    """Record a federation with canaries, and hold it against the ε of noise 2 in two rounds."""
    made = make_canary_clients(folder / "canaries", 60, seed=4)
    canaries = CanaryClients(made.folder, 3.0)
    recorder = SecAggRecorder(protocol(**settings), folder / "run", canaries=canaries)
    nodes = OWN + len(canaries)
    play(recorder, client_app(fixedclipping_mod, CanaryMod(canaries, first=OWN)), nodes, noise)
    assert recorder.error is None
    scores = score_transcript(made.folder, folder / "run", folder / "scores.npz")
    return audit_canaries(
        made.folder, [scores], epsilon=2.94, delta=1e-5, noise="independent-gaussian"
    )


def test_the_transcript_has_means_and_no_single_update(tmp_path: Path) -> None:
    recorder = SecAggRecorder(protocol(), tmp_path / "run", name="sums")
    (final,) = play(recorder, client_app(), 6)
    seen = Transcript.open(tmp_path / "run")
    said = seen.header.settings["secure aggregation"]
    assert isinstance(said, dict)
    assert said["quantization_range"] == 2**22
    first, last = seen.rounds
    for done in (first, last):
        assert not done.received
        assert done.masked is not None
        assert done.aggregated is not None
        assert (len(done.masked.clients), done.masked.records) == (6, 6)
        mean = np.asarray(done.masked.tensors["0"])
        off = mean - np.asarray(done.sent["0"]) - 1e-3
        # rounding: what is said is the largest deviation that it can have
        assert 0 < off.std() <= done.metrics[ROUNDING]
        assert done.aggregated["0"] == pytest.approx(mean)
    assert first.metrics[ROUNDING] == pytest.approx(8 / 2**22 / np.sqrt(6))
    assert last.aggregated is not None
    assert np.array_equal(last.aggregated["0"], final)


def test_a_halted_protocol_is_a_round_without_new_weights(tmp_path: Path) -> None:
    recorder = SecAggRecorder(SecAggPlusWorkflow(3, 3.0 / 3), tmp_path / "run")
    play(recorder, client_app(drops=0), 3, rounds=1)
    (only,) = Transcript.open(tmp_path / "run").rounds
    assert only.masked is None
    assert only.aggregated is None
    assert recorder.error is None


def test_a_client_that_drops_out_is_not_among_those_of_the_mean(tmp_path: Path) -> None:
    recorder = SecAggRecorder(SecAggPlusWorkflow(5, 3, max_weight=1.0), tmp_path / "run")
    play(recorder, client_app(drops=1), 5, rounds=1)
    (only,) = Transcript.open(tmp_path / "run").rounds
    assert only.masked is not None
    assert only.masked.clients == ("2", "4", "5", "6")


def test_without_noise_canaries_contradict_from_sums_alone(tmp_path: Path) -> None:
    found = judge(tmp_path, 0.0)
    assert found.verdict.level == "contradicted"
    assert "Rounding by secure aggregation: up to 0.01% of a round's change." in str(found)


@pytest.mark.slow
def test_with_noise_canaries_do_not_contradict(tmp_path: Path) -> None:
    np.random.seed(3)  # Flower draws from it
    assert judge(tmp_path, 2.0).verdict.level == "consistent"


def test_rounding_that_hides_canaries_is_said(tmp_path: Path) -> None:
    np.random.seed(3)  # Flower rounds by it
    found = judge(tmp_path, 0.0, quantization_range=8)
    assert found.verdict.level == "consistent"
    assert "can hide canaries that noise does not hide" in str(found)


def test_another_workflow_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="expected a SecAggPlusWorkflow"):
        SecAggRecorder(DefaultWorkflow(), tmp_path / "run")


class AsksOne(FedAvg):
    """Sends one client nothing, without a client manager."""

    def configure_fit(self, *asked: Any, **more: Any) -> Any:
        del more
        return [(None, FitIns(asked[1], {}))]


def test_a_folder_that_is_not_new_ends_the_run_before_a_client_works(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    start = ndarrays_to_parameters([np.zeros(WEIGHTS, np.float32)])
    state = RecordDict({
        MAIN_CONFIGS_RECORD: ConfigRecord({Key.CURRENT_ROUND: 1}),
        MAIN_PARAMS_RECORD: parameters_to_arrayrecord(start, keep_input=True),
    })  # fmt: skip
    context = LegacyContext(Context(1, 1, {}, state, {}), ServerConfig(), AsksOne())
    with pytest.raises(StoreError, match="expected a new folder"):
        SecAggRecorder(protocol(), tmp_path)(InProcessGrid(client_app(), 1, {}), context)
