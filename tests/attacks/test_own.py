"""Attacks of users: named in settings, refused in clear words, tried on small games, resumed."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import divulge
from divulge.attacks import catalog, own
from divulge.audits import config
from divulge.audits.requested_attacks import requested_attacks
from divulge.core import Assignment, Proportions, Reconstruction, Scores
from divulge.errors import SpecError

from .. import kinds

MINE = """
from dataclasses import dataclass
from typing import ClassVar

from divulge import Need, Scores, SpecError


@dataclass(frozen=True)
class Surest:
    name: ClassVar[str] = "surest"
    paper: ClassVar[str] = "Somebody 2026"
    power: float = 1.0

    def __post_init__(self):
        if self.power <= 0:
            raise SpecError(f"expected a power above 0, got {self.power}: choose one")

    @property
    def needs(self):
        return Need.PROBABILITIES

    def __call__(self, view, rng) -> Scores:
        return Scores(view.target.predict(view.records.x).max(axis=1) ** self.power)


@dataclass(frozen=True)
class Unsaid(Surest):
    def __call__(self, view, rng):
        return [1.0]


@dataclass(frozen=True)
class Seer(Surest):
    name: ClassVar[str] = "seer"

    @property
    def needs(self):
        return Need.UPDATES


@dataclass(frozen=True)
class Threshold(Surest):
    name: ClassVar[str] = "threshold"


@dataclass(frozen=True)
class Path(Surest):
    name: ClassVar[str] = "../x"


@dataclass
class Soft:
    paper = "none"

    def __call__(self, view):
        return view


class Bare:
    pass


surest = Surest()
"""


class Undecorated:
    name: ClassVar[str] = "x"
    paper: ClassVar[str] = "none"
    needs: ClassVar[divulge.Need] = divulge.Need.NONE

    def __call__(self, view: divulge.ModelView, rng: np.random.Generator) -> divulge.Scores:
        raise NotImplementedError


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


@pytest.mark.parametrize(
    ("reference", "settings", "message"),
    [
        ("none.py:Surest", {}, "none.py"),
        ("mine.py:Surset", {}, "did you mean 'Surest'"),
        ("mine.py:surest", {}, "expected the class of an attack .* an object of Surest"),
        ("mine.py:Bare", {}, "dataclass.*a name.*a paper.*needs.*__call__"),
        ("mine.py:Soft", {}, "frozen=True.*a name.*needs.*takes a view and a random generator"),
        ("mine.py:Path", {}, "a name of letters"),
        ("mine.py:Threshold", {}, "a name of its own .* 'threshold'"),
        ("mine.py:Surest", {"powr": 1}, "did you mean 'power'"),
        ("mine.py:Surest", {"power": -1}, "a power above 0"),
        ("mine.py:Surest", {"power": "much"}, "mine.py:Surest to run, it raised TypeError"),
        ("mine.py:Surest", {"power": [1]}, "TypeError"),
    ],
)
def test_what_is_no_attack_is_refused_with_what_it_lacks(
    mine: Path, reference: str, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        own.load(reference, settings, mine)  # type: ignore[arg-type]


def test_no_attack_in_python_is_refused_before_the_audit() -> None:
    x, y = np.zeros((4, 1)), np.array([0, 1, 0, 1])
    tree = DecisionTreeClassifier().fit(x, y)
    with pytest.raises(SpecError, match="Undecorated, it lacks @dataclass"):
        divulge.audit(tree, members=(x, y), nonmembers=(x, y), attacks=[Undecorated()])


def write_settings(folder: Path, attack: str) -> Path:
    table = "p_0,p_1,label,member\n" + "0.9,0.1,0,1\n0.6,0.4,0,0\n" * 40
    (folder / "answers.csv").write_text(table)
    text = f'[predictions]\nfile = "answers.csv"\n[[attacks]]\n{attack}\n'
    (folder / "audit.toml").write_text(text)
    return folder / "audit.toml"


@pytest.mark.slow
def test_one_in_a_file_is_audited_and_run_again_once_it_has_changed(mine: Path) -> None:
    settings = write_settings(mine, 'name = "mine.py:Surest"\npower = 2.0')
    found = kinds.audit_model(settings, mine / "run")
    (finding,) = found.findings
    assert (finding.label, finding.settings) == ("surest(power=2.0)", {"power": 2.0})
    assert finding.metrics["auc"].value == 1.0

    (mine / "mine.py").write_text(MINE.replace("Scores(view", "Scores(-view"))
    (again,) = kinds.audit_model(settings, mine / "run", resume=True).findings
    assert again.metrics["auc"].value == 0.0


def test_the_code_of_one_is_told_from_other_code_alone(mine: Path) -> None:
    first, again = (own.code_identity(type(own.load("mine.py:Surest", {}, mine))) for _ in range(2))
    assert first == again != ""
    (mine / "mine.py").write_text(MINE + "# changed\n")
    assert own.code_identity(type(own.load("mine.py:Surest", {}, mine))) != first
    assert own.code_identity(type(divulge.attack("gap"))) == ""


GUESSES = (Scores, Assignment, Proportions, Reconstruction)
SECTIONS = {
    "membership": '[predictions]\nfile = "answers.csv"\n',
    "composition": '[updates]\ntranscript = "t"\nnetwork = "n.py:net"\nreference = "r.csv"\n',
    "interactions": '[interactions]\ntranscript = "t"\n',
    "assignment": '[assignment]\ncolluder = "a"\npredictions = { a = "a.csv", b = "b.csv" }\n',
}


@pytest.mark.parametrize("about", SECTIONS)
@pytest.mark.parametrize("kind", GUESSES)
def test_one_is_named_where_its_secret_is_asked_about(mine: Path, kind: Any, about: str) -> None:
    changed = MINE.replace("import Need, Scores", "import Need").replace(
        "from typing", f"from divulge.core import {kind.__name__} as Scores\nfrom typing"
    )
    (mine / "mine.py").write_text(changed)
    (mine / "audit.toml").write_text(SECTIONS[about] + '[[attacks]]\nname = "mine.py:Surest"\n')
    settings = config.read_config(mine / "audit.toml")
    if kind.about == about:
        (attack,) = requested_attacks(settings, mine)
        assert attack.name == "surest"
        return
    with pytest.raises(SpecError, match=f"on {about} here.*one on {kind.about}"):
        requested_attacks(settings, mine)


def test_attacks_of_the_catalogue_say_their_secret() -> None:
    secrets = {
        own.secret_of(catalog.attack_class(name)) for name in catalog.CATALOGUE["composition"]
    }
    assert secrets == {"composition"}
