"""divulge: stacking on the same clients, each asked once, and then the attack."""

import numpy as np

from benchmarks.peers.drivers import plain
from benchmarks.peers.drivers.desk import Desk
from divulge.attacks import catalog
from divulge.core import Collusion, FederationView, Need, Records
from divulge.targets.recorded import TableTarget
from divulge.targets.torch import TorchTarget


def main() -> None:
    """One score for each candidate and client, for each federation."""
    desk = Desk()
    name, *protocol = desk.more
    settings = {"protocol": protocol[0]} if protocol else {}
    attack = catalog.federation_attack(name, **settings)
    for federation in desk.settings["federations"]:
        with desk.timed("asking"):
            view = _view(desk, federation)
        with desk.timed("attack"):
            score = attack(view, np.random.default_rng(42)).score
            assert score is not None
            desk.leave(federation, score)


def _view(desk: Desk, name: str) -> FederationView:
    game = desk.arrays(name)
    clients, colluder, y = range(int(game["clients"])), int(game["colluder"]), game["y"]

    def numbered(rows: np.ndarray) -> Records:
        return Records(rows, y[rows])

    relevant = len(game[f"relevant_{colluder}"])
    return FederationView(
        tuple(_client_target(desk, name, game, k) for k in clients),
        numbered(game["candidates"]),
        tuple(numbered(game[f"relevant_{k}"]) for k in clients),
        tuple(numbered(game[f"external_{k}"]) for k in clients),
        Collusion(
            colluder,
            game["truth"][:relevant].astype(np.bool_),
            game["truth"][-len(game["candidates"]) :].astype(np.bool_),
        ),
    )


def _client_target(desk: Desk, name: str, game: dict[str, np.ndarray], k: int) -> TableTarget:
    """What a client's model says of the records that are about it, and of no others."""
    network = desk.settings["federations"][name]
    module = plain.load_network(network, desk.arrays(f"{name}-client-{k}"))
    rows = np.concatenate([game[f"relevant_{k}"], game[f"external_{k}"], game["candidates"]])
    predictions = TorchTarget(module, "logits").predict(game["x"][rows])
    table = np.full((len(game["y"]), predictions.shape[1]), np.nan)
    table[rows] = predictions
    return TableTarget(table, Need.PROBABILITIES | Need.HARD_LABELS)


if __name__ == "__main__":
    main()
