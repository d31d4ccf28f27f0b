"""Settings of estimators and functions, and averages of them, compared from compare.toml."""

from pathlib import Path
from typing import Any

import pytest
from sklearn.tree import DecisionTreeClassifier

from divulge.defences import Averaging
from divulge.errors import SpecError
from divulge.studies.compare import config
from divulge.studies.compare.defences import Variant, variants_from_config
from divulge.training.trainers import EstimatorTrainer, FunctionTrainer

SUBJECT = """
from sklearn.tree import DecisionTreeClassifier
model = DecisionTreeClassifier()

def train(x, y, seed, depth=8):
    return DecisionTreeClassifier(max_depth=depth, random_state=seed).fit(x, y)
"""


def variants(folder: Path, **more: Any) -> tuple[Variant, ...]:
    """The rivals that settings name."""
    (folder / "subject.py").write_text(SUBJECT)
    table = {"data": {"records": "subject.py:records"}, **more}
    return variants_from_config(config.parse(table, "compare.toml"), folder)


def test_an_entry_changes_settings_of_an_estimator_and_averages_it(tmp_path: Path) -> None:
    plain, shallow, average, both = variants(
        tmp_path,
        training={"train": "subject.py:model"},
        defences=[
            {"name": "hyperparameters", "label": "shallow", "max_depth": 2},
            {"name": "averaging", "models": 4},
            {"name": "averaging", "label": "both", "share": 0.5, "max_depth": 3},
        ],
    )
    assert [one.name for one in (plain, shallow, average, both)] == [
        "undefended", "shallow", "averaging", "both"
    ]  # fmt: skip
    assert isinstance(plain.plan.trainer, EstimatorTrainer)
    assert isinstance(shallow.plan.trainer, EstimatorTrainer)
    assert isinstance(plain.plan.trainer.estimator, DecisionTreeClassifier)
    assert plain.plan.trainer.estimator.max_depth is None
    assert shallow.plan.trainer.estimator.max_depth == 2
    assert isinstance(average.plan.trainer, Averaging)
    assert average.plan.trainer.models == 4
    assert isinstance(both.plan.trainer, Averaging)
    within: Any = both.plan.trainer.trainer
    assert (both.plan.trainer.share, within.estimator.max_depth) == (0.5, 3)
    assert len({one.plan.fingerprint for one in (plain, shallow, average, both)}) == 4


def test_code_of_an_entry_takes_settings_too(tmp_path: Path) -> None:
    deep, shallow = variants(
        tmp_path,
        defences=[
            {"train": "subject.py:train", "label": "deep"},
            {"train": "subject.py:train", "label": "shallow", "depth": 1},
        ],
    )
    assert isinstance(shallow.plan.trainer, FunctionTrainer)
    x, y = [[0.0], [1.0]], [0, 1]
    assert shallow.plan.trainer.function(x, y, 0).max_depth == 1  # type: ignore[arg-type]
    assert deep.plan.fingerprint != shallow.plan.fingerprint


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"defences": [{"train": "subject.py:train", "dept": 1}]}, "did you mean 'depth'"),
        (
            {"training": {"train": "subject.py:model"}, "defences": [{"name": "relaxloss"}]},
            "others are for a network",
        ),
        ({"training": {"train": "subject.py:model", "epochs": 3}}, "no epochs beside train"),
        ({"training": {"train": "a.py:b", "network": "a.py:c"}}, "either network or train"),
        ({"training": {"network": "a.py:c", "output": "logits"}}, "no output beside network"),
        ({"training": {}}, "got neither"),
    ],
)
def test_what_does_not_go_together_is_refused(
    tmp_path: Path, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        variants(tmp_path, **more)
