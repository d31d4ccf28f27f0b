"""The search over models of any kind: estimators with a space, and functions with settings."""

import importlib.util
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import divulge
from divulge.attacks import catalog
from divulge.cli.main import main
from divulge.errors import MissingExtra, SpecError
from divulge.studies.harden import config
from divulge.studies.harden.model_bench import ModelBench
from divulge.studies.harden.result import HardenedModel
from divulge.training import Recipe

pytest.importorskip("optuna")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 4))
Y = np.where((X[:, 0] > 0) ^ (RNG.random(240) < 0.2), "yes", "no")  # a fifth is noise
ATTACKS = (catalog.attack("threshold"), catalog.attack("gap"))
SEARCH = divulge.SearchSettings(budget=30, models=4, shadows=2)


def train(x: Any, y: Any, seed: int, *, depth: int = 12) -> Any:
    """A function of a user's."""
    return DecisionTreeClassifier(max_depth=depth, random_state=seed).fit(x, y)


def hardened(how: Any, folder: Path, **more: Any) -> HardenedModel:
    """A search of noisy records in text labels."""
    asked: dict[str, Any] = {"ceiling": {"auc": 0.8}, "attacks": ATTACKS, "search": SEARCH}
    return divulge.harden(how, records=(X, Y), run=folder, **asked | more)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> HardenedModel:
    return hardened(DecisionTreeClassifier(), tmp_path_factory.mktemp("tuned") / "run")


def test_all_settings_are_tried_together_then_averages_then_what_is_proposed(
    found: HardenedModel,
) -> None:
    first, *steps = [trial.proposal for trial in found.trials[:5]]
    assert first.label == "undefended"
    assert [dict(one.settings) for one in steps[:3]] == [
        {"max_depth": 12, "min_samples_leaf": 2},
        {"max_depth": 6, "min_samples_leaf": 10},
        {"max_depth": 4, "min_samples_leaf": 20},
    ]
    assert steps[3].label == "averaging (models=10, share=0.2)"
    labels = [trial.label for trial in found.trials]
    assert len(set(labels)) == len(labels)


def test_a_deep_tree_becomes_one_that_leaks_less(found: HardenedModel) -> None:
    plain, chosen = found.undefended, found.chosen
    assert plain.leaks["auc"].value > 0.65
    assert chosen.leaks["auc"].value < plain.leaks["auc"].value - 0.05
    assert chosen.accuracy.value > 0.6
    assert "epochs" not in found.table()


def test_it_says_why_the_search_ended_and_what_was_tried(found: HardenedModel) -> None:
    counts = re.search(r"its last 25 .*: (\d+) of them .* tried, (\d+) cost", found.log.ended)
    assert counts is not None
    assert sum(map(int, counts.groups())) == 25
    assert found.contents.basis.endswith(found.log.ended)
    story = replace(found.story, down=None)
    rows = [one for one in story.trials if one.number != story.chosen]
    useful = sum(one.useful for one in rows)
    assert f"Of {len(rows)} other settings tried, {useful} answer" in story.sentences[-1]
    useless = tuple(replace(one, useful=False) for one in story.trials)
    assert "none beats a constant answer" in replace(story, trials=useless).sentences[-1]
    alone = tuple(one for one in story.trials if one.number == story.chosen)
    assert "No other setting was tried" in replace(story, trials=alone).sentences[-1]


def test_where_what_is_proposed_costs_too_much_cheaper_settings_are_tried(
    found: HardenedModel,
) -> None:
    """Averages of 20 models on halves cost 30 trainings at first, all that there is."""
    tried = [trial.proposal for trial in found.trials[5:]]
    assert len(tried) >= 2
    assert ModelBench.by_chance is not None
    assert ModelBench.by_chance < ModelBench.misses


def test_a_search_of_any_model_stays_within_its_budget(found: HardenedModel) -> None:
    spent = sum(trial.trainings for trial in found.trials)
    assert found.log.final is not None
    assert spent + found.log.final <= SEARCH.budget


def test_the_model_is_a_file_of_its_library_and_the_run_is_read_again(
    found: HardenedModel,
) -> None:
    skops = pytest.importorskip("skops.io")
    loaded = skops.load(found.model, skops.get_untrusted_types(file=found.model))
    for one in loaded if isinstance(loaded, list) else [loaded]:
        assert set(one.classes_) == {"no", "yes"}
    again = divulge.load(found.path)
    assert isinstance(again, HardenedModel)
    assert again.contents == found.contents
    assert again.audit.facts.model_kind == "forest"
    assert found.head.environment["scikit-learn"]


