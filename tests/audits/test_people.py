"""Audits of people with several records: the person is what is drawn, tested and counted."""

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import divulge
from divulge.audits.people import guarantee_for_people
from divulge.core import Guarantee, ModelView, Scores, Verdict
from divulge.errors import DataError
from divulge.finished_runs.gate import Gate
from divulge.finished_runs.judged import Attempts
from divulge.finished_runs.rulings import hold_against_gate
from divulge.metrics import people
from divulge.metrics.membership import auc
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.trainers import as_trainer
from tests.slow import thin

ATTACKS = (divulge.attack("threshold"), divulge.attack("threshold", signal="entropy"))


class Crowd:
    """People whose records resemble each other, and whose label is their own."""

    def __init__(self, seed: int, count: int, each: int, *, unequal: bool = False) -> None:
        rng = np.random.default_rng(seed)
        own = rng.normal(size=(count, 8))
        sizes = rng.integers(1, 2 * each, count) if unequal else np.full(count, each)
        self.person = np.repeat(np.arange(count), sizes)
        self.x = own[self.person] + 0.3 * rng.normal(size=(len(self.person), 8))
        self.y = (own[:, 0] + 0.8 * rng.normal(size=count) > 0).astype(int)[self.person]

    @property
    def pair(self) -> tuple[np.ndarray, np.ndarray]:
        return self.x, self.y

    def names(self, start: str) -> list[str]:
        return [f"{start}{each}" for each in self.person]


def audit(seed: int, count: int, each: int, *, leaks: bool, **settings: Any) -> divulge.Audit:
    unequal = settings.pop("unequal", False)
    inside, outside = (Crowd(2 * seed + k, count, each, unequal=unequal) for k in range(2))
    taught = inside if leaks else Crowd(10_000 + seed, 2 * count, each, unequal=unequal)
    model = RandomForestClassifier(20, random_state=seed).fit(*taught.pair)
    return divulge.audit(
        model,
        members=inside.pair,
        nonmembers=outside.pair,
        groups=(inside.names("in"), outside.names("out")),
        **{"attacks": ATTACKS, **settings},
    )


def level_without_groups(seed: int, count: int, each: int) -> str:
    inside, outside = (Crowd(2 * seed + k, count, each) for k in range(2))
    model = RandomForestClassifier(20, random_state=seed).fit(*inside.pair)
    found = divulge.audit(model, members=inside.pair, nonmembers=outside.pair, attacks=ATTACKS)
    return found.verdict.level


def test_a_leak_of_people_is_a_leak_and_was_no_verdict_by_record() -> None:
    found = audit(0, 30, 10, leaks=True)
    assert found.verdict.level == "leak"
    assert found.verdict.headline == "This model leaks whose records it was trained on"
    assert (
        "Shown one person whose records were used and one other person"
        in found.verdict.sentences[0]
    )
    assert found.sizes["members"] == found.sizes["nonmembers"] == 30
    assert found.facts.people is not None
    assert (found.facts.people.members, found.facts.people.most) == (300, 10)
    assert level_without_groups(0, 30, 10) in ("confounded", "inputs doubtful")


@pytest.mark.parametrize(("count", "each"), thin(3, [(30, 10), (15, 20), (100, 1)]))
def test_people_of_strangers_are_no_leak_and_no_confounding(count: int, each: int) -> None:
    levels = [audit(seed, count, each, leaks=False).verdict.level for seed in range(3)]
    # chance tells the sets apart in 5 % at most, which is a leak, or confounded where difficulty
    # explains it: two of three are one in 140
    assert levels.count("leak") + levels.count("confounded") <= 1
    assert "inputs doubtful" not in levels


@pytest.mark.slow
@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize(("count", "each"), [(150, 1), (60, 3), (30, 10), (15, 20)])
def test_the_verdict_of_people_has_the_size_that_it_says(
    count: int, each: int, *, unequal: bool
) -> None:
    levels = [audit(s, count, each, leaks=False, unequal=unequal).verdict.level for s in range(40)]
    # .05 of 40 is 2; more than 6 are less likely than .004
    assert levels.count("leak") + levels.count("confounded") <= 6


def test_figures_by_record_stand_beside_those_by_person() -> None:
    found = audit(1, 30, 6, leaks=True, unequal=True)
    candidates = found.candidates
    assert candidates.person is not None
    for entry in found.contents.entries:
        assert entry.score is not None
        rule = entry.finding.settings["person"]
        by_record = entry.arrays["by_record"]
        np.testing.assert_allclose(
            entry.score,
            people.combine(by_record, candidates.person, str(rule)),  # type: ignore[arg-type]
        )
        member = candidates.member[candidates.person]
        expected = people.record_auc(by_record, candidates.person, member)
        assert entry.finding.metrics["record_auc"] == expected
        assert entry.finding.metrics["auc"] == auc(entry.score, candidates.member)
    assert {f.settings["person"] for f in found.findings} == {"mean", "max"}


