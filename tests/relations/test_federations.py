"""What the order and the names of clients, classes and items change about a federation: nothing."""

import csv
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divulge import FederationAudit
from divulge.core import Round
from divulge.data import interactions
from divulge.data.interactions import synthetic_interactions
from divulge.federation import prediction_tables
from divulge.federation.transcript import writer
from divulge.testing import clients
from divulge.testing.relations.figures import differences
from tests.kinds import audit_federation

NAMES = ("ann", "bob", "cat")


def _audit_tables(
    folder: Path,
    leak: float,
    names: tuple[str, ...] = NAMES,
    order: tuple[int, ...] = (0, 1, 2),
    rewrite: Callable[[list[list[str]]], list[list[str]]] | None = None,
    owners: Callable[[list[str]], list[str]] | None = None,
) -> FederationAudit:
    """Who trained on what, from tables of what three clients' models answer.

    Args:
        folder: where the files are written.
        leak: of the game.
        names: of the clients, the last of whom colludes.
        order: in which the settings name them.
        rewrite: changes the rows of each table, header first.
        owners: changes the truth, one client a candidate.
    """
    game = clients.draw_game(0, leak=leak).challenge
    prediction_tables.write(folder, game.view, names, game.truth)
    for name in names if rewrite else ():
        assert rewrite is not None
        with (folder / f"{name}.csv").open(newline="") as file:
            rows = rewrite(list(csv.reader(file)))
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    if owners:
        head, *told = (folder / "owners.csv").read_text().split()
        (folder / "owners.csv").write_text("\n".join([head, *owners(told), ""]))
    lines = [f'{names[k]} = "{names[k]}.csv"' for k in order]
    attacks = [f'[[attacks]]\nname = "{one}"' for one in ("cluster-lira", "confidence-rule")]
    head = f'[assignment]\ncolluder = "{names[-1]}"\ntruth = "owners.csv"'
    (folder / "audit.toml").write_text(
        "\n".join([head, "[assignment.predictions]", *lines, *attacks])
    )
    return audit_federation(folder / "audit.toml")


def _turn_columns(rows: list[list[str]]) -> list[list[str]]:
    return [row[::-1] for row in rows]


def _permute_candidates(rows: list[list[str]]) -> list[list[str]]:
    head, *body = rows
    asked = [head.index(name) for name in ("relevant", "external")]
    candidates = [row for row in body if all(row[k] == "0" for k in asked)]
    return [head, *_permute(candidates), *(row for row in body if row not in candidates)]


def _permute(told: list[Any]) -> list[Any]:
    return [told[k] for k in np.random.default_rng(0).permutation(len(told))]


