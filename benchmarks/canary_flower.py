"""Canaries under Flower's DP strategies and mods: planted faults found, false contradictions."""

import logging
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple
from unittest import mock

import numpy as np

from benchmarks.canary_federations import (
    DELTA,
    FAULTS,
    Fault,
    FederationOutcome,
    judge,
    print_correct,
    print_faults,
)
from benchmarks.timing import MissingPeer, environment
from divulge.canaries.clients import Sees, make_canary_clients, score_transcript
from divulge.defences.training.dp_sgd.accounting import dp_sgd_epsilon
from divulge.federation.canaries import CanaryClients

SUMMARY = "canaries under Flower's DP strategies and mods: faults found, false contradictions"

_WEIGHTS, _ROUNDS, _OWN = 4000, 4, 4
_CLIP, _NORM, _NOISE, _COUNT, _LOCAL = 1.0, 3.0, 4.0, 5.0, 2.0


class Mechanism(NamedTuple):
    """One of Flower's mechanisms."""

    name: str
    by: Literal["server", "client", "local"]
    """Who clips; ``local``: each client adds noise, too, and tests it by a probe."""
    adaptive: bool = False
    rate: float = 0.2
    """How fast the norm of adaptive clipping changes."""


MECHANISMS = (
    Mechanism("server-side fixed clipping", "server"),
    Mechanism("client-side fixed clipping", "client"),
    Mechanism("server-side adaptive clipping", "server", adaptive=True),
    Mechanism("client-side adaptive clipping", "client", adaptive=True),
    Mechanism("LocalDpMod", "local"),
)

AS_THEY_ARE = (
    Mechanism("server-side adaptive clipping, clip_norm_lr=2", "server", adaptive=True, rate=2.0),
    Mechanism("client-side adaptive clipping, clip_norm_lr=2", "client", adaptive=True, rate=2.0),
)
"""Flower draws their noise for the norm of the next round, which differs much at this rate."""


