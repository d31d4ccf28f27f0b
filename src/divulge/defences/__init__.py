"""Defences: training, predictions and client updates that leak less about the data."""

from divulge._util.extras import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
