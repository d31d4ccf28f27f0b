"""Audits with shadow models, from the command line and from Python."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.tree import DecisionTreeClassifier

import divulge
from divulge.attacks import catalog
from divulge.attacks.membership.calibrated import CalibratedLoss
from divulge.attacks.membership.lira import LiRA
from divulge.attacks.membership.rmia import RMIA
from divulge.attacks.membership.shadow import Shadow
from divulge.attacks.membership.shadow_stack.attack import ShadowStack
from divulge.cli.main import main
from divulge.core import ModelView, Shadows
from divulge.testing import forests
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.trainers import as_trainer
from tests.slow import slow

from .. import naive_shadows

SUBJECT = """
import numpy as np
from sklearn.tree import DecisionTreeClassifier

rng = np.random.default_rng(0)
x = rng.normal(size=(500, 6))
y = np.where(rng.random(500) < 0.3, rng.integers(0, 3, 500), np.argmax(x[:, :3], axis=1))
members, nonmembers = (x[:200], y[:200]), (x[200:400], y[200:400])
reference, others = (x[400:], y[400:]), (x[300:], y[300:])
estimator = DecisionTreeClassifier(min_samples_leaf=2, random_state=0)

def model():
    return estimator.fit(*members)

def train(x, y, seed):
    with open(__file__ + ".log", "a") as log:
        log.write("x")
    return DecisionTreeClassifier(min_samples_leaf=2, random_state=seed).fit(x, y)
