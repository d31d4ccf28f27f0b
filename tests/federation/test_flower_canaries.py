"""Canary clients in a Flower run: sent by a mod, recorded, and held against Flower's accountant."""

from pathlib import Path

import numpy as np
import pytest
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp import (
    Grid,
    NeighboringRelation,
    PrivacyConfig,
    RdpAccountant,
    SamplingMethod,
    ServerApp,
)
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg, Strategy

from benchmarks import canary_flower
from benchmarks.canary_federations import Fault
from divulge.canaries.audit import audit_canaries
from divulge.canaries.clients import make_canary_clients, score_transcript
from divulge.canaries.result import CanaryAudit
from divulge.errors import SpecError
from divulge.federation.canaries import CanaryClients
from divulge.federation.flower import CanaryMod, Recorder, run_in_process
from divulge.federation.transcript.reader import Transcript
from tests.federation import toy_flower
from tests.slow import thin

OWN, ROUNDS, WEIGHTS = 2, 2, 1500
METRICS = {"num-examples": 1}


def client_app(canaries: CanaryClients, *mods: object) -> ClientApp:
    """Own clients hardly move the weights: canaries and noise do."""
    app = ClientApp(mods=[*mods, CanaryMod(canaries, first=OWN)])  # type: ignore[list-item]

    @app.train()
    def train(message: Message, context: Context) -> Message:
        del context
        sent = toy_flower.arrays(message.content)
        moved = toy_flower.record({"w": sent["w"] + np.float32(1e-4)})
        content = RecordDict({"arrays": moved, "metrics": MetricRecord(dict(METRICS))})
        return toy_flower.reply(content, message)

    return app


def play(folder: Path, noise: float, *mods: object) -> tuple[Path, Path]:
    """The canaries and the transcript; without noise at the server none is stated."""
    made = make_canary_clients(folder / "canaries", 60, seed=4)
    canaries = CanaryClients(made.folder, 3.0)
    nodes = OWN + len(canaries)
    strategy: Strategy = FedAvg(fraction_evaluate=0.0)
    if noise:
        accountant = RdpAccountant(
            PrivacyConfig(
                1e-5,
                nodes,
                NeighboringRelation.ADD_OR_REMOVE_ONE,
                SamplingMethod.NO_AMPLIFICATION,
            )
        )
        strategy = DifferentialPrivacyServerSideFixedClipping(
            strategy, noise, 1.0, nodes, accountant=accountant
        )
    recorder = Recorder(strategy, folder / "run", canaries=canaries)
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        del context
        start = toy_flower.record({"w": np.zeros(WEIGHTS, np.float32)})
        recorder.start(grid, start, num_rounds=ROUNDS)

    run_in_process(app, client_app(canaries, *mods), clients=nodes)
    assert recorder.error is None
    return made.folder, folder / "run"


def judge(canaries: Path, run: Path, **claim: float) -> CanaryAudit:
    scores = score_transcript(canaries, run, run.parent / "scores.npz")
    return audit_canaries(canaries, [scores], noise="independent-gaussian", **claim)  # type: ignore[arg-type]


def test_what_flowers_accountant_states_is_read_and_held(tmp_path: Path) -> None:
    np.random.seed(0)
    canaries, run = play(tmp_path, 2.0)
    stated = Transcript.open(run).rounds[-1].metrics["stated epsilon"]
    found = judge(canaries, run)
    assert found.facts.epsilon == stated
    assert 2.9 < stated < 4  # 2.94 exactly; Flower accounts by Rényi's divergence
    assert found.verdict.level == "consistent"


def test_noise_that_flower_leaves_out_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = DifferentialPrivacyServerSideFixedClipping._add_noise_to_aggregated_arrays
    monkeypatch.setattr(
        DifferentialPrivacyServerSideFixedClipping,
        "_add_noise_to_aggregated_arrays",
        lambda _, arrays: arrays,
    )
    assert kept is not None  # the contract with Flower: this is where it adds noise
    canaries, run = play(tmp_path, 2.0)
    assert judge(canaries, run).verdict.level == "contradicted"


@pytest.mark.parametrize("how", thin(2, canary_flower.MECHANISMS), ids=lambda one: one.name)
def test_each_mechanism_of_flower_is_held_against_its_epsilon(
    how: canary_flower.Mechanism,
) -> None:
    pytest.importorskip("dp_accounting")
    off = Fault("noise off", scale=0.0)
    found = [canary_flower.play(how, 60, 3, fault).wrong for fault in (off, None)]
    assert [independent for _, independent in found] == [True, False]


@pytest.mark.parametrize(
    "how",
    thin(2, [one for one in canary_flower.MECHANISMS if one.by != "local"]),
    ids=lambda one: one.name,
)
def test_noise_of_a_strategy_that_repeats_is_found_over_rounds(
    how: canary_flower.Mechanism,
) -> None:
    again = Fault("noise of a repeated seed", repeated=True)
    found = [canary_flower.play(how, 60, 3, fault).noise for fault in (again, None)]
    assert found == [True, False]


def test_a_mod_before_it_changes_canaries_like_all_updates(tmp_path: Path) -> None:
    canaries, run = play(tmp_path, 0.0, LocalDpMod(0.5, 1e-9, 1.0, 1e-5))
    first = Transcript.open(run).rounds[0]
    norms = {name: np.linalg.norm(first.change(name)["w"]) for name in first.received}
    assert max(norms.values()) == pytest.approx(0.5, rel=1e-3)
    with pytest.raises(SpecError, match="no transcript that states them"):
        judge(canaries, run)


def test_a_negative_first_is_refused(tmp_path: Path) -> None:
    made = make_canary_clients(tmp_path / "canaries", 20)
    with pytest.raises(SpecError, match="expected first from 0"):
        CanaryMod(CanaryClients(made.folder, 1.0), first=-1)
