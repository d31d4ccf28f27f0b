"""A transcript may be larger than memory: how many of its rounds are open at once is counted."""

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divulge.attacks import Decaf, LabelCounts
from divulge.core import CompositionFacts, LocalTraining, ReceivedUpdate, Round
from divulge.federation.transcript import reader, writer
from divulge.federation.transcript.inspect import inspect
from divulge.federation.transcript.reader import Transcript
from divulge.secrets.blind import composition as blind
from divulge.secrets.composition import CompositionSecret

from ..attacks import federations

ROUNDS, CLIENTS = 24, 8


class OpenRounds:
    """The files of rounds that somebody still holds, and the most that there were at once."""

    def __init__(self) -> None:
        self.now = self.most = self.ever = 0

    def open(self, path: Path) -> "Handle":
        self.now, self.ever = self.now + 1, self.ever + 1
        self.most = max(self.most, self.now)
        handle = Handle(READ(path))
        weakref.finalize(handle, self._close)
        return handle

    def _close(self) -> None:
        self.now -= 1


class Handle:
    """A file of tensors; whatever came from it without being a copy keeps it alive."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


READ = reader._open_tensors


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> OpenRounds:
    found = OpenRounds()
    monkeypatch.setattr(reader, "_open_tensors", found.open)
    return found


@pytest.fixture(scope="module")
def transcript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Updates of no training at all: what is counted does not depend on it."""
    rng = np.random.default_rng(0)
    sent = {name: w.numpy() for name, w in federations.relu().state_dict().items()}

    def moved() -> ReceivedUpdate:
        return ReceivedUpdate(
            {n: w + rng.normal(size=w.shape).astype(w.dtype) for n, w in sent.items()}, 100
        )

    training = LocalTraining("sgd", 0.1, epochs=1, batch_size=10)
    folder = tmp_path_factory.mktemp("many") / "transcript"
    rounds = [
        Round(number, "weights", sent, {str(c): moved() for c in range(CLIENTS)}, training=training)
        for number in range(ROUNDS)
    ]
    writer.write(folder, "many rounds", rounds)
    return folder


def test_an_inspection_holds_one_round_and_the_one_before(
    transcript: Path, opened: OpenRounds
) -> None:
    assert len(inspect(Transcript.open(transcript)).rounds) == ROUNDS
    assert opened.ever == ROUNDS
    assert opened.most <= 2


@pytest.mark.parametrize(
    ("attack", "most"),
    [(Decaf(level="bias"), 3), (Decaf(faithful=True), 3), (LabelCounts(), LabelCounts().rounds)],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_an_audit_of_updates_holds_the_rounds_that_its_attack_looks_at(
    transcript: Path, opened: OpenRounds, attack: Any, most: int
) -> None:
    kept = Transcript.open(transcript)
    clients = [str(c) for c in range(CLIENTS)]
    known = federations.reference()
    views = tuple(kept.view(client, federations.relu, known) for client in clients)
    counts = tuple(map(tuple, np.roll(np.eye(4, dtype=int) * 90 + 10, 1, axis=0).tolist())) * 2
    facts = CompositionFacts("many", tuple(clients), counts, ())
    if hasattr(attack, "many"):
        attack.many(views, np.random.default_rng(0))
    else:
        for view in views:
            attack(view, np.random.default_rng(0))
    blind.control_on_updates(views, CompositionSecret(facts), attack, 0)
    assert opened.ever > most
    assert opened.most <= most + 2  # one that is opened, and the one that was opened before
    assert opened.now == 0
