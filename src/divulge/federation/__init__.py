"""Simulate federated learning, record it as transcripts, and read what its server saw."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
