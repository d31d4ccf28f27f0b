"""A chosen defence's model in files that need no divulge, and its model card."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file
from sklearn.linear_model import LogisticRegression
from torch import nn

import divulge
from divulge import Rotation
from divulge.attacks import catalog
from divulge.cli.main import main
from divulge.core import NoiseKind
from divulge.defences.answers.coarse import Rounding
from divulge.defences.training.dp_sgd.trainer import DPSGD
from divulge.errors import SpecError, StoreError
from divulge.studies.compare.result import Comparison
from divulge.studies.compare.run import compare
from divulge.targets import files
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe
from tests import memorising

RECORDS = memorising.draw(300)
NARROW = divulge.Records(RECORDS.x.astype(np.float32), RECORDS.y)
ATTACKS = (catalog.attack("calibrated"), catalog.attack("external"))


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))


FLEET = Fleet(Recipe(network, epochs=20, batch_size=30), way="one-by-one")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, Path]:
    folder = tmp_path_factory.mktemp("export")
    found = compare(
        {"plain": FLEET, "rounded": (FLEET, Rounding(1))},
        records=NARROW,
        rotation=Rotation(3, targets=2),
        attacks=ATTACKS,
        run=folder / "run",
        export=("plain", folder / "model"),
    )
    return found, folder / "model"


def test_each_file_is_the_audited_model(exported: tuple[Comparison, Path]) -> None:
    found, folder = exported
    assert found.path is not None
    run = found.path / found.plan.defences[0].run
    audited = np.load(run / "targets" / "000" / "answers.npy")
    program = files.load_target(folder / "model.pt2", "logits")
    weights = files.load_target(folder / "model.safetensors", "logits", factory=network)
    for target in (program, weights):
        np.testing.assert_allclose(target.predict(NARROW.x), audited, atol=1e-6)
    np.testing.assert_allclose(program.predict(NARROW.x[:1]), audited[:1], atol=1e-6)


def test_another_program_opens_it_without_divulge(exported: tuple[Comparison, Path]) -> None:
    folder = exported[1]
    code = (
        "import sys, torch\n"
        f"module = torch.export.load({str(folder / 'model.pt2')!r}).module()\n"
        "print(tuple(module(torch.zeros(5, 3)).shape), 'divulge' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(5, 2) False"


def test_the_card_says_what_was_tried_with_figures(exported: tuple[Comparison, Path]) -> None:
    found, folder = exported
    text = (folder / "MODEL_CARD.md").read_text()
    assert "calibrated, external" in text
    assert "external(signal=loss) left out, not applicable" in text
    assert "Guarantee: none." in text
    best = found.rows[0].strongest["auc"]
    assert f"{best.estimate.value:.3f} ({best.estimate.low:.3f}" in text
    assert "2 models trained in this way on random halves of 300 records" in text
    assert "trained again from its seed" in text
    assert "is no proof" in text


def test_what_is_not_in_the_files_is_said(tmp_path: Path) -> None:
    compare(
        {"rounded": (FLEET, Rounding(1))},
        records=NARROW,
        rotation=Rotation(3, targets=2),
        attacks=ATTACKS,
        run=tmp_path / "run",
        export=("rounded", tmp_path / "model"),
    )
    text = (tmp_path / "model" / "MODEL_CARD.md").read_text()
    assert "Rounding(digits=1)" in text
    assert "It is not part of the files" in text
    assert "answers as the audited one, bit for bit" in text
    with pytest.raises(StoreError, match="expected a new folder"):
        compare(
            {"rounded": FLEET},
            records=NARROW,
            attacks=ATTACKS[:1],
            rotation=Rotation(3, targets=2),
            export=("rounded", tmp_path / "model"),
        )


def test_an_estimator_is_exported_as_skops_and_a_function_not_at_all(tmp_path: Path) -> None:
    pytest.importorskip("skops")
    settings: dict[str, Any] = {
        "records": RECORDS, "rotation": Rotation(3, targets=2), "attacks": ATTACKS[:1]
    }  # fmt: skip
    line = LogisticRegression()
    compare({"line": line}, **settings, export=("line", tmp_path / "line"))
    answers = files.load_target(tmp_path / "line" / "model.skops").predict(RECORDS.x)
    assert answers.shape == (300, 2)
    with pytest.raises(SpecError, match="got FunctionTarget"):
        compare({"f": memorising.train}, **settings, export=("f", tmp_path / "f"))
    assert not (tmp_path / "f").exists()


def test_a_name_that_is_not_there_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="did you mean 'plain'"):
        compare({"plain": FLEET}, records=NARROW, run=tmp_path / "run", export=("plan", "x"))
    assert not (tmp_path / "run").exists()


def test_the_command_hands_it_on(tmp_path: Path) -> None:
    (tmp_path / "subject.py").write_text("x = 1")
    (tmp_path / "compare.toml").write_text(
        '[data]\nrecords = "subject.py:x"\n[[defences]]\ntrain = "subject.py:x"\n'
    )
    line = ["compare", str(tmp_path / "compare.toml"), "--export", "y", str(tmp_path / "out")]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 2
    assert "a way to train" in done.stderr


def private() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model trained by DP-SGD, exported with either kind of noise."""
    pytest.importorskip("opacus")
    folder = tmp_path_factory.mktemp("private")
    recipe = Recipe(private, lr=0.25, epochs=2, batch_size=30)
    for kind in get_args(NoiseKind):
        compare(
            {"private": DPSGD(recipe, 1e-5, noise_multiplier=2.0, max_grad_norm=0.5, jobs=1)},
            records=NARROW,
            rotation=Rotation(3, targets=2),
            attacks=ATTACKS[:1],
            run=folder / "run",
            export=("private", folder / kind),
            export_noise=kind,
            options=divulge.Options(resume=(folder / "run").exists()),
        )
    return {kind: folder / kind for kind in get_args(NoiseKind)}