def test_more_records_of_members_are_no_leak() -> None:
    """Strangers' model: the highest of 12 scores is above the highest of 2, whoever was used."""
    inside, outside = Crowd(0, 60, 12), Crowd(1, 60, 2)
    model = RandomForestClassifier(20, random_state=0).fit(*Crowd(9, 80, 6).pair)
    found = divulge.audit(
        model,
        members=inside.pair,
        nonmembers=outside.pair,
        groups=(inside.names("in"), outside.names("out")),
        attacks=ATTACKS,
    )
    check = next(check for check in found.checks if check.name == "records each")
    assert check.verdict is Verdict.WARNING
    assert "12 and 2 on average" in check.text
    assert found.verdict.level == "confounded"
    assert "more records than those of the other" in found.verdict.confounding
    alike = audit(0, 20, 3, leaks=True, unequal=True)
    check = next(check for check in alike.checks if check.name == "records each")
    assert check.verdict is Verdict.PASS


def test_a_gate_and_a_claim_say_what_to_do_with_people() -> None:
    promised = divulge.Options(guarantee=Guarantee(8.0, 0.0))
    found = audit(0, 100, 1, leaks=True, options=promised)
    (claim,) = found.claims
    assert claim is not None
    assert "with 200 people. Even a model that leaks every person" in claim.sentence
    assert f"About {claim.needed:,} people, half of them members" in claim.sentence
    (few,) = found.gate(fail_above={"tpr@0.01": 0.2}).undecided
    assert few.endswith(", each a person")
    differ = dataclasses.replace(found.verdict, confounding="The two sets differ.")
    gate = Gate(fail_above={"auc": 0.6})
    (advice,) = hold_against_gate(
        gate, differ, found.limits, attempts=Attempts(unit=found.unit)
    ).undecided
    assert advice.endswith(
        "Draw people at random from one pool, each with all of their records, remove copies, and "
        "run the audit again."
    )


@dataclasses.dataclass(frozen=True)
class Counted(divulge.attacks.Threshold):
    """The loss with noise; counts how often it is carried out."""

    runs: ClassVar[list[int]] = []

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        self.runs.append(len(view.records))
        view.target.predict(view.records.x[:7])
        score = super().__call__(view, rng).score
        return Scores(score + 0.1 * rng.normal(size=len(score)))


def test_rules_take_the_scores_of_one_run_of_their_attack() -> None:
    Counted.runs.clear()
    both = audit(1, 20, 3, leaks=True, attacks=(Counted(),))
    assert Counted.runs == [120] * 3  # before the model, and before both controls
    rules: tuple[people.Rule, ...] = ("mean", "max")
    for place, rule in enumerate(rules):
        options = divulge.Options(person_scores=(rule,))
        alone = audit(1, 20, 3, leaks=True, attacks=(Counted(),), options=options)
        one, other = alone.contents.entries[0], both.contents.entries[place]
        np.testing.assert_array_equal(one.score, other.score)
        assert dataclasses.replace(one.finding, seconds=0) == dataclasses.replace(
            other.finding, seconds=0
        )
        assert one.control == other.control


def test_rules_are_chosen(tmp_path: Path) -> None:
    options = divulge.Options(person_scores=("sum",))
    found = audit(1, 20, 3, leaks=True, options=options)
    assert [f.settings["person"] for f in found.findings] == ["sum", "sum"]


@pytest.mark.slow
def test_the_run_folder_keeps_people_and_none_of_their_names(tmp_path: Path) -> None:
    inside, outside = Crowd(0, 40, 4), Crowd(1, 40, 4)
    model = RandomForestClassifier(5, random_state=0).fit(*inside.pair)
    names = [f"Planted-Secret-{each}" for each in inside.person]
    found = divulge.audit(
        model,
        members=inside.pair,
        nonmembers=outside.pair,
        groups=(names, outside.names("Planted-Secret-out-")),
        attacks=ATTACKS,
        run=tmp_path / "run",
    )
    for path in (tmp_path / "run").rglob("*"):
        assert not path.is_file() or b"Planted-Secret" not in path.read_bytes(), path
    again = divulge.load(tmp_path / "run")
    assert isinstance(again, divulge.Audit)
    assert again.verdict == found.verdict
    assert again.measure().findings == found.findings
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["sizes"]["people"]["members"] == 160
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Most exposed people" in page
    assert "40 people whose 160 records trained the model." in page
    rows = list(csv.DictReader((tmp_path / "run" / "exposed.csv").read_text().splitlines()))
    # the position is that of each person's first record
    assert sorted(int(row["position"]) for row in rows) == list(range(0, 160, 4))