SAME_TABLES: Mapping[str, dict[str, Any]] = {
    "clients": {"order": (2, 0, 1)},
    "names": {"names": ("zoe", "yan", "xin")},
    "columns": {"rewrite": _turn_columns},
    "candidates": {"rewrite": _permute_candidates, "owners": _permute},
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> FederationAudit:
    return _audit_tables(tmp_path_factory.mktemp("tables"), 1.0)


@pytest.mark.slow
def test_tables_of_clients_give_the_same_figures_in_any_order(
    tables: FederationAudit, tmp_path: Path
) -> None:
    def rewrite(rows: list[list[str]]) -> list[list[str]]:
        return _turn_columns(_permute_candidates(rows))

    assert tables.verdict.level == "leak"
    together = SAME_TABLES["clients"] | SAME_TABLES["names"] | SAME_TABLES["candidates"]
    found = _audit_tables(tmp_path, 1.0, **(together | {"rewrite": rewrite}))
    assert not differences(tables, found)


@pytest.mark.slow
@pytest.mark.parametrize("change", SAME_TABLES)
def test_each_change_of_tables_alone_changes_nothing(
    change: str, tables: FederationAudit, tmp_path: Path
) -> None:
    assert not differences(tables, _audit_tables(tmp_path, 1.0, **SAME_TABLES[change]))


def test_owners_that_are_exchanged_pass_no_gate(tmp_path: Path) -> None:
    other = {"ann": "bob", "bob": "ann"}
    found = _audit_tables(
        tmp_path / "one", 1.0, owners=lambda told: [other.get(one, one) for one in told]
    )
    assert found.verdict.level == "inputs doubtful"
    assert not found.gate(fail_on=["leak"]).passes


UPDATES = """
[updates]
transcript = "transcript"
network = "tests.attacks.federations:relu"
reference = "reference.npz"
[updates.counts]
{counts}
[[attacks]]
name = "decaf"
level = "bias"
[[attacks]]
name = "label-counts"
method = "uniform"
"""
LAST = ("2.weight", "2.bias")
"""The layer of the small network that has a row for each class."""


def _audit_updates(
    folder: Path,
    names: tuple[str, ...] = ("0", "1", "2", "3", "4"),
    order: tuple[int, ...] = (0, 1, 2, 3, 4),
    classes: tuple[int, ...] = (0, 1, 2, 3),
    change: Callable[[Round], Round] = lambda one: one,
) -> FederationAudit:
    """Which classes five clients hold, from their updates.

    Args:
        folder: where the files are written.
        names: of the clients.
        order: in which the server got their updates.
        classes: their order, by their numbers.
        change: of the rounds.
    """
    from tests.attacks import federations

    def permute(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {k: v[list(classes)] if k in LAST else v for k, v in tensors.items()}

    rounds = []
    for one in federations.played(rounds=1).rounds:
        received = {
            names[k]: replace(one.received[str(k)], tensors=permute(one.received[str(k)].tensors))
            for k in order
        }
        moved = replace(one, sent=permute(one.sent), received=received, aggregated=None)
        rounds.append(change(moved))
    folder.mkdir()
    writer.write(folder / "transcript", "four classes", rounds)
    known = federations.reference()
    np.savez(folder / "reference.npz", x=known.x, y=np.argsort(classes)[known.y])
    counts = "\n".join(
        f"{name} = {row[list(classes)].tolist()}"
        for name, row in zip(names, federations.COUNTS, strict=True)
    )
    (folder / "audit.toml").write_text(UPDATES.format(counts=counts))
    return audit_federation(folder / "audit.toml")


def _send_changes(one: Round) -> Round:
    """The same round, in which clients send what changed in place of their new weights."""
    changes = {
        name: replace(got, tensors={k: v - one.sent[k] for k, v in got.tensors.items()})
        for name, got in one.received.items()
    }
    assert one.kind == "weights"
    return replace(one, kind="update", received=changes)


SAME_UPDATES: Mapping[str, dict[str, Any]] = {
    "clients": {"order": (3, 1, 0, 4, 2)},
    "names": {"names": ("e", "d", "c", "b", "a")},
    "classes": {"classes": (2, 0, 3, 1)},
    "changes": {"change": _send_changes},
}


@pytest.fixture(scope="module")
def updates(tmp_path_factory: pytest.TempPathFactory) -> FederationAudit:
    pytest.importorskip("torch")
    return _audit_updates(tmp_path_factory.mktemp("updates") / "plain")


@pytest.mark.slow
def test_updates_give_the_same_figures_in_any_order_and_form(
    updates: FederationAudit, tmp_path: Path
) -> None:
    together: dict[str, Any] = {}
    for change in SAME_UPDATES.values():
        together |= change
    assert not differences(updates, _audit_updates(tmp_path / "changed", **together))


@pytest.mark.slow
@pytest.mark.parametrize("change", SAME_UPDATES)
def test_each_change_of_updates_alone_changes_nothing(
    change: str, updates: FederationAudit, tmp_path: Path
) -> None:
    found = _audit_updates(tmp_path / "changed", **SAME_UPDATES[change])
    assert not differences(updates, found)


USERS, ITEMS = 12, 40


def _audit_interactions(
    folder: Path, order: np.ndarray | None = None, prefix: str = ""
) -> FederationAudit:
    """Which items users acted on, from their updates."""
    pytest.importorskip("torch")
    from divulge.defences.updates.compose import no_defence
    from divulge.federation.recommender.model import NeuralCF
    from divulge.federation.recommender.users import Recommending

    log = synthetic_interactions(USERS, ITEMS, np.random.default_rng(0))
    recommender = Recommending(log, NeuralCF(width=16, hidden=(32, 16)))
    played, truth = recommender.round(range(USERS), no_defence())
    names = list(played.received)
    moved = [names[k] for k in (range(USERS) if order is None else order)]
    played = replace(
        played,
        received={prefix + name: played.received[name] for name in moved},
        handed={prefix + name: played.handed[name] for name in moved if name in played.handed},
    )
    folder.mkdir()
    writer.write(folder / "transcript", "films", [played], items="items")
    acted = {prefix + name: truth[name] for name in moved}
    interactions.write_interactions(folder / "truth.csv", acted)
    (folder / "audit.toml").write_text(
        '[interactions]\ntranscript = "transcript"\ntruth = "truth.csv"\n'
        '[[attacks]]\nname = "raifle"\n'
    )
    return audit_federation(folder / "audit.toml")


def test_users_in_another_order_with_other_names_give_the_same_figures(tmp_path: Path) -> None:
    plain = _audit_interactions(tmp_path / "plain")
    order = np.random.default_rng(1).permutation(USERS)
    assert not differences(plain, _audit_interactions(tmp_path / "changed", order, "user-"))
