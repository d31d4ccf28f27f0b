"""Canaries that are people: one coin and one score for several records, and an ε for a person."""

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

from divulge.canaries import audit
from divulge.canaries.make import CanaryKind, make_canaries
from divulge.canaries.plan import gaussian_mu, plan_canaries
from divulge.canaries.recorder import CanaryRecorder
from divulge.canaries.result import CanaryAudit
from divulge.cli.main import main
from divulge.core import Guarantee, Records
from divulge.data import canary_files as files
from divulge.data.canary_scores import read_scores
from divulge.errors import SpecError, StoreError
from divulge.metrics.epsilon import epsilon_lower_bound
from tests.canaries import sets

EACH = 3
STATED = {"epsilon": 1.0, "delta": 1e-5}


def make(folder: Path, count: int = 400, kind: CanaryKind | None = None) -> Path:
    made = make_canaries(sets.records(), folder / "c", count, records_each=EACH, kind=kind, seed=1)
    assert made.records_each == EACH
    return made.folder


def scores(folder: Path, size: float) -> Path:
    """Scores of records: a person's noise and leak, and noise of each record that is as large."""
    rng, person = np.random.default_rng(0), files.read_candidates(folder).person
    own = sets.leak(folder, size)[person]
    return sets.write_scores(folder, own + rng.normal(size=len(person)))


def judge(folder: Path, path: Path, **more: object) -> CanaryAudit:
    return audit.audit_canaries(folder, [path], **{**STATED, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["direction", "out-of-distribution", "mislabelled"])
def test_a_coin_decides_about_all_records_of_a_person(kind: CanaryKind, tmp_path: Path) -> None:
    folder = make(tmp_path, 40, kind)
    held, inserted = files.read_candidates(folder), sets.coins(folder)
    assert (held.count, held.flipped) == (40, "adding or removing one person with 3 records")
    assert len(held.y) == len(held.x) == 120
    unit = held.x / np.linalg.norm(held.x, axis=1, keepdims=True)
    np.testing.assert_allclose(unit, unit[::EACH].repeat(EACH, axis=0), rtol=1e-6)
    if kind == "direction":  # a training may drop rows that repeat
        assert len(np.unique(held.x, axis=0)) == 120
    with np.load(folder / files.TRAIN) as train:
        assert sorted(train["group"]) == np.flatnonzero(inserted).repeat(EACH).tolist()
        for x, y, group in zip(train["x"], train["y"], train["group"], strict=True):
            own = held.x[held.person == group]
            assert (own == x).all(axis=1).any()
            assert y == held.y[group * EACH]


def test_a_leak_is_found_and_no_leak_is_not(tmp_path: Path) -> None:
    folder = make(tmp_path)
    found = judge(folder, scores(folder, 6.0), unit="person", run=tmp_path / "run")
    assert found.verdict.level == "contradicted"
    assert "at δ = 1e-05 for one person is contradicted" in found.headline
    assert "Unit: a person with 3 records" in str(found)
    assert "<dt>Unit</dt><dd>a person with 3 records</dd>" in (
        (tmp_path / "run" / "report.html").read_text()
    )
    assert found.sizes == {"canaries": 400, "inserted": int(sets.coins(folder).sum())}
    assert CanaryAudit.load(tmp_path / "run").facts == found.facts
    (folder / files.OPENED).unlink()
    assert judge(folder, scores(folder, 0.0), unit="person").verdict.level == "consistent"


def test_a_bound_for_people_is_that_of_their_mean_scores(tmp_path: Path) -> None:
    folder = make(tmp_path)
    path = scores(folder, 3.0)
    found = judge(folder, path, unit="person")
    by_record, y = np.load(path)["score"], files.read_candidates(folder).y[::EACH]
    mean = audit.centre_by_class(by_record.reshape(-1, EACH).mean(axis=1), y)
    expected = epsilon_lower_bound(mean, sets.coins(folder), 1e-5, drawn="coins", noise="any")
    assert found.bound == pytest.approx(expected.value, rel=1e-12)


def test_what_is_stated_for_a_record_is_turned_into_what_it_promises_a_person(
    tmp_path: Path,
) -> None:
    folder = make(tmp_path)
    path = scores(folder, 2.0)
    found = judge(folder, path)
    promised = Guarantee(1.0, 1e-5).for_group(EACH)
    assert promised is not None
    assert (found.facts.epsilon, found.facts.delta) == (3.0, promised.delta)
    assert "from ε = 1 per record" in str(found)
    assert 1.0 < found.bound < 3.0
    assert found.verdict.level == "consistent"  # it contradicts 1 for a person, and not 3
    (folder / files.OPENED).unlink()
    assert judge(folder, path, unit="person").verdict.level == "contradicted"
    with pytest.raises(SpecError, match="whose δ grows beyond 1: make canaries of fewer records"):
        judge(folder, path, epsilon=8.0)


@pytest.mark.slow
def test_a_statement_for_people_that_is_kept_is_rarely_contradicted(tmp_path: Path) -> None:
    """Gaussian noise that keeps ε = 1 for a person exactly; 200 draws of coins."""
    folder = make(tmp_path, 200)
    held, rng = files.read_candidates(folder), np.random.default_rng(0)
    mu, wrong = gaussian_mu(1.0, 1e-5), 0
    for _ in range(200):
        coins = rng.random(200) < 0.5
        own = (rng.normal(size=200) + mu * coins)[held.person]
        path = sets.write_scores(folder, own, "kept.npz")
        score = audit.combine_by_canary(held, read_scores(path, held))
        bound = epsilon_lower_bound(score, coins, 1e-5, drawn="coins", noise="independent-gaussian")
        wrong += bound.value > 1.0
    assert wrong <= 16  # the 97.5 % quantile of a binomial of 200 at 5 %


def train(folder: Path, records: Records) -> Path:
    """Score a training without any noise."""
    network = sets.linear()
    recorder = CanaryRecorder(folder, network, folder / "white.npz")
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05)
    recorder.watch(network, optimiser)
    x, y = torch.from_numpy(records.x.copy()), torch.from_numpy(records.y.copy())
    for _ in range(8):
        optimiser.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(network(x), y))
        optimiser.step()
    return recorder.save()


