"""Models audited in turn by person: whole people are drawn, scored, permuted and counted."""

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import divulge
from divulge.core import Guarantee
from divulge.errors import DataError, SpecError
from divulge.metrics import people
from divulge.metrics.joint_test import add_deviations
from divulge.metrics.membership import Unmeasurable
from divulge.metrics.shared_shadows import influence
from divulge.studies.leave_one_out import joint
from divulge.studies.leave_one_out.result import LeaveOneOut
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.trainers import as_trainer
from tests.audits.test_people import Crowd

ATTACKS = tuple(divulge.attack(name) for name in ("threshold", "calibrated"))
CROWD = Crowd(0, 40, 3, unequal=True)

SUBJECT = """
import numpy as np
from sklearn.tree import DecisionTreeClassifier

def train(x, y, seed):
    return DecisionTreeClassifier(min_samples_leaf=2, random_state=seed).fit(x, y)
"""


def learn(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    return DecisionTreeClassifier(min_samples_leaf=2, random_state=seed).fit(x, y)


def ignore(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """A model of other people: it learns from nobody here."""
    other = Crowd(1000 + seed % 1000, 40, 3)
    return DecisionTreeClassifier(max_depth=3, random_state=seed).fit(*other.pair)


def audit_in_turn(**change: Any) -> divulge.LeaveOneOut:
    given: dict[str, Any] = {
        "train": learn,
        "records": CROWD.pair,
        "groups": CROWD.names("p"),
        "attacks": ATTACKS,
        "rotation": divulge.Rotation(5),
    }
    return divulge.leave_one_out(**given | change)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> divulge.LeaveOneOut:
    return audit_in_turn(run=tmp_path_factory.mktemp("people") / "run")


@pytest.mark.slow
def test_each_model_is_trained_on_all_records_of_a_person_or_on_none(
    found: divulge.LeaveOneOut,
) -> None:
    records = divulge.Records(*CROWD.pair, group=CROWD.person)
    halves = ShadowPlan(as_trainer(learn), 5).subsets(records, 0)
    for k, audit in enumerate(found.targets):
        candidates = audit.candidates
        assert candidates.person is not None
        np.testing.assert_array_equal(candidates.person, CROWD.person)
        np.testing.assert_array_equal(candidates.member[candidates.person], halves[k])
        first = np.unique(CROWD.person, return_index=True)[1]
        np.testing.assert_array_equal(candidates.index, first)
        for entry in audit.contents.entries:
            assert entry.score is not None
            rule: Any = entry.finding.settings["person"]
            by_record = entry.arrays["by_record"]
            np.testing.assert_allclose(
                entry.score, people.combine(by_record, candidates.person, rule)
            )


def test_people_are_told_of_and_counted(found: divulge.LeaveOneOut) -> None:
    assert found.sizes == {"records": len(CROWD.person), "people": 40, "models": 5, "targets": 5}
    assert found.verdict.level == "leak"
    assert (
        found.verdict.headline == "Models trained this way leak whose records they were trained on"
    )
    assert "Shown one person whose records were used" in found.verdict.sentences[0]
    assert f"{len(CROWD.person)} records of 40 people" in found.table()
    assert list(found.across) == [
        *(f"threshold(signal=loss, person={rule})" for rule in ("mean", "max")),
        *(f"calibrated(person={rule})" for rule in ("mean", "max")),
    ]
    assert not found.reads_shadows("threshold(signal=loss, person=mean)")
    assert found.reads_shadows("calibrated(person=mean)")
    again = LeaveOneOut.load(found.path or Path())
    assert again.verdict == found.verdict
    assert again.across == found.across


def test_a_figure_by_record_moves_with_whole_people(found: divulge.LeaveOneOut) -> None:
    label = "calibrated(person=mean)"
    assert "record_auc" in found.across[label]
    for audit, each in zip(found.targets, found.influences(label, "record_auc"), strict=True):
        person = audit.candidates.person
        assert person is not None
        by_record = next(
            e.arrays["by_record"] for e in audit.contents.entries if e.finding.label == label
        )
        own = influence("auc", by_record, audit.candidates.member[person])
        expected = [own[person == k].sum() for k in range(40)]
        np.testing.assert_allclose(each, expected, atol=1e-12)


def test_joint_permutations_permute_people(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []
    kept = joint._with_members

    def watch(view: Any, others: Any, member: np.ndarray) -> Any:
        seen.append(member)
        return kept(view, others, member)

    monkeypatch.setattr(joint, "_with_members", watch)
    monkeypatch.setattr(joint, "DRAWS", 7)
    found = audit_in_turn()
    assert len(seen) == 7 * 5
    first = np.unique(CROWD.person, return_index=True)[1]
    for member in seen:
        np.testing.assert_array_equal(member, member[:, first][:, CROWD.person])
        truth = np.stack([audit.candidates.member for audit in found.targets])
        assert sorted(member[:, first].T.tolist()) == sorted(truth.T.tolist())
    assert found.drawn is not None
    scores = found.scores("calibrated(person=mean)")
    assert scores is not None
    members = [audit.candidates.member for audit in found.targets]
    assert add_deviations(scores, members)[0] > found.drawn[2, 0].max()


@pytest.mark.slow
def test_models_of_other_people_leak_nobody() -> None:
    levels = [
        audit_in_turn(
            train=ignore,
            attacks=ATTACKS[1:],
            options=divulge.Options(seed=seed, person_scores=("mean",)),
            rotation=divulge.Rotation(4),
        ).verdict.level
        for seed in range(3)
    ]
    # each is a leak by chance in 5 %, so two of three are one in 140
    assert levels.count("leak") <= 1


def test_the_column_of_a_frame_is_no_feature_and_reference_people_stand_apart() -> None:
    frame = pd.DataFrame(CROWD.x, columns=[f"c{k}" for k in range(8)])
    wide = frame.assign(who=CROWD.names("p"))
    seen: list[Any] = []

    def train(x: Any, y: Any, seed: int) -> Any:
        seen.append(list(x.columns))
        return learn(x, y, seed)

    given: dict[str, Any] = {"attacks": ATTACKS[:1], "rotation": divulge.Rotation(3)}
    found = audit_in_turn(train=train, records=(wide, CROWD.y), groups="who", **given)
    assert seen[0] == [f"c{k}" for k in range(8)]
    assert found.facts.people == 40
    other = Crowd(1, 10, 3)
    reference = other.pair
    told = audit_in_turn(reference=reference, groups=(CROWD.names("p"), other.names("q")), **given)
    assert told.targets[0].facts.reference == 30
    with pytest.raises(DataError, match="got 10 of 40 people of records among reference"):
        audit_in_turn(reference=reference, groups=(CROWD.names("p"), other.names("p")), **given)
    with pytest.raises(DataError, match="groups for records and reference, got none for reference"):
        audit_in_turn(
            records=divulge.Records(*CROWD.pair, group=CROWD.person),
            reference=reference,
            groups=None,
            **given,
        )
    with pytest.raises(DataError, match="at least 2 people in records, got those of 1"):
        audit_in_turn(groups=np.zeros(len(CROWD.person)), **given)


def write(folder: Path, data: str) -> Path:
    (folder / "subject.py").write_text(SUBJECT)
    columns = {f"c{k}": CROWD.x[:, k] for k in range(8)}
    table = pd.DataFrame(columns | {"label": CROWD.y, "patient": CROWD.names("Secret")})
    table.to_csv(folder / "all.csv", index=False)
    half = len(table) // 2
    table[:half].to_csv(folder / "a.csv", index=False)
    table[half:].to_csv(folder / "b.csv", index=False)
    settings = folder / "audit.toml"
    settings.write_text(
        'name = "people"\n[leave_one_out]\nmodels = 4\ntrain = "subject.py:train"\n'
        f'[data]\n{data}\n[[attacks]]\nname = "calibrated"\n'
    )
    return settings


def test_settings_name_the_column_of_people(tmp_path: Path) -> None:
    """Two tables are one pool: a person may have records in both."""
    own = 'group = "patient"\nperson_scores = ["max"]'
    figures = []
    for data in ('records = "all.csv"', 'members = "a.csv"\nnonmembers = "b.csv"'):
        found = divulge.audit_file(write(tmp_path, f"{data}\n{own}"))
        assert isinstance(found, LeaveOneOut)
        assert found.facts.people == 40
        assert list(found.across) == ["calibrated(person=max)"]
        figures.append(found.across)
        assert found.path is not None
        for path in found.path.rglob("*"):
            assert not path.is_file() or b"Secret" not in path.read_bytes(), path
        resumed = divulge.audit_file(tmp_path / "audit.toml", found.path, resume=True)
        assert isinstance(resumed, LeaveOneOut)
        assert resumed.across == found.across
    assert figures[0] == figures[1]


def test_strata_are_refused_where_several_models_are_audited(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"expected no key 'data\.strata'"):
        divulge.audit_file(write(tmp_path, 'records = "all.csv"\nstrata = "patient"'))


def test_a_promise_for_one_record_is_held_against_people() -> None:
    @dataclasses.dataclass(frozen=True)
    class Private:
        def many(self, pool: Any, subsets: Any, seeds: Any) -> Any:
            yield from as_trainer(learn).many(pool, subsets, seeds)

        def guarantee(self, records: int) -> Guarantee:
            assert records
            return Guarantee(0.5, 1e-6)

    found = audit_in_turn(train=Private(), attacks=ATTACKS[:1], rotation=divulge.Rotation(3))
    most = int(np.bincount(CROWD.person).max())
    promised = Guarantee(0.5, 1e-6).for_group(most)
    assert promised is not None
    for audit in found.targets:
        assert audit.facts.claim is not None
        assert dataclasses.asdict(audit.facts.claim.guarantee) == dataclasses.asdict(promised)
        assert audit.facts.delta == promised.delta


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> divulge.LeaveOneOut:
    """So many models that single people can be listed."""
    crowd = Crowd(0, 30, 3)
    return audit_in_turn(
        records=crowd.pair,
        groups=crowd.names("p"),
        attacks=ATTACKS,
        rotation=divulge.Rotation(14),
        options=divulge.Options(person_scores=("mean",)),
        run=tmp_path_factory.mktemp("many") / "run",
    )


def test_success_of_each_person_is_that_of_its_own_scores(many: divulge.LeaveOneOut) -> None:
    found = many.success_per_person()
    assert found.attack == "threshold(signal=loss, person=mean)"
    scores = many.scores(found.attack)
    assert scores is not None
    table = np.stack(scores)
    member = np.stack([audit.candidates.member for audit in many.targets])
    assert sorted(row.position for row in found.rows) == list(range(0, 90, 3))
    for row in found.rows:
        own, uses = table[:, row.position // 3], member[:, row.position // 3]
        assert (row.inside, row.outside) == (uses.sum(), (~uses).sum())
        pairs = [(a > b) + (a == b) / 2 for a in own[uses] for b in own[~uses]]
        assert row.success is not None
        assert row.success.value == pytest.approx(np.mean(pairs))
    assert found.listed
    assert all(row.q <= 0.1 for row in found.listed)
    assert found.mean.low > 0.5


def test_success_is_in_the_report_and_names_nobody(many: divulge.LeaveOneOut) -> None:
    assert many.path is not None
    rows = list(csv.DictReader((many.path / "success.csv").read_text().splitlines()))
    found = many.success_per_person()
    assert [int(row["position"]) for row in rows] == [row.position for row in found.rows]
    assert [float(row["q"]) for row in rows] == [row.q for row in found.rows]
    told = json.loads((many.path / "summary.json").read_text())["success"]
    assert told["listed"] == len(found.listed)
    assert told["certain"] is None  # 14 targets cannot show a success above 90 %
    page = (many.path / "report.html").read_text().replace("\u202f", " ").replace("&#8239;", " ")
    assert "Success per person" in page
    assert "Who is told apart more than 90 % of the time: not measured." in page
    assert f"{len(found.listed)} of 30" in many.table()
    assert LeaveOneOut.load(many.path).success_per_person() == found


def test_a_list_that_must_be_empty_is_refused_with_what_would_do(
    found: divulge.LeaveOneOut, many: divulge.LeaveOneOut
) -> None:
    with pytest.raises(Unmeasurable, match=r"With 5 targets every list .* single person"):
        found.success_per_person()
    assert "Which people: not measured." in found.table()
    with pytest.raises(SpecError, match="false-discovery rate above"):
        many.success_per_person(q=1.0)
    only = dataclasses.replace(
        many,
        targets=tuple(
            dataclasses.replace(
                audit,
                contents=dataclasses.replace(audit.contents, entries=audit.contents.entries[1:]),
            )
            for audit in many.targets
        ),
    )
    with pytest.raises(Unmeasurable, match="add threshold"):
        only.success_per_person()


@pytest.mark.slow
def test_records_by_themselves_have_a_success_too() -> None:
    x, y = CROWD.pair
    found = audit_in_turn(
        records=(x[:60], y[:60]), groups=None, attacks=ATTACKS[:1], rotation=divulge.Rotation(14)
    )
    assert len(found.success_per_person().rows) == 60
    assert "Success per record" in found.table()
