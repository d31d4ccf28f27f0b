"""Fine-tunes are compared and hardened as any other training: a function of texts and a seed."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import divulge
from divulge.attacks import catalog
from divulge.core import Need, Status
from divulge.data.records import as_records
from divulge.errors import SpecError
from divulge.targets.token_probability import TokenProbability
from divulge.training.trainers import FunctionTrainer

from ..tiny_language_model import train, write_texts

pytest.importorskip("torch")

TEXTS = write_texts(80)
SUBJECT = """from tests.tiny_language_model import train, write_texts
records = write_texts(80)
"""
ATTACKS = [catalog.attack("threshold"), catalog.attack("lira")]


def check_order(found: divulge.Comparison) -> None:
    """Fewer epochs leak less; what stands for accuracy is the probability of a token."""
    long, short = found.rows
    assert long.strongest["auc"].estimate.value > 0.95
    assert short.strongest["auc"].estimate.value < long.strongest["auc"].estimate.value - 0.1
    assert all(0 < row.accuracy.value < 0.1 for row in found.rows)  # 1 in 38 is a guess


def test_fine_tunes_are_compared() -> None:
    ways = {"long": train, "short": partial(train, epochs=2)}
    found = divulge.compare(
        ways, records=TEXTS, attacks=ATTACKS[:1], rotation=divulge.Rotation(3, targets=2)
    )
    check_order(found)
    audit = found.defences[0].audits.targets[0]
    (check,) = (check for check in audit.checks if check.name == "model accuracy")
    assert "probability that the model gives a token" in check.text
    assert check.estimates["members"].value > 4 * check.estimates["non-members"].value
    assert "fit of labels" not in {check.name for check in audit.checks}


@pytest.mark.slow
@pytest.mark.parametrize("records", ["subject.py:records", "texts.jsonl"])
def test_settings_compare_fine_tunes(records: str, tmp_path: Path) -> None:
    (tmp_path / "subject.py").write_text(SUBJECT)
    rows = [json.dumps({"text": text}) for text in TEXTS]
    (tmp_path / "texts.jsonl").write_text("\n".join(rows) + "\n")
    settings = tmp_path / "compare.toml"
    settings.write_text(
        f'models = 3\ntargets = 2\n[data]\nrecords = "{records}"\n'
        '[training]\ntrain = "subject.py:train"\n'
        '[[attacks]]\nname = "threshold"\n[[attacks]]\nname = "lira"\n'
        '[[defences]]\nname = "hyperparameters"\nlabel = "short"\nepochs = 2\n'
    )
    check_order(divulge.compare_file(settings, tmp_path / "run"))


@pytest.mark.slow
def test_a_fine_tune_is_hardened(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    (tmp_path / "subject.py").write_text(SUBJECT.replace("80", "200"))
    settings = tmp_path / "harden.toml"
    settings.write_text(
        'ceiling = {auc = 0.8}\n[data]\nrecords = "subject.py:records"\n'
        '[training]\ntrain = "subject.py:train"\n'
        "[search]\nspace = {epochs = [8, 2]}\nmodels = 3\nshadows = 2\nbudget = 18\n"
        'defences = ["hyperparameters"]\n'
    )
    found = divulge.harden_file(settings, tmp_path / "run")
    plain, *others = found.trials
    assert plain.leaks["auc"].value > 0.95
    assert min(trial.leaks["auc"].value for trial in others) < 0.85
    assert (
        tmp_path / "run" / "model" / "MODEL_CARD.md"
    ).exists()  # also of what has no file format


def test_shadow_fine_tunes_of_a_model_in_memory() -> None:
    how = partial(train, epochs=15)
    found = divulge.audit(
        how(TEXTS[:40], None, 0),
        members=TEXTS[:40],
        nonmembers=TEXTS[40:],
        shadows=divulge.ShadowModels(6, how),
        attacks=[catalog.attack(name) for name in catalog.TOKEN_SHADOW_ATTACKS],
        options=divulge.Options(membership="fixed"),
    )
    for finding in found.findings:
        assert finding.status is Status.DONE, finding.reason
        assert finding.metrics["auc"].value > 0.9
    checks = {check.name: check.verdict.value for check in found.checks}
    assert checks["shadow models"] == "pass"
    # log-probabilities of members near 0 have more digits than those of others
    assert checks.get("precision", "pass") == "pass"


def test_without_shadow_models_no_attack_asks_for_them() -> None:
    usual = catalog.default_attacks(tokens=True)
    assert not {attack.name for attack in usual} & {*catalog.TOKEN_SHADOW_ATTACKS}


def test_a_fine_tune_answers_with_the_probability_of_a_token() -> None:
    records = as_records(TEXTS, "texts")
    everyone = np.ones((1, len(TEXTS)), bool)
    (target,) = FunctionTrainer(partial(train, epochs=1)).many(records, everyone, [0])
    assert Need.PROBABILITIES in target.offers
    assert Need.TOKENS not in target.offers
    own = train(TEXTS, None, 0, epochs=1)
    likely = np.exp(own.predict(TEXTS)[:, 0])
    np.testing.assert_allclose(target.predict(records.x), np.column_stack([likely, 1 - likely]))
    certain = TokenProbability(target=own).predict(TEXTS[:1])
    assert certain.shape == (1, 2)


def test_an_unknown_setting_of_a_fine_tune_is_refused() -> None:
    pytest.importorskip("optuna")
    with pytest.raises(SpecError, match="epochs"):
        divulge.harden(
            train,
            records=TEXTS,
            ceiling={"auc": 0.8},
            search=divulge.SearchSettings(space={"epoch": (1,)}),
        )