def test_records_of_people_in_any_order_give_the_same_figures() -> None:
    inside, outside = Crowd(0, 30, 5), Crowd(1, 30, 5)
    model = RandomForestClassifier(10, random_state=0).fit(*inside.pair)
    order = np.random.default_rng(0).permutation(len(inside.person))
    pairs = [inside.pair, (inside.x[order], inside.y[order])]
    names = [inside.names("a"), [inside.names("a")[k] for k in order]]
    figures = [
        divulge.audit(
            model,
            members=pair,
            nonmembers=outside.pair,
            groups=(own, outside.names("b")),
            attacks=ATTACKS,
        )
        .findings[0]
        .metrics["auc"]
        for pair, own in zip(pairs, names, strict=True)
    ]
    assert figures[0] == figures[1]


def test_a_person_on_both_sides_is_refused_with_the_count() -> None:
    inside, outside = Crowd(0, 10, 3), Crowd(1, 10, 3)
    model = RandomForestClassifier(5, random_state=0).fit(*inside.pair)
    with pytest.raises(DataError, match=r"got 10 of 10 people of members among nonmembers"):
        divulge.audit(
            model,
            members=inside.pair,
            nonmembers=outside.pair,
            groups=(inside.person, outside.person),
        )
    with pytest.raises(DataError, match="at least 2 people in members, got those of 1"):
        divulge.audit(
            model,
            members=inside.pair,
            nonmembers=outside.pair,
            groups=(np.zeros(30), outside.person + 1),
        )


def test_frames_name_a_column_which_the_model_never_sees() -> None:
    inside, outside = Crowd(0, 20, 4), Crowd(1, 20, 4)
    columns = [f"c{k}" for k in range(8)]
    frames = [pd.DataFrame(crowd.x, columns=columns) for crowd in (inside, outside)]
    model = RandomForestClassifier(5, random_state=0).fit(frames[0], inside.y)
    given = [frame.assign(who=crowd.names(str(k))) for k, (frame, crowd) in
             enumerate(zip(frames, (inside, outside), strict=True))]  # fmt: skip
    found = divulge.audit(
        model,
        members=(given[0], inside.y),
        nonmembers=(given[1], outside.y),
        groups="who",
        attacks=ATTACKS,
    )
    assert found.sizes["members"] == 20


def test_settings_name_a_column_of_tables(tmp_path: Path) -> None:
    crowds = {"in": Crowd(0, 20, 4), "out": Crowd(1, 20, 4)}
    for name, crowd in crowds.items():
        frame = pd.DataFrame(crowd.x, columns=[f"c{k}" for k in range(8)])
        frame["label"], frame["who"] = crowd.y, crowd.names(name)
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "model.py").write_text(
        "import pandas as pd\nfrom pathlib import Path\n"
        "from sklearn.ensemble import RandomForestClassifier\n"
        "frame = pd.read_csv(Path(__file__).with_name('in.csv'))\n"
        "x = frame.drop(columns=['label', 'who']).to_numpy()\n"
        "model = RandomForestClassifier(5, random_state=0).fit(x, frame['label'])\n"
    )
    (tmp_path / "audit.toml").write_text(
        '[target]\nmodel = "model.py:model"\n[data]\nmembers = "in.csv"\nnonmembers = "out.csv"\n'
        'group = "who"\nperson_scores = ["mean"]\n[[attacks]]\nname = "threshold"\n'
    )
    found = divulge.audit_file(tmp_path / "audit.toml", run=tmp_path / "run")
    assert isinstance(found, divulge.Audit)
    assert found.findings[0].label == "threshold(signal=loss, person=mean)"
    assert found.facts.people is not None
    assert found.facts.people.members == 80
    # the same from a table of answers
    answers = pd.concat([pd.read_csv(tmp_path / f"{name}.csv") for name in crowds])
    scope: dict[str, Any] = {"__file__": str(tmp_path / "model.py")}
    exec((tmp_path / "model.py").read_text(), scope)  # noqa: S102 - written above
    p = scope["model"].predict_proba(answers[[f"c{k}" for k in range(8)]].to_numpy())
    answers["p_0"], answers["p_1"] = p.T
    answers["member"] = np.repeat([1, 0], [80, 80])
    answers.to_csv(tmp_path / "answers.csv", index=False)
    table = divulge.audit_predictions(
        tmp_path / "answers.csv",
        group="who",
        attacks=ATTACKS[:1],
        options=divulge.Options(person_scores=("mean",)),
    )
    assert table.findings[0].metrics["auc"] == found.findings[0].metrics["auc"]
    # ids that are people: their names, where exposed.csv wants them
    settings = (tmp_path / "audit.toml").read_text().replace("group", 'id = "who"\ngroup')
    (tmp_path / "audit.toml").write_text(settings)
    (tmp_path / "table.toml").write_text(
        '[predictions]\nfile = "answers.csv"\nid = "who"\ngroup = "who"\n'
        '[[attacks]]\nname = "threshold"\n'
    )
    for name in ("audit", "table"):
        named = divulge.audit_file(tmp_path / f"{name}.toml", run=tmp_path / f"named-{name}")
        assert named.sizes["members"] == 20
        rows = csv.DictReader((tmp_path / f"named-{name}" / "exposed.csv").read_text().splitlines())
        assert {row["id"] for row in rows} == set(crowds["in"].names("in"))
    with pytest.raises(
        divulge.errors.DivulgeError, match="column of its own as group, got 'label'"
    ):
        divulge.audit_predictions(tmp_path / "answers.csv", group="label")


