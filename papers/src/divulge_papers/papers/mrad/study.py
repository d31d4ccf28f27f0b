"""Define and measure attacks that know only parts of each record, for MRAD's tables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from divulge._util import toml
from divulge._util.json import Settings
from divulge.attacks import catalog
from divulge.audits.challenges.model import pose_view
from divulge.core import BlindRun, ControlOutcome, Membership, ModelView, Need
from divulge.data.known_features import Fill, KnownFeatures, Pattern
from divulge_papers.attempts import RowResult, attempt
from divulge_papers.papers.mrad import data as mrad_data
from divulge_papers.papers.mrad.data import AuditedModel, Model
from divulge_papers.papers.mrad.records import Data
from divulge_papers.table import IntervalKind, Row, Size

_SHARES = {f"{percent} % missing": percent / 100 for percent in (10, 30, 50, 60, 90)}
ACCURACY = "test accuracy"
COLUMNS = (*_SHARES, ACCURACY)
UNITS = "targets, each trained on records drawn for it"
KINDS: Mapping[str, IntervalKind] = dict.fromkeys(COLUMNS, "normal")
SEEDS: Mapping[Size, int] = {"small": 3, "paper": 5}

SETUP = (
    "The paper's figure is of STL-10 and a ResNet50; its tables were not at hand. Here: 500 "
    "training records, as many non-members, 1,000 records of the attacker's, features missing at "
    "random in each record unless said otherwise. Inputs are standardised (mean 0 and deviation 1 "
    "by channel of images or by feature, so that zeros are means), or from 0 to 1 where a row says "
    "so. Rows are compared with rows of the same knowledge, which ends each row's name."
)
WITH_SHADOWS = (
    f"{SETUP} Shadows are trained on 500 other records each, and asked about the filled-in "
    "candidates."
)

HEADLINE = {"MRAD, CADE": {"60 % missing": 0.75}}
"""Published figure from the abstract, by name of the attack and column."""

MRAD: Settings = {"name": "mrad"}
NORM: Settings = {"name": "gradient-norm"}
LOSS: Settings = {"name": "threshold"}
CALIBRATED: Settings = {"name": "calibrated"}
_RMIA: Settings = {"name": "rmia"}
_NCI: Settings = {**MRAD, "detector": "nci"}
_MSAD: Settings = {**MRAD, "detector": "msad"}
_BLACK_BOX: Settings = {**MRAD, "access": "answers", "directions": 20}
_MEAN: Settings = {"fill": "global-mean"}
_GAUSSIAN: Settings = {"fill": "gaussian"}
_NEIGHBOURS: Settings = {"fill": "neighbours"}
_CHOSEN: Settings = {"fill": "chosen"}

NO_SHADOW, ONE_SHADOW, SHADOWS = ", no shadow", ", 1 shadow", ", shadows"
"""What the attacker has beside the model and records of its own, at the end of a row's name."""

_ATTACKS: Mapping[str, Settings] = {
    "MRAD, CADE": {"attack": MRAD},
    "MRAD, MSAD": {"attack": _MSAD},
    "MRAD, NCI": {"attack": _NCI},
    "MRAD, CADE in features": {"attack": {**MRAD, "space": "features"}},
    "MRAD, CADE, by 21 questions": {"attack": _BLACK_BOX},
    "no reconstruction: CADE": {"attack": {**MRAD, "iterations": 0}},
    "no reconstruction: gradient's norm": {"attack": NORM},
    "no reconstruction: loss": {"attack": LOSS},
    "DLG at 0.1, then loss": {"attack": LOSS, "rebuild": 0.1},
    "DLG at 0.01, then loss": {"attack": LOSS, "rebuild": 0.01},
    "DLG at 0.01, then gradient's norm": {"attack": NORM, "rebuild": 0.01},
    "global mean, then loss": {"attack": LOSS, **_MEAN},
    "mean, then loss": {"attack": LOSS, "fill": "mean"},
    "5 neighbours' mean, then loss": {"attack": LOSS, **_NEIGHBOURS},
    "Gaussian, then loss": {"attack": LOSS, **_GAUSSIAN},
    "Gaussian, then gradient's norm": {"attack": NORM, **_GAUSSIAN},
    "zeros, then calibrated": {"attack": CALIBRATED},
    "global mean, then calibrated": {"attack": CALIBRATED, **_MEAN},
    "5 neighbours' mean, then calibrated": {"attack": CALIBRATED, **_NEIGHBOURS},
    "Gaussian, then calibrated": {"attack": CALIBRATED, **_GAUSSIAN},
    "4 Gaussian draws, then calibrated": {"attack": CALIBRATED, **_GAUSSIAN, "completions": 4},
    "chosen fill, then calibrated": {"attack": CALIBRATED, **_CHOSEN},
    "global mean, then RMIA": {"attack": _RMIA, **_MEAN},
    "5 neighbours' mean, then RMIA": {"attack": _RMIA, **_NEIGHBOURS},
    "Gaussian, then RMIA": {"attack": _RMIA, **_GAUSSIAN},
    "chosen fill, then RMIA": {"attack": _RMIA, **_CHOSEN},
    "chosen fill, then LiRA": {"attack": {"name": "lira"}, **_CHOSEN},
}
"""The paper's attack, with and without its first stage, its rival, and what fills in first."""

