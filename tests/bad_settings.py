"""Every key of every settings file, with values that TOML can hold and no one should write.

The keys are those of the pydantic models, so that a new key is tried by itself.
`tests/test_bad_arguments.py` runs this file in a process of its own.
"""

import datetime as dt
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

import pytest

import divulge
from divulge._util import toml
from divulge._util.toml import Section
from divulge.attacks import catalog
from divulge.audits import config
from divulge.audits.config import (
    FederationAuditSpec,
    LeaveOneOutAuditSpec,
    ModelAuditSpec,
    PredictionsAuditSpec,
)
from divulge.audits.requested_attacks import requested_attacks
from divulge.audits.result import Audit, FederationAudit
from divulge.defences import catalog as defences
from divulge.errors import DivulgeError
from divulge.federation import config as federations
from divulge.federation.config import FederationSpec
from divulge.studies.compare import config as comparisons
from divulge.studies.compare.config import CompareSpec
from divulge.studies.harden import config as hardenings
from divulge.studies.harden.config import HardenSpec
from divulge.studies.leave_one_out.result import LeaveOneOut
from tests.slow import slow

SUBJECT = """
import numpy as np
from torch import nn
from divulge.data.interactions import InteractionLog
from divulge.data.ranking import Queries

rng = np.random.default_rng(0)
x, y = rng.normal(size=(24, 3)).astype(np.float32), np.arange(24) % 2
members, nonmembers = (x[:12], y[:12]), (x[12:], y[12:])
reference = (x + 1, y)

def model(x):
    p = 1 / (1 + np.exp(-x[:, 0].astype(float)))
    return np.column_stack([1 - p, p])

def train(x, y, seed):
    return model

def network():
    return nn.Linear(3, 2)

log = InteractionLog(np.repeat(np.arange(4), 2), np.arange(8), 4, 8)
queries = Queries(rng.normal(size=(24, 3)), np.tile([0, 1, 2], 8), np.repeat(np.arange(2), 12))
"""

DATA = {"members": "subject.py:members", "nonmembers": "subject.py:nonmembers"}
GAP = [{"name": "gap"}]
FEDERATION = {
    "rounds": 1,
    "data": {"train": "subject.py:members"},
    "clients": {"count": 2},
    "training": {"network": "subject.py:network"},
}


def parse_audit(table: dict[str, Any], where: str) -> Any:
    return requested_attacks(config.parse_config(table, where), Path())


def parse_comparison(table: dict[str, Any], where: str) -> Any:
    settings = comparisons.parse(table, where)
    return comparisons.attacks(settings, Path())


def parse_hardening(table: dict[str, Any], where: str) -> Any:
    return hardenings.attacks(hardenings.parse(table, where), Path())


def parse_federation(table: dict[str, Any], where: str) -> Any:
    return federations.build_defence(federations.parse(table, where))


@dataclass(frozen=True)
class File:
    """A kind of settings file: its model, settings that are right, and what reads and runs them."""

    model: type[Section]
    right: Mapping[str, Any]
    parse: Callable[[dict[str, Any], str], Any] = parse_audit
    run: Callable[..., Any] | None = None
    """None where running takes seconds: then reading alone is tried."""


