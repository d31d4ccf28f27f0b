"""divulge audits the privacy of machine learning models and of federated learning.

``divulge.audit(model, members=(x, y), nonmembers=(x2, y2))`` returns what it found; its
``.report()`` writes the page.
"""

import os

from divulge._util.extras import attach_stub

# PyTorch then keeps tensors in huge pages. Linux gives back memory of more than 32 MiB after each
# use, and clears every page of it anew: in pages of 4 KiB that can take longer than training.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