def run(quick: bool) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print three tables.

    Raises:
        MissingPeer: Flower or dp-accounting is not installed.
    """
    for package, extra in (("flwr", "federated"), ("dp_accounting", "dp")):
        if find_spec(package) is None:
            raise MissingPeer(package, extra)
    import_module("flwr.serverapp")  # sets the level of its log
    logging.getLogger("flwr").setLevel(logging.ERROR)
    start = time.process_time()
    print(environment(("divulge", "flwr", "dp-accounting")))
    plays = {mechanism.name: partial(play, mechanism) for mechanism in MECHANISMS}
    unchanged = {mechanism.name: partial(play, mechanism) for mechanism in AS_THEY_ARE}
    repeats = 1 if quick else 20
    runs = print_faults(plays, FAULTS, repeats)
    runs += print_faults(unchanged, [Fault("none planted")], repeats)
    runs += print_correct(plays, (100, 200), repeats)
    print(f"\n{runs} runs, {(time.process_time() - start) / 60:.1f} minutes of one core")


def play(how: Mechanism, canaries: int, seed: int, fault: Fault | None) -> FederationOutcome:
    """One federation of this mechanism, or one client that probes its own.

    Args:
        how: the mechanism.
        canaries: their number; half of them take part, or all where clients add noise.
        seed: of canaries, coins, clients drawn and noise.
        fault: what is planted.
    """
    fault = fault or Fault("none")
    random.seed(seed)  # Flower draws clients by it,
    np.random.seed(seed)  # and noise by this
    with tempfile.TemporaryDirectory() as scratch, _broken(fault):
        place = Path(scratch)
        local = how.by == "local"
        folder = make_canary_clients(
            place / "c",
            canaries,
            neighbours="replace" if local else "add-or-remove",
            seed=seed,
        ).folder
        clients = CanaryClients(folder, _NORM)
        if local:
            return judge(folder, _probe(clients, place / "s.npz"), (_LOCAL, DELTA))
        _federate(how, clients, fault, place / "run")
        sees: Sees = "differences" if fault.repeated else "rounds"
        path = score_transcript(folder, place / "run", place / "s.npz", sees=sees)
        return judge(folder, path, (dp_sgd_epsilon(_NOISE, 1.0, _ROUNDS, DELTA), DELTA))


def _federate(how: Mechanism, canaries: CanaryClients, fault: Fault, folder: Path) -> None:
    """Four rounds of a few clients and the canaries, recorded."""
    from flwr.clientapp.mod import adaptiveclipping_mod, fixedclipping_mod

    from divulge.federation.flower import CanaryMod, Recorder

    nodes = _OWN + len(canaries)
    drawn = nodes // 2 if fault.repeated else nodes
    mods: list[Any] = []
    if how.by == "client":
        mods = [adaptiveclipping_mod if how.adaptive else fixedclipping_mod]
    recorder = Recorder(_strategy(how, drawn, nodes), folder, canaries=canaries)
    _start(recorder, _ROUNDS, [*mods, CanaryMod(canaries, first=_OWN)], nodes)
    assert recorder.error is None


def _strategy(how: Mechanism, drawn: int, nodes: int) -> Any:
    from flwr.serverapp import strategy

    inner = strategy.FedAvg(fraction_train=drawn / nodes, fraction_evaluate=0.0)
    if how.adaptive:
        wrap = (
            strategy.DifferentialPrivacyServerSideAdaptiveClipping
            if how.by == "server"
            else strategy.DifferentialPrivacyClientSideAdaptiveClipping
        )
        return wrap(inner, _NOISE, drawn, _CLIP, clip_norm_lr=how.rate, clipped_count_stddev=_COUNT)
    fixed = (
        strategy.DifferentialPrivacyServerSideFixedClipping
        if how.by == "server"
        else strategy.DifferentialPrivacyClientSideFixedClipping
    )
    return fixed(inner, _NOISE, _CLIP, drawn)


def _probe(canaries: CanaryClients, path: Path) -> Path:
    """One client that tests the noise on its own update; the path of the scores."""
    from flwr.clientapp.mod import LocalDpMod
    from flwr.serverapp.strategy import FedAvg

    from divulge.federation.flower import CanaryProbe

    probe = CanaryProbe(canaries, path)
    local = LocalDpMod(_CLIP, 2 * _CLIP, _LOCAL, DELTA)
    alone = FedAvg(
        fraction_evaluate=0.0, min_train_nodes=1, min_evaluate_nodes=0, min_available_nodes=1
    )
    _start(alone, 1, [probe, local, probe], 1)
    return path


def _start(strategy: Any, rounds: int, mods: list[Any], nodes: int) -> None:
    """Run clients that hardly move the weights: canaries and noise do."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp

    from divulge.federation.flower import records, run_in_process

    server, client = ServerApp(), ClientApp(mods=mods)

    @server.main()
    def main(grid: Any, _: Any) -> None:
        start: ArrayRecord = records.array_record({"w": np.zeros(_WEIGHTS, np.float32)})
        strategy.start(grid, start, num_rounds=rounds)

    @client.train()
    def train(message: Message, _: Any) -> Message:
        (weights,) = records.read_tensors(message.content).values()
        moved = records.array_record({"w": weights + np.float32(1e-4)})
        metrics = MetricRecord({"num-examples": 1})
        return Message(RecordDict({"arrays": moved, "metrics": metrics}), reply_to=message)

    run_in_process(server, client, clients=nodes)


@contextmanager
def _broken(fault: Fault) -> Iterator[None]:
    """Flower's own noise and clipping, changed where its strategies and mods use them."""
    from flwr.clientapp.mod import centraldp_mods, localdp_mod
    from flwr.serverapp.strategy import dp_adaptive_clipping, dp_fixed_clipping
    from flwr.supercore import differential_privacy as usual

    def noise(arrays: list[np.ndarray], deviation: float) -> None:
        if fault.repeated:
            np.random.seed(7)
        usual.add_gaussian_noise_inplace(arrays, fault.scale * deviation)

    modules: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "add_gaussian_noise_inplace": (
            noise, (dp_adaptive_clipping, dp_fixed_clipping, localdp_mod)
        ),
    }  # fmt: skip
    if not fault.clipped:
        nothing, above = lambda *_, **__: None, lambda *_, **__: True
        modules |= {
            "compute_clip_model_update": (
                nothing, (dp_fixed_clipping, centraldp_mods, localdp_mod)
            ),
            "compute_adaptive_clip_model_update": (above, (centraldp_mods,)),
            "adaptive_clip_inputs_inplace": (above, (dp_adaptive_clipping,)),
        }  # fmt: skip
    with ExitStack() as patched:
        for name, (changed, places) in modules.items():
            for module in places:
                patched.enter_context(mock.patch.object(module, name, changed))
        yield
