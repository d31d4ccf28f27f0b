"""divulge audits the privacy of machine learning models and of federated learning.

``divulge.audit(model, members=(x, y), nonmembers=(x2, y2))`` returns what it found; its
``.report()`` writes the page.
"""

from divulge._util.extras import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
