"""An audit in which the attacker knows some members, which are not scored."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import divulge
from divulge._util.progress import track_silently
from divulge.attacks import catalog
from divulge.attacks.membership.supervised import SupervisedAttack
from divulge.audits import config
from divulge.audits.challenges import membership
from divulge.audits.challenges.model import MembershipChallenge
from divulge.audits.known_members import set_known_members_aside
from divulge.audits.requested_attacks import requested_attacks
from divulge.audits.subject import AuditInputs
from divulge.core import ControlOutcome, Game, Membership, ModelView, Need, Records, Scores
from divulge.data.known_features import KnownFeatures
from divulge.errors import SpecError
from divulge.secrets import attempt, control_games, controls
from divulge.testing.forests import with_known_members
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.trainers import as_trainer

from .. import memorising
from ..kinds import load_model

MEMBERS, NONMEMBERS, OWN = (memorising.draw(80, seed) for seed in range(3))
TARGET = memorising.train(MEMBERS.x, MEMBERS.y, 0)


def pose(known_members: float | None, seed: int = 0, **extra: Any) -> MembershipChallenge:
    subject = AuditInputs(TARGET, MEMBERS, NONMEMBERS, OWN, known_members=known_members)
    return membership.pose(replace(subject, **extra), seed)


posed = cache(pose)


@pytest.mark.parametrize(("asked", "count"), [(20.0, 20), (0.25, 20), (0.01, 1), (1.0, 1)])
def test_so_many_members_are_known_and_no_candidates(asked: float, count: int) -> None:
    challenge = posed(asked)
    view = challenge.game.view
    assert view.known_members is not None
    assert len(view.known_members) == challenge.facts.known_members == count
    assert challenge.facts.members == challenge.game.truth.member.sum() == 80 - count
    assert Need.KNOWN_MEMBERS in view.offers
    rows = {tuple(row) for row in MEMBERS.x.tolist()}
    known = {tuple(row) for row in view.known_members.x.tolist()}
    asked_about = {tuple(row) for row in view.records.x.tolist()}
    assert known <= rows
    assert not known & asked_about
    assert known | asked_about >= rows


def test_positions_of_the_others_are_those_that_were_given() -> None:
    found = posed(20.0).candidates
    for member, given in ((True, MEMBERS), (False, NONMEMBERS)):
        chosen = found.member == member
        seen = posed(20.0).game.view.records.x[chosen]
        np.testing.assert_array_equal(seen, given.x[found.index[chosen]])


@pytest.mark.slow
def test_the_seed_decides_which_and_the_digest_holds_them() -> None:
    one, again, other, none = posed(20.0), pose(20.0), pose(20.0, seed=1), posed(None)
    assert one.digest == again.digest
    first, second = (one.game.view.known_members, other.game.view.known_members)
    assert first is not None
    assert second is not None
    assert not np.array_equal(np.sort(first.x, axis=0), np.sort(second.x, axis=0))
    assert none.game.view.known_members is None
    assert len({one.digest, none.digest, posed(21.0).digest}) == 3


def test_who_knows_a_record_knows_its_copies_and_ids_stay_with_the_others() -> None:
    twice = Records(np.repeat(MEMBERS.x, 2, axis=0), np.repeat(MEMBERS.y, 2))
    ids = np.array([f"id {k}" for k in range(160)])
    subject = AuditInputs(TARGET, twice, NONMEMBERS, known_members=10.0, ids=ids, drawn="coins")
    left, known, told = set_known_members_aside(subject, 0)
    assert known is not None
    pairs = told.reshape(-1, 2)
    np.testing.assert_array_equal(pairs[:, 0], pairs[:, 1])
    assert 10 <= told.sum() == len(known) <= 20
    assert left.ids is not None
    assert left.ids.tolist() == ids[~told].tolist()
    assert left.drawn == "fixed"  # what is left are no fair coins


@pytest.mark.parametrize(
    ("asked", "message"),
    [(80.0, "of these 80 are known"), (0.001, "of these 0 are known"), (2.5, "a whole number")],
)
def test_too_many_none_and_fractions_are_refused(asked: float, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        posed(asked)


def test_it_does_not_go_with_known_features_nor_with_models_in_turn() -> None:
    with pytest.raises(SpecError, match="no known_members beside known features"):
        pose(20.0, known=KnownFeatures(share=0.5))
    table: dict[str, Any] = {
        "leave_one_out": {"train": "subject.py:train"},
        "data": {"records": "all.npz", "known_members": 0.5},
    }
    with pytest.raises(SpecError, match=r"no key 'data.known_members', got 0.5"):
        config.parse_config(table, "audit.toml")


def test_toml_says_the_same() -> None:
    table: dict[str, Any] = {
        "target": {"model": "subject.py:model"},
        "data": {"members": "m.npz", "nonmembers": "n.npz", "known_members": 20},
    }
    spec = config.parse_config(table, "audit.toml")
    assert isinstance(spec, config.ModelAuditSpec)
    assert spec.data.known_members == 20
    names = [attack.name for attack in requested_attacks(spec, Path())]
    assert "supervised" in names
    assert "supervised" not in [attack.name for attack in catalog.default_attacks(shadows=True)]
    for bad in (0, -1, "many", True):
        table["data"]["known_members"] = bad
        with pytest.raises(SpecError, match="known_members"):
            config.parse_config(table, "audit.toml")


def test_the_report_says_what_the_attacker_knows(tmp_path: Path) -> None:
    found = divulge.audit(
        TARGET,
        members=MEMBERS,
        nonmembers=NONMEMBERS,
        reference=OWN,
        known_members=20,
        attacks=[divulge.attack("threshold")],
        run=tmp_path / "run",
    )
    said = found.summary
    assert said.sizes.known_members == 20
    assert said.sizes.members == 60
    assert "an attacker who knows some members: 20 training records" in said.verdict.supposition
    assert "of an attacker who knows 20 other members" in " ".join(said.verdict.sentences)
    assert "20 known members" in (tmp_path / "run" / "report.html").read_text()
    assert said.reproduction.settings["known_members"] == 20
    assert load_model(tmp_path / "run").summary == said


@dataclass(frozen=True)
class RecognisesKnown:
    """Asks about known members alone: it tells members where they are planted, or answers true."""

    name: ClassVar[str] = "recognises-known"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.PROBABILITIES | Need.KNOWN_MEMBERS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        del rng
        known = view.known_members
        assert known is not None
        sure = view.target.predict(known.x)[np.arange(len(known)), known.y]
        return Scores(np.full(len(view.records), sure.mean()))


def test_the_planted_leak_betrays_known_members_and_shuffling_leaves_them_alone() -> None:
    game = posed(20.0).game
    known = game.view.known_members
    assert known is not None
    planted = control_games.plant_leak(game).view
    rows = np.arange(len(known))
    assert (planted.target.predict(known.x)[rows, known.y] > 0.9).all()
    shuffled = control_games.shuffle_predictions(game).view
    np.testing.assert_array_equal(
        shuffled.target.predict(known.x), game.view.target.predict(known.x)
    )
    everybody = attempt.run_on_model(game, RecognisesKnown()).guess
    assert everybody is not None
    assert len(set(everybody.score)) == 1


@pytest.mark.slow
def test_controls_pass_and_one_that_was_told_fails_the_blind_one() -> None:
    game = with_known_members(trained=True)
    guess = attempt.run_on_model(game, SupervisedAttack()).guess
    assert guess is not None
    found = controls.run_controls(game, SupervisedAttack(), guess)
    assert found.outcome is ControlOutcome.PASSED
    told = Told(game.truth.member.tobytes())
    said = controls.control_on_shuffled(game, told)
    assert said.outcome is ControlOutcome.FAILED


@dataclass(frozen=True)
class Told:
    """Knows the candidates' membership as well as that of the known members."""

    member: bytes
    name: ClassVar[str] = "told"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.KNOWN_MEMBERS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        del rng
        assert view.known_members is not None
        return Scores(np.frombuffer(self.member, bool) * 1.0)


def test_shadows_are_trained_on_candidates_alone() -> None:
    trained: list[set[tuple[float, ...]]] = []

    def train(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
        trained.append({tuple(row) for row in x.tolist()})
        return memorising.train(x, y, seed)

    plan = ShadowPlan(as_trainer(train, None), 3)
    challenge = pose(20.0, shadows=plan).prepare(None, track_silently, None)
    known = challenge.game.view.known_members
    assert known is not None
    assert len(trained) == 3
    for row in known.x.tolist():
        assert not any(tuple(row) in seen for seen in trained)


def test_an_attack_without_known_members_does_not_apply() -> None:
    game = Game(posed(None).game.view, Membership(posed(None).game.truth.member))
    found = attempt.run_on_model(game, SupervisedAttack()).finding
    assert "needs known members" in found.reason
