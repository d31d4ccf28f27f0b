from .checkpoints import CheckpointedNetwork as CheckpointedNetwork
from .checkpoints import train as train
from .engine.client_training import ClientWorkers as ClientWorkers
from .fleet import Fleet as Fleet
from .recipe import Recipe as Recipe
from .shadows.plan import ShadowPlan as ShadowPlan
from .trainers import as_trainer as as_trainer
