"""What attacks of other tools find on the answers of the same models."""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.peers import side
from benchmarks.peers.peers import ART, LEAKPRO, PRIVACY_METER, PRIVACYGUARD
from benchmarks.peers.side import Missing, Side
from benchmarks.shadow_quality import rows
from benchmarks.shadow_quality.measure import folder_of_answers, row_of_attack, row_of_scores
from benchmarks.shadow_quality.models import Games
from benchmarks.shadow_quality.rows import MODES, Mode, Row
from benchmarks.shadow_quality.tasks import TASKS, Task
from divulge.attacks import catalog

SUMMARY = "divulge's attacks and those of other tools on the same models, with 0 to 64 shadows"

STORED = rows.STORED / "peers"

OWN = "divulge"

SIDES = (
    Side("LeakPro", "leakpro_stored", LEAKPRO),
    Side("PrivacyGuard", "privacyguard_stored", PRIVACYGUARD),
    Side("Privacy Meter", "privacy_meter_stored", PRIVACY_METER),
    Side("ART", "art_stored", ART),
)

BUDGETS = (0, 1, 2, 4, 8, 16, 64)

OFTEN = (4, 16)
"""The numbers of shadows for attacks that take long: LeakPro's LiRA, ART's forest."""


def run(quick: bool) -> None:  # noqa: FBT001 (like all)
    """Measure what is not stored yet of all targets; quick: of the first one.

    Raises:
        MissingData: some data is not at hand.
    """
    for name in list(TASKS)[: 1 if quick else None]:
        measure(TASKS[name], STORED)


def measure(task: Task, folder: Path) -> None:
    """Measure and store what each tool finds on one target, where it is not stored yet."""
    path = folder / f"{task.name}.jsonl"
    have = {row.attack.partition(",")[0] for row in rows.read_rows(path)}
    missing = [tool for tool in SIDES if tool.name not in have]
    if OWN in have and not missing:
        return
    with folder_of_answers(task) as answers_folder, tempfile.TemporaryDirectory() as scratch:
        games = Games(task, max(BUDGETS), answers_folder, seeds=1)
        games.train()
        if OWN not in have:
            _store(path, _own_rows(task.name, games))
        written = Path(scratch, "task")
        written.mkdir()
        learned = _write(games, written)
        for tool in missing:
            result = side.run(tool, written, Path(scratch))
            if isinstance(result, Missing):
                print(f"{task.name}: {tool.name}: {result.reason}", flush=True)
                continue
            _store(path, _peer_rows(task.name, tool.name, result, learned))


def _store(path: Path, tool_rows: Iterator[Row]) -> None:
    """All rows of a tool or none: the next run goes on tool by tool."""
    for row in list(tool_rows):
        rows.append(path, row)
        print(*row.key, *(f"{row.mean(m):.3f}" for m in row.values), row.reason, flush=True)


def _own_rows(target: str, games: Games) -> Iterator[Row]:
    for mode in MODES:
        views = list(games.views(mode))
        for count in BUDGETS:
            for name in _own_attacks(count):
                attack = catalog.attack(name, **({"signal": "loss"} if name == "threshold" else {}))
                row = row_of_attack(attack, views, count)
                yield replace(row, target=target, mode=mode, attack=f"{OWN}, {name}")


def _own_attacks(count: int) -> Sequence[str]:
    if not count:
        return "threshold", "two-sample"
    return "shadow-stack", "rmia", "base", "lira", "calibrated"


def _write(games: Games, folder: Path) -> dict[Mode, np.ndarray]:
    """Write what the drivers read, and return who is a member: (targets, records) of each mode."""
    settings = {"budgets": BUDGETS, "often": OFTEN, "modes": MODES}
    (folder / "settings.json").write_text(json.dumps(settings))
    learned: dict[Mode, np.ndarray] = {}
    for mode in MODES:
        arrays = games.logits(mode)
        np.savez(folder / f"{mode}.npz", **arrays)  # type: ignore[arg-type]  # (allow_pickle)
        learned[mode] = arrays["member"]
    return learned


def _peer_rows(
    target: str, tool: str, result: side.Result, learned: Mapping[Mode, np.ndarray]
) -> Iterator[Row]:
    for label, scores in result.scores.items():
        mode = next(mode for mode in learned if label.startswith(mode))
        _, number, attack = label.split("-", 2)
        name = f"{tool}, {attack.removesuffix(f' {mode}')}"
        spent = (result.seconds[label] + result.seconds.get(f"{number}-fit", 0.0)) / len(scores)
        empty = Row(target, mode, int(number), name, {}, [], spent, 0.0)
        yield row_of_scores(empty, list(zip(scores, learned[mode], strict=True)))
