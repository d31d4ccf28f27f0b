"""The ``[training]`` section that several settings files share: its keys and their types."""

from divulge._util.arguments import Count
from divulge._util.toml import Section
from divulge.training.recipe import Optimiser, Schedule


class RecipeSpec(Section):
    """``[training]`` of other files: how a model is trained; see `divulge.training.recipe`."""

    network: str
    """``file.py:name``: a function that makes an untrained module."""
    optimiser: Optimiser = "sgd"
    """The optimiser, as PyTorch defines it."""
    lr: float = 0.1
    """The learning rate at the first step, above 0."""
    momentum: float = 0.0
    """The momentum of ``sgd``, from 0 to below 1."""
    weight_decay: float = 0.0
    """The factor of the weights that is added to the gradient, from 0."""
    epochs: Count = 20
    """How often each record is seen."""
    batch_size: Count = 100
    """The number of records in a step."""
    schedule: Schedule = "constant"
    """How the learning rate changes."""
