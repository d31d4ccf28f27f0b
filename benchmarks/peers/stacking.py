"""The stacked attack on a federation's clients: divulge's, and ART driven as published."""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from benchmarks import which_client
from benchmarks.networks import genome_cnn
from benchmarks.peers import report, side
from benchmarks.peers.peers import ART
from benchmarks.peers.side import Missing, Result, Side
from benchmarks.timing import environment
from divulge._util.random import stream
from divulge.core import Assignment, FederationView, Records, Target, Trainer
from divulge.federation import local_models
from divulge.metrics import intervals
from divulge.targets.torch import TorchTarget
from divulge_papers.papers.nist import genomics

SUMMARY = "stacking on a federation: divulge, and ART as published; CPU seconds"

SIDES = (
    Side("divulge, stacking as published", "divulge_stacking", more=("stacking", "published")),
    Side("ART, as published", "art_stacking", ART),
    Side("divulge, cluster-lira", "divulge_stacking", more=("cluster-lira",)),
    Side("divulge, stacking crossfit", "divulge_stacking", more=("stacking", "crossfit")),
)


class Federation(NamedTuple):
    """Clients to be attacked."""

    task: which_client.Task
    widths: tuple[int, ...] = ()
    """Widths of the clients' dense networks; otherwise these are the challenge's."""
    replicates: int = 2


class _Untrained:
    """Gives untrained networks, which leak nothing but take their time to query."""

    def __init__(self, columns: int) -> None:
        self._columns = columns

    def many(
        self, pool: Records, subsets: Bool[np.ndarray, "models records"], seeds: Sequence[int]
    ) -> Iterator[Target]:
        del pool, subsets
        for _ in seeds:
            yield TorchTarget(genome_cnn(self._columns), "logits")


def _genotypes(rng: np.random.Generator) -> Records:
    """SYNTHETIC genotypes with as many places as the challenge's."""
    genotypes, y = genomics.make_synthetic(120, 43_568, rng)
    return Records(genomics.one_hot(genotypes), y)


TASKS = {
    "location-30": Federation(which_client.TASKS["location-30"], (446, 128, 30)),
    "untrained": Federation(which_client.Task(_genotypes, _Untrained, (29, 29)), replicates=1),
}


class _RememberingTrainer:
    """A trainer that remembers the models it has made, which the game forgets."""

    def __init__(self, trainer: Trainer) -> None:
        self.models: list[TorchTarget] = []
        self._trainer = trainer

    def many(
        self, pool: Records, subsets: Bool[np.ndarray, "models records"], seeds: Sequence[int]
    ) -> Iterator[Target]:
        for model in self._trainer.many(pool, subsets, seeds):
            assert isinstance(model, TorchTarget)
            self.models.append(model)
            yield model


class Game(NamedTuple):
    """Truth about one federation, which no tool is given."""

    truth: Assignment
    view: FederationView


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (like every benchmark)
    """Print what each side took, and how well its scores tell each client's records from others.

    Raises:
        MissingData: the records are not at hand.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "task")
        folder.mkdir()
        games = _write(name, TASKS[name], folder, quick=quick)
        print(_heading(name, games))
        print("| side | CPU s, whole | wall, s | peak, MiB | CPU s, asking | CPU s, attack |"
              " AUC, mean over clients |")  # fmt: skip
        print("|---|---:|---:|---:|---:|---:|---|")
        for tool in SIDES:
            line = _line(side.run(tool, folder, Path(scratch)), games)
            print(f"| {tool.name} | {line} |", flush=True)


def _heading(name: str, games: Mapping[str, Game]) -> str:
    view = next(iter(games.values())).view
    sizes = [
        f"{len(known)} + {len(other)}"
        for known, other in zip(view.relevant, view.external, strict=True)
    ]
    return (
        f"{name}: {len(games)} federations of {len(view.targets)} clients with "
        f"{', '.join(sizes)} relevant and external records and {len(view.records)} candidates\n"
        f"{environment(('divulge', 'torch', 'xgboost'))}; one thread a process"
    )


def _line(result: Result | Missing, games: Mapping[str, Game]) -> str:
    if isinstance(result, Missing):
        return f"{result.reason} | | | | | "
    asking, attack = (result.seconds.get(what) for what in ("asking", "attack"))
    aucs = [
        auc
        for name, game in games.items()
        for auc in which_client.aucs(game.view, game.truth, result.scores[name])
    ]
    shown = "inside" if asking is None else f"{asking:.2f}"
    return f"{report.format_costs(result.spent)} | {shown} | {attack:.2f} | {_mean(aucs)}"


def _mean(aucs: Sequence[float]) -> str:
    """Mean over clients and federations, with Student's interval where there are several."""
    if len(aucs) < 2:
        return "one client is too few"
    low, high = intervals.student_mean(aucs)
    return f"{np.mean(aucs):.3f} [{max(0.0, low):.3f}, {min(1.0, high):.3f}]"


def _write(name: str, wanted: Federation, folder: Path, *, quick: bool) -> dict[str, Game]:
    """Train the clients, and write what drivers read of each federation."""
    games, networks = {}, {}
    for seed in range(1 if quick else wanted.replicates):
        rng = stream(seed, "peers", name)
        pool = wanted.task.pool(rng)
        columns = int(np.prod(pool.x.shape[1:]))
        trainer = _RememberingTrainer(wanted.task.trainer(columns))
        challenge = local_models.simulate_local_models(
            pool, trainer, wanted.task.sizes, rng
        ).challenge
        view = challenge.view
        federation = f"federation-{seed}"
        for k, model in enumerate(trainer.models):
            weights = {key: value.numpy() for key, value in model.module.state_dict().items()}
            np.savez(folder / f"{federation}-client-{k}.npz", **weights)
        np.savez(folder / f"{federation}.npz", **_arrays(pool, view))
        networks[federation] = {"widths": wanted.widths} if wanted.widths else {"columns": columns}
        games[federation] = Game(challenge.truth, view)
    (folder / "settings.json").write_text(json.dumps({"federations": networks}))
    return games


def _arrays(pool: Records, view: FederationView) -> dict[str, Any]:
    """The pool, who was dealt which rows of it, and the truth about the colluding client alone."""
    known = view.collusion
    none = np.zeros(len(view.external[known.colluder]), np.bool_)
    dealt = {f"relevant_{k}": own.x for k, own in enumerate(view.relevant)}
    dealt |= {f"external_{k}": own.x for k, own in enumerate(view.external)}
    return dealt | {
        "x": pool.x.reshape(len(pool), -1).astype(np.float32), "y": pool.y,
        "candidates": view.records.x, "colluder": known.client, "clients": len(view.targets),
        "truth": np.concatenate([known.relevant, none, known.records]).astype(np.int64),
    }  # fmt: skip
