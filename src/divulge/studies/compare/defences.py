"""Ways to train that are compared: from settings or from Python, to plans of models."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from divulge._util import imports, toml
from divulge._util.json import Settings
from divulge.audits import inputs
from divulge.core import AnswerDefence, Trainer
from divulge.defences import catalog
from divulge.errors import SpecError
from divulge.studies.compare.config import CompareSpec, TrainingSpec
from divulge.targets import files
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.trainers import as_trainer, trainer_identity, trains_regression
from divulge.training.tuning import HYPERPARAMETERS, change_settings

UNDEFENDED = "undefended"


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to train and to answer.

    Raises:
        SpecError: it trains regression models.
    """

    name: str
    plan: ShadowPlan
    """All its models, targets included."""
    network: str = ""
    """What builds its network, as ``file.py:name``; empty where nobody said."""

    def __post_init__(self) -> None:
        if trains_regression(self.plan.trainer):
            raise SpecError(
                f"expected classifiers to compare, got regression models by {self.name!r}: a "
                "comparison holds accuracy against leaks; audit each with divulge.leave_one_out"
            )


def variants_from_python(ways: Mapping[str, Any], models: int) -> tuple[Variant, ...]:
    """The rivals that Python users name.

    Args:
        ways: by name, how to train: a trainer, an estimator or a function; or a pair of that and
            an answer defence.
        models: how many to train in each way.

    Raises:
        SpecError: there is none, or one is no way to train.
    """
    if not ways:
        raise SpecError("expected defences by name, got none: name one way to train or more")
    return tuple(_make_variant(name, way, models) for name, way in ways.items())


def _make_variant(name: str, way: Any, models: int) -> Variant:
    how, answers = way if isinstance(way, tuple) else (way, None)
    if answers is not None and not isinstance(answers, AnswerDefence):
        raise SpecError(
            f"expected an answer defence beside the way to train {name!r}, got "
            f"{type(answers).__name__}: pass a pair such as (trainer, Rounding())"
        )
    plan = ShadowPlan(as_trainer(how), models, fingerprint=trainer_identity(how), answers=answers)
    return Variant(name, plan)


def variants_from_config(settings: CompareSpec, folder: Path) -> tuple[Variant, ...]:
    """The rivals that settings name; with ``[training]``, the undefended one is first.

    It is added where no entry has its label.

    Raises:
        DivulgeError: a defence, a setting or code does not exist, or two have one label.
    """
    rivals = list(_read_entries(settings, folder))
    names = [rival.name for rival in rivals]
    for name in names:
        if names.count(name) > 1:
            raise SpecError(
                f"expected different defences, got {name!r} twice: give each a label of its own"
            )
    return tuple(rivals)


def _read_entries(settings: CompareSpec, folder: Path) -> Iterator[Variant]:
    labels = [entry.get("label") for entry in settings.defences]
    if settings.training is not None and UNDEFENDED not in labels:
        yield _read_entry({"name": "none", "label": UNDEFENDED}, settings, folder)
    for entry in settings.defences:
        yield _read_entry(entry, settings, folder)


def _read_entry(entry: Settings, settings: CompareSpec, folder: Path) -> Variant:
    """One entry: a defence of the catalogue around the recipe, or code of the user's."""
    rest = dict(entry)
    label, answers = rest.pop("label", None), rest.pop("answers", None)
    how = rest.get("train", rest.get("name"))
    if not isinstance(label, str | None) or not isinstance(how, str):
        raise SpecError(f"expected text as name, train and label, got {dict(entry)}")
    if not isinstance(answers, Mapping | None):
        raise SpecError(f"expected a table as answers, got {answers!r}")
    behind = inputs.answer_defence_from_config(answers)
    parts = [how] * (how != "none") + ([behind.name] if behind is not None else [])
    name = label or ", ".join(parts) or UNDEFENDED
    training = settings.training
    if "train" in entry or (training is not None and training.train):
        return Variant(name, _plan_tuned(rest, settings, folder, behind))
    assert training is not None
    network = training.network
    trainer = _build_trainer(how, rest, training, folder)
    file, _ = imports.split_reference(network)
    content = files.fingerprint_file(folder / file) if file.endswith(".py") else ""
    fingerprint = f"{trainer_identity(trainer)} {content}"
    plan = ShadowPlan(trainer, settings.models, fingerprint=fingerprint, answers=behind)
    return Variant(name, plan, network)


def _plan_tuned(
    entry: Settings, settings: CompareSpec, folder: Path, answers: AnswerDefence | None
) -> ShadowPlan:
    """Models of any kind; keys of an entry that are none of its defence are settings of those."""
    rest, training = dict(entry), settings.training
    where, name = str(rest.pop("train", "")), rest.pop("name", "none")
    output = None if where or training is None else training.output
    where = where or (training.train if training else "")
    plan = inputs.plan_shadows(where, settings.models, output, folder, answers=answers)
    known = catalog.TUNED_DEFENCES
    if name not in ("none", HYPERPARAMETERS, *known):
        raise SpecError(
            f"expected a defence of what train = {where!r} trains, got {name!r}: none, "
            f"{HYPERPARAMETERS} or {', '.join(known)}; others are for a network"
        )
    own = (
        {field.name for field in fields(catalog.tuned_defence_class(name))}
        if name in known
        else set[str]()
    )
    changed = {key: value for key, value in rest.items() if key not in own}
    trainer = change_settings(plan.trainer, changed) if changed else plan.trainer
    if name in known:
        given = {key: value for key, value in rest.items() if key in own}
        trainer = catalog.tuned_defence(name, trainer, **given)
    mark = (
        f"{plan.fingerprint} {name} {sorted(rest.items())}"
        if trainer is not plan.trainer
        else plan.fingerprint
    )
    return replace(plan, trainer=trainer, fingerprint=mark)


def training_from_config(training: TrainingSpec, folder: Path) -> Any:
    """The recipe of a network, or what trains models of another kind, as settings name it.

    Raises:
        DivulgeError: there is none of this name, or a setting makes no sense.
    """
    if training.train:
        return as_trainer(imports.load_object(training.train, folder), training.output)
    from divulge.training.recipe import Recipe

    network = imports.load_object(training.network, folder)
    return Recipe(network, **training.model_dump(exclude={"network", "train", "output"}))


def _build_trainer(name: str, entry: Settings, training: TrainingSpec, folder: Path) -> Trainer:
    """The defence around the recipe, some of whose settings an entry may change for itself."""
    from divulge.training.fleet import Fleet

    cls = Fleet if name == "none" else catalog.trained_defence_class(name)
    own = [field.name for field in fields(cls) if field.name != "recipe"]
    rest = {key: value for key, value in entry.items() if key in own}
    other = {key: value for key, value in entry.items() if key not in (*own, "name")}
    changed = training.model_dump(exclude_defaults=True) | other
    wanted = toml.validate_section(TrainingSpec, changed, f"defence {name!r}")
    recipe = training_from_config(wanted, folder)
    named = partial(catalog.trained_defence, name)
    build: Callable[..., Trainer] = Fleet if name == "none" else named
    return build(recipe, **rest)