@pytest.mark.slow
def test_a_function_is_searched_by_the_space_of_its_settings(tmp_path: Path) -> None:
    space = {"depth": (6, 3, 1)}
    search = divulge.SearchSettings(
        ("hyperparameters",), budget=16, models=3, shadows=2, space=space
    )
    found = hardened(train, tmp_path / "run", search=search)
    tried = {trial.proposal.settings.get("depth") for trial in found.trials}
    assert tried == {None, 6, 3, 1}
    assert found.head.settings["train"] == "train"


TOML = """
ceiling = {{auc = {ceiling}}}
[data]
records = "subject.py:records"
[training]
train = "subject.py:{train}"
[search]
budget = {budget}
models = 3
shadows = 2
{more}
[[attacks]]
name = "threshold"
"""
SUBJECT = """
from pathlib import Path
Path(__file__).with_name("loaded").touch()
from tests.studies.harden.test_tuned import X, Y, train
from sklearn.linear_model import LogisticRegression
records = (X, Y)
model = LogisticRegression()
"""


def written(folder: Path, **more: Any) -> Path:
    """A harden.toml beside its subject."""
    asked = {"ceiling": 0.99, "budget": 9, "train": "model", "more": ""} | more
    (folder / "subject.py").write_text(SUBJECT)
    (folder / "harden.toml").write_text(TOML.format(**asked))
    return folder / "harden.toml"


def test_an_estimator_is_hardened_from_settings(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["harden", str(written(tmp_path)), "--run", str(tmp_path / "r")]
    )
    assert done.exit_code == 0, done.output
    found = divulge.load(tmp_path / "r")
    assert isinstance(found, HardenedModel)
    assert found.head.settings["training"] == {"train": "subject.py:model"}
    assert [trial.label for trial in found.trials][:2] == ["undefended", "hyperparameters (C=0.1)"]
    assert found.log.needed is not None
    assert found.log.needed > 9
    assert "the budget of 9 trainings does not pay for 3 models" in found.table()


def test_a_budget_that_did_not_pay_for_all_is_what_the_report_advises_to_raise(
    found: HardenedModel,
) -> None:
    from dataclasses import replace

    story = replace(found.story, outcome="undecided", level="leak", needed=30, budget=12)
    assert story.next_step.startswith("Raise the budget to 30: 12 trainings did not pay")
    assert "Give more records" in replace(story, needed=None).next_step
    one = replace(found.story, trials=found.story.trials[:1], chosen=1)
    assert "1 setting was tried" in one.as_page().basis


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"budget": 8}, "at least 9 trainings"),
        ({"ceiling": 0.5}, "above 0.5, which guessing reaches"),
        ({"more": 'defences = ["relaxloss"]'}, "'relaxloss', which is for a network"),
        ({"more": "space = {C = []}"}, "values of C"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_data_are_loaded(
    tmp_path: Path, more: dict[str, Any], said: str
) -> None:
    path = written(tmp_path, **more)
    with pytest.raises(SpecError, match=said):
        divulge.harden_file(path)
    assert (tmp_path / "loaded").exists() is ("space" in more.get("more", ""))


def test_a_missing_extra_is_named_before_data_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    with pytest.raises(MissingExtra, match="optuna"):
        divulge.harden_file(written(tmp_path))
    assert not (tmp_path / "loaded").exists()
    assert not (tmp_path / "runs").exists()


def test_what_does_not_go_together_is_refused() -> None:
    recipe = Recipe(LogisticRegression)
    with pytest.raises(SpecError, match="no space beside a Recipe"):
        divulge.harden(
            recipe, records=(X, Y), ceiling={"auc": 0.8},
            search=divulge.SearchSettings(space={"lr": (0.1,)}),
        )  # fmt: skip
    with pytest.raises(SpecError, match="name their values in space"):
        divulge.harden(
            train, records=(X, Y), ceiling={"auc": 0.8},
            search=divulge.SearchSettings(("hyperparameters",)),
        )  # fmt: skip
    with pytest.raises(SpecError, match="which is for an estimator or a function"):
        config.choose_families(("averaging",), tuned=False)
