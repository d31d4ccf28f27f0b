"""Simulate federated learning, record it as transcripts, and read what its server saw."""

from divulge._util.extras import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