def test_the_card_of_a_private_model_says_how_its_promise_was_kept(
    published: dict[str, Path],
) -> None:
    for kind, folder in published.items():
        text = (folder / "MODEL_CARD.md").read_text()
        assert re.search(r"Guarantee: \([\d.]+, 1e-05\)-differentially private", text)
        (records,) = map(int, re.findall(r", on (\d+) records", text))
        rows = dict(re.findall(r"^\| ([a-z ]+) \| (.+) \|$", text, re.MULTILINE))
        told = {
            "noise": kind, "noise multiplier": "2", "clipping norm": "0.5",
            "sampling rate": f"{30 / records:.6g} (Poisson)", "steps": str(-(-2 * records // 30)),
            "batch size": "30 on average", "epochs": "2", "optimiser": "sgd",
            "learning rate": "0.25", "network": "private", "weights": "26",
            "shape of a record": "(3,)", "type of a record": "float32",
        }  # fmt: skip
        assert {name: rows[name].replace("\\", "") for name in told} == told


def test_a_model_with_secure_noise_is_one_that_nobody_can_train_again(
    published: dict[str, Path],
) -> None:
    text = (published["secure"] / "MODEL_CARD.md").read_text()
    assert "Noise: secure." in text
    assert "this one not among them" in text
    assert "one more model of their kind" in text
    assert "seeded" not in text.split("Trained with")[1].split("Guarantee")[1]
    weights = [load_file(folder / "model.safetensors") for folder in published.values()]
    assert not torch.allclose(weights[0]["0.weight"], weights[1]["0.weight"], atol=1e-3)


def test_a_model_with_seeded_noise_does_not_promise_more_than_it_keeps(
    published: dict[str, Path],
) -> None:
    text = (published["seeded"] / "MODEL_CARD.md").read_text()
    assert "The promise does not hold for whoever knows the seed" in text
    assert "floating-point attacks" in text
    assert "this one among them" in text
    assert "answers as the audited one" in text or "no probability differs by more" in text


def test_weights_are_left_where_they_are(exported: tuple[Comparison, Path]) -> None:
    import safetensors.torch

    weights = safetensors.torch.load_file(exported[1] / "model.safetensors")
    assert weights.keys() == network().state_dict().keys()
    assert all(isinstance(value, torch.Tensor) for value in weights.values())
