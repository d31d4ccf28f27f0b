"""Ways to train, answer and send updates so that less is given away."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
