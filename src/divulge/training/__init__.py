"""Train models of the target's kind: recipes, trainers, and shadow models."""

from divulge._util.extras import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