def test_a_training_on_people_gives_them_away_and_one_without_them_does_not(tmp_path: Path) -> None:
    folder = make(tmp_path, 50)  # as many as there are directions that no record uses
    supposed = {"unit": "person", "noise": "independent-gaussian"}
    trained = judge(folder, train(folder, sets.pool(folder)), **supposed)
    assert trained.bound > 1.0
    (folder / files.OPENED).unlink()
    (folder / "white.npz").unlink()
    other = judge(folder, train(folder, sets.records()), **supposed)
    assert other.bound <= 1.0


@pytest.mark.parametrize("name", ["candidates", "train"])
def test_whose_each_record_is_cannot_be_changed_afterwards(name: str, tmp_path: Path) -> None:
    folder = make(tmp_path)
    path = scores(folder, 0.0)
    place = folder / (files.CANDIDATES if name == "candidates" else files.TRAIN)
    held = dict(np.load(place))
    if name == "candidates":
        held["records_each"] = np.array([2])
    else:
        held["group"] = np.roll(held["group"], 1)
    np.savez(place, **held)
    with pytest.raises(StoreError, match=f"{place.name} as `divulge canary make` wrote it"):
        judge(folder, path)
    assert not (folder / files.OPENED).exists()


def test_a_plan_counts_people(tmp_path: Path) -> None:
    plan = plan_canaries(0.5, 1e-6, canaries=500, records_each=2)
    promised = Guarantee(0.5, 1e-6).for_group(2)
    assert promised is not None
    assert plan.faults == plan_canaries(1.0, promised.delta, canaries=500).faults
    assert "(ε = 0.5 per record for people with up to 2 records; noise: any)" in str(plan)
    with pytest.raises(SpecError, match="promises something to a person with 9 records"):
        plan_canaries(8.0, 1e-5, records_each=9)
    given = tmp_path / "train.npz"
    np.savez(given, x=sets.records().x, y=sets.records().y)
    asked = ["canary", "make", str(given), str(tmp_path / "cli"), "--count", "30"]
    done = CliRunner().invoke(main, [*asked, "--records-each", "4"])
    assert done.exit_code == 0, done.output
    assert "Score: the 30 people, each with 4 records, of" in done.output
    assert files.read_candidates(tmp_path / "cli").records_each == 4
