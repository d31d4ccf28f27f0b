"""What a model is still good for: how well it ranks."""

import numpy as np
from jaxtyping import Float, Int

from divulge.errors import SpecError


def ndcg(
    score: Float[np.ndarray, " documents"],
    relevance: Int[np.ndarray, " documents"],
    k: int = 10,
) -> float:
    """Normalised discounted cumulative gain of the first k documents of one query.

    The gain of a document is 2^relevance - 1, the discount of rank r is log2(r + 1). Documents
    whose scores tie share their gain, which is the mean over all orders of the tie. A query without
    a relevant document counts as 0.

    Args:
        score: higher is ranked first.
        relevance: from 0.
        k: how many ranks count.

    Raises:
        SpecError: no rank counts.

    References:
        Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques; Burges
        et al. (2005), Learning to rank using gradient descent (the gain); McSherry and Najork
        (2008), Computing information retrieval performance measures efficiently in the presence
        of tied scores.

    Examples:
        >>> ndcg(np.array([3.0, 2.0, 1.0]), np.array([0, 1, 0]))
        0.630...
    """
    if k < 1:
        raise SpecError(f"expected one rank or more to count, got k={k}")
    gain = np.exp2(relevance) - 1.0
    best = _discounted(np.sort(gain)[::-1], k)
    if best == 0:
        return 0.0
    _, tie = np.unique(-score, return_inverse=True)
    shared = np.bincount(tie, gain) / np.bincount(tie)
    return _discounted(shared[np.sort(tie)], k) / best


def _discounted(gain: Float[np.ndarray, " documents"], k: int) -> float:
    top = gain[:k]
    return float((top / np.log2(np.arange(len(top)) + 2.0)).sum())
