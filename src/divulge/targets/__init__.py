"""Targets: one adapter per way to reach a model, and wrappers around any of them."""

from divulge._util.extras import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
