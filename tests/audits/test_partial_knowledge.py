"""An audit in which the attacker knows only some features of each candidate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import divulge
from divulge._util.json import JSON
from divulge._util.progress import track_silently
from divulge.attacks.membership.lira import LiRA
from divulge.attacks.membership.mrad.attack import MRAD
from divulge.attacks.membership.threshold import Threshold
from divulge.audits import config
from divulge.audits.challenges import membership
from divulge.audits.challenges.model import MembershipChallenge
from divulge.audits.requested_attacks import requested_attacks
from divulge.audits.subject import AuditInputs
from divulge.core import Finding, Records, Status
from divulge.data.known_features import KnownFeatures
from divulge.errors import DataError, SpecError
from divulge.metrics import signals
from divulge.secrets import attempt
from divulge.targets.sklearn import SklearnTarget
from divulge.testing import networks as world
from divulge.training.shadows import train
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.trainers import EstimatorTrainer
from tests.golden import golden

from ..kinds import audit_model, grouped

FOREST = RandomForestClassifier(30, random_state=0)
MEMBERS, NONMEMBERS, OWN, POOL = (world.draw(150, seed) for seed in range(4))
TARGET = SklearnTarget(RandomForestClassifier(30, random_state=0).fit(MEMBERS.x, MEMBERS.y))


def posed(known: KnownFeatures | None, **extra: Any) -> MembershipChallenge:
    return membership.pose(AuditInputs(TARGET, MEMBERS, NONMEMBERS, OWN, known=known, **extra))


def test_hidden_values_reach_no_part_of_the_view() -> None:
    """Other values in their place, and the attacker sees the very same."""
    known = KnownFeatures(columns=tuple("012345"), completions=2)
    seen = posed(known).game.view
    mask = np.arange(12) < 6
    inside, outside = (
        Records(np.where(mask, part.x, -77.0).astype(part.x.dtype), part.y)
        for part in (MEMBERS, NONMEMBERS)
    )
    changed = membership.pose(AuditInputs(TARGET, inside, outside, OWN, known=known)).game.view
    for mine, theirs in zip(
        (seen.records, *seen.augmented), (changed.records, *changed.augmented), strict=True
    ):
        np.testing.assert_array_equal(mine.x, theirs.x)
        assert not (mine.x == -77.0).any()


def test_a_check_names_the_fill() -> None:
    texts = {}
    for fill in ("chosen", "mean"):
        checks = posed(KnownFeatures(share=0.5, fill=fill)).facts.checks
        texts[fill] = next(check.text for check in checks if check.name == "filling in")
    assert texts["mean"] == ("Unknown features of candidates are filled in by mean, as asked for.")
    assert "by gaussian, which errs least" in texts["chosen"]
    assert not [c for c in posed(None).facts.checks if c.name == "filling in"]


def test_with_nothing_hidden_it_is_the_ordinary_audit() -> None:
    plan = ShadowPlan(EstimatorTrainer(FOREST, 1), 2, POOL)
    audits = [
        divulge.audit(
            TARGET,
            members=MEMBERS,
            nonmembers=NONMEMBERS,
            reference=OWN,
            known=known,
            attacks=(Threshold(), Threshold(per_class=True)),
        )
        for known in (None, KnownFeatures(share=1.0))
    ]
    assert [f.metrics for f in audits[0].findings] == [f.metrics for f in audits[1].findings]
    views = [posed(known, shadows=plan) for known in (None, KnownFeatures(share=1.0))]
    assert views[0].compared == views[1].compared


def test_shadows_are_asked_about_filled_in_records() -> None:
    plan = ShadowPlan(EstimatorTrainer(FOREST, 1), 4, POOL)
    ready = posed(KnownFeatures(share=0.6, completions=2), shadows=plan)
    view = ready.game.view
    assert ready.shadows is not None
    shadows = train.train_shadows(view, ready.shadows)
    assert shadows.pool is not None
    assert len(shadows.augmented_phi) == len(shadows.pool.augmented_phi) == 1
    whole = replace(ready.game, view=replace(view, shadows=shadows))
    found = attempt.run_on_model(whole, LiRA()).finding
    assert found.status is Status.DONE, found.reason
    assert found.metrics["auc"].value == golden(0.7836)


def test_the_first_shadow_can_be_looked_into() -> None:
    """It is the model that answered as shadow 0, beside records of whose part in it one knows."""
    pytest.importorskip("torch")
    plan = ShadowPlan(EstimatorTrainer(FOREST, 1), 2, POOL)
    ready = posed(KnownFeatures(share=0.6), shadows=plan)
    view, plan = ready.game.view, ready.shadows or plan
    shadows, first = train.train_shadows_and_keep_first(view, plan, 3)
    assert first is not None
    assert shadows.pool is not None
    for phi, records in ((shadows.phi, view.records), (shadows.pool.phi, first.records)):
        again = signals.compute_signal("scaled_logit", first.target.predict(records.x), records.y)
        np.testing.assert_array_equal(again, phi[:, 0])
    np.testing.assert_array_equal(first.member, shadows.pool.member[:, 0])
    assert first.known is not None
    changed = (first.records.x != POOL.x).any(axis=0)
    assert (first.records.x == POOL.x)[first.known].all()
    assert changed.any()
    inside = replace(view, target=world.trained(0))  # a forest cannot be differentiated
    assert train.train_shadows_and_keep_first(inside, plan, 3)[1] is None


@dataclass(frozen=True)
class Counting:
    """Trains forests in waves of two whose rounding depends on the wave, and writes down each."""

    trained: ClassVar[list[int]] = []
    together: ClassVar[int] = 2

    def many(
        self, pool: Records, subsets: np.ndarray, seeds: Sequence[int]
    ) -> Iterator[SklearnTarget]:
        for start in range(0, len(seeds), 2):
            wave = list(seeds[start : start + 2])
            for own, seed in zip(subsets[start : start + 2], wave, strict=True):
                self.trained.append(seed)
                forest = RandomForestClassifier(5, random_state=(seed + sum(wave)) % 2**31)
                yield SklearnTarget(forest.fit(pool.x[own], pool.y[own]))

    def settled(self, pool: Records, subsets: np.ndarray) -> "Counting":
        del pool, subsets
        return self


def test_the_first_shadow_is_trained_once_and_comes_back_the_same(tmp_path: Path) -> None:
    """Also where it is one computation with others, and where its predictions are kept."""
    pytest.importorskip("torch")
    trainer = Counting()
    trainer.trained.clear()
    plan = ShadowPlan(trainer, 3, POOL)
    ready = posed(KnownFeatures(share=0.6), shadows=plan)
    done = ready.prepare(tmp_path, track_silently, None).game.view
    assert trainer.trained == plan.seeds(0)
    (rows,) = (tmp_path / "shadows").glob("*.npy")
    before = rows.read_bytes()
    trainer.trained.clear()
    again = ready.prepare(tmp_path, track_silently, None).game.view
    assert trainer.trained == plan.seeds(0)[:2]  # no model is kept on disk
    assert rows.read_bytes() == before
    assert done.shadow is not None
    assert again.shadow is not None
    assert done.shadows is not None
    seen = [view.predict(done.records.x) for view in (done.shadow.target, again.shadow.target)]
    np.testing.assert_array_equal(seen[0], seen[1])
    phi = signals.compute_signal("scaled_logit", seen[0], done.records.y)
    np.testing.assert_array_equal(phi, done.shadows.phi[:, 0])


def test_mrad_compares_with_a_shadow_where_an_audit_has_some() -> None:
    pytest.importorskip("torch")
    whole = world.draw(2 * world.SIZE, 0)
    half = np.arange(len(whole)) < world.SIZE

    def ratio(**shadows: Any) -> Finding:
        (found,) = divulge.audit(
            world.trained(0),
            members=whole.take(half),
            nonmembers=whole.take(~half),
            reference=OWN,
            known=KnownFeatures(share=0.6),
            attacks=(MRAD(),),
            **grouped(**shadows),
        ).findings
        assert found.status is Status.DONE, found.reason
        return found

    plain = ratio()
    compared = ratio(shadows=1, pool=POOL, train=lambda *_: world.trained(500))
    assert compared.metrics["auc"] != plain.metrics["auc"]
    # nothing is left where the shadow is the target itself
    same = ratio(shadows=1, pool=POOL, train=lambda *_: world.trained(0))
    assert same.metrics["auc"].value == 0.5


def test_who_knows_parts_cannot_train_on_the_candidates() -> None:
    plan = ShadowPlan(EstimatorTrainer(FOREST, 1), 4)
    with pytest.raises(SpecError, match="expected a pool"):
        posed(KnownFeatures(share=0.6), shadows=plan)


def test_other_ways_of_asking_and_parts_do_not_go_together() -> None:
    with pytest.raises(SpecError, match="no augment"):
        posed(KnownFeatures(share=0.6), augment=("mirror",))


def test_filling_in_needs_reference_records() -> None:
    subject = AuditInputs(TARGET, MEMBERS, NONMEMBERS, known=KnownFeatures(share=0.6))
    with pytest.raises(DataError, match="reference records"):
        membership.pose(subject)


def write(folder: Path, known: str) -> Path:
    names = [f"f{k}" for k in range(12)]
    header = ",".join([*names, "label"])
    for name, part in (("m", MEMBERS), ("n", NONMEMBERS), ("r", OWN)):
        table = np.column_stack([part.x, part.y])
        np.savetxt(folder / f"{name}.csv", table, delimiter=",", header=header, comments="")
    (folder / "subject.py").write_text(
        "import numpy as np\n"
        "from sklearn.ensemble import RandomForestClassifier\n"
        "m = np.loadtxt(__file__.replace('subject.py', 'm.csv'), delimiter=',', skiprows=1)\n"
        "model = RandomForestClassifier(30, random_state=0).fit(m[:, :-1], m[:, -1].astype(int))\n"
    )
    path = folder / "audit.toml"
    path.write_text(
        '[target]\nmodel = "subject.py:model"\n'
        '[data]\nmembers = "m.csv"\nnonmembers = "n.csv"\nreference = "r.csv"\n'
        f"[known]\n{known}\n"
        '[[attacks]]\nname = "threshold"\n'
    )
    return path


def test_an_audit_says_what_somebody_tells_who_knows_these_columns(tmp_path: Path) -> None:
    columns = ", ".join(f'"f{k}"' for k in range(10))
    found = audit_model(write(tmp_path, f"columns = [{columns}]"))
    verdict = found.summary.verdict
    known = "only the columns f0, f1, f2, f3, f4, f5, f6, f7, f8 and f9 of each record"
    assert verdict.level == "leak"
    assert f"the one attack tried that knows {known} " in verdict.sentences[0]
    assert verdict.supposition.startswith(f"The audit assumes an attacker who knows {known}")


def test_partly_known_candidates_meet_all_attacks() -> None:
    table: dict[str, JSON] = {
        "target": {"model": "a.py:m"},
        "data": {"members": "m.npz", "nonmembers": "n.npz"},
    }
    nothing: dict[str, JSON] = {}
    whole, partly = (
        [
            attack.name
            for attack in requested_attacks(config.parse_config(table | extra, "here"), Path())
        ]
        for extra in (nothing, {"known": {"share": 0.5}})
    )
    assert partly == [*whole, "gradient-norm", "mrad"]


def test_settings_of_what_is_known_are_checked(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="columns or a share"):
        audit_model(write(tmp_path, "completions = 2"))
    with pytest.raises(SpecError, match="did you mean 'columns'"):
        config.read_config(write(tmp_path, 'colums = ["f0"]'))
    with pytest.raises(DataError, match="did you mean 'f1'"):
        audit_model(write(tmp_path, 'columns = ["f1x"]'))
