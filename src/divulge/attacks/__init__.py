"""Each attack is one file: frozen settings plus one call from a view to a guess."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