FILES = {
    "model": File(
        ModelAuditSpec,
        {"target": {"model": "subject.py:model"}, "data": DATA, "attacks": GAP},
        run=divulge.audit_file,
    ),
    "url": File(
        ModelAuditSpec,
        {"target": {"url": "https://models.example/x", "fingerprint": "1"}, "data": DATA},
    ),
    "shadows": File(
        ModelAuditSpec,
        {
            "target": {"model": "subject.py:model"},
            "data": DATA,
            "attacks": GAP,
            "shadows": {"train": "subject.py:train", "models": 2},
        },
        run=divulge.audit_file,
    ),
    "known": File(
        ModelAuditSpec,
        {
            "target": {"model": "subject.py:model"},
            "data": DATA | {"reference": "subject.py:reference"},
            "attacks": GAP,
            "known": {"share": 0.5},
        },
        run=divulge.audit_file,
    ),
    "predictions": File(
        PredictionsAuditSpec,
        {"predictions": {"file": "answers.csv"}, "attacks": GAP},
        run=divulge.audit_file,
    ),
    "leave-one-out": File(
        LeaveOneOutAuditSpec,
        {
            "leave_one_out": {"models": 3, "targets": 2, "train": "subject.py:train"},
            "data": DATA,
            "attacks": GAP,
        },
    ),
    "updates": File(
        FederationAuditSpec,
        {
            "updates": {
                "transcript": "transcript",
                "network": "subject.py:network",
                "reference": "subject.py:members",
            },
            "attacks": [{"name": "label-counts"}],
        },
    ),
    "interactions": File(
        FederationAuditSpec,
        {
            "interactions": {"transcript": "transcript"},
            "attacks": [{"name": "random-interactions"}],
        },
    ),
    "assignment": File(
        FederationAuditSpec,
        {
            "assignment": {
                "predictions": {"a": "answers.csv", "b": "answers.csv"},
                "colluder": "a",
            },
            "attacks": [{"name": "nobody"}],
        },
    ),
    "recorded-assignment": File(
        FederationAuditSpec,
        {
            "assignment": {
                "transcript": "transcript",
                "network": "subject.py:network",
                "candidates": "subject.py:members",
                "external": "subject.py:members",
            },
            "attacks": [{"name": "nobody"}],
        },
    ),
    "compare": File(
        CompareSpec,
        {
            "models": 3,
            "targets": 2,
            "data": DATA,
            "attacks": GAP,
            "defences": [{"train": "subject.py:train"}],
        },
        parse_comparison,
    ),
    "compare-trained": File(
        CompareSpec, {"data": DATA, "training": {"network": "subject.py:network"}}, parse_comparison
    ),
    "harden": File(
        HardenSpec,
        {
            "ceiling": {"auc": 1.0},
            "data": DATA,
            "training": {"network": "subject.py:network", "epochs": 1},
            "attacks": GAP,
            "search": {"defences": [], "budget": 9, "models": 3, "shadows": 2},
        },
        parse_hardening,
    ),
    "federate": File(
        FederationSpec,
        FEDERATION,
        parse_federation,
        divulge.federate_file,
    ),
    "private": File(
        FederationSpec,
        {**FEDERATION, "privacy": {"delta": 1e-5, "noise_multiplier": 1.0}},
        parse_federation,
    ),
    "hardened-federation": File(
        FederationSpec,
        {
            **FEDERATION,
            "harden": {"reference": "subject.py:reference", "which_client": 0.9, "budget": 2},
        },
        parse_federation,
    ),
    "canaries": File(
        FederationSpec,
        {**FEDERATION, "canaries": {"folder": "canaries", "norm": 3.0}},
        parse_federation,
    ),
    "recommender": File(
        FederationSpec,
        {
            "rounds": 1,
            "recommender": {
                "log": "subject.py:log",
                "truth": "truth.csv",
                "users": 2,
                "width": 2,
                "hidden": [2],
                "epochs": 1,
            },
        },
        parse_federation,
    ),
    "ranker": File(
        FederationSpec,
        {
            "rounds": 1,
            "ranker": {"queries": "subject.py:queries", "truth": "truth.csv", "users": 2},
        },
        parse_federation,
    ),
}

DEEP: list[Any] = []
for _ in range(200):
    DEEP = [DEEP]

BAD = [
    math.nan, math.inf, -math.inf, -1, 0, 1.5, 1e300, 10**400, 2**63, True, "", "x", "a\0b",
    "nan", "\x1b[31mred", "é" * 5000, "subject.py:x", "subject.py:none", "../..", [], [[]],
    [1, "a"], ["x"], [math.nan], {}, {"x": 1}, {"x": {"y": []}}, {"name": "x"}, {"name": 3}, [{}],
    [{"name": "gap", "x": 1}], DEEP, dt.date(2026, 1, 1), dt.time(1),
]  # fmt: skip


