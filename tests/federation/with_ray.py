"""Run the toy app in Flower's own simulation engine and write down the result: a program."""

import json
import random
import sys
from pathlib import Path

import numpy as np
from flwr.serverapp.strategy import Result
from flwr.simulation import run_simulation

from . import toy_flower as toy


def main() -> None:
    folder, clients, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    results: list[Result] = []
    random.seed(0)
    run_simulation(
        server_app=toy.server_app(into=results, rounds=rounds),
        client_app=toy.client_app(),
        num_supernodes=clients,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    weights = {name: value.numpy() for name, value in results[0].arrays.items()}
    np.savez(folder / "weights.npz", **weights)  # type: ignore[arg-type]
    metrics = {k: dict(v) for k, v in results[0].train_metrics_clientapp.items()}
    (folder / "metrics.json").write_text(json.dumps(metrics))


if __name__ == "__main__":
    main()
