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
    """Stop when the model no longer improves on held-out records, and keep its best epoch.

    Late in training a model mostly memorises single records. ``loss`` compares epochs by the mean
    cross-entropy on the held-out records, ``accuracy`` by the accuracy there, ``aop`` by that
    accuracy over (2 max(AUC, 1/2))², with the AUC of a threshold on the loss between the held-out
    records and as many training records. The first of equal epochs is kept.

    Args:
        patience: epochs in a row without an improvement after which training stops; none runs all
            epochs.
        held_out: the share of a model's own records that is held out.
        select: what compares epochs: ``loss``, ``accuracy`` or ``aop``.

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
