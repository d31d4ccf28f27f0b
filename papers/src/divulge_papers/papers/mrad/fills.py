"""Measure attacks that know parts of each record by what fills in the rest."""

from typing import Any

from divulge._util import toml
from divulge._util.json import Settings
from divulge.attacks import catalog
from divulge.audits.challenges.model import pose_view
from divulge.core import Membership
from divulge_papers.attempts import RowResult, attempt
from divulge_papers.papers.mrad import data as mrad_data
from divulge_papers.papers.mrad.data import AuditedModel, Model
from divulge_papers.papers.mrad.records import Data
from divulge_papers.papers.mrad.study import ACCURACY, Knowledge
from divulge_papers.table import Size

SHARES = {f"{percent} % missing": percent / 100 for percent in (0, 10, 30, 50, 60, 70, 90)}
TRAINING = "training accuracy"
COLUMNS = (*SHARES, TRAINING, ACCURACY)


def measure_fill(
    seed: int,
    size: Size,
    *,
    attack: Settings,
    data: Data,
    model: Model = "perceptron",
    **knowledge: Any,
) -> RowResult:
    """Measure the AUC by share of missing features, whole records first, and both accuracies.

    Args:
        seed: seed of every random choice.
        size: size of the experiment, which decides on the number of seeds alone.
        attack: name and settings of the attack; of whole records MRAD has nothing to say.
        data: data set.
        model: network of the target.
        knowledge: what the attacker knows; see `Knowledge`.
    """
    del size
    (built,) = toml.build_attacks([attack], catalog.attack)
    audited, own = AuditedModel(data, model, "small", standardised=True), Knowledge(**knowledge)
    world = mrad_data.train_target(seed, audited)
    values, entries = {}, []
    for column, missing in SHARES.items():
        if not missing and attack["name"] == "mrad":
            continue
        view = own.view(seed, audited, missing, built.needs)
        _, entry = attempt(pose_view(view, Membership(world.member)), built, seed)
        values[column] = [entry.finding.metrics["auc"].value]
        entries.append(entry)
    accuracies = {TRAINING: [world.training_accuracy()], ACCURACY: [world.accuracy()]}
    return RowResult(values | accuracies, entries)
