"""Describe one setting of everything that a search for a model tries."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from divulge._util.json import JSON
from divulge.core import Records, Trainer
from divulge.defences import catalog

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from divulge.training.recipe import Recipe
    from divulge.training.tuning import Tunable

UNDEFENDED, AVERAGING = "none", "averaging"


SHORTEST = 16
"""The fewest epochs that are looked at are those of the recipe over this."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One setting of everything that is searched."""

    defence: str
    settings: Mapping[str, JSON]
    """Of the defence, and of the recipe where the defence asks for some."""
    epochs: int
    """0 where training has none, as of an estimator."""
    weight_decay: float | None
    """None is that of the recipe."""
    answers: str
    """The defence of answers; ``none`` without one."""
    beneath: str = UNDEFENDED
    """The defence whose recipe this one changes; ``none`` where that is the undefended one."""
    beneath_settings: Mapping[str, JSON] = field(default_factory=dict)
    stop_after: int | None = None
    """After how many of the epochs training ends; all are run where None."""

    @property
    def label(self) -> str:
        """What tells it from others, for people."""
        settings = _name_settings(self.settings)
        stop = self.stop_after
        if self.epochs:
            settings.append(
                f"epochs={self.epochs}" + ("" if stop is None else f", stop_after={stop}")
            )
        settings += [] if self.weight_decay is None else [f"weight_decay={self.weight_decay:g}"]
        behind = "" if self.answers == UNDEFENDED else f", answers by {self.answers}"
        name = "undefended" if self.defence == UNDEFENDED else self.defence
        over = ""
        if self.beneath != UNDEFENDED:
            over = f" over {self.beneath} ({', '.join(_name_settings(self.beneath_settings))})"
        return name + (f" ({', '.join(settings)})" if settings else "") + over + behind

    def as_trainer(self, base: "Recipe | Tunable") -> Trainer:
        """The way to train.

        Args:
            base: how an undefended model is trained.

        Raises:
            SpecError: the defence refuses the base.
        """
        return self._tuned(base) if _is_tunable(base) else self._defended(base)

    def _tuned(self, base: "Tunable") -> Trainer:
        if self.defence == AVERAGING:
            beneath = base.changed(self.beneath_settings)
            return catalog.tuned_defence(AVERAGING, beneath, **self.settings)
        return base.changed(self.settings)

    def _defended(self, recipe: "Recipe") -> Trainer:
        from divulge.training.fleet import Fleet

        cls = Fleet if self.defence == UNDEFENDED else catalog.trained_defence_class(self.defence)
        own = {field.name for field in fields(cls)} - {"recipe"}
        changed: dict[str, Any] = {k: v for k, v in self.settings.items() if k not in own}
        changed |= {"epochs": self.epochs, "stop_after": self.stop_after}
        if self.weight_decay is not None:
            changed["weight_decay"] = self.weight_decay
        recipe = replace(recipe, **changed)
        if self.defence == UNDEFENDED:
            return Fleet(recipe)
        if self.beneath != UNDEFENDED:
            recipe = self._beneath(recipe).defended_recipe()
        settings = {name: value for name, value in self.settings.items() if name in own}
        return catalog.trained_defence(self.defence, recipe, **settings)

    def _beneath(self, recipe: "Recipe") -> Any:
        return catalog.trained_defence(self.beneath, recipe, **self.beneath_settings)

    def check_records(self, base: "Recipe | Tunable", records: Records) -> None:
        """Refuse records that a defence cannot train on.

        Args:
            base: how an undefended model is trained.
            records: of the search.

        Raises:
            SpecError: they are of the wrong kind, or the defence refuses the base.
        """
        used: list[Any] = [self.as_trainer(base)]
        if self.beneath != UNDEFENDED and not _is_tunable(base):
            used.append(self._beneath(base))
        for trainer in used:
            if hasattr(trainer, "check_records"):
                trainer.check_records(records)

    def work(self, base: "Recipe | Tunable") -> float:
        """How much work one model is, in trainings of an undefended one for all its epochs.

        A network that learns a half of the model's records, or for half of the epochs, counts a
        half. A training without epochs counts one, whatever its settings are.

        Args:
            base: how an undefended model is trained.

        Raises:
            SpecError: the defence refuses the base.
        """
        trainer = self.as_trainer(base)
        if _is_tunable(base):
            return float(getattr(trainer, "work", 1.0))
        before = getattr(trainer, "preparation", 0.0)
        own = self.epochs if self.stop_after is None else self.stop_after
        return (float(before) * self.epochs + own) / base.epochs


def _is_tunable(base: "Recipe | Tunable") -> "TypeIs[Tunable]":
    from divulge.training.tuning import Tunable  # who reads a finished search trains nothing

    return isinstance(base, Tunable)


def _name_settings(settings: Mapping[str, JSON]) -> list[str]:
    """Names and values; of a pipeline's part without the part, where that tells them apart."""
    short = {name: name.rpartition("__")[2] for name in settings}
    clear = len(set(short.values())) == len(short)
    return [f"{short[name] if clear else name}={value}" for name, value in settings.items()]


def stages(epochs: int) -> tuple[int, ...]:
    """The epochs after which a model is looked at: half as many in every third step.

    Examples:
        >>> stages(40)
        (2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40)
        >>> stages(1)
        (1,)
    """
    steps = range(3 * (SHORTEST.bit_length() - 1) + 1)
    return tuple(sorted({max(1, round(epochs * 2 ** (-step / 3))) for step in steps}))


def next_stage(epochs: int, whole: int) -> int:
    """The first number of epochs to look at that is not smaller; the last one if all are."""
    return next((k for k in stages(whole) if k >= epochs), whole)
