"""A client unlike all others costs only itself, in every attack on federations."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from divulge import FederationAudit
from divulge.attacks import catalog
from divulge.core import ReceivedUpdate, Round, Status
from divulge.defences.updates.compose import no_defence
from divulge.federation import Federation, Transcript, exact, simulate
from divulge.federation.transcript import writer
from divulge.training.recipe import Recipe

from ..attacks import federations
from ..kinds import audit_federation
from ..slow import thin
from .test_interactions import recommender

ODD = "1"
"""The client."""

SUBJECT = """
from tests.attacks.federations import records, reference, relu as network
from divulge.federation.recommender.model import NeuralCF
known, candidates, others = reference(), records(20, 100), records(20, 7)
def films(handed):
    return NeuralCF(width=16, hidden=(32, 16))
"""

UPDATES = """
[updates]
transcript = "transcript"
network = "subject.py:network"
reference = "subject.py:known"
"""

ASSIGNMENT = """
[assignment]
transcript = "transcript"
network = "subject.py:network"
candidates = "subject.py:candidates"
external = "subject.py:others"
"""

INTERACTIONS = """
[interactions]
transcript = "transcript"
learner = "subject.py:films"
"""

ON_UPDATES = [
    "name = 'decaf'\nclients = 24",
    "name = 'decaf'\nlevel = 'bias'",
    "name = 'decaf'\nfaithful = true",
    *(
        f"name = 'label-counts'\nmethod = '{method}'"
        for method in ("llg", "ilrg", "rlu", "ranking", "uniform", "random")
    ),
    "name = 'ldia'\nclients = 48",
]
ON_MODELS = [f"name = '{name}'" for name in catalog.CATALOGUE["assignment"] if name != "stacking"]
ON_MODELS += ["name = 'fedmia'\nmeasurement = 'loss'\nrounds = 'last'"]
ON_INTERACTIONS = [f"name = '{name}'" for name in catalog.CATALOGUE["interactions"]]


def infinite(got: ReceivedUpdate, sent: dict[str, np.ndarray]) -> ReceivedUpdate:
    broken = {name: np.full_like(array, np.nan) for name, array in sent.items()}
    return replace(got, tensors=broken)


def untrained(got: ReceivedUpdate, sent: dict[str, np.ndarray]) -> ReceivedUpdate:
    return replace(got, tensors=sent, records=0)


def silent(got: ReceivedUpdate, sent: dict[str, np.ndarray]) -> ReceivedUpdate:
    del sent
    return replace(got, records=None)


Change = Callable[[ReceivedUpdate, dict[str, np.ndarray]], ReceivedUpdate]

CHANGES: dict[str, Change] = {
    "NaN in its updates": infinite,
    "no records": untrained,
    "more records than can be": lambda got, _: replace(got, records=10**18),
    "a number of records unsaid": silent,
}
HOLDS = {"one class": [0, 0, 20, 0], "one record": [0, 1, 0, 0]}


def change_client(played: Sequence[Round], change: Change) -> list[Round]:
    found = []
    for one in played:
        got = change(one.received[ODD], dict(one.sent))
        found.append(replace(one, received={**one.received, ODD: got}))
    return found


@pytest.fixture(scope="module", params=thin(2, [*CHANGES, *HOLDS]))
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    (folder / "subject.py").write_text(SUBJECT)
    counts = federations.COUNTS.copy()
    if request.param in HOLDS:
        counts[int(ODD)] = HOLDS[request.param]
    pool = federations.records(240, 100)
    recipe = Recipe(federations.relu, lr=0.05, epochs=1, batch_size=20)
    simulate(Federation(pool, exact(pool, counts), recipe, workers=1), 2, folder / "transcript")
    if request.param in CHANGES:
        rounds = Transcript.open(folder / "transcript").rounds
        changed = change_client(list(rounds), CHANGES[request.param])
        (folder / "transcript").rename(folder / "as-it-was")
        writer.write(folder / "transcript", "odd", changed)
    return folder


def audit(folder: Path, settings: str, attacks: Sequence[str], run: Path) -> FederationAudit:
    """All attacks, each of which has to be done."""
    named = "".join(f"[[attacks]]\n{attack}\n" for attack in attacks)
    (folder / "audit.toml").write_text(settings + named)
    found = audit_federation(folder / "audit.toml", run)
    reasons = {one.label: one.reason for one in found.findings if one.status is not Status.DONE}
    assert not reasons
    return found


def said_to_be_left_out(found: FederationAudit) -> bool:
    lines = [line for line in found.lines() if line.startswith(f"Client {ODD} ")]
    return any(line.endswith("so nothing is said about it.") for line in lines)


def test_it_costs_only_itself_in_attacks_on_class_shares(place: Path, tmp_path: Path) -> None:
    found = audit(place, UPDATES, ON_UPDATES, tmp_path / "run")
    others = [str(k) for k in range(len(federations.COUNTS)) if str(k) != ODD]
    assert [client for client in found.facts.clients if client != ODD] == others
    said = any(
        line.startswith(f"Client {ODD} ") and "nothing is said" in line for line in found.lines()
    )
    assert said == (ODD not in found.facts.clients)


def test_it_costs_only_itself_in_attacks_that_name_a_client(place: Path, tmp_path: Path) -> None:
    found = audit(place, ASSIGNMENT, ON_MODELS, tmp_path / "run")
    others = [str(k) for k in range(len(federations.COUNTS)) if str(k) != ODD]
    assert [client for client in found.facts.clients if client != ODD] == others


def unshown(played: Round) -> Round:
    return replace(played, handed={c: a for c, a in played.handed.items() if c != ODD})


def shown_one(played: Round) -> Round:
    told = {name: array[:1] for name, array in played.handed[ODD].items()}
    return replace(played, handed={**played.handed, ODD: told})


def nowhere(played: Round) -> Round:
    (changed,) = change_client([played], infinite)
    return changed


def idle(played: Round) -> Round:
    (changed,) = change_client([played], untrained)
    return changed


@pytest.mark.parametrize(
    ("change", "left_out"), [(unshown, True), (shown_one, False), (nowhere, True), (idle, False)]
)
def test_it_costs_only_itself_in_attacks_on_interactions(
    change: Callable[[Round], Round], left_out: bool, tmp_path: Path
) -> None:
    (tmp_path / "subject.py").write_text(SUBJECT)
    played, _ = recommender().round(range(6), no_defence())
    writer.write(tmp_path / "transcript", "odd", [change(played)], items="items")
    found = audit(tmp_path, INTERACTIONS, ON_INTERACTIONS, tmp_path / "run")
    assert (ODD not in found.facts.clients) == said_to_be_left_out(found) == left_out
    assert [c for c in found.facts.clients if c != ODD] == [str(k) for k in range(6) if k != 1]
