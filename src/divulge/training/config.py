"""The ``[training]`` section that several settings files share: its keys and their types."""

from divulge._util.toml import Count, Section
from divulge.training.recipe import Optimiser, Schedule


class RecipeSpec(Section):
    """``[training]`` of other files: how a model is trained; see `divulge.training.recipe`."""

    network: str
    """``file.py:name``: a function that makes an untrained module."""
    optimiser: Optimiser = "sgd"
    lr: float = 0.1
    momentum: float = 0.0
    weight_decay: float = 0.0
    epochs: Count = 20
    batch_size: Count = 100
    schedule: Schedule = "constant"