def keys(model: type[Section], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key of a settings file, and every section."""
    for name, field in model.model_fields.items():
        yield (*above, name)
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, Section):
                yield from keys(part, (*above, name))


def reached(file: File, path: tuple[str, ...]) -> bool:
    """Whether the key's section stands in the settings; another kind of file has the others."""
    return len(path) == 1 or path[0] in (*file.right, "metrics", "gate")


def put(table: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The settings with another value for one key."""
    changed = deepcopy(dict(table))
    section = changed
    for name in path[:-1]:
        section = section.setdefault(name, {})
    section[path[-1]] = value
    return changed


CASES = [
    pytest.param(name, path, id=f"{name}-{'.'.join(path)}")
    for name, file in FILES.items()
    for path in keys(file.model)
    if reached(file, path)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("settings")
    (made / "subject.py").write_text(SUBJECT)
    (made / "answers.csv").write_text("p_0,p_1,label,member\n" + "0.9,0.1,0,1\n0.2,0.8,0,0\n" * 20)
    return made


pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")


@pytest.fixture(autouse=True)
def without_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charts take most of the time, and show no setting but in words."""
    for kind in (Audit, FederationAudit, LeaveOneOut, divulge.Comparison):
        monkeypatch.setattr(kind, "report", _show_nothing)


def _show_nothing(*given: Any, **words: Any) -> None:
    pass


NUMBERS = itertools.count()


def parses(file: File, table: dict[str, Any]) -> bool:
    """Whether it is read; anything but an error of ours goes through."""
    try:
        file.parse(table, "settings.toml")
    except DivulgeError:
        return False
    return True


def run(file: File, table: Mapping[str, Any], folder: Path, patch: pytest.MonkeyPatch) -> bool:
    """Whether it runs through; anything but an error of ours goes through."""
    patch.setattr(toml, "read_toml", lambda _: table)
    assert file.run is not None
    try:
        file.run(folder / "settings.toml", folder / f"run-{next(NUMBERS)}")
    except DivulgeError:
        return False
    return True


def test_every_section_is_in_some_file() -> None:
    for file in FILES.values():
        for path in keys(file.model):
            same = [one for one in FILES.values() if one.model is file.model]
            assert any(reached(one, path) for one in same), path


@pytest.mark.parametrize("name", FILES)
def test_settings_that_are_right_are_accepted(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FILES[name].parse(dict(FILES[name].right), "settings.toml")
    assert FILES[name].run is None or run(FILES[name], FILES[name].right, folder, monkeypatch)


@pytest.mark.parametrize("half", [0, slow(1)])
@pytest.mark.parametrize(("name", "path"), CASES)
def test_a_bad_value_is_refused_or_harmless(
    name: str, path: tuple[str, ...], half: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each key gets half of the bad values in the quick tests; longer names get the other half."""
    file, broken = FILES[name], []
    for bad in BAD[(len(".".join(path)) + half) % 2 :: 2]:
        table = put(file.right, path, bad)
        try:
            if parses(file, table) and file.run is not None:
                run(file, table, folder, monkeypatch)
        except Exception as error:
            broken.append((f"{bad!r:.50}", type(error).__name__, str(error)[:120]))
    assert not broken, "\n".join(map(str, broken))


@pytest.mark.parametrize(("name", "path"), CASES)
def test_what_is_not_finite_is_never_accepted(name: str, path: tuple[str, ...]) -> None:
    for bad in (math.nan, math.inf, -math.inf, [math.nan], {"x": math.inf}):
        assert not parses(FILES[name], put(FILES[name].right, path, bad)), bad


BUILDERS: dict[str, tuple[Callable[..., Any], Mapping[str, str]]] = {
    "attack": (catalog.attack, catalog.CATALOGUE["membership"]),
    "update_attack": (catalog.update_attack, catalog.CATALOGUE["composition"]),
    "interaction_attack": (catalog.interaction_attack, catalog.CATALOGUE["interactions"]),
    "federation_attack": (catalog.federation_attack, catalog.CATALOGUE["assignment"]),
    "update_defence": (defences.update_defence, defences.UPDATE_DEFENCES),
    "answer_defence": (defences.answer_defence, defences.ANSWER_DEFENCES),
}


@pytest.mark.parametrize("what", BUILDERS)
def test_settings_of_attacks_and_defences_are_refused_by_name(what: str) -> None:
    build, registry = BUILDERS[what]
    for name in registry:
        finder = catalog.attack_class if "attack" in what else None
        cls = finder(name) if finder else type(build(name, **_required(name)))
        for field in fields(cls):
            for bad in BAD:
                try:
                    built = build(name, **{**_required(name), field.name: bad})
                except DivulgeError:
                    continue
                assert repr(built)


def _required(name: str) -> dict[str, Any]:
    return {
        "local-noise": {"epsilon": 1.0, "delta": 1e-5, "clip": 1.0},
        "dp-fedavg": {"noise_multiplier": 1.0, "clip": 1.0, "delta": 1e-5},
    }.get(name, {})