"""

SETTINGS = """
[target]
model = "subject.py:model"
[data]
members = "subject.py:members"
nonmembers = "subject.py:nonmembers"
reference = "subject.py:reference"
[shadows]
models = 5
train = "subject.py:{train}"
"""


QUICK = "".join(f'[[attacks]]\nname = "{name}"\n' for name in ("lira", "shadow", "shadow-stack"))
"""Where nothing hangs on which attacks there are."""


def audit(folder: Path, train: str = "train", more: str = "", *flags: str) -> dict[str, object]:
    (folder / "subject.py").write_text(SUBJECT)
    (folder / "audit.toml").write_text(SETTINGS.format(train=train) + more)
    arguments = ["audit", str(folder / "audit.toml"), "--run", str(folder / "run"), *flags]
    done = CliRunner().invoke(main, [*arguments, "--format", "json"])
    assert done.exit_code == 0, done.output
    answer: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize(
    ("train", "attacks", "names"),
    [
        slow("train", "", {attack.name for attack in catalog.default_attacks(shadows=True)}),
        ("estimator", QUICK, {"lira", "shadow", "shadow-stack"}),
    ],
)
def test_an_audit_with_shadows(tmp_path: Path, train: str, attacks: str, names: set[str]) -> None:
    found = divulge.load(str(audit(tmp_path, train, attacks)["run"]))
    done = {f.attack for f in found.findings if f.status is divulge.Status.DONE}
    assert done == names
    (stored,) = (tmp_path / "run" / "shadows").glob("*.npy")
    assert np.load(stored).shape == (5, 1000)  # φ and the softened log probability of each query


@pytest.mark.slow
def test_shadows_are_trained_once_and_lost_ones_again(tmp_path: Path) -> None:
    first = audit(tmp_path, more=QUICK)
    log = tmp_path / "subject.py.log"
    assert log.read_text() == "x" * 5
    for file in (tmp_path / "run" / "findings").glob("*.json"):
        file.unlink()
    (listed,) = (tmp_path / "run" / "shadows").glob("*.json")
    rows = json.loads(listed.read_text())
    del rows["rows"]["3"]
    listed.write_text(json.dumps(rows))
    again = audit(tmp_path, "train", QUICK, "--resume")
    assert log.read_text() == "x" * 6
    strip = [[{**f, "seconds": 0} for f in run["findings"]] for run in (first, again)]  # type: ignore[attr-defined]
    assert strip[0] == strip[1]


def test_shadows_on_other_records_are_offline(tmp_path: Path) -> None:
    audit(tmp_path, "train", 'pool = "subject.py:others"\n' + QUICK)
    statuses = {f.attack: f for f in divulge.load(tmp_path / "run").findings}
    assert statuses["lira"].status is divulge.Status.DONE
    assert statuses["shadow"].status is divulge.Status.DONE  # taught by the pool
    assert statuses["shadow-stack"].status is divulge.Status.DONE  # taught by the pool, too


def test_a_scikit_learn_model_is_its_own_recipe() -> None:
    members, others = forests.draw(100, 0), forests.draw(100, 1)
    model = DecisionTreeClassifier(random_state=0).fit(members.x, members.y)
    pair = {"members": members, "nonmembers": others}
    found = divulge.audit(model, **pair, shadows=4, attacks=(CalibratedLoss(), LiRA()))  # type: ignore[arg-type]
    assert {f.status for f in found.findings} == {divulge.Status.DONE}
    with pytest.raises(divulge.SpecError, match="how a shadow model is trained"):
        divulge.audit(model.predict_proba, **pair, shadows=4)  # type: ignore[arg-type]


def test_python_can_train_shadows_on_other_records_too() -> None:
    members, others, pool = (forests.draw(100, seed) for seed in range(3))
    model = DecisionTreeClassifier(random_state=0).fit(members.x, members.y)
    found = divulge.audit(
        model,
        members=members,
        nonmembers=others,
        shadows=divulge.ShadowModels(4, pool=(pool.x, pool.y)),
        attacks=(Shadow(), ShadowStack()),
    )
    shadow, stack = found.findings
    assert shadow.status is divulge.Status.DONE
    assert stack.status is divulge.Status.DONE
    with pytest.raises(divulge.SpecError, match="shadows beside pool"):
        divulge.audit(
            model, members=members, nonmembers=others, shadows=divulge.ShadowModels(0, pool=pool)
        )


def test_iterators_in_groups_can_be_read_again() -> None:
    groups = (
        divulge.ShadowModels(augment=iter(["mirror"])),
        divulge.Rotation(augment=iter(["mirror"])),
    )
    for group in groups:
        assert [tuple(group.augment) for _ in range(2)] == [("mirror",)] * 2
    options = divulge.Options(class_names=iter("ab"))
    assert [tuple(options.class_names) for _ in range(2)] == [("a", "b")] * 2


def test_each_shadow_has_a_half_of_its_own() -> None:
    pool = forests.draw(2000, 0)
    trainer = as_trainer(DecisionTreeClassifier())
    halves = ShadowPlan(trainer, 20).subsets(pool, 0)
    np.testing.assert_array_equal(ShadowPlan(trainer, 7).subsets(pool, 0), halves[:7])
    assert abs(halves.mean() - 0.5) < 0.02
    agree = np.array([[np.mean(a == b) for a in halves] for b in halves])
    assert abs(agree[~np.eye(20, dtype=bool)].mean() - 0.5) < 0.01


@pytest.mark.parametrize("variance", ["global", "record"])
@pytest.mark.parametrize("online", [True, False])
def test_attacks_agree_with_their_naive_twins(*, online: bool, variance: str) -> None:
    view = forests.leaky().view
    assert view.shadows is not None
    assert view.reference is not None
    keep = np.flatnonzero((view.shadows.member.sum(1) > 1) & ((~view.shadows.member).sum(1) > 1))
    view = forests.part(view, keep)
    assert view.shadows is not None
    if not online:
        nobody = np.zeros_like(view.shadows.member)
        shadows = Shadows(view.shadows.phi, nobody, view.shadows.reference_phi)
        view = ModelView(view.target, view.records, view.reference, shadows)
    rng = np.random.default_rng(0)
    lira = LiRA(variance=variance)(view, rng).score  # type: ignore[arg-type]
    np.testing.assert_allclose(lira, naive_shadows.lira(view, variance), atol=1e-8)
    others = len(forests.leaky().view.reference or ())
    shares = np.floor(RMIA(1.0, 0.5, a=0.3)(view, rng).score * others) / others
    np.testing.assert_allclose(shares, naive_shadows.rmia(view, 1.0, 0.5, 0.3), atol=1e-12)


def test_shadows_find_what_a_threshold_cannot() -> None:
    """The ordering that must hold: comparing with shadows beats the plain signal."""
    from divulge.secrets import attempt

    plain, compared = [], []
    for seed in range(5):
        challenge = forests.leaky(seed)
        plain.append(
            attempt.run_on_model(challenge, catalog.attack("threshold")).finding.metrics["auc"]
        )
        compared.append(attempt.run_on_model(challenge, CalibratedLoss()).finding.metrics["auc"])
    assert np.mean([e.value for e in compared]) > np.mean([e.value for e in plain])