WITHOUT = (
    "MRAD, CADE",
    "MRAD, MSAD",
    "MRAD, NCI",
    "MRAD, CADE in features",
    "MRAD, CADE, by 21 questions",
    "no reconstruction: CADE",
    "no reconstruction: gradient's norm",
    "no reconstruction: loss",
    "DLG at 0.1, then loss",
    "DLG at 0.01, then loss",
    "DLG at 0.01, then gradient's norm",
    "global mean, then loss",
    "mean, then loss",
    "5 neighbours' mean, then loss",
)
"""Attacks that take no shadow model."""

WITH_ONE = (
    "MRAD, CADE",
    "MRAD, MSAD",
    "MRAD, NCI",
    "global mean, then calibrated",
    "5 neighbours' mean, then calibrated",
)
"""Attacks with one shadow model, which MRAD looks into, and others ask."""

WITH_MANY = (
    "zeros, then calibrated",
    "global mean, then calibrated",
    "5 neighbours' mean, then calibrated",
    "chosen fill, then calibrated",
    "global mean, then RMIA",
    "5 neighbours' mean, then RMIA",
    "chosen fill, then RMIA",
    "chosen fill, then LiRA",
)
"""Attacks with all shadow models."""

GAUSSIAN_WITHOUT = ("Gaussian, then loss", "Gaussian, then gradient's norm")
GAUSSIAN_WITH = (
    "Gaussian, then calibrated",
    "Gaussian, then RMIA",
    "4 Gaussian draws, then calibrated",
)

_REBUILT = BlindRun(
    None,
    None,
    ControlOutcome.NOT_TESTED,
    "the features were rebuilt from the model before its answers could be shuffled",
)
"""Control of an attack on features that tell of the model whatever it answers."""

_AGAINST = {NO_SHADOW: "MRAD, CADE", ONE_SHADOW: "MRAD, CADE", SHADOWS: "zeros, then calibrated"}
"""Attack that others of the same knowledge are compared with."""

_RESIDUAL_WEIGHTS = {NO_SHADOW: 19.0, ONE_SHADOW: 62.0, SHADOWS: 62.0}
"""How many times as long as a row of the perceptron one of the ResNet18 takes, about; with shadows
estimated from the times of a training, a query and a gradient."""

RowNames = Mapping[str, Iterable[str]]
"""Names of attacks by what the attacker has."""

ALL: RowNames = {NO_SHADOW: WITHOUT, ONE_SHADOW: WITH_ONE, SHADOWS: WITH_MANY}
GAUSSIAN: RowNames = {
    NO_SHADOW: (*WITHOUT, *GAUSSIAN_WITHOUT),
    ONE_SHADOW: WITH_ONE,
    SHADOWS: (*WITH_MANY, *GAUSSIAN_WITH),
}
FEW: RowNames = {
    NO_SHADOW: (
        "MRAD, CADE",
        "no reconstruction: gradient's norm",
        "no reconstruction: loss",
        "global mean, then loss",
        "5 neighbours' mean, then loss",
    ),
    ONE_SHADOW: ("MRAD, CADE", "5 neighbours' mean, then calibrated"),
    SHADOWS: (
        "zeros, then calibrated",
        "5 neighbours' mean, then calibrated",
        "chosen fill, then calibrated",
        "chosen fill, then RMIA",
    ),
}

FROM_0_TO_1: Mapping[str, Any] = {"standardised": False}
"""Setting of rows whose names begin with `FROM_0_TO_1_NAME`."""
FROM_0_TO_1_NAME = "0 to 1: "


