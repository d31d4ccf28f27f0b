"""Defend by early stopping: take the epoch that does best on records held out."""

from dataclasses import dataclass, replace
from typing import ClassVar

from divulge._util.arguments import check_arguments
from divulge.core import SearchSpace
from divulge.defences.training.base import TrainingDefence
from divulge.training.recipe import Recipe, Select


@check_arguments
@dataclass(frozen=True, slots=True)
class EarlyStopping(TrainingDefence):
    """Stops a model once it gets no better on records held out, and takes its best epoch.

    Less is memorised where training stops early. With ``select="aop"`` the best
    epoch is the one with the best accuracy over privacy: the plainest defence there is, and the
    one that every other should be compared with, chosen in the same way.

    Args:
        patience: after how many epochs in a row without an improvement training stops; None runs
            all epochs.
        held_out: the share of a model's own records that is held out.
        select: the criterion by which epochs are compared: ``loss``, ``accuracy`` or ``aop``.

    References:
        Prechelt (1998), Early stopping - but when?; for attacks Song and Mittal (2021), Systematic
        evaluation of privacy risks of machine learning models.

    Raises:
        SpecError: patience, the share or the way to select makes no sense.
    """

    patience: int | None = 5
    held_out: float = 0.1
    select: Select = "loss"

    name: ClassVar[str] = "early-stopping"
    paper: ClassVar[str] = "Song and Mittal 2021"
    search: ClassVar[SearchSpace] = {"patience": (None,), "select": ("aop", "loss", "accuracy")}

    def __post_init__(self) -> None:
        self.defended_recipe()  # the recipe looks at the settings

    def defended_recipe(self) -> Recipe:
        """The same recipe with records held out."""
        return replace(
            self.recipe, patience=self.patience, held_out=self.held_out, select=self.select
        )