def test_shadows_learn_from_all_records_of_a_person_or_none() -> None:
    crowd = Crowd(0, 50, 4)
    pool = divulge.Records(crowd.x, crowd.y, group=crowd.person)
    plan = ShadowPlan(as_trainer(RandomForestClassifier(), None), 8)
    subsets = plan.subsets(pool, 0)
    by_person = subsets.reshape(8, 50, 4)
    assert (by_person.all(2) == by_person.any(2)).all()
    assert 0 < by_person.any(2).mean() < 1
    # more models change none of the first
    more = ShadowPlan(plan.trainer, 9).subsets(pool, 0)
    np.testing.assert_array_equal(more[:8], subsets)


def test_shadow_attacks_on_people_find_a_leak_and_shadows_look_like_the_target() -> None:
    found = audit(3, 60, 5, leaks=True, shadows=6, attacks=(divulge.attack("lira"),))
    assert found.verdict.level == "leak"
    check = next(check for check in found.checks if check.name == "shadow models")
    assert check.verdict is Verdict.PASS


def test_a_guarantee_for_a_record_is_weaker_for_a_person() -> None:
    grouped = guarantee_for_people(Guarantee(0.5, 1e-5), 4)
    assert grouped is not None
    assert grouped.epsilon == pytest.approx(2.0)
    assert grouped.delta == pytest.approx(1e-5 * sum(np.exp(0.5 * k) for k in range(4)))
    assert guarantee_for_people(Guarantee(8.0, 1e-5), 30) is None
    by_person = Guarantee(1.0, 1e-5, unit="person")
    assert guarantee_for_people(by_person, 30) is by_person
    found = audit(0, 20, 5, leaks=True, options=divulge.Options(guarantee=Guarantee(8.0, 1e-5)))
    said = next(check for check in found.checks if check.name == "claim by person")
    assert "promises nothing to a person with 5 records" in said.text
    assert found.claims == (None,)


def test_a_guarantee_for_a_record_is_turned_whatever_its_size_is() -> None:
    assert Guarantee(1000.0, 0.0).for_group(3) == Guarantee(
        3000.0, 0.0, "ε = 1000 per record for people with up to 3 records", unit="person"
    )
    assert Guarantee(1000.0, 1e-5).for_group(3) is None
    # δ (1 + e^400) is far above 1
    assert Guarantee(400.0, 1e-150).for_group(2) is None
    tiny = Guarantee(300.0, 1e-150).for_group(2)
    assert tiny is not None
    assert np.log(tiny.delta) == pytest.approx(np.log(1e-150) + 300)


@pytest.mark.slow
def test_copies_that_are_left_out_count_for_what_a_guarantee_promises(tmp_path: Path) -> None:
    """The model may have learned from them all the same."""
    inside, outside = Crowd(0, 30, 3), Crowd(1, 30, 3)
    x, y = (
        np.vstack([inside.x, inside.x[:1] + np.array([[0.1], [0.2]])]),
        np.append(inside.y, inside.y[[0, 0]]),
    )
    names = [*inside.names("in"), "in0", "in0"]  # one of five records
    outside.x[0] = x[0]
    found = divulge.audit(
        RandomForestClassifier(5, random_state=0).fit(x, y),
        members=(x, y),
        nonmembers=outside.pair,
        groups=(names, outside.names("out")),
        attacks=ATTACKS[:1],
        options=divulge.Options(guarantee=Guarantee(0.5, 0.0)),
        run=tmp_path / "run",
    )
    assert found.candidates.person is not None
    assert np.bincount(found.candidates.person).max() == 4
    assert found.facts.people is not None
    assert found.facts.people.most == 5
    assert found.claims[0] is not None
    assert found.claims[0].epsilon == pytest.approx(2.5)


def test_known_members_are_whole_people() -> None:
    found = audit(0, 20, 5, leaks=True, known_members=4, attacks=(divulge.attack("supervised"),))
    assert found.facts.people is not None
    assert (found.facts.members, found.facts.people.members) == (16, 80)
