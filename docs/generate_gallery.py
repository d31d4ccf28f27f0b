"""Eight small runs, and the report of each: the site shows them as its gallery.

``docs/hooks.py`` calls `reports` when the site is built. All run on scikit-learn's handwritten
digits but three, whose patients, letters and users are synthetic.
"""

import runpy
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import divulge
from divulge.attacks.catalog import attack
from divulge.core import UpdateDefence
from divulge.data.interactions import synthetic_interactions, write_interactions
from divulge.federation import NeuralCF, Recommending
from divulge.federation.transcript import writer

LETTERS = Path(__file__).resolve().parents[1] / "examples" / "language-model"

SUBJECT = """
import numpy as np
from sklearn.datasets import load_digits
from torch import nn

x, y = load_digits(return_X_y=True)
x = (x / 16).astype("float32")
train, external, auxiliary = (x[:800], y[:800]), (x[800:1300], y[800:1300]), (x[1300:], y[1300:])


def network():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
"""

FEDERATE = """
name = "clinics"
rounds = 3
[data]
train = "subject.py:train"
[clients]
count = 10
alpha = 0.5
truth = "owners.csv"
[training]
network = "subject.py:network"
lr = 0.5
epochs = 10
batch_size = 16
"""

CLASSES = """
name = "digits of ten clients"
[updates]
transcript = "clinics"
network = "subject.py:network"
reference = "subject.py:auxiliary"
[[attacks]]
name = "decaf"
level = "bias"
[[attacks]]
name = "label-counts"
[updates.counts]
"""

OWNERS = """
name = "ten clients"
[assignment]
transcript = "clinics"
network = "subject.py:network"
candidates = "subject.py:train"
external = "subject.py:external"
truth = "owners.csv"
[[attacks]]
name = "fedmia"
[[attacks]]
name = "sia"
[[attacks]]
name = "nobody"
"""

FILMS = """
name = "films - synthetic users"
[interactions]
transcript = "films"
truth = "watched.csv"
"""


def reports() -> Iterator[tuple[str, str]]:
    """The name and the page of each report."""
    with TemporaryDirectory() as folder, chdir(folder):
        for name, made in (
            ("model", _audit_model),
            ("people", _audit_people),
            ("language-model", _audit_language_model),
            ("models-in-turn", _audit_in_turn),
            ("defences", _compare_defences),
            ("label-distribution", _audit_label_distribution),
            ("which-client", _audit_clients),
            ("interactions", _audit_interactions),
        ):
            yield name, made().report().read_text(encoding="utf-8")


def _digits() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    return x[order] / 16, y[order]


def _audit_model() -> divulge.Audit:
    x, y = _digits()
    return divulge.audit(
        RandomForestClassifier(30, random_state=0).fit(x[:400], y[:400]),
        members=(x[:400], y[:400]),
        nonmembers=(x[400:800], y[400:800]),
        reference=(x[800:1200], y[800:1200]),
        shadows=divulge.ShadowModels(8),
        run="model",
        options=divulge.Options(name="a random forest"),
    )


def _audit_people() -> divulge.Audit:
    rng = np.random.default_rng(0)
    patients, site = rng.normal(size=(200, 8)), rng.choice(["north", "south", "west"], 200)
    patient = np.repeat(np.arange(200), np.tile([1, 2, 3, 5, 8], 40))
    visits = patients[patient] + 0.4 * rng.normal(size=(len(patient), 8))
    # in the west diagnoses follow the measurements less, so that a model has to remember them
    spread = np.where(site == "west", 3.0, 0.5)
    ill = (patients[:, 0] + spread * rng.normal(size=200) > 0).astype(int)[patient]
    site = site[patient]
    trained = patient < 100
    forest = RandomForestClassifier(30, min_samples_leaf=3, random_state=0)
    return divulge.audit(
        forest.fit(visits[trained], ill[trained]),
        members=(visits[trained], ill[trained]),
        nonmembers=(visits[~trained], ill[~trained]),
        groups=(patient[trained], patient[~trained]),
        strata=(site[trained], site[~trained]),
        attacks=_attacks()[:2],
        run="people",
        options=divulge.Options(name="visits of synthetic patients"),
    )


def _audit_language_model() -> divulge.Audit:
    """The example, with half as many letters."""
    runpy.run_path(str(LETTERS / "model.py"))["main"]("tokens.jsonl", 200)
    Path("letters.toml").write_text((LETTERS / "audit.toml").read_text(encoding="utf-8"))
    audit = divulge.audit_file("letters.toml", "language-model")
    assert isinstance(audit, divulge.Audit)
    return audit


def _audit_in_turn() -> divulge.LeaveOneOut:
    x, y = _digits()
    return divulge.leave_one_out(
        DecisionTreeClassifier(),
        records=(x[:800], y[:800]),
        attacks=_attacks(),
        rotation=divulge.Rotation(6, targets=3),
        run="in-turn",
        options=divulge.Options(name="decision trees"),
    )


def _compare_defences() -> divulge.Comparison:
    x, y = _digits()
    return divulge.compare(
        {
            "undefended": RandomForestClassifier(20),
            "depth 6": RandomForestClassifier(20, max_depth=6),
            "depth 3": RandomForestClassifier(20, max_depth=3),
        },
        records=(x[:800], y[:800]),
        attacks=_attacks(),
        rotation=divulge.Rotation(5, targets=3),
        run="defences",
        options=divulge.Options(name="forests of three depths"),
    )


def _attacks() -> list[divulge.core.MembershipAttack]:
    return [attack(name) for name in ("threshold", "gap", "calibrated", "lira")]


def _audit_label_distribution() -> divulge.SecretAudit:
    Path("subject.py").write_text(SUBJECT)
    Path("federate.toml").write_text(FEDERATE)
    divulge.federate_file("federate.toml", "clinics")
    owners = Path("owners.csv").read_text().split()[1:]
    labels = load_digits().target[:800]
    counts = {
        owner: np.bincount(labels[[one == owner for one in owners]], minlength=10).tolist()
        for owner in sorted(set(owners) - {"nobody"})
    }
    lines = [f'"{owner}" = {count}' for owner, count in counts.items()]
    Path("classes.toml").write_text(CLASSES + "\n".join(lines) + "\n")
    return divulge.audit_file("classes.toml", "label-distribution")


def _audit_clients() -> divulge.SecretAudit:
    Path("owners.toml").write_text(OWNERS)
    return divulge.audit_file("owners.toml", "which-client")


def _audit_interactions() -> divulge.SecretAudit:
    log = synthetic_interactions(20, 100, np.random.default_rng(0))
    seen, truth = Recommending(log, NeuralCF(width=16, hidden=(32, 16))).round(
        range(20), UpdateDefence()
    )
    writer.write("films", "film recommender", [seen], items="items")
    write_interactions(Path("watched.csv"), truth)
    Path("films.toml").write_text(FILMS)
    return divulge.audit_file("films.toml", "interactions")
