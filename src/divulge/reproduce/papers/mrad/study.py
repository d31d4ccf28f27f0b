"""Define and measure attacks that know only parts of each record, for MRAD's tables."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from divulge._util import toml
from divulge._util.json import Settings
from divulge.attacks import catalog
from divulge.audits.challenges.model import pose_view
from divulge.core import Membership
from divulge.data.known_features import Fill, KnownFeatures, Pattern
from divulge.reproduce.attempts import RowResult, attempt
from divulge.reproduce.papers.mrad import data as mrad_data
from divulge.reproduce.papers.mrad.data import AuditedModel, Data, Model
from divulge.reproduce.table import IntervalKind, Row, Size

_SHARES = {f"{percent} % missing": percent / 100 for percent in range(10, 100, 10)}
ACCURACY = "test accuracy"
COLUMNS = (*_SHARES, ACCURACY)
UNITS = "targets, each trained on records drawn for it"
KINDS: Mapping[str, IntervalKind] = dict.fromkeys(COLUMNS, "normal")
SEEDS: Mapping[Size, int] = {"small": 3, "paper": 10}

SETUP = (
    "The paper's figure is of STL-10 and a ResNet50; its tables were not at hand. Here: 500 "
    "training records, as many non-members, 1,000 records of the attacker's, features missing at "
    "random in each record unless said otherwise."
)
WITH_SHADOWS = (
    f"{SETUP} Shadows are trained on 500 other records each, and asked about the filled-in "
    "candidates."
)

HEADLINE = {"MRAD, CADE": {"60 % missing": 0.75}}
"""Published figure from the abstract, by row and column."""

MRAD: Settings = {"name": "mrad"}
NORM: Settings = {"name": "gradient-norm"}
LOSS: Settings = {"name": "threshold"}
CALIBRATED: Settings = {"name": "calibrated"}
_NCI: Settings = {**MRAD, "detector": "nci"}
_BLACK_BOX: Settings = {**MRAD, "access": "answers", "directions": 20}
_GAUSSIAN: Settings = {"fill": "gaussian"}
_NEIGHBOURS: Settings = {"fill": "neighbours"}

PUBLISHED: Mapping[str, Settings] = {
    "MRAD, CADE": {"attack": MRAD},
    "MRAD, MSAD": {"attack": {**MRAD, "detector": "msad"}},
    "MRAD, NCI": {"attack": _NCI},
    "MRAD, CADE in features": {"attack": {**MRAD, "space": "features"}},
    "MRAD, CADE, ratio to a shadow": {"attack": MRAD, "shadow": True},
    "MRAD, NCI, less a shadow's": {"attack": _NCI, "shadow": True},
    "MRAD, CADE, by 21 questions": {"attack": _BLACK_BOX},
    "no reconstruction: CADE": {"attack": {**MRAD, "iterations": 0}},
    "no reconstruction: gradient's norm": {"attack": NORM},
    "no reconstruction: loss": {"attack": LOSS},
}
"""The paper's attack, with and without its first stage; missing features are set to zero."""

SIMPLE: Mapping[str, Settings] = {
    "zeros, then calibrated": {"attack": CALIBRATED},
    "mean, then loss": {"attack": LOSS, "fill": "mean"},
}

GAUSSIAN: Mapping[str, Settings] = {
    "Gaussian, then loss": {"attack": LOSS, **_GAUSSIAN},
    "Gaussian, then gradient's norm": {"attack": NORM, **_GAUSSIAN},
    "Gaussian, then calibrated": {"attack": CALIBRATED, **_GAUSSIAN},
    "Gaussian, then LiRA": {"attack": {"name": "lira"}, **_GAUSSIAN},
    "Gaussian, then RMIA": {"attack": {"name": "rmia"}, **_GAUSSIAN},
    "4 Gaussian draws, then calibrated": {"attack": CALIBRATED, **_GAUSSIAN, "completions": 4},
}

NEIGHBOURS: Mapping[str, Settings] = {
    "5 neighbours' mean, then loss": {"attack": LOSS, **_NEIGHBOURS},
    "5 neighbours' mean, then calibrated": {"attack": CALIBRATED, **_NEIGHBOURS},
    "5 neighbours' mean, then LiRA": {"attack": {"name": "lira"}, **_NEIGHBOURS},
    "5 neighbours' mean, then RMIA": {"attack": {"name": "rmia"}, **_NEIGHBOURS},
}

CROPPED_ROWS = (
    "MRAD, CADE",
    "no reconstruction: gradient's norm",
    "no reconstruction: loss",
    "Gaussian, then calibrated",
    "Gaussian, then RMIA",
    "5 neighbours' mean, then calibrated",
)

CURVE_ROWS = (
    "MRAD, CADE",
    "no reconstruction: CADE",
    "no reconstruction: gradient's norm",
    "no reconstruction: loss",
    "Gaussian, then calibrated",
    "Gaussian, then RMIA",
)
"""Names of rows whose curves are drawn."""

_ALL = {**PUBLISHED, **SIMPLE, **GAUSSIAN, **NEIGHBOURS}


def rows(
    data: Data,
    names: Iterable[str],
    paper: Mapping[str, Mapping[str, float]],
    before: str = "",
    **settings: Any,
) -> tuple[Row, ...]:
    """List the rows of attacks on one model.

    Args:
        data: data set that the model was trained on.
        names: names of the attacks.
        paper: published figures by row and column.
        before: prefix of every row's name.
        settings: further arguments of `measure_auc`.
    """
    return tuple(
        Row(f"{before}{name}", {"data": data, **settings, **_ALL[name]}, paper.get(name, {}))
        for name in names
    )


def pairs(
    names: Iterable[str], against: str = "MRAD, CADE", before: str = ""
) -> tuple[tuple[str, str], ...]:
    """List pairs of rows on one model: each row with the one it is compared with."""
    return tuple((f"{before}{name}", f"{before}{against}") for name in names if name != against)


def measure_auc(
    seed: int,
    size: Size,
    *,
    attack: Settings,
    data: Data,
    model: Model = "perceptron",
    epsilon: float | None = None,
    fill: Fill = "zero",
    completions: int = 1,
    shadow: bool = False,
    pattern: Pattern = "random",
) -> RowResult:
    """Measure the AUC for each share of missing features, and the target's accuracy.

    Args:
        seed: seed of every random choice.
        size: size of the experiment, which sets the number of shadow models.
        attack: name and settings of the attack.
        data: data set.
        model: network of the target.
        epsilon: privacy budget of training by DP-SGD; None trains without privacy.
        fill: method that fills in missing features.
        completions: number of completions of each record.
        shadow: whether the attacker has white-box access to a shadow model.
        pattern: positions of the known features.
    """
    (built,) = toml.build_attacks([attack], catalog.attack)
    audited = AuditedModel(data, model, epsilon)
    world = mrad_data.train_target(seed, audited)
    found, entries = {}, []
    for column, missing in _SHARES.items():
        known = KnownFeatures((), 1 - missing, pattern, fill, completions)
        view = mrad_data.attacker_view(seed, size, audited, known, built.needs)
        if shadow:
            view = replace(view, shadow=mrad_data.white_box_shadow(seed, size, audited, known))
        _, entry = attempt(pose_view(view, Membership(world.member)), built, seed)
        found[column] = [entry.finding.metrics["auc"].value]
        entries.append(entry)
    return RowResult(found | {ACCURACY: [world.accuracy()]}, entries)
