"""Each attack is one file: frozen settings plus one call from a view to a guess."""

from divulge._util.extras import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
