"""Claims of differential privacy, from the command line and from Python."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.tree import DecisionTreeClassifier

import divulge
from divulge.cli.main import main
from divulge.core import Claim, Guarantee, Records, Target
from divulge.testing import forests
from divulge.training.trainers import EstimatorTrainer

from ..kinds import audit_model, grouped, load_model

SIZE = 600
ATTACKS = (divulge.attack("threshold"), divulge.attack("gap"))
MEMBERS, OTHERS = forests.draw(SIZE, 0), forests.draw(SIZE, 1)
TREE = DecisionTreeClassifier(random_state=0).fit(MEMBERS.x, MEMBERS.y)


def coin_flip(x: np.ndarray) -> np.ndarray:
    """Answers that depend on nothing that was learned."""
    p = 0.1 + 0.8 * np.modf(np.abs(x).sum(axis=1) * 1e3)[0]
    return np.stack([p, (1 - p) / 2, (1 - p) / 2], axis=1)


@dataclass(frozen=True)
class Promising:
    """Trees, with a promise that nobody keeps."""

    epsilon: float | None

    def many(self, pool: Records, subsets: np.ndarray, seeds: Sequence[int]) -> Iterator[Target]:
        return EstimatorTrainer(DecisionTreeClassifier(), jobs=1).many(pool, subsets, seeds)

    def guarantee(self, n_records: int) -> Guarantee | None:
        return Guarantee(self.epsilon, 1 / n_records, "a promise") if self.epsilon else None


def audit(model: object, **settings: object) -> divulge.Audit:
    return divulge.audit(
        model,
        members=MEMBERS,
        nonmembers=OTHERS,
        attacks=ATTACKS,
        **grouped(**settings),
    )


@pytest.mark.slow
def test_a_tree_that_memorised_contradicts_a_small_epsilon(tmp_path: Path) -> None:
    found = audit(TREE, guarantee=Guarantee(0.1, 1e-5), run=tmp_path / "run")
    claim = found.summary.claim
    assert claim is not None
    assert (claim.outcome, claim.derived) == ("contradicted", False)
    assert found.facts.delta == 1e-5  # that of the claim, as no other was given
    assert load_model(tmp_path / "run").summary == found.summary


def test_a_coin_flip_contradicts_no_claim() -> None:
    claim = audit(coin_flip, guarantee=Guarantee(3.0, 1e-5)).summary.claim
    assert claim is not None
    assert claim.outcome == "consistent"


def test_the_bounds_of_the_table_keep_a_delta_of_their_own() -> None:
    found = audit(TREE, guarantee=Guarantee(0.1, 1e-5), delta=0.0)
    assert found.facts.delta == 0.0
    claim = found.summary.claim
    assert claim is not None
    assert claim.delta == 1e-5


def test_what_the_trainer_of_the_shadows_promises_is_the_claim_if_nobody_states_one() -> None:
    derived = audit(TREE, shadows=2, train=Promising(0.1))
    assert derived.facts.claim == Claim(Guarantee(0.1, 1 / SIZE, "a promise"), True)
    stated = audit(TREE, shadows=2, train=Promising(0.1), guarantee=Guarantee(3.0, 1e-5))
    assert stated.facts.claim == Claim(Guarantee(3.0, 1e-5))
    for train in (Promising(None), EstimatorTrainer(DecisionTreeClassifier(), jobs=1)):
        assert audit(TREE, shadows=2, train=train).facts.claim is None


def test_a_table_of_predictions_may_be_claimed_for(tmp_path: Path) -> None:
    rows = [
        f"{p[0]},{p[1]},{p[2]},{y},{int(member)}"
        for records, member in ((MEMBERS, True), (OTHERS, False))
        for p, y in zip(TREE.predict_proba(records.x), records.y, strict=True)
    ]
    table = tmp_path / "p.csv"
    table.write_text("\n".join(["p_0,p_1,p_2,label,member", *rows]))
    found = divulge.audit_predictions(
        table,
        attacks=ATTACKS,
        options=divulge.Options(guarantee=Guarantee(0.1, 1e-5), membership="fixed"),
    )
    assert found.summary.claim is not None
    assert found.summary.claim.outcome == "contradicted"
    (tmp_path / "audit.toml").write_text(
        '[predictions]\nfile = "p.csv"\nepsilon = 0.1\ndelta = 1e-5\n[[attacks]]\nname = "gap"\n'
    )
    again = audit_model(tmp_path / "audit.toml")
    assert again.facts.claim == found.facts.claim


SUBJECT = """
import numpy as np
from sklearn.tree import DecisionTreeClassifier
rng = np.random.default_rng(0)
x, y = rng.normal(size=(1200, 6)), rng.integers(0, 3, 1200)
members, nonmembers = (x[:600], y[:600]), (x[600:], y[600:])
model = DecisionTreeClassifier(random_state=0).fit(*members)
"""

SETTINGS = """
[target]
model = "subject.py:model"
epsilon = {epsilon}
delta = 1e-5
[data]
members = "subject.py:members"
nonmembers = "subject.py:nonmembers"
[[attacks]]
name = "gap"
"""


@pytest.mark.parametrize(
    ("epsilon", "said"), [(0.5, "is false at 95 % confidence"), (3.0, "does not contradict")]
)
def test_the_command_line_says_what_became_of_the_claim(
    tmp_path: Path, epsilon: float, said: str
) -> None:
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "audit.toml").write_text(SETTINGS.format(epsilon=epsilon))
    arguments = ["audit", str(tmp_path / "audit.toml"), "--run", str(tmp_path / "run")]
    done = CliRunner().invoke(main, arguments, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert said in " ".join(done.output.split())
    assert said in (tmp_path / "run" / "summary.md").read_text()
    assert said in (tmp_path / "run" / "report.html").read_text().replace("\u202f%", " %")


@pytest.mark.parametrize(("epsilon", "code"), [(0.5, 3), (3.0, 0)])
def test_a_gate_on_the_claim_fails_the_job_and_json_carries_it(
    tmp_path: Path, epsilon: float, code: int
) -> None:
    (tmp_path / "subject.py").write_text(SUBJECT)
    gate = "\n[gate]\nclaim = true\n"
    (tmp_path / "audit.toml").write_text(SETTINGS.format(epsilon=epsilon) + gate)
    arguments = ["audit", str(tmp_path / "audit.toml"), "--run", str(tmp_path / "run")]
    done = CliRunner().invoke(main, [*arguments, "--format", "json"])
    assert done.exit_code == code, done.output
    claim = json.loads(done.stdout.splitlines()[-1])["claim"]
    assert (claim["outcome"] == "contradicted") == (code == 3)
