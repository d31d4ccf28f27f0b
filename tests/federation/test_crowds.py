"""Recommenders and search engines from ``federate.toml`` to an audit, and short item tables."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from safetensors.numpy import load_file

from divulge import audit_file
from divulge.cli.main import main
from divulge.core import ReceivedUpdate, Round
from divulge.data import interactions
from divulge.errors import StoreError
from divulge.federation import Transcript
from divulge.federation.search.users import Searching
from divulge.federation.transcript import impressions, layout, writer

SUBJECT = """
import numpy as np
from divulge.data import interactions, ranking
from divulge.federation.search.pairwise import Pairwise

def films():
    return interactions.synthetic_interactions(12, 60, np.random.default_rng(0), mean=6.0)

queries = ranking.synthetic_queries(20, 8, np.random.default_rng(0))
number = 3

def learner(handed):
    return Pairwise(handed["query"])
"""

FILMS = """
name = "films"
rounds = 3

[recommender]
log = "subject.py:films"
truth = "watched.csv"
users = 4
width = 8
hidden = [8]
epochs = 3
"""

SEARCH = """
name = "search"
rounds = 2

[ranker]
queries = "subject.py:queries"
truth = "clicks.csv"
users = 3
asked = 1
noise = 0.1
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "films.toml").write_text(FILMS)
    (tmp_path / "search.toml").write_text(SEARCH)
    return tmp_path


def federated(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["federate", *map(str, arguments)])


def test_a_recommender_is_simulated_and_audited(place: Path) -> None:
    assert federated(place / "films.toml").exit_code == 0
    transcript = Transcript.open(place / "runs" / "films-001")
    each = [client for k in range(3) for client in transcript.clients(k)]
    assert len(set(each)) == len(each) == 12
    truth = interactions.read_interactions(place / "watched.csv")
    assert set(truth) == set(each)
    for number in (1, 2):
        sent, before = transcript.rounds[number].sent, transcript.rounds[number - 1]
        assert before.aggregated is not None
        for name, array in sent.items():
            np.testing.assert_array_equal(array, before.aggregated[name])
    (place / "audit.toml").write_text(
        '[interactions]\ntranscript = "runs/films-001"\ntruth = "watched.csv"\n'
    )
    finding = audit_file(place / "audit.toml").findings[0]
    assert finding.metrics["auc"].value > 0.9


def test_no_round_of_a_search_engine_is_played_twice(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = []
    play = Searching.round

    def counted(self: Searching, *given: Any) -> Any:
        played.append(given[-1])
        return play(self, *given)

    monkeypatch.setattr(Searching, "round", counted)
    assert federated(place / "search.toml").exit_code == 0
    assert played == [0, 1]


def test_a_search_engine_is_simulated_and_audited(place: Path) -> None:
    assert federated(place / "search.toml").exit_code == 0
    (place / "audit.toml").write_text(
        '[interactions]\ntranscript = "runs/search-001"\ntruth = "clicks.csv"\n'
        'learner = "subject.py:learner"\n'
    )
    found = audit_file(place / "audit.toml")
    assert len(Transcript.open(place / "runs" / "search-001").clients(1)) == 3
    assert found.findings[0].metrics["auc"].value > 0.9


@pytest.mark.parametrize("name", ["films", "search"])
def test_what_was_stopped_goes_on_to_the_same_bytes(place: Path, name: str) -> None:
    settings, runs = place / f"{name}.toml", place / "runs"
    assert federated(settings).exit_code == 0
    truth = next(place.glob("*.csv"))
    wanted = truth.read_bytes()
    whole = settings.read_text()
    settings.write_text(re.sub("rounds = .", "rounds = 1", whole))
    assert federated(settings).exit_code == 0
    assert truth.read_bytes() != wanted
    settings.write_text(whole)
    assert federated(settings, "--resume").exit_code == 0
    assert truth.read_bytes() == wanted
    for path in (runs / f"{name}-001").iterdir():
        assert path.read_bytes() == (runs / f"{name}-002" / path.name).read_bytes()


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("films", "[recommender]", "participation = 0.5\n[recommender]", "got participation"),
        ("films", "[recommender]", "[data]\ntrain = 'x'\n[recommender]", "beside [recommender]"),
        ("films", "users = 4", "negative = 4", "did you mean 'negatives'"),
        ("films", "rounds = 3", "rounds = 4", "all 12 have"),
        ("films", "py:films", "py:queries", "expected InteractionLog"),
        ("films", "width = 8", "lr = 0.0", "learning rate above 0"),
        ("search", "py:queries", "py:number", "expected Queries"),
        ("search", "asked = 1", "asked = 100", "queries a user, got 100"),
        ("search", "asked = 1", 'habit = "tidy"', "ranker.habit"),
    ],
)
def test_what_is_wrong_is_said(place: Path, file: str, old: str, new: str, message: str) -> None:
    settings = place / f"{file}.toml"
    settings.write_text(settings.read_text().replace(old, new))
    done = federated(settings)
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.output.split())
    assert "Traceback" not in done.output


def round_of(rows: np.ndarray, item: np.ndarray) -> Round:
    table = np.zeros((6, 2), np.float32)
    got = {"0": ReceivedUpdate({"items": rows}, 1)}
    return Round(0, "update", {"items": table}, got, handed={"0": {"item": item}})


@pytest.mark.parametrize("noisy", [False, True])
def test_a_table_is_stored_short_only_where_nothing_is_lost(tmp_path: Path, noisy: bool) -> None:
    item = np.array([4, 1])
    rows = np.zeros((6, 2), np.float32)
    rows[item] = [[1, 2], [3, 4]]
    rows[0, 0] = noisy
    writer.write(tmp_path / "t", "t", [round_of(rows, item)], items="items")
    stored = load_file(tmp_path / "t" / "round-0000.safetensors")["received/0/items"]
    assert stored.shape == ((6, 2) if noisy else (2, 2))
    transcript = Transcript.open(tmp_path / "t")
    np.testing.assert_array_equal(transcript.rounds[0].change("0")["items"], rows)
    (one,) = impressions.client_views(transcript, ["0"])
    np.testing.assert_array_equal(one.view.rounds[0].change("0")["items"], rows[item])


@pytest.mark.parametrize("bad", [[4, 6], [1, 1], [-1, 0]])
def test_a_short_table_of_odd_items_is_refused(bad: list[int]) -> None:
    with pytest.raises(StoreError, match="distinct items from 0 to 5"):
        layout.to_dense_rows(np.ones((2, 2)), np.array(bad), (6, 2))


def test_a_table_of_another_length_is_refused(tmp_path: Path) -> None:
    seen = round_of(np.ones((3, 2), np.float32), np.array([4, 1]))
    writer.write(tmp_path / "t", "t", [replace(seen, handed={})], items="items")
    with pytest.raises(StoreError, match="shape"):
        _ = Transcript.open(tmp_path / "t").rounds[0]