def rows(
    data: Data,
    names: RowNames,
    before: str = "",
    paper: Mapping[str, Mapping[str, float]] = HEADLINE,
    **settings: Any,
) -> tuple[Row, ...]:
    """List the rows of attacks on one model.

    Args:
        data: data set that the model was trained on.
        names: names of the attacks by what the attacker has.
        before: prefix of every row's name.
        paper: published figures by attack and column.
        settings: further arguments of `measure_auc`.
    """
    return tuple(
        Row(
            f"{before}{name}{has}",
            {"data": data, **settings, **_ATTACKS[name], **_knowledge(name, has)},
            paper.get(name, {}) if has == NO_SHADOW else {},
            weight=_RESIDUAL_WEIGHTS[has] if settings.get("model") == "resnet" else 1.0,
        )
        for has, chosen in names.items()
        for name in chosen
    )


def _knowledge(name: str, has: str) -> Settings:
    """Arguments of `measure_auc` that give the attacker one shadow."""
    if has != ONE_SHADOW:
        return {}
    return {"white_box": True} if name.startswith("MRAD") else {"shadows": 1}


def pairs(names: RowNames, before: str = "") -> tuple[tuple[str, str], ...]:
    """List pairs of rows on one model: each with the one that it is compared with."""
    return tuple(
        (f"{before}{name}{has}", f"{before}{_AGAINST[has]}{has}")
        for has, chosen in names.items()
        for name in chosen
        if name != _AGAINST[has]
    )


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the attacker knows of a record and of shadow models, and how it fills in the rest."""

    fill: Fill | Literal["chosen", "chosen-near"] = "zero"
    """Method that fills in missing features; ``chosen`` takes the one that tells members of shadow
    models best, ``chosen-near`` too, with ``local`` and draws of it among them."""
    completions: int = 1
    """Number of completions of each record; where shadows choose the fill, they choose this."""
    white_box: bool = False
    """Whether the attacker has white-box access to a shadow model."""
    shadows: int | None = None
    """Number of shadow models that are asked; all, unless given."""
    rebuild: float | None = None
    """Rate at which gradient matching rebuilds missing features after they are filled in; None
    does not."""
    pattern: Pattern = "random"
    """Positions of the known features."""

    def view(self, seed: int, audited: AuditedModel, missing: float, needs: Need) -> ModelView:
        """What the attacker gets where this share of features is missing."""
        known = KnownFeatures((), 1 - missing, self.pattern, "zero", completions=1)
        if self.fill == "chosen" or self.fill == "chosen-near":
            near = self.fill == "chosen-near"
            known = mrad_data.choose_fill(seed, audited, known, near=near)
        else:
            known = replace(known, fill=self.fill, completions=self.completions)
        view = mrad_data.attacker_view(seed, audited, known, needs, self.shadows)
        if self.rebuild is not None:
            view = replace(view, records=mrad_data.rebuild(seed, audited, known, self.rebuild))
        if self.white_box:
            view = replace(view, shadow=mrad_data.white_box_shadow(seed, audited, known))
        return view


def measure_auc(
    seed: int,
    size: Size,
    *,
    attack: Settings,
    data: Data,
    model: Model = "perceptron",
    standardised: bool = True,
    epsilon: float | None = None,
    **knowledge: Any,
) -> RowResult:
    """Measure the AUC for each share of missing features, and the target's accuracy.

    Args:
        seed: seed of every random choice.
        size: size of the experiment.
        attack: name and settings of the attack.
        data: data set.
        model: network of the target.
        standardised: whether inputs are standardised; otherwise they are from 0 to 1.
        epsilon: privacy budget of training by DP-SGD; None trains without privacy.
        knowledge: what the attacker knows; see `Knowledge`.
    """
    (built,) = toml.build_attacks([attack], catalog.attack)
    audited = AuditedModel(data, model, size, standardised, epsilon)
    own = Knowledge(**knowledge)
    world = mrad_data.train_target(seed, audited)
    aucs, entries = {}, []
    for column, missing in _SHARES.items():
        view = own.view(seed, audited, missing, built.needs)
        _, entry = attempt(pose_view(view, Membership(world.member)), built, seed)
        if own.rebuild is not None:
            entry = replace(entry, control=None, blind=_REBUILT)
        aucs[column] = [entry.finding.metrics["auc"].value]
        entries.append(entry)
    return RowResult(aucs | {ACCURACY: [world.accuracy()]}, entries)
